//! The launches of a model's forward pass: the shape of a transformer and the style of a library's kernels determine
//! launches, threads, functions and graphs.
//!
//! Nothing here is fitted to a classifier. The formulas are those of the kernels' own grids (one block for each token,
//! tiles of a matrix product, heads by query blocks); the trace of MI300X, for instance, has `reshape_and_cache` at 512
//! threads for each of 8,192 tokens and attention at 8 x (8,192/16 + 46) blocks of 256.

use crate::names::{ATTENTION, PLAIN_ATTENTION, Role, Style};
use crate::testing::Rng;
use crate::work::{Function, Work};
use probe_abi::fold::{Counter, mix};

/// Threads of a block, and blocks, of an all-reduce.
const ALL_REDUCE: u64 = 24 * 512;

/// The part of a transformer on one rank.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub layers: u64,
    pub hidden: u64,
    pub ffn: u64,
    pub vocabulary: u64,
    pub heads: u64,
    pub kv_heads: u64,
    /// Experts of a layer, and the number that a token is routed to; 0 for a dense model.
    pub experts: (u64, u64),
    pub ranks: u64,
    /// The base of its kernels' and graphs' addresses, different for each model.
    pub address: u64,
    pub is_encoder: bool,
}

impl Model {
    const SIZES: [(u64, u64, u64, u64, u64); 7] = [
        (24, 896, 4_864, 14, 2),
        (28, 2_048, 6_144, 16, 8),
        (32, 4_096, 14_336, 32, 8),
        (40, 5_120, 13_824, 40, 8),
        (48, 5_120, 13_824, 40, 8),
        (64, 5_120, 27_648, 40, 8),
        (80, 8_192, 28_672, 64, 8),
    ];

    /// Returns a language model of a random size on `ranks` GPUs.
    pub fn draw(rng: &mut Rng, ranks: u64) -> Model {
        let from = if ranks > 1 { 2 } else { 0 };
        let (layers, hidden, ffn, heads, kv_heads) =
            Model::SIZES[(from + rng.below(Model::SIZES.len() as u64 - from)) as usize];
        Model {
            layers,
            hidden,
            ffn: ffn / ranks,
            vocabulary: 128_256 / ranks,
            heads: heads / ranks,
            kv_heads: (kv_heads / ranks).max(1),
            experts: (0, 0),
            ranks,
            address: rng.next(),
            is_encoder: false,
        }
    }

    /// Returns a language model with experts.
    pub fn with_experts(self, rng: &mut Rng) -> Model {
        let experts = [(8, 2), (64, 6), (128, 8)][rng.below(3) as usize];
        Model { experts, ffn: self.ffn / if experts.0 > 8 { 8 } else { 1 }, ..self }
    }

    /// Returns a small encoder, as for embeddings.
    pub fn encoder(rng: &mut Rng) -> Model {
        let (layers, hidden, heads) = [(6, 384, 12), (12, 768, 12), (24, 1_024, 16)][rng.below(3) as usize];
        let address = rng.next();
        Model {
            layers,
            hidden,
            ffn: 4 * hidden,
            vocabulary: hidden,
            heads,
            kv_heads: heads,
            experts: (0, 0),
            ranks: 1,
            address,
            is_encoder: true,
        }
    }
}

/// The style of a library's kernels.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// Multiprocessors of the GPU.
    pub sms: u64,
    /// True if matrix products have a fixed grid for all tiles.
    pub is_persistent: bool,
    /// True if element-wise kernels start a block for each token, instead of a thread for four elements.
    pub is_by_token: bool,
    /// Element-wise kernels of a layer.
    pub elementwise: u64,
    /// Kernels of a sampler.
    pub sampling: u64,
    /// True for the kernels of PyTorch alone.
    pub is_plain: bool,
}

impl Kernels {
    /// Returns the kernels of a serving engine.
    pub fn serving(rng: &mut Rng) -> Kernels {
        Kernels {
            sms: [108, 132, 148, 304][rng.below(4) as usize],
            is_persistent: rng.chance(0.3),
            is_by_token: rng.chance(0.8),
            elementwise: 4 + rng.below(5),
            sampling: 3 + rng.below(25),
            is_plain: false,
        }
    }

    /// Returns the kernels of PyTorch, operation by operation.
    pub fn plain(rng: &mut Rng) -> Kernels {
        let serving = Kernels::serving(rng);
        Kernels {
            is_by_token: false,
            is_plain: true,
            elementwise: 14 + rng.below(12),
            sampling: 2 + rng.below(8),
            ..serving
        }
    }
}

/// One forward pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Tokens of the pass.
    pub tokens: u64,
    /// Tokens of prompts.
    pub prompt_tokens: u64,
    /// Requests of the pass.
    pub requests: u64,
    /// Tokens in the cache of each request.
    pub context: u64,
    pub role: Role,
}

/// A model on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub model: Model,
    pub kernels: Kernels,
}

impl Machine {
    /// Returns a whole pass, kernel by kernel.
    pub fn eager(&self, pass: &Pass) -> Work {
        let mut work = Work::default();
        self.layers(pass, &mut work);
        self.attention(pass, self.model.layers, &mut work);
        self.head(pass, &mut work);
        work
    }

    /// Returns the eager work between the graphs, if attention is not captured, and the graphs.
    pub fn piecewise(&self, captured_tokens: u64, pass: &Pass) -> Work {
        let mut work = Work::default();
        self.attention(pass, self.model.layers, &mut work);
        self.head(pass, &mut work);
        let mut content = Work::default();
        self.layers(&Pass { tokens: captured_tokens, ..Pass::default() }, &mut content);
        // The last piece, after the last layer, is negligible.
        work.add(&inside(&content));
        (0..=self.model.layers).for_each(|piece| self.graph(captured_tokens << 8 | piece, &mut work));
        work
    }

    /// Returns one graph for the captured pass, and eager sampling for the requests.
    pub fn whole(&self, captured: &Pass, requests: u64) -> Work {
        let mut content = Work::default();
        self.layers(captured, &mut content);
        self.attention(captured, self.model.layers, &mut content);
        let mut work = self.captured(captured.tokens, &content);
        self.head(&Pass { requests, ..Pass::default() }, &mut work);
        work
    }

    /// Returns the launch of one graph with this work.
    pub fn captured(&self, size: u64, content: &Work) -> Work {
        let mut work = inside(content);
        self.graph(size << 8 | 0xff, &mut work);
        work
    }

    /// Returns sampling alone, with its preparation.
    pub fn sampling_of(&self, requests: u64) -> Work {
        let mut work = counted(Counter::Enqueues, 1);
        self.head(&Pass { requests, ..Pass::default() }, &mut work);
        work
    }

    /// Returns a graph launch.
    fn graph(&self, captured: u64, work: &mut Work) {
        work.add(&counted(Counter::Enqueues, 1));
        work.add(&counted(Counter::GraphLaunches, 1));
        work.add(&counted(Counter::GraphsKnown, 1));
        work.add(&counted(Counter::Graphs, mix(self.model.address ^ mix(captured))));
    }

    /// Returns the work of the layers without attention.
    fn layers(&self, pass: &Pass, work: &mut Work) {
        let Model { layers, hidden, ffn, heads, kv_heads, ranks, .. } = self.model;
        let width = hidden.max(ffn / 2);
        for kernel in 0..self.kernels.elementwise {
            self.launch(kernel, layers, self.elementwise(pass.tokens, width), pass.role, work);
        }
        self.product(32, pass, 128 * (heads + 2 * kv_heads), layers, work);
        self.product(33, pass, hidden, layers, work);
        match self.model.experts {
            (0, _) => {
                self.product(34, pass, 2 * ffn, layers, work);
                self.product(35, pass, hidden, layers, work);
            }
            experts => self.experts(pass, experts, work),
        }
        if ranks > 1 {
            self.launch(40, 2 * layers, ALL_REDUCE, pass.role, work);
        }
    }

    /// Returns routing, and a grouped product of the experts.
    fn experts(&self, pass: &Pass, (experts, of_token): (u64, u64), work: &mut Work) {
        let layers = self.model.layers;
        for kernel in 50..56 {
            self.launch(
                kernel,
                layers,
                self.elementwise(pass.tokens * of_token / 2, self.model.hidden),
                pass.role,
                work,
            );
        }
        let active = experts.min(pass.tokens * of_token);
        let rows = (pass.tokens * of_token).div_ceil(active);
        for (kernel, width) in [(56, 2 * self.model.ffn), (57, self.model.hidden)] {
            let tiles = active * rows.div_ceil(64) * width.div_ceil(128);
            let blocks = if self.kernels.is_persistent { self.kernels.sms } else { tiles };
            self.launch(kernel, layers, blocks * 256, pass.role, work);
        }
    }

    /// Returns attention and cache updates of all layers.
    fn attention(&self, pass: &Pass, layers: u64, work: &mut Work) {
        let Model { heads, kv_heads, .. } = self.model;
        self.launch(60, layers, pass.tokens * (kv_heads * 128).min(512), pass.role, work);
        let generated = pass.tokens - pass.prompt_tokens;
        if pass.prompt_tokens > 0 {
            let blocks = heads * (pass.prompt_tokens.div_ceil(128) + pass.requests.min(4));
            self.launch(61, layers, blocks * 256, pass.role, work);
        }
        if generated > 0 {
            // A long cache is split into parts, so that few requests fill the GPU.
            let parts =
                (pass.context / 512).clamp(1, (self.kernels.sms / (generated * kv_heads).max(1)).max(1));
            self.launch(62, layers, generated * kv_heads * parts * 128, pass.role, work);
        }
    }

    /// Returns the work from the last hidden states to tokens.
    fn head(&self, pass: &Pass, work: &mut Work) {
        self.product(70, &Pass { tokens: pass.requests, ..*pass }, self.model.vocabulary, 1, work);
        for kernel in 0..self.kernels.sampling {
            self.launch(71 + kernel, 1, pass.requests * 1_024, pass.role, work);
        }
    }

    fn elementwise(&self, tokens: u64, width: u64) -> u64 {
        let of_token = if self.kernels.is_by_token { (width / 8).clamp(128, 1_024) } else { width / 4 };
        (tokens * of_token).max(128)
    }

    /// Returns a matrix product; small ones are split along the inner dimension to fill the GPU.
    fn product(&self, kernel: u64, pass: &Pass, columns: u64, times: u64, work: &mut Work) {
        let rows = pass.tokens;
        let rows_of_tile = [16, 64, 128].into_iter().find(|tile| rows <= *tile).unwrap_or(128);
        let tiles = rows.div_ceil(rows_of_tile) * columns.div_ceil(128);
        let blocks = match self.kernels.is_persistent {
            true => self.kernels.sms,
            false => tiles * (self.kernels.sms / tiles.max(1)).clamp(1, 4),
        };
        let tile = if rows == 1 { 1 } else { rows_of_tile };
        self.launch(kernel << 8 | tile, times, blocks * 256, pass.role, work);
    }

    fn style(&self) -> Style {
        let seed = mix(self.model.address);
        let attention = match self.kernels.is_plain {
            true => PLAIN_ATTENTION[(seed >> 8) as usize % PLAIN_ATTENTION.len()],
            false => ATTENTION[(seed >> 8) as usize % ATTENTION.len()],
        };
        Style { attention, is_plain: self.kernels.is_plain, seed }
    }

    fn launch(&self, kernel: u64, times: u64, threads: u64, role: Role, work: &mut Work) {
        let role = if self.model.is_encoder { Role::Encoder } else { role };
        work.launch(Function { kernel, role, style: self.style() }, times);
        work.add(&counted(Counter::Enqueues, times));
        work.add(&counted(Counter::Launches, times));
        work.add(&counted(Counter::Threads, times * threads));
        let function = mix(self.model.address.wrapping_add(kernel << 16));
        work.add(&counted(Counter::Functions, function.wrapping_mul(times)));
    }
}

/// Converts eager work into the contents of a graph.
fn inside(content: &Work) -> Work {
    let mut work = counted(Counter::GraphKernels, content.of(Counter::Launches));
    work.add(&counted(Counter::GraphThreads, content.of(Counter::Threads)));
    work.add(&counted(Counter::GraphForeign, content.of(Counter::Foreign)));
    work.in_graphs = content.launched.clone();
    work
}

/// Returns copies of `bytes` in total.
pub fn copies(counter: Counter, count: u64, bytes: u64) -> Work {
    let mut work = counted(Counter::Copies, count);
    work.add(&counted(Counter::Enqueues, count));
    work.add(&counted(counter, bytes));
    work
}

fn counted(counter: Counter, value: u64) -> Work {
    let mut work = Work::default();
    work.set(counter, value);
    work
}
