//! Is a process training? A loop of training waits many times in one iteration, inference once in one step.
//!
//! The one idea: two signs that inference does not show. One thread runs the forward pass and waits, another runs
//! the backward pass: between a tenth and nine tenths of the work is foreign to the thread that waits. Or the same
//! figures of work come round and round, many small waits on side streams that are closed as they are enqueued,
//! and one bulk of work that nobody waits for. Segments of one closer, and of closers that follow each other with
//! nothing enqueued between them, are one *burst*; both signs are looked for in the last [`BURSTS`] bursts.

use std::collections::VecDeque;

use table::fold::Counter;

use crate::segment::{Closer, Segment};

/// Bursts remembered for each process.
pub(crate) const BURSTS: usize = 64;
/// The share of foreign work that says that two threads enqueue.
const FOREIGN: std::ops::RangeInclusive<f64> = 0.1..=0.9;
/// One thread waits for all of it: this share of the bursts.
const ONE_WAITS_MIN: f64 = 0.9;
/// Less work than this says nothing.
const ENQUEUES_MIN: u64 = 32;
/// Bursts of this length without a sign are inference.
const CLEAR: usize = 8;
/// An iteration has at least this many bursts, or it cannot be told from prefill and decode in turn.
const PERIOD_MIN: usize = 3;
/// This share of the bursts is like the one a period earlier.
const PERIODIC_MIN: f64 = 0.85;
/// The bulk is this many times a middling burst.
const BULK_FACTOR: u64 = 8;
/// This share of the bulks is left open, and of the small bursts closed as they are enqueued.
const MOST: f64 = 0.7;
/// How sure each sign is.
const BY_THREADS: f64 = 0.9;
const BY_PERIOD: f64 = 0.8;

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    /// It is not known yet: steps are held back.
    #[default]
    Undecided,
    /// Inference: a segment is a step.
    Serving,
    /// Training: an iteration is a step.
    Training {
        /// How sure that is, 0 to 1.
        confidence: f64,
    },
}

#[derive(Clone, Copy, Debug)]
struct Burst {
    closer: Closer,
    tid: u32,
    /// Work closed.
    enqueues: u64,
    foreign: u64,
    /// Work enqueued by the process since the burst before.
    process_fresh: u64,
}

impl Burst {
    /// Most of what was enqueued is still open.
    fn leaves_open(&self) -> bool {
        self.enqueues < self.process_fresh / 2
    }

    fn is_shared(&self) -> bool {
        self.enqueues > 0 && FOREIGN.contains(&(self.foreign as f64 / self.enqueues as f64))
    }
}

/// The last bursts of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts(VecDeque<Burst>);

impl Bursts {
    pub(crate) fn push(&mut self, segment: &Segment) {
        let fresh = segment.record.process_fresh;
        let new = Burst {
            closer: segment.closer(),
            tid: segment.record.header.tid,
            enqueues: segment.enqueues(),
            foreign: segment.record.work[Counter::Foreign as usize],
            process_fresh: fresh,
        };
        match self.0.back_mut().filter(|last| fresh == 0 || last.closer == new.closer) {
            Some(last) => {
                last.enqueues += new.enqueues;
                last.foreign += new.foreign;
            }
            None => self.append(new),
        }
    }

    /// The most work between two bursts, lately.
    pub(crate) fn largest(&self) -> u64 {
        self.0.iter().map(|b| b.process_fresh).max().unwrap_or(0)
    }

    /// How sure it is that the process trains; `None` where there is no sign of it.
    pub(crate) fn training(&self) -> Option<f64> {
        let by_threads = self.is_by_two_threads().then_some(BY_THREADS);
        by_threads.or_else(|| self.is_periodic().then_some(BY_PERIOD))
    }

    /// True where enough was seen to say, before all of it is, that the process serves.
    pub(crate) fn is_clearly_serving(&self) -> bool {
        self.0.len() >= CLEAR && !self.0.iter().any(|b| b.leaves_open() || b.is_shared())
    }

    /// True once as much is remembered as ever will be.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= BURSTS
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.capacity() * size_of::<Burst>()
    }

    fn append(&mut self, burst: Burst) {
        if self.0.len() >= BURSTS {
            self.0.pop_front();
        }
        self.0.push_back(burst);
    }

    fn is_by_two_threads(&self) -> bool {
        let all: u64 = self.0.iter().map(|b| b.enqueues).sum();
        let shared: u64 = self.0.iter().filter(|b| b.is_shared()).map(|b| b.enqueues).sum();
        let of_thread = |tid| self.0.iter().filter(|b| b.tid == tid).count();
        let most = self.0.iter().map(|b| of_thread(b.tid)).max().unwrap_or(0);
        all >= ENQUEUES_MIN && shared >= all.div_ceil(2) && most as f64 >= ONE_WAITS_MIN * self.0.len() as f64
    }

    fn is_periodic(&self) -> bool {
        let fresh: Vec<u64> = self.0.iter().map(|b| b.process_fresh).collect();
        self.has_open_bulk(&fresh) && (PERIOD_MIN..=fresh.len() / 2).any(|period| repeats(&fresh, period))
    }

    /// Much is enqueued now and then and stays open; the little between is closed as it comes.
    fn has_open_bulk(&self, fresh: &[u64]) -> bool {
        let mut sorted = fresh.to_vec();
        sorted.sort_unstable();
        let Some(middle) = sorted.get(sorted.len() / 2) else { return false };
        let bulk = middle.saturating_mul(BULK_FACTOR).max(1);
        let (bulks, smalls): (Vec<&Burst>, Vec<&Burst>) =
            self.0.iter().partition(|b| b.process_fresh >= bulk);
        let open = bulks.iter().filter(|b| b.leaves_open()).count();
        let closed = smalls.iter().filter(|b| !b.leaves_open()).count();
        // Not all: a device synchronisation closes for once what the loop leaves open.
        open > 0 && open as f64 >= MOST * bulks.len() as f64 && closed as f64 >= MOST * smalls.len() as f64
    }
}

fn repeats(fresh: &[u64], period: usize) -> bool {
    let pairs = fresh.iter().zip(&fresh[period..]);
    let alike = pairs.filter(|(a, b)| a.abs_diff(**b) <= 1 + **a / 10).count();
    alike as f64 >= PERIODIC_MIN * (fresh.len() - period) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use table::record::StepRecord;

    /// tid, work closed, foreign share in percent, process_fresh.
    type Row = (u32, u64, u64, u64);

    fn bursts(rows: impl IntoIterator<Item = Row>) -> Bursts {
        let mut bursts = Bursts::default();
        for (at, (tid, enqueues, foreign, process_fresh)) in rows.into_iter().enumerate() {
            let mut record = StepRecord { process_fresh, ..StepRecord::default() };
            (record.header.tid, record.header.entry_ns) = (tid, at as u64);
            record.work[Counter::Enqueues as usize] = enqueues;
            record.work[Counter::Foreign as usize] = enqueues * foreign / 100;
            bursts.push(&Segment { stream: 0, record });
        }
        bursts
    }

    #[track_caller]
    fn check(rows: impl IntoIterator<Item = Row>, expected: Option<f64>) {
        let bursts = bursts(rows);
        assert_eq!(bursts.training(), expected, "{bursts:?}");
        assert!(bursts.0.len() <= BURSTS);
    }

    #[test]
    fn a_backward_pass_by_a_second_thread_is_training() {
        check([(1, 1243, 0, 1259), (1, 1252, 60, 1259), (1, 1261, 60, 1259)], Some(BY_THREADS));
    }

    #[test]
    fn timers_that_close_forward_and_backward_apart_are_one_burst() {
        let iteration = [(1, 500, 0, 1250), (1, 250, 0, 0), (1, 500, 100, 0)];
        check([iteration, iteration, iteration].concat(), Some(BY_THREADS));
    }

    #[test]
    fn an_output_thread_that_waits_for_another_thread_s_work_is_not_training() {
        check((0..64).map(|_| (2, 700, 100, 700)), None);
        check([(2, 700, 0, 700), (2, 700, 100, 700), (2, 700, 100, 700)], None);
    }

    #[test]
    fn two_threads_that_each_enqueue_and_wait_on_one_stream_are_not_training() {
        check((0..64).map(|k| (1 + k % 2, 700, 50, 700)), None);
    }

    #[test]
    fn side_streams_that_are_waited_for_round_and_round_are_training() {
        let round = [1014, 10, 255, 8, 1, 1, 12, 8, 1, 1, 1, 3, 1, 3, 1];
        let closed = [10, 10, 17, 8, 1, 1, 11, 8, 1, 1, 1, 2, 1, 1, 1];
        let iteration = (0..15).map(|k| (1, closed[k], 0, round[k]));
        check((0..4).flat_map(|_| iteration.clone()), Some(BY_PERIOD));
    }

    #[test]
    fn a_fixed_turn_of_prefill_and_decodes_is_not_training() {
        // A benchmark with prompts and answers of one length, one request at a time.
        let turn = |closed: u64| {
            let decodes = (0..9).map(move |_| (1, 14.min(closed), 0, 14));
            std::iter::once((1, 930.min(closed), 0, 930)).chain(decodes)
        };
        check((0..6).flat_map(|_| turn(u64::MAX)), None);
        // The same where only a copy stream is waited for: nothing is closed as it is enqueued.
        check((0..6).flat_map(|_| turn(1)), None);
    }

    #[test]
    fn serving_is_clear_after_a_few_steps_and_training_never_is() {
        assert!(bursts((0..8).map(|_| (1, 14, 0, 14))).is_clearly_serving());
        assert!(!bursts((0..7).map(|_| (1, 14, 0, 14))).is_clearly_serving());
        assert!(!bursts((0..64).map(|_| (1, 1252, 60, 1259))).is_clearly_serving());
        assert!(!bursts((0..64).map(|_| (1, 10, 0, 1014))).is_clearly_serving());
    }

    #[test]
    fn work_at_random_is_not_training() {
        for seed in 0..50 {
            let mut rng = Rng::new(seed);
            check((0..200).map(|_| (1, rng.below(900), 0, 1 + rng.below(900))).collect::<Vec<_>>(), None);
        }
    }
}
