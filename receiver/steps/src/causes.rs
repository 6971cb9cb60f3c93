//! Why a step was slow: its excess over what is usual, divided among the causes that there is evidence for.
//!
//! The one idea: a cause is a *share of the excess* with the evidence beside it; no evidence, no cause. The parts
//! of a step (host enqueueing, waiting) have an excess each, and the rows of a table take their share of them one
//! after the other, what was measured directly first, so that no nanosecond is blamed twice.
//!
//! Pure: no clock, no state. Knows nothing of streams, phases or baselines; `steps` brings both sides of the
//! comparison. What nobody measured (device time) is not blamed here.

mod explain;

pub use explain::explain;
pub use semconv::value::GpuStepCause as CauseKind;

/// How much a cause costs, as a multiple of the usual duration.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Severity {
    /// Less than half of it.
    Low,
    /// From half of it on.
    Medium,
    /// From one and a half on.
    High,
}

impl Severity {
    /// The severity as an attribute value.
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

/// For how long a reason held down the clocks of the GPU that a step ran on, within the step. Durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Throttle {
    /// The reason that did it longest.
    pub reason: &'static str,
    /// How long, as well as it is known.
    pub ns: f64,
    /// At least so long.
    pub at_least_ns: f64,
    /// At most so long.
    pub at_most_ns: f64,
    /// How long that is in a time like the step's, usually.
    pub usual_ns: f64,
}

/// One step, as far as causes are concerned. Durations in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFacts {
    /// From the first enqueue to the return of the closer: `enqueue_ns + wait_ns`.
    pub duration_ns: f64,
    /// The part in which the host enqueued, or did something else before it waited.
    pub enqueue_ns: f64,
    /// The part in which it waited.
    pub wait_ns: f64,
    /// Time the thread was ready to run and had no CPU, in the first part; `None` where it was not seen.
    pub runq_enqueue_ns: Option<f64>,
    /// The same in the second part.
    pub runq_wait_ns: Option<f64>,
    /// Time in which it waited for ranks that had not come yet; `None` where its process has no collectives.
    pub collective_wait_ns: Option<f64>,
    /// Bytes copied, whatever the direction.
    pub copied_bytes: f64,
    /// What held its GPU's clocks down; `None` where they were not, or nobody looked.
    pub throttle: Option<Throttle>,
}

/// The same quantities, averaged over the steps that this one is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usual {
    /// Steps behind the averages; 0 means that nothing is known and nothing explained.
    pub count: u64,
    /// Mean of [`StepFacts::duration_ns`].
    pub duration_ns: f64,
    /// Mean of [`StepFacts::enqueue_ns`].
    pub enqueue_ns: f64,
    /// Mean of [`StepFacts::wait_ns`].
    pub wait_ns: f64,
    /// Mean of [`StepFacts::runq_enqueue_ns`] where it was seen, else 0.
    pub runq_enqueue_ns: f64,
    /// Mean of [`StepFacts::runq_wait_ns`] where it was seen, else 0.
    pub runq_wait_ns: f64,
    /// Mean of [`StepFacts::collective_wait_ns`] where it was seen, else 0.
    pub collective_wait_ns: f64,
    /// Mean of [`StepFacts::copied_bytes`].
    pub copied_bytes: f64,
}

/// One reason for a step's excess.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What it is.
    pub kind: CauseKind,
    /// Its share of the excess, 0 to 1. The shares of a step's causes add up to 1 at most.
    pub share: f64,
    /// The same in nanoseconds.
    pub excess_ns: u64,
    /// How much it costs.
    pub severity: Severity,
    /// What was seen, with figures.
    pub evidence: String,
    /// What to look at, or to do.
    pub advice: &'static str,
}
