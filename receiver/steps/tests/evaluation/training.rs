//! Training loops as the kernel reports them: a thread for the backward pass, and waits where the loop reads its loss.

use probe_abi::fold::Counter;
use steps::Phase;

use crate::machine::{Kernels, Machine, Model, Pass, copies};
use crate::names::Role;
use crate::program::{Program, Segment};
use crate::testing::Rng;
use crate::work::Work;

const MAIN: u64 = 0x5000;

/// A training loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    pub machine: Machine,
    /// Tokens of a batch on this rank.
    pub tokens: u64,
    /// Batches of which gradients are accumulated before the optimiser runs.
    pub accumulated: u64,
    /// Batches between reads of the loss.
    pub read_every: u64,
    /// True if collectives are on a separate stream, and the loop waits for the device.
    pub has_collectives: bool,
    /// Reads of the loss between evaluations; 0 for never.
    pub pause_every: u64,
    /// Batches of an evaluation.
    pub pause: u64,
    /// True if another thread enqueues the backward pass, as in PyTorch.
    pub is_by_two_threads: bool,
}

impl Loop {
    pub fn draw(rng: &mut Rng) -> Loop {
        let machine = Machine { model: Model::draw(rng, 1), kernels: Kernels::plain(rng) };
        Loop {
            machine,
            tokens: 512 << rng.below(6),
            accumulated: 1,
            read_every: 1,
            has_collectives: false,
            pause_every: 0,
            pause: 0,
            is_by_two_threads: true,
        }
    }

    /// Runs until this many reads of the loss.
    pub fn run(&self, reads: u64, rng: &mut Rng, program: &mut Program) {
        for read in 1..=reads {
            let work = self.batches(read, rng);
            let mut segments = vec![self.segment(work)];
            if self.has_collectives {
                segments.push(Segment { stream: MAIN + 1, ..self.segment(self.collectives()) });
            }
            program.close(&segments);
            if self.pause_every > 0 && read.is_multiple_of(self.pause_every) {
                self.evaluate(program);
            }
        }
    }

    /// Runs the loop as repeated launches of one graph: captured once, with the backward pass of one batch.
    pub fn run_captured(&self, iterations: u64, rng: &mut Rng, program: &mut Program) {
        let mut work = self.machine.captured(1, &self.batches(1, rng));
        work.add(&copies(Counter::BytesToDevice, 3, self.tokens * 24));
        for _ in 0..iterations {
            program.close(&[Segment::of(work.clone(), Some(Phase::Train))]);
        }
    }

    fn segment(&self, work: Work) -> Segment {
        let sync_call = if self.has_collectives { "cudaDeviceSynchronize" } else { "cudaStreamSynchronize" };
        Segment { stream: MAIN, sync_call, wait_us: 20_000, ..Segment::of(work, Some(Phase::Train)) }
    }

    fn batches(&self, read: u64, rng: &mut Rng) -> Work {
        let mut work = Work::default();
        for batch in 0..self.read_every {
            // Sequences are packed, and sometimes padded.
            let tokens = self.tokens - rng.below(self.tokens / 8);
            let forward = self.forward(tokens, Role::TrainForward);
            let mut backward = self.forward(tokens, Role::Backward);
            backward.add(&backward.clone());
            work.add(&forward);
            work.add(&self.by_second_thread(backward));
            let ordinal = (read - 1) * self.read_every + batch + 1;
            if ordinal.is_multiple_of(self.accumulated) {
                work.add(&self.forward(64, Role::Optimizer));
            }
            work.add(&copies(Counter::BytesToDevice, 3, tokens * 24));
        }
        work.add(&copies(Counter::BytesFromDevice, 1, 4));
        work
    }

    fn forward(&self, tokens: u64, role: Role) -> Work {
        self.machine.eager(&Pass { tokens, prompt_tokens: tokens, requests: tokens, context: 0, role })
    }

    fn by_second_thread(&self, mut work: Work) -> Work {
        let foreign = if self.is_by_two_threads { work.of(Counter::Enqueues) } else { 0 };
        work.set(Counter::Foreign, foreign);
        work
    }

    fn collectives(&self) -> Work {
        let mut work = Work::default();
        let buckets = 7 * self.read_every;
        work.set(Counter::Enqueues, buckets);
        work.set(Counter::Launches, buckets);
        work.set(Counter::Threads, buckets * 12_288);
        self.by_second_thread(work)
    }

    /// Runs forward passes alone: neither training nor serving, and not scored.
    fn evaluate(&self, program: &mut Program) {
        for _ in 0..self.pause {
            program.close(&[Segment {
                truth: None,
                ..self.segment(self.forward(self.tokens, Role::TrainForward))
            }]);
        }
    }
}

/// Runs the loop of a recommendation model, with the waits of a real one: fifteen in an iteration on a side stream, while no
/// sync call waits for the bulk of the work.
pub fn recommendation(iterations: u64, rng: &mut Rng, program: &mut Program) {
    const FRESH: [u64; 15] = [1014, 10, 255, 8, 1, 1, 12, 8, 1, 1, 1, 3, 1, 3, 1];
    const CLOSED: [u64; 15] = [10, 10, 17, 8, 1, 1, 11, 8, 1, 1, 1, 2, 1, 1, 1];
    let factor = 1 + rng.below(3);
    for _ in 0..iterations {
        for (fresh, closed) in FRESH.into_iter().zip(CLOSED) {
            let mut work = copies(Counter::BytesToDevice, 1, 128);
            let launches = closed - 1;
            work.set(Counter::Launches, launches);
            work.set(Counter::Enqueues, work.of(Counter::Enqueues) + launches);
            work.set(Counter::Threads, launches * (200_000 + rng.below(100_000)));
            let process_enqueued_since_sync = Some(if fresh > 200 { fresh * factor } else { fresh });
            let segment = Segment::of(work, Some(Phase::Train));
            program.close(&[Segment {
                process_enqueued_since_sync,
                sync_call: "cudaStreamSynchronize",
                ..segment
            }]);
        }
    }
}
