//! What the engine finds: steps with a verdict, and changes of what is usual.

use std::fmt;

use crate::causes::{Cause, CauseKind, StepFacts, Usual};
use event::{ProcessId, ThrottleReason};
use probe_abi::fold::mix;
pub use semconv::value::GpuStepGpuCertainty as Certainty;

use crate::baseline::{Level, Outlier};
use crate::phase::Phase;
use crate::shape::Work;
use crate::throttling::Shares;

/// One thing found.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all findings are steps, and a box for each would be an allocation a step"
)]
pub enum Finding {
    /// A step is over.
    Step(Step),
    /// What is usual for a workload and phase has changed for good.
    BaselineShift(BaselineShift),
}

/// Names one step for ever: a hash of whose it is and which.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EventId(pub u64);

impl EventId {
    /// The id of the step of `process` on its stream number `stream` that the kernel gave this sequence number
    /// and that ended at `end_ns`: streams come and go, and their numbers with them.
    pub fn of(process: ProcessId, stream: u32, sequence: u64, end_ns: u64) -> EventId {
        let parts = [u64::from(process.pid), process.start_ns, u64::from(stream), sequence, end_ns];
        // Mixed in turn: the same numbers in other places give another id.
        EventId(
            parts
                .into_iter()
                .fold(0x77_61_72_70_74_61_70, |hash, part| mix(hash ^ mix(part.wrapping_add(hash)))),
        )
    }
}

impl fmt::Display for EventId {
    /// Sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Time a thread was ready to run and had no CPU, by part of the step, ns; `None` where it was not seen.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct RunQueue {
    /// Before the step's first work was enqueued.
    pub gap_ns: Option<u64>,
    /// From then until the closer was entered.
    pub enqueue_ns: Option<u64>,
    /// Within the closer.
    pub wait_ns: Option<u64>,
}

/// One turn of a workload. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its id on every signal that speaks of it.
    pub id: EventId,
    /// Whose.
    pub process: ProcessId,
    /// The stream with most of the work: a small number that stays the stream's for as long as it is remembered.
    pub stream: u32,
    /// The kernel's number of the step on that stream; of several segments the first one's.
    pub sequence: u64,
    /// The thread that waited.
    pub thread: u32,
    /// The thread that enqueued first.
    pub first_thread: u32,
    /// The device by its number in the process; -1 where it is not known.
    pub device: i32,
    /// When the first work was enqueued.
    pub start_ns: u64,
    /// When the closer returned.
    pub end_ns: u64,
    /// From the previous closer's return to `start_ns`; 0 where work was enqueued ahead of it or there was none.
    pub gap_ns: u64,
    /// The part in which the host enqueued, or did something else before it waited.
    pub enqueue_ns: u64,
    /// The part in which it waited, of all its closers together.
    pub wait_ns: u64,
    /// `enqueue_ns + wait_ns`.
    pub duration_ns: u64,
    /// What was done.
    pub work: Work,
    /// Segments it was put together from.
    pub segments: u32,
    /// Run-queue wait.
    pub run_queue: RunQueue,
    /// Time within `wait_ns` in which it waited for ranks that had not come to a collective yet; `None` where nobody
    /// told of any.
    pub collective_wait_ns: Option<u64>,
    /// False where the first enqueue is further back than was remembered: `start_ns` is then too late.
    pub is_start_known: bool,
    /// True where nobody waited for it and the end of its stream, process or source closed it. Never judged.
    pub is_unfinished: bool,
    /// The phase.
    pub phase: Phase,
    /// How sure the phase is, 0 to 1.
    pub confidence: f64,
    /// What it was compared with; `None` during the warm-up and for unfinished steps.
    pub baseline: Option<Level>,
    /// Its duration as a multiple of the baseline's p95; 0 without baseline.
    pub ratio: f64,
    /// The bucket.
    pub outlier: Outlier,
    /// What was usual, part by part, when it ended; a count of 0 where nothing was.
    pub usual: Usual,
    /// Which GPU it ran on, for outliers whose GPU is looked at.
    pub gpu: Option<Gpu>,
    /// What held the clocks of that GPU down meanwhile, longest first.
    pub throttled: Vec<Throttled>,
    /// For which share of such a step's time they are usually held down, when it ended.
    pub usually_throttled: Shares,
    /// Why, for outliers: largest share first.
    pub causes: Vec<Cause>,
}

/// The GPU of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// `GPU-<uuid>`.
    pub id: String,
    /// Its number by the driver.
    pub index: u32,
    /// How that is known.
    pub certainty: Certainty,
}

/// For how long of a step one reason held the clocks of its GPU down.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Throttled {
    /// Which.
    pub reason: ThrottleReason,
    /// How long, as well as looks from time to time tell.
    pub ns: u64,
    /// At least so long.
    pub at_least_ns: u64,
    /// At most so long.
    pub at_most_ns: u64,
    /// True where the driver counted it all.
    pub is_counted: bool,
}

impl Throttled {
    /// No time yet.
    pub(crate) const fn none(reason: ThrottleReason) -> Throttled {
        Throttled { reason, ns: 0, at_least_ns: 0, at_most_ns: 0, is_counted: true }
    }
}

impl Step {
    /// What causes are found in; the hardware left out.
    pub(crate) fn facts(&self) -> StepFacts {
        let ns = |ns: u64| ns as f64;
        StepFacts {
            duration_ns: ns(self.duration_ns),
            enqueue_ns: ns(self.enqueue_ns),
            wait_ns: ns(self.wait_ns),
            runq_enqueue_ns: self.run_queue.enqueue_ns.map(ns),
            runq_wait_ns: self.run_queue.wait_ns.map(ns),
            collective_wait_ns: self.collective_wait_ns.map(ns),
            copied_bytes: self.work.copied_bytes() as f64,
            throttle: None,
        }
    }

    /// The share of the duration that the host took, 0 to 1.
    pub fn host_bound_share(&self) -> f64 {
        self.enqueue_ns as f64 / (self.duration_ns as f64).max(1.0)
    }

    /// The kind of the cause with the largest share.
    pub fn cause(&self) -> CauseKind {
        self.causes.first().map_or(CauseKind::None, |cause| cause.kind)
    }
}

/// A lasting change: from here on steps are compared with what was learnt anew.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BaselineShift {
    /// Whose.
    pub process: ProcessId,
    /// In which phase.
    pub phase: Phase,
    /// The end of the step that completed it.
    pub at_ns: u64,
    /// What was usual.
    pub before: Level,
    /// What is now.
    pub after: Level,
}

/// Counts what became of the segments that came in, and what was forgotten to stay within bounds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Segments taken in. Each is in exactly one step, or among `leftover`.
    pub segments: u64,
    /// Steps given out.
    pub steps: u64,
    /// Segments joined to a step that another began.
    pub joined: u64,
    /// Segments of an iteration that never came to its bulk of work before the process ended.
    pub leftover: u64,
    /// Segments missing between the sequence numbers of a stream: their records were lost.
    pub missed: u64,
    /// Streams forgotten to make room.
    pub streams_evicted: u64,
    /// Clusters of shapes forgotten to make room.
    pub clusters_evicted: u64,
    /// Classes of sizes forgotten to make room.
    pub classes_evicted: u64,
    /// Baselines forgotten to make room: of a workload, or kept for one whose process is not there.
    pub baselines_evicted: u64,
    /// Processes forgotten to make room; a workload's own tally has none.
    pub processes_evicted: u64,
}

impl Tally {
    /// Adds what another counted.
    pub fn add(&mut self, other: &Tally) {
        self.segments += other.segments;
        self.steps += other.steps;
        self.joined += other.joined;
        self.leftover += other.leftover;
        self.missed = self.missed.saturating_add(other.missed);
        self.streams_evicted += other.streams_evicted;
        self.clusters_evicted += other.clusters_evicted;
        self.classes_evicted += other.classes_evicted;
        self.baselines_evicted += other.baselines_evicted;
        self.processes_evicted += other.processes_evicted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_every_time_and_differ_with_every_part() {
        let process = ProcessId { pid: 7, start_ns: 9 };
        let id = EventId::of(process, 1, 2, 3);
        assert_eq!(id, EventId::of(process, 1, 2, 3));
        assert_eq!(id.to_string().len(), 16);
        let others = [
            EventId::of(ProcessId { pid: 8, ..process }, 1, 2, 3),
            EventId::of(ProcessId { start_ns: 8, ..process }, 1, 2, 3),
            EventId::of(process, 2, 1, 3),
            EventId::of(process, 1, 3, 2),
            EventId::of(process, 0, 2, 3),
        ];
        assert!(others.iter().all(|other| *other != id));
    }
}
