//! How the engine is set, and its bounds.

use crate::baseline::BaselineSettings;
use crate::phase::Classifier;

/// Streams of a process that are remembered. Full: the one unused longest makes room, counted.
pub const STREAMS_MAX: usize = 64;

/// How an engine works. Every value is possible; zeros count as ones where none is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How phases are told apart.
    pub classifier: Classifier,
    /// How baselines are learnt and applied.
    pub baseline: BaselineSettings,
    /// Processes remembered. Full: the one silent longest is finished and makes room, counted.
    pub processes_max: usize,
    /// What makes one step of several segments.
    pub joining: Joining,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            classifier: Classifier::default(),
            baseline: BaselineSettings::default(),
            processes_max: 256,
            joining: Joining::default(),
        }
    }
}

/// When segments are held back and put together.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Joining {
    /// A closer that took less than this, ns, did not wait: its work was done before.
    pub unwaited_ns: u64,
    /// A step is held back for this long, ns, in case a closer that did not wait follows and belongs to it.
    pub trailing_ns: u64,
    /// Segments of a new process that are held back, at most, until it is known whether it trains...
    pub undecided_segments: usize,
    /// ... and for how long at most, ns.
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
