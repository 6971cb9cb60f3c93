//! The mode of a process: serving or training. A training loop waits many times in one iteration, inference once in one step.
//!
//! Training has one of two signs. Either one thread runs the forward pass and waits while another runs the backward pass:
//! between a tenth and nine tenths of the work is foreign to the thread that waits. StepWork captured into a graph is foreign
//! to the thread that captured it, at every launch. Or the amounts of work repeat periodically: many small waits on side
//! streams whose work is closed as it is enqueued, and one bulk of work that no sync call waits for. Segments of one sync
//! call, and of sync calls with nothing enqueued between them, are one *burst*; both signs are sought in the last
//! [`BURSTS`] bursts.

use std::collections::VecDeque;

use probe_abi::fold::Counter;

use crate::segment::{Segment, SyncCall};
use crate::shape::{Form, Shape, StepWork};

/// Bursts remembered of each process.
pub(crate) const BURSTS: usize = 64;
/// The share of foreign work if two threads enqueue.
const FOREIGN: std::ops::RangeInclusive<f64> = 0.1..=0.9;
/// The share of bursts in which the same thread waits.
const ONE_WAITS_MIN: f64 = 0.9;
/// The least work, in calls, for a decision.
const ENQUEUES_MIN: f64 = 32.0;
/// Inferred ends of iterations that are a sign of training.
const MARKS_MIN: u32 = 2;
/// Bursts that suffice if all of them agree.
const CLEAR: usize = 8;
/// The fewest bursts of an iteration; a shorter period could be prefill and decode in turn.
const PERIOD_MIN: usize = 3;
/// The share of bursts that are like the one a period earlier.
const PERIODIC_MIN: f64 = 0.85;
/// The size of the bulk in median bursts.
const BULK_FACTOR: u32 = 8;
/// The share of small bursts that are closed as they are enqueued, and of all work if only steps are enqueued.
const MOST: f64 = 0.7;
/// The confidence of each sign.
const BY_THREADS: f64 = 0.9;
const BY_PERIOD: f64 = 0.8;

/// The mode of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Mode {
    /// Not known yet: segments are deferred.
    #[default]
    Undecided,
    /// Inference: a segment is a step.
    Serving,
    /// Training: an iteration is a step.
    Training {
        /// The confidence, 0 to 1.
        confidence: f64,
    },
}

/// One burst. Compact, since every process has many; counts saturate.
#[derive(Clone, Copy, Debug)]
struct Burst {
    tid: u32,
    /// Calls closed.
    enqueues: u32,
    /// Calls closed, each kernel of a graph counted as one.
    work: u32,
    /// The part of `work` by another thread than the one that waits, or that captured the graph.
    foreign: u32,
    /// Calls enqueued by the process since the burst before.
    enqueued: u32,
    has_kernels: bool,
}

impl Burst {
    /// Returns true if it closes at least half of what was enqueued.
    fn closes(&self) -> bool {
        self.enqueues >= self.enqueued / 2
    }

    fn is_shared(&self) -> bool {
        self.work > 0 && FOREIGN.contains(&(self.foreign as f64 / self.work as f64))
    }
}

/// The latest bursts of a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bursts {
    bursts: VecDeque<Burst>,
    last_sync_call: Option<SyncCall>,
    /// Work that no sync call ended: it belongs to the next burst.
    open: [u32; 3],
    /// Ends of iterations that were inferred since the last burst, and sync calls since the last such end.
    marks: u32,
    since_mark: u32,
    /// Inferred ends with a wait for most of the work since the one before, and whether there was one since the last.
    synced: u32,
    is_synced: bool,
}

impl Bursts {
    pub(crate) fn push(&mut self, segment: &Segment) {
        let sync_call = Some(segment.sync_call());
        let work = StepWork(segment.record.work);
        let counts = [
            segment.enqueues(),
            segment.enqueues().saturating_add(work.of(Counter::GraphKernels)),
            work.of(Counter::Foreign).saturating_add(work.of(Counter::GraphForeign)),
        ];
        let open = std::mem::take(&mut self.open);
        let [enqueues, work_all, foreign] =
            std::array::from_fn(|at| narrow(counts[at]).saturating_add(open[at]));
        if segment.is_mark() {
            self.open = [enqueues, work_all, foreign];
            self.marks = self.marks.saturating_add(1);
            self.since_mark = 0;
            self.synced += u32::from(std::mem::take(&mut self.is_synced));
            return;
        }
        self.since_mark = self.since_mark.saturating_add(1);
        let new = Burst {
            tid: segment.record.header.tid,
            enqueues,
            work: work_all,
            foreign,
            enqueued: narrow(segment.record.process_enqueued_since_sync),
            has_kernels: Shape::of(&work).form != Form::Copies,
        };
        self.is_synced |= new.closes() && u64::from(new.enqueued) >= self.largest().div_ceil(2);
        let is_same = new.enqueued == 0 || self.last_sync_call == sync_call;
        self.last_sync_call = sync_call;
        match self.bursts.back_mut().filter(|_| is_same) {
            Some(last) => {
                last.enqueues = last.enqueues.saturating_add(new.enqueues);
                last.work = last.work.saturating_add(new.work);
                last.foreign = last.foreign.saturating_add(new.foreign);
                last.has_kernels |= new.has_kernels;
            }
            None => self.append(new),
        }
    }

    /// Returns the most calls between two of the latest bursts.
    pub(crate) fn largest(&self) -> u64 {
        self.bursts.iter().map(|b| u64::from(b.enqueued)).max().unwrap_or(0)
    }

    /// Returns the confidence that the process trains; `None` without a sign of it.
    pub(crate) fn training(&self) -> Option<f64> {
        let by_threads = (self.is_by_two_threads() || self.is_marked()).then_some(BY_THREADS);
        by_threads.or_else(|| self.is_periodic().then_some(BY_PERIOD))
    }

    /// Returns true if ends of iterations were inferred lately, and no less often than every [`BURSTS`] sync calls.
    pub(crate) fn is_marked(&self) -> bool {
        self.marks >= MARKS_MIN && self.since_mark <= BURSTS as u32
    }

    /// Returns true if the process waits for the work of each iteration: its end need not be inferred.
    pub(crate) fn is_synced(&self) -> bool {
        self.synced > 0 && 2 * self.synced >= self.marks
    }

    /// Returns true if few bursts suffice to decide that the process serves.
    pub(crate) fn is_clearly_serving(&self) -> bool {
        self.bursts.len() >= CLEAR
            && !self.is_marked()
            && self.closed_share() >= MOST
            && self.bursts.iter().all(|b| b.has_kernels && !b.is_shared())
    }

    /// Returns true if few bursts suffice to decide that the process trains.
    pub(crate) fn is_clearly_training(&self) -> bool {
        self.bursts.len() >= CLEAR && (self.is_by_two_threads() || self.is_marked())
    }

    /// Returns true once [`BURSTS`] bursts are remembered.
    pub(crate) fn is_full(&self) -> bool {
        self.bursts.len() >= BURSTS
    }

    fn append(&mut self, burst: Burst) {
        if self.bursts.len() >= BURSTS {
            self.bursts.pop_front();
        }
        self.bursts.push_back(burst);
    }

    fn is_by_two_threads(&self) -> bool {
        let all = self.sum(|b| b.work);
        let shared = self.sum(|b| if b.is_shared() { b.work } else { 0 });
        let of_thread = |tid| self.bursts.iter().filter(|b| b.tid == tid).count();
        let most = self.bursts.iter().map(|b| of_thread(b.tid)).max().unwrap_or(0);
        all >= ENQUEUES_MIN && shared >= all / 2.0 && most as f64 >= ONE_WAITS_MIN * self.bursts.len() as f64
    }

    fn is_periodic(&self) -> bool {
        let enqueued: Vec<u32> = self.bursts.iter().map(|b| b.enqueued).collect();
        self.has_open_bulk(&enqueued)
            && (PERIOD_MIN..=enqueued.len() / 2).any(|period| repeats(&enqueued, period))
    }

    /// Returns true if a bulk of work is enqueued now and then and left open, and the small bursts between are closed at once.
    /// With asynchronous scheduling much is left open, too, but only until the next burst.
    fn has_open_bulk(&self, enqueued: &[u32]) -> bool {
        let mut sorted = enqueued.to_vec();
        sorted.sort_unstable();
        let Some(middle) = sorted.get(sorted.len() / 2) else { return false };
        let bulk = middle.saturating_mul(BULK_FACTOR).max(1);
        let (bulks, smalls): (Vec<&Burst>, Vec<&Burst>) =
            self.bursts.iter().partition(|b| b.enqueued >= bulk);
        let closed = smalls.iter().filter(|b| b.closes()).count();
        !bulks.is_empty() && self.closed_share() < 0.5 && closed as f64 >= MOST * smalls.len() as f64
    }

    /// Returns the share of enqueued work that was closed, in its own or a later burst.
    fn closed_share(&self) -> f64 {
        self.sum(|b| b.enqueues) / self.sum(|b| b.enqueued).max(1.0)
    }

    fn sum(&self, of: impl Fn(&Burst) -> u32) -> f64 {
        self.bursts.iter().map(|b| f64::from(of(b))).sum()
    }
}

fn narrow(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn repeats(enqueued: &[u32], period: usize) -> bool {
    let pairs = enqueued.iter().zip(&enqueued[period..]);
    let alike = pairs.filter(|(a, b)| a.abs_diff(**b) <= 1 + **a / 10).count();
    alike as f64 >= PERIODIC_MIN * (enqueued.len() - period) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use probe_abi::record::StepRecord;

    /// tid, work closed, foreign share in percent, process_enqueued_since_sync.
    type Row = (u32, u64, u64, u64);

    fn bursts(rows: impl IntoIterator<Item = Row>) -> Bursts {
        let mut bursts = Bursts::default();
        for (at, (tid, enqueues, foreign, process_enqueued_since_sync)) in rows.into_iter().enumerate() {
            let mut record = StepRecord { process_enqueued_since_sync, ..StepRecord::default() };
            (record.header.tid, record.header.entry_ns) = (tid, at as u64);
            record.work[Counter::Enqueues as usize] = enqueues;
            record.work[Counter::Foreign as usize] = enqueues * foreign / 100;
            record.work[Counter::Launches as usize] = enqueues;
            bursts.push(&Segment { stream: 0, record, records: 1 });
        }
        bursts
    }

    #[track_caller]
    fn check(rows: impl IntoIterator<Item = Row>, expected: Option<f64>) {
        let bursts = bursts(rows);
        assert_eq!(bursts.training(), expected, "{bursts:?}");
        assert!(bursts.bursts.len() <= BURSTS);
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
    fn output_threads_that_wait_for_others_are_not_training() {
        check((0..64).map(|_| (2, 700, 100, 700)), None);
        check([(2, 700, 0, 700), (2, 700, 100, 700), (2, 700, 100, 700)], None);
    }

    #[test]
    fn two_threads_on_one_stream_are_not_training() {
        check((0..64).map(|k| (1 + k % 2, 700, 50, 700)), None);
    }

    #[test]
    fn side_streams_waited_for_in_turn_are_training() {
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
    fn asynchronous_scheduling_in_a_fixed_turn_is_not_training() {
        // Each burst closes what was enqueued before the last one.
        let enqueued = |k: u64| if k.is_multiple_of(10) { 930 } else { 14 };
        check((1..64).map(|k| (1, enqueued(k - 1), 0, enqueued(k))), None);
    }

    #[test]
    fn serving_and_training_are_clear_after_a_few_bursts() {
        assert!(bursts((0..8).map(|_| (1, 14, 0, 14))).is_clearly_serving());
        assert!(!bursts((0..7).map(|_| (1, 14, 0, 14))).is_clearly_serving());
        assert!(!bursts((0..64).map(|_| (1, 1252, 60, 1259))).is_clearly_serving());
        assert!(bursts((0..8).map(|_| (1, 1252, 60, 1259))).is_clearly_training());
        assert!(!bursts((0..7).map(|_| (1, 1252, 60, 1259))).is_clearly_training());
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
