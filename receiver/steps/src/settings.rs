//! The settings of the engine, and its bounds.

use crate::baseline::BaselineSettings;
use crate::phase::Classifier;

/// Streams remembered for each process. When full, the least recently used one is evicted and counted.
pub const STREAMS_MAX: usize = 64;

/// The settings of an [`crate::Engine`]. Every value is valid; a zero counts as one where zero makes no sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The classifier of phases.
    pub classifier: Classifier,
    /// The confidence below which a phase is unknown, 0 to 1.
    pub min_confidence: f64,
    /// The settings of baselines.
    pub baseline: BaselineSettings,
    /// Processes remembered. When full, the least recently used one is ended, evicted and counted.
    pub processes_max: usize,
    /// When several segments are one step.
    pub joining: Joining,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            classifier: Classifier::default(),
            min_confidence: 0.5,
            baseline: BaselineSettings::default(),
            processes_max: 256,
            joining: Joining::default(),
        }
    }
}

/// When segments are deferred and joined.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Joining {
    /// A sync call shorter than this, ns, did not wait: its work was done before.
    pub unwaited_ns: u64,
    /// Time for which a step is pending, ns, in case a sync call that does not wait follows and belongs to it.
    pub trailing_ns: u64,
    /// The most segments of a new process that are deferred until it is known whether it trains.
    pub undecided_segments: usize,
    /// The longest time for which they are deferred, ns.
    pub undecided_ns: u64,
}

impl Default for Joining {
    fn default() -> Self {
        Joining {
            unwaited_ns: 20_000,
            trailing_ns: 100_000_000,
            undecided_segments: 40,
            undecided_ns: 2_000_000_000,
        }
    }
}
