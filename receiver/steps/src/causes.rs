//! Why a step was slow: its excess over the usual duration, divided among causes with evidence.
//!
//! A cause is a *share of the excess* with its evidence; without evidence there is no cause. The parts of a step, host
//! enqueueing and waiting, each have an excess. The rows of a table ([`explain`]) take their shares of it in turn, measured
//! causes first, so that no nanosecond is attributed twice. Time on the device is not measured and not attributed.
//!
//! A new cause is a row of that table. If it needs a new quantity, that is a variant of [`Quantity`] and a line of
//! [`StepFacts::of`], and a new version of the record format.

mod explain;

pub use explain::explain;
use probe_abi::thread_counter::ThreadCounter;
pub use semconv::value::GpuStepCause as CauseKind;

use crate::finding::Step;

/// The cost of a cause as a multiple of the usual duration.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// Less than half of the usual duration.
    Low,
    /// From half of the usual duration on.
    Medium,
    /// From one and a half of the usual duration on.
    High,
}

impl Severity {
    /// Returns the severity as it is emitted.
    pub const fn name(self) -> &'static str {
        match self {
            Severity::Low => "low",
            Severity::Medium => "medium",
            Severity::High => "high",
        }
    }

    fn of(excess_ns: f64, usual_ns: f64) -> Severity {
        match excess_ns / usual_ns.max(1.0) {
            m if m >= 1.5 => Severity::High,
            m if m >= 0.5 => Severity::Medium,
            _ => Severity::Low,
        }
    }
}

/// The throttling of the GPU's clocks within a step. Durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttle {
    /// The reason.
    pub reason: &'static str,
    /// Estimated duration.
    pub ns: f64,
    /// Lower bound of the duration.
    pub at_least_ns: f64,
    /// Upper bound of the duration.
    pub at_most_ns: f64,
    /// Usual duration in a time as long as the step.
    pub usual_ns: f64,
}

/// A quantity of a step that is compared with its usual value. Durations in nanoseconds.
///
/// The order is that of stored records: append only, and raise the version of [`crate::record::FORMAT`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Quantity {
    /// From the first enqueue to the return of the sync call: [`Quantity::Enqueue`] + [`Quantity::Wait`].
    Duration,
    /// The part in which the host enqueued, or was busy before it waited.
    Enqueue,
    /// The part in which the host waited.
    Wait,
    /// Time the thread was ready to run without a CPU, in the enqueue part.
    RunQueueEnqueue,
    /// Time the thread was ready to run without a CPU, in the wait part.
    RunQueueWait,
    /// Bytes copied between host and device.
    CopiedBytes,
    /// Time waited for ranks that had not arrived at a collective.
    PeerWait,
}

/// The number of quantities.
pub(crate) const QUANTITIES: usize = Quantity::PeerWait as usize + 1;

/// The quantities of one step, as far as they were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFacts {
    values: [Option<f64>; QUANTITIES],
    /// The throttling of its GPU; `None` without throttling or samples.
    throttle: Option<Throttle>,
}

impl StepFacts {
    /// Returns the facts of a step, without throttling.
    pub fn of(step: &Step) -> StepFacts {
        let ns = |ns: u64| ns as f64;
        let run_queue = step.increase(ThreadCounter::RunQueue);
        let values = [
            Some(ns(step.duration_ns)),
            Some(ns(step.enqueue_ns)),
            Some(ns(step.wait_ns)),
            run_queue.enqueue.map(ns),
            run_queue.wait.map(ns),
            Some(step.work.copied_bytes() as f64),
            step.collective_wait_ns.map(ns),
        ];
        StepFacts { values, throttle: None }
    }

    /// Returns the facts with throttling.
    pub fn with_throttle(self, throttle: Throttle) -> StepFacts {
        StepFacts { throttle: Some(throttle), ..self }
    }

    /// Returns a quantity; `None` if it was not measured.
    pub fn measured(&self, quantity: Quantity) -> Option<f64> {
        self.values[quantity as usize]
    }

    /// Returns a quantity; 0 if it was not measured.
    pub fn get(&self, quantity: Quantity) -> f64 {
        self.measured(quantity).unwrap_or(0.0)
    }
}

/// The number of steps that usual quantities are averaged over.
const USUAL_MEMORY: u64 = 128;

/// The usual quantities of the steps that one is compared with: running means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usual {
    /// Steps learnt from; 0 means that nothing can be explained.
    pub(crate) count: u64,
    /// Means in the order of [`Quantity`]; quantities that were not measured count as 0.
    pub(crate) means: [f64; QUANTITIES],
}

impl Usual {
    /// Returns the mean of a quantity.
    pub fn get(&self, quantity: Quantity) -> f64 {
        self.means[quantity as usize]
    }

    /// Learns from a step.
    pub(crate) fn learn(&mut self, step: &StepFacts) {
        self.count += 1;
        let pull = 1.0 / self.count.min(USUAL_MEMORY) as f64;
        for (mean, value) in self.means.iter_mut().zip(step.values) {
            *mean += (value.unwrap_or(0.0) - *mean) * pull;
        }
    }
}

/// One cause of a step's excess.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The kind of cause.
    pub kind: CauseKind,
    /// The share of the excess, 0 to 1. The shares of a step add up to 1 at most.
    pub share: f64,
    /// The share of the excess in nanoseconds.
    pub excess_ns: u64,
    /// The cost in terms of the usual duration.
    pub severity: Severity,
    /// The measured values, as a sentence.
    pub evidence: String,
    /// The recommended action.
    pub advice: &'static str,
}
