//! How an analysis works, and what it shows on the way.

use steps::Finding;

use crate::collectives::CollectiveSettings;
use crate::contexts::Relation;
use crate::detail::DetailSettings;

/// Something found, shown on its way into telemetry.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// Of steps.
    Step(&'a Finding),
    /// Of collectives.
    Collective(&'a nccl::Finding),
}

/// Is shown everything that is found.
pub type Look<'a> = &'a mut dyn FnMut(Found<'_>);

/// How an analysis works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often metrics are collected, in event time; 0 counts as 1.
    pub collection_interval_ns: u64,
    /// What is said of the machine on every resource: `host.name` and the like.
    pub host: Vec<(String, String)>,
    /// Processes that have series at a time.
    pub processes_max: usize,
    /// Spans that a process may emit at once.
    pub spans_burst: u32,
    /// Spans that a process may emit in the long run.
    pub spans_per_minute: u32,
    /// What an outlier's span is to the span that was active on its thread.
    pub relation: Relation,
    /// How steps are classified and judged.
    pub steps: steps::Settings,
    /// Analysis of collectives.
    pub collectives: CollectiveSettings,
    /// Recording of all calls of a troubled process.
    pub detail: DetailSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            collection_interval_ns: 10_000_000_000,
            host: Vec::new(),
            processes_max: 256,
            spans_burst: 10,
            spans_per_minute: 30,
            relation: Relation::default(),
            steps: steps::Settings::default(),
            collectives: CollectiveSettings::default(),
            detail: DetailSettings::default(),
        }
    }
}
