//! The findings of the engine: steps with a verdict, and lasting changes of a baseline.

use std::fmt;

use event::{ProcessId, ThrottleReason};
use probe_abi::fold::mix;
use probe_abi::function::{LANES, Signature};
use probe_abi::thread_counter::{THREAD_COUNTERS, ThreadCounter};
pub use semconv::value::GpuStepGpuCertainty as Certainty;

use crate::baseline::{BaselineLevel, Outlier};
use crate::causes::{Cause, CauseKind, StepFacts, Usual};
use crate::phase::Phase;
use crate::shape::StepWork;
use crate::throttling::ThrottleShares;

/// A finding about the steps of a process.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all findings are steps, and a box for each would be an allocation a step"
)]
pub enum Finding {
    /// A step has ended.
    Step(Step),
    /// The baseline of a workload and phase has changed for good.
    BaselineShift(BaselineShift),
}

/// The id of a step on every signal about it: a hash of its process and position.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct EventId(pub u64);

impl EventId {
    /// Returns the id of the step of `process` on stream number `stream` that has this sequence number of the kernel and
    /// ended at `end_ns`. The end is part of it because stream numbers are reused.
    pub fn of(process: ProcessId, stream: u32, sequence: u64, end_ns: u64) -> EventId {
        let parts = [u64::from(process.pid), process.start_ns, u64::from(stream), sequence, end_ns];
        // Mixed one after the other, so that exchanged numbers give another id.
        EventId(
            parts
                .into_iter()
                .fold(0x77_61_72_70_74_61_70, |hash, part| mix(hash ^ mix(part.wrapping_add(hash)))),
        )
    }
}

impl fmt::Display for EventId {
    /// Writes sixteen hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// Increase of a [`ThreadCounter`] in each part of a step; `None` if not measured.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Increase {
    /// Before the step's first work was enqueued.
    pub gap: Option<u64>,
    /// From the first enqueue until the sync call was entered.
    pub enqueue: Option<u64>,
    /// Within the sync call.
    pub wait: Option<u64>,
}

/// One turn of a workload. Times are CLOCK_MONOTONIC nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The id on every signal about it.
    pub id: EventId,
    /// Identity of the process.
    pub process: ProcessId,
    /// The stream with most of the work: a small number, constant while the stream is remembered.
    pub stream: u32,
    /// The kernel's sequence number on that stream, of the first segment.
    pub sequence: u64,
    /// The thread that called the sync call.
    pub thread: u32,
    /// The thread that enqueued the first work.
    pub first_thread: u32,
    /// The device by its number in the process; -1 if not known.
    pub device: i32,
    /// When the first work was enqueued.
    pub start_ns: u64,
    /// When the sync call returned.
    pub end_ns: u64,
    /// From the return of the previous sync call to `start_ns`; 0 if work was enqueued before it, or there was none.
    pub gap_ns: u64,
    /// The part in which the host enqueued, or was busy before it waited.
    pub enqueue_ns: u64,
    /// The part in which the host waited, in all sync calls of the step.
    pub wait_ns: u64,
    /// `enqueue_ns + wait_ns`.
    pub duration_ns: u64,
    /// The work enqueued.
    pub work: StepWork,
    /// Launches by lane ([`probe_abi::function`]): of one function each in processes of few functions. Lists of lanes are
    /// [`Step::top_lanes`] and [`Step::unusual_lanes`].
    pub signature: Signature,
    /// Lanes, one bit each, that the step launched and the steps of its phase usually do not; 0 before their usual lanes are
    /// known.
    pub unusual: u64,
    /// Segments that the step was assembled from.
    pub segments: u32,
    /// Increases of the thread counters, by [`ThreadCounter`].
    pub increases: [Increase; THREAD_COUNTERS],
    /// Time within `wait_ns` in which it waited for ranks that had not arrived at a collective; `None` if its process
    /// has no collectives.
    pub collective_wait_ns: Option<u64>,
    /// False if the first enqueue is further back than was remembered: `start_ns` is then too late.
    pub is_start_known: bool,
    /// True if no sync call ended it, but the end of its stream, process or source. Such a step is never judged.
    pub is_unfinished: bool,
    /// True if no sync call ended it: it is a training iteration that ended where the next one began, with an enqueue.
    pub is_end_inferred: bool,
    /// Inferred phase of the step.
    pub phase: Phase,
    /// The confidence in the phase, 0 to 1: the share of labels of this confidence that are right.
    pub confidence: f64,
    /// The baseline it was compared with; `None` during the warm-up and for unfinished steps.
    pub baseline: Option<BaselineLevel>,
    /// Its duration as a multiple of the baseline's p95; 0 without baseline.
    pub ratio: f64,
    /// The outlier bucket.
    pub outlier: Outlier,
    /// The usual quantities when it ended, for outliers.
    pub usual: Usual,
    /// The GPU, for outliers whose GPU is polled.
    pub gpu: Option<Gpu>,
    /// The throttling of that GPU during the step, longest first.
    pub throttled: Vec<Throttled>,
    /// The usual shares of throttling when it ended, for outliers.
    pub usually_throttled: ThrottleShares,
    /// The causes of an outlier, largest share first.
    pub causes: Vec<Cause>,
}

/// The GPU that a step ran on.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Id of the GPU, `GPU-<uuid>`.
    pub id: String,
    /// The driver's index.
    pub index: u32,
    /// The evidence for the attribution.
    pub certainty: Certainty,
}

/// The time of a step in which one reason throttled the clocks of its GPU.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Throttled {
    /// Reason for which clocks were throttled.
    pub reason: ThrottleReason,
    /// Estimate from periodic samples, ns.
    pub ns: u64,
    /// Lower bound, ns.
    pub at_least_ns: u64,
    /// Upper bound, ns.
    pub at_most_ns: u64,
    /// True if the driver counted all of the time.
    pub is_counted: bool,
}

impl Throttled {
    /// Returns a duration of 0.
    pub(crate) const fn none(reason: ThrottleReason) -> Throttled {
        Throttled { reason, ns: 0, at_least_ns: 0, at_most_ns: 0, is_counted: true }
    }
}

impl Step {
    /// Returns the quantities in which causes are found, without throttling.
    pub(crate) fn facts(&self) -> StepFacts {
        StepFacts::of(self)
    }

    /// Returns the lanes with most launches and their launches, most first, at most `count`.
    pub fn top_lanes(&self, count: usize) -> Vec<(u32, u64)> {
        let launches = |lane| (lane, self.signature.launches(lane));
        let mut lanes: Vec<_> = (0..LANES).map(launches).filter(|(_, launches)| *launches > 0).collect();
        lanes.sort_by_key(|(lane, launches)| (std::cmp::Reverse(*launches), *lane));
        lanes.truncate(count);
        lanes
    }

    /// Returns the lanes that the step launched and the steps of its phase usually do not, sorted.
    pub fn unusual_lanes(&self) -> impl Iterator<Item = u32> + use<> {
        let unusual = self.unusual;
        (0..LANES).filter(move |lane| unusual & 1 << lane != 0)
    }

    /// Returns the increase of a thread counter.
    pub fn increase(&self, counter: ThreadCounter) -> &Increase {
        &self.increases[counter as usize]
    }

    /// Returns the share of the duration that the host took, 0 to 1.
    pub fn host_bound_share(&self) -> f64 {
        self.enqueue_ns as f64 / (self.duration_ns as f64).max(1.0)
    }

    /// Returns the kind of the cause with the largest share.
    pub fn cause(&self) -> CauseKind {
        self.causes.first().map_or(CauseKind::None, |cause| cause.kind)
    }
}

/// A lasting change of a baseline: later steps are compared with a baseline that is learnt from the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BaselineShift {
    /// Identity of the process.
    pub process: ProcessId,
    /// Inferred phase of the step.
    pub phase: Phase,
    /// When the step that completed the change ended.
    pub at_ns: u64,
    /// The level before.
    pub before: BaselineLevel,
    /// The level from now on.
    pub after: BaselineLevel,
}

/// Counts of segments by what became of them, and of evictions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StepTally {
    /// Segments received. Each is in exactly one step, or counted by `leftover` or `unarmed`.
    pub segments: u64,
    /// Number of steps compared with a baseline.
    pub steps: u64,
    /// Segments after the first of their step.
    pub joined: u64,
    /// Segments left out because part of their work was enqueued before all libraries of the process were probed.
    pub unarmed: u64,
    /// Segments of a training iteration that was incomplete when the process ended.
    pub leftover: u64,
    /// Segments whose records were lost: gaps between the sequence numbers of a stream.
    pub missed: u64,
    /// Number of evicted streams.
    pub streams_evicted: u64,
    /// Clusters of shapes evicted.
    pub clusters_evicted: u64,
    /// Size classes evicted.
    pub classes_evicted: u64,
    /// Baselines evicted, of workloads with and without a running process.
    pub baselines_evicted: u64,
    /// Number of evicted processes.
    pub processes_evicted: u64,
}

impl StepTally {
    /// Adds other counts.
    pub fn add(&mut self, other: &StepTally) {
        self.segments += other.segments;
        self.steps += other.steps;
        self.joined += other.joined;
        self.unarmed += other.unarmed;
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
    fn ids_are_stable_and_differ_by_every_part() {
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
