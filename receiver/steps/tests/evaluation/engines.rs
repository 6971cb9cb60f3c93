//! Engines: how they run a turn (eager, by whole graphs, by pieces; with drafts, with adapters).

use probe_abi::fold::Counter;
use steps::Phase;

use crate::machine::{Kernels, Machine, Model, Pass, copies};
use crate::names::Role;
use crate::program::{Program, Segment, Truth};
use crate::testing::Rng;
use crate::traffic::Turn;
use crate::work::Work;

/// The graphs that an engine captures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Graphs {
    /// No graphs.
    None,
    /// Whole graphs for answers of up to `most` requests.
    Answers { most: u64 },
    /// Whole graphs for answers, and pieces for everything else up to `most` tokens.
    AnswersAndPieces { most: u64 },
    /// Pieces for everything up to `most` tokens.
    Pieces { most: u64 },
    /// Whole graphs for everything up to `most` tokens.
    Everything { most: u64 },
}

/// Speculative decoding: tokens proposed for each request, then verified together.
#[derive(Clone, Copy, Debug)]
pub struct Drafts {
    /// The model that proposes; `None` if tokens are looked up in the prompt.
    pub by: Option<Machine>,
    pub is_by_graph: bool,
    pub tokens: u64,
}

/// The copies of inputs to the GPU and of answers from it.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    pub copies_in: u64,
    pub bytes_of_token: u64,
    /// Bytes of a request's row of the block table, copied each turn.
    pub bytes_of_request: u64,
    /// Bytes copied back for each request.
    pub bytes_back: u64,
    /// Copies on the device for each layer.
    pub on_device: u64,
}

impl Io {
    pub fn draw(rng: &mut Rng) -> Io {
        Io {
            copies_in: 5 + rng.below(9),
            bytes_of_token: [12, 20, 28, 36][rng.below(4) as usize],
            bytes_of_request: [64, 512, 2_048][rng.below(3) as usize],
            bytes_back: [4, 8, 12][rng.below(3) as usize],
            on_device: [0, 0, 2][rng.below(3) as usize],
        }
    }
}

/// A serving engine.
#[derive(Clone, Copy, Debug)]
pub struct Engine {
    pub machine: Machine,
    pub graphs: Graphs,
    pub io: Io,
    pub drafts: Option<Drafts>,
    /// An encoder run before a prompt is read, over this many tokens: images, speech.
    pub encoder: Option<(Machine, u64)>,
    /// Small waits after every pass: a stopping rule that reads a flag back.
    pub tails: u64,
    /// Turns between swaps of an adapter; 0 for never.
    pub swaps: u64,
    /// True if answers are copied on a separate stream.
    pub has_copy_stream: bool,
}

impl Engine {
    pub fn new(machine: Machine, graphs: Graphs, rng: &mut Rng) -> Engine {
        let io = Io::draw(rng);
        Engine {
            machine,
            graphs,
            io,
            drafts: None,
            encoder: None,
            tails: 0,
            swaps: 0,
            has_copy_stream: rng.chance(0.3),
        }
    }

    /// Returns an engine that serves a language model of a random size.
    pub fn serving(graphs: Graphs, ranks: u64, rng: &mut Rng) -> Engine {
        let machine = Machine { model: Model::draw(rng, ranks), kernels: Kernels::serving(rng) };
        Engine::new(machine, graphs, rng)
    }

    /// Returns a language model in PyTorch, operation by operation.
    pub fn plain(rng: &mut Rng) -> Engine {
        let machine = Machine { model: Model::draw(rng, 1), kernels: Kernels::plain(rng) };
        Engine { has_copy_stream: false, ..Engine::new(machine, Graphs::None, rng) }
    }

    /// Runs a turn on a stream.
    pub fn run(&self, turn: &Turn, stream: u64, rng: &mut Rng, program: &mut Program) {
        if let Some((encoder, tokens)) = self.encoder.filter(|_| turn.prompts > 0) {
            let tokens = tokens * turn.prompts;
            let requests = turn.prompts;
            let pass = Pass { tokens, prompt_tokens: tokens, requests, ..Pass::default() };
            program.close(&[Segment {
                stream,
                ..Segment::of(encoder.eager(&pass), Some(phase_of(&encoder, Phase::Prefill)))
            }]);
        }
        let mut work = self.pass(turn, rng);
        if self.swaps > 0 && rng.below(self.swaps) == 0 {
            work.add(&copies(Counter::BytesToDevice, 2 * 4 * self.machine.model.layers, 200_000_000));
        }
        self.close(turn, work, stream, program);
        self.run_tails(turn, stream, program);
    }

    fn close(&self, turn: &Turn, mut work: Work, stream: u64, program: &mut Program) {
        let back = copies(Counter::BytesFromDevice, 1, (turn.answers + turn.prompts) * self.io.bytes_back);
        let truth: Truth = Some(phase_of(&self.machine, turn.phase));
        match self.has_copy_stream {
            true => program.close(&[
                Segment { stream, ..Segment::of(work, truth) },
                Segment { stream: stream + 1, ..Segment::of(back, truth) },
            ]),
            false => {
                work.add(&back);
                program.close(&[Segment { stream, ..Segment::of(work, truth) }]);
            }
        }
    }

    /// Launches a few kernels and reads a flag back. They belong to the turn, but are waited for separately.
    fn run_tails(&self, turn: &Turn, stream: u64, program: &mut Program) {
        let small = Machine {
            model: Model { layers: 1, experts: (0, 0), ranks: 1, ..self.machine.model },
            kernels: Kernels { sampling: 4, ..self.machine.kernels },
        };
        for _ in 0..self.tails {
            let requests = turn.answers + turn.prompts;
            let mut work = small.sampling_of(requests);
            work.add(&copies(Counter::BytesFromDevice, 1, requests));
            program.close(&[Segment {
                stream,
                sync_call: "cudaStreamSynchronize",
                ..Segment::of(work, None)
            }]);
        }
    }

    fn pass(&self, turn: &Turn, rng: &mut Rng) -> Work {
        let verified = self.drafts.map_or(0, |d| match d.by {
            Some(_) => d.tokens * turn.answers,
            // A lookup does not always succeed.
            None => (0..turn.answers).map(|_| rng.below(d.tokens + 1)).sum(),
        });
        let pass = Pass {
            tokens: turn.prompt_tokens + turn.answers + verified,
            prompt_tokens: turn.prompt_tokens,
            requests: turn.prompts + turn.answers,
            context: turn.context,
            ..Pass::default()
        };
        let mut work = self.forward(&pass);
        if let Some((drafts, by)) = self.drafts.and_then(|d| d.by.map(|by| (d, by))) {
            work.add(&draft(&drafts, &by, &pass, turn));
        }
        work.add(&self.inputs(&pass));
        work
    }

    fn forward(&self, pass: &Pass) -> Work {
        let is_answers = pass.prompt_tokens == 0;
        let machine = &self.machine;
        match self.graphs {
            Graphs::Answers { most } | Graphs::AnswersAndPieces { most }
                if is_answers && pass.requests <= most =>
            {
                machine.whole(&answers(captured(pass.requests)), pass.requests)
            }
            Graphs::Everything { most } if pass.tokens <= most => {
                machine.whole(&anything(captured(pass.tokens)), pass.requests)
            }
            Graphs::Pieces { most } | Graphs::AnswersAndPieces { most } if pass.tokens <= most => {
                machine.piecewise(captured(pass.tokens), pass)
            }
            _ => machine.eager(pass),
        }
    }

    fn inputs(&self, pass: &Pass) -> Work {
        let bytes = pass.tokens * self.io.bytes_of_token + pass.requests * self.io.bytes_of_request + 64;
        let mut work = copies(Counter::BytesToDevice, self.io.copies_in, bytes);
        let moved = self.io.on_device * self.machine.model.layers;
        if moved > 0 {
            work.add(&copies(Counter::BytesOnDevice, moved, moved * pass.tokens * self.machine.model.hidden));
        }
        work
    }
}

/// Returns the phase of a pass: an encoder generates no tokens.
fn phase_of(machine: &Machine, phase: Phase) -> Phase {
    if machine.model.is_encoder { Phase::Forward } else { phase }
}

/// Returns the passes of the proposing model.
fn draft(drafts: &Drafts, by: &Machine, pass: &Pass, turn: &Turn) -> Work {
    let mut work = Work::default();
    if turn.prompt_tokens > 0 {
        work.add(&by.eager(pass));
    }
    let one = Pass { tokens: turn.answers, requests: turn.answers, context: turn.context, ..Pass::default() };
    for _ in 0..if turn.answers > 0 { drafts.tokens } else { 0 } {
        work.add(&match drafts.is_by_graph {
            true => by.whole(&answers(captured(turn.answers)), turn.answers),
            false => by.eager(&one),
        });
    }
    work
}

/// Returns the pass captured for a number of answers, with the longest possible context.
fn answers(requests: u64) -> Pass {
    Pass { tokens: requests, requests, context: 8_192, ..Pass::default() }
}

/// Returns the pass captured for a number of tokens, with attention as for one prompt.
fn anything(tokens: u64) -> Pass {
    Pass { tokens, prompt_tokens: tokens, requests: 1, context: 0, role: Role::Unified }
}

/// Returns the captured size that a size is padded to.
pub fn captured(size: u64) -> u64 {
    match size {
        0..=2 => size,
        3..=4 => 4,
        _ => size.div_ceil(8) * 8,
    }
}
