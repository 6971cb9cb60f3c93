//! What a model's forward pass launches: a transformer's shape and a library's way of writing kernels give launches,
//! threads, functions and graphs.
//!
//! The one idea: nothing here is fitted to a classifier. The formulas are those of the kernels' own grids (one block
//! for each token, tiles of a matrix product, heads by query blocks); the trace of MI300X, for instance, has
//! `reshape_and_cache` at 512 threads for each of 8,192 tokens and attention at 8 x (8,192/16 + 46) blocks of 256.

use probe_abi::fold::{Counter, mix};
use steps::Work;

use crate::testing::Rng;

/// Threads of a block in an all-reduce, and blocks.
const ALL_REDUCE: u64 = 24 * 512;

/// A transformer, as one rank has it.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub layers: u64,
    pub hidden: u64,
    pub ffn: u64,
    pub vocabulary: u64,
    pub heads: u64,
    pub kv_heads: u64,
    /// Experts of a layer and how many of them a token goes to; 0 for a dense model.
    pub experts: (u64, u64),
    pub ranks: u64,
    /// Tells its kernels' and graphs' addresses from another model's.
    pub address: u64,
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

    /// A language model of some size on `ranks` GPUs.
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
        }
    }

    /// The same with experts.
    pub fn with_experts(self, rng: &mut Rng) -> Model {
        let experts = [(8, 2), (64, 6), (128, 8)][rng.below(3) as usize];
        Model { experts, ffn: self.ffn / if experts.0 > 8 { 8 } else { 1 }, ..self }
    }

    /// A small encoder, as for embeddings.
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
        }
    }
}

/// How a library writes its kernels.
#[derive(Clone, Copy, Debug)]
pub struct Kernels {
    /// Multiprocessors of the GPU.
    pub sms: u64,
    /// Matrix products run a fixed grid that works through all tiles.
    pub is_persistent: bool,
    /// Element by element kernels start a block for each token, rather than a thread for four elements.
    pub is_by_token: bool,
    /// Such kernels in a layer.
    pub elementwise: u64,
    /// Kernels of a sampler.
    pub sampling: u64,
}

impl Kernels {
    /// A serving engine's.
    pub fn serving(rng: &mut Rng) -> Kernels {
        Kernels {
            sms: [108, 132, 148, 304][rng.below(4) as usize],
            is_persistent: rng.chance(0.3),
            is_by_token: rng.chance(0.8),
            elementwise: 4 + rng.below(5),
            sampling: 3 + rng.below(25),
        }
    }

    /// Those of PyTorch run operation by operation.
    pub fn plain(rng: &mut Rng) -> Kernels {
        let serving = Kernels::serving(rng);
        Kernels { is_by_token: false, elementwise: 14 + rng.below(12), sampling: 2 + rng.below(8), ..serving }
    }
}

/// One forward pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pass {
    /// Tokens that go through.
    pub tokens: u64,
    /// Of them, how many are prompts'.
    pub prompt_tokens: u64,
    /// Requests they belong to.
    pub requests: u64,
    /// Tokens that each request's cache holds.
    pub context: u64,
}

/// A model on a machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    pub model: Model,
    pub kernels: Kernels,
}

impl Machine {
    /// All of a pass, kernel by kernel.
    pub fn eager(&self, pass: &Pass) -> Work {
        let mut work = Work::default();
        self.layers(pass, &mut work);
        self.attention(pass, self.model.layers, &mut work);
        self.head(pass, &mut work);
        work
    }

    /// What is between the graphs where attention is not captured, and the graphs.
    pub fn piecewise(&self, captured_tokens: u64, pass: &Pass) -> Work {
        let mut work = Work::default();
        self.attention(pass, self.model.layers, &mut work);
        self.head(pass, &mut work);
        let mut held = Work::default();
        self.layers(&Pass { tokens: captured_tokens, ..Pass::default() }, &mut held);
        // The last piece is what is behind the last layer: nothing to speak of.
        work.add(&inside(&held));
        (0..=self.model.layers).for_each(|piece| self.graph(captured_tokens << 8 | piece, &mut work));
        work
    }

    /// One graph for the pass that was captured, and sampling for the requests beside it.
    pub fn whole(&self, captured: &Pass, requests: u64) -> Work {
        let mut held = Work::default();
        self.layers(captured, &mut held);
        self.attention(captured, self.model.layers, &mut held);
        let mut work = self.captured(captured.tokens, &held);
        self.head(&Pass { requests, ..Pass::default() }, &mut work);
        work
    }

    /// A launch of one graph that holds this much.
    pub fn captured(&self, size: u64, held: &Work) -> Work {
        let mut work = inside(held);
        self.graph(size << 8 | 0xff, &mut work);
        work
    }

    /// Sampling alone, and what begins it.
    pub fn beside(&self, requests: u64) -> Work {
        let mut work = counted(Counter::Enqueues, 1);
        self.head(&Pass { requests, ..Pass::default() }, &mut work);
        work
    }

    /// A graph launch.
    fn graph(&self, captured: u64, work: &mut Work) {
        work.add(&counted(Counter::Enqueues, 1));
        work.add(&counted(Counter::GraphLaunches, 1));
        work.add(&counted(Counter::GraphsKnown, 1));
        work.add(&counted(Counter::Graphs, mix(self.model.address ^ mix(captured))));
    }

    /// Everything in the layers but attention.
    fn layers(&self, pass: &Pass, work: &mut Work) {
        let Model { layers, hidden, ffn, heads, kv_heads, ranks, .. } = self.model;
        let width = hidden.max(ffn / 2);
        for kernel in 0..self.kernels.elementwise {
            self.launch(kernel, layers, self.elementwise(pass.tokens, width), work);
        }
        self.product(32, pass.tokens, 128 * (heads + 2 * kv_heads), layers, work);
        self.product(33, pass.tokens, hidden, layers, work);
        match self.model.experts {
            (0, _) => {
                self.product(34, pass.tokens, 2 * ffn, layers, work);
                self.product(35, pass.tokens, hidden, layers, work);
            }
            experts => self.experts(pass, experts, work),
        }
        if ranks > 1 {
            self.launch(40, 2 * layers, ALL_REDUCE, work);
        }
    }

    /// Routing, and a grouped product of what each expert gets.
    fn experts(&self, pass: &Pass, (experts, of_token): (u64, u64), work: &mut Work) {
        let layers = self.model.layers;
        for kernel in 50..56 {
            self.launch(
                kernel,
                layers,
                self.elementwise(pass.tokens * of_token / 2, self.model.hidden),
                work,
            );
        }
        let active = experts.min(pass.tokens * of_token);
        let rows = (pass.tokens * of_token).div_ceil(active);
        for (kernel, width) in [(56, 2 * self.model.ffn), (57, self.model.hidden)] {
            let tiles = active * rows.div_ceil(64) * width.div_ceil(128);
            let blocks = if self.kernels.is_persistent { self.kernels.sms } else { tiles };
            self.launch(kernel, layers, blocks * 256, work);
        }
    }

    /// Attention and the cache, once for each layer.
    fn attention(&self, pass: &Pass, layers: u64, work: &mut Work) {
        let Model { heads, kv_heads, .. } = self.model;
        self.launch(60, layers, pass.tokens * (kv_heads * 128).min(512), work);
        let generated = pass.tokens - pass.prompt_tokens;
        if pass.prompt_tokens > 0 {
            let blocks = heads * (pass.prompt_tokens.div_ceil(128) + pass.requests.min(4));
            self.launch(61, layers, blocks * 256, work);
        }
        if generated > 0 {
            // The cache of a request is cut into parts once it is long, so that few requests fill the GPU.
            let parts =
                (pass.context / 512).clamp(1, (self.kernels.sms / (generated * kv_heads).max(1)).max(1));
            self.launch(62, layers, generated * kv_heads * parts * 128, work);
        }
    }

    /// From the last hidden states to tokens.
    fn head(&self, pass: &Pass, work: &mut Work) {
        self.product(70, pass.requests, self.model.vocabulary, 1, work);
        for kernel in 0..self.kernels.sampling {
            self.launch(71 + kernel, 1, pass.requests * 1_024, work);
        }
    }

    fn elementwise(&self, tokens: u64, width: u64) -> u64 {
        let of_token = if self.kernels.is_by_token { (width / 8).clamp(128, 1_024) } else { width / 4 };
        (tokens * of_token).max(128)
    }

    /// A matrix product of so many rows; small ones are cut along the inner dimension to fill the GPU.
    fn product(&self, kernel: u64, rows: u64, columns: u64, times: u64, work: &mut Work) {
        let rows_of_tile = [16, 64, 128].into_iter().find(|tile| rows <= *tile).unwrap_or(128);
        let tiles = rows.div_ceil(rows_of_tile) * columns.div_ceil(128);
        let blocks = match self.kernels.is_persistent {
            true => self.kernels.sms,
            false => tiles * (self.kernels.sms / tiles.max(1)).clamp(1, 4),
        };
        self.launch(kernel << 8 | rows_of_tile, times, blocks * 256, work);
    }

    fn launch(&self, kernel: u64, times: u64, threads: u64, work: &mut Work) {
        work.add(&counted(Counter::Enqueues, times));
        work.add(&counted(Counter::Launches, times));
        work.add(&counted(Counter::Threads, times * threads));
        let function = mix(self.model.address.wrapping_add(kernel << 16));
        work.add(&counted(Counter::Functions, function.wrapping_mul(times)));
    }
}

/// What was enqueued one by one, as what a graph holds.
fn inside(held: &Work) -> Work {
    let mut work = counted(Counter::GraphKernels, held.of(Counter::Launches));
    work.add(&counted(Counter::GraphThreads, held.of(Counter::Threads)));
    work.add(&counted(Counter::GraphForeign, held.of(Counter::Foreign)));
    work
}

/// Copies of so many bytes, together.
pub fn copies(counter: Counter, count: u64, bytes: u64) -> Work {
    let mut work = counted(Counter::Copies, count);
    work.add(&counted(Counter::Enqueues, count));
    work.add(&counted(counter, bytes));
    work
}

fn counted(counter: Counter, value: u64) -> Work {
    let mut work = Work::default();
    work.0[counter as usize] = value;
    work
}
