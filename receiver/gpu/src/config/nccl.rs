//! The keys under `nccl`: analysis and tracing of collectives. The defaults suit most jobs.

use config::GoDuration;
use nccl::{StragglerSettings, TraceSettings};

use crate::collectives::CollectiveSettings;

/// The minimum hang timeout; shorter waits occur on a busy machine.
const HANG_TIMEOUT_MIN: GoDuration = GoDuration::from_millis(100);

config::section! {
    /// Analysis of collectives.
    #[derive(Clone, Debug, PartialEq)]
    pub struct NcclConfig {
        /// Whether collectives are analyzed. False attaches no probes to their libraries.
        pub enabled: bool = CollectiveSettings::default().is_enabled,
        /// Largest number of communicator ranks per process with series of their own. Further ones share one series.
        pub communicators_max: usize = CollectiveSettings::default().communicators_max => in 1..,
        /// Time after which a rank that its peers wait for, or an unfinished collective, is a hang.
        pub hang_timeout: GoDuration = duration(CollectiveSettings::default().engine.hang_timeout_ns)
            => in HANG_TIMEOUT_MIN..,
        /// Detection of late ranks.
        pub stragglers: StragglersConfig,
        /// Selection of collectives that become traces.
        pub traces: TracesConfig,
    }

    /// Detection of late ranks.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct StragglersConfig {
        /// Lateness behind the median of its peers from which a rank is a straggler.
        pub lateness_min: GoDuration = duration(CollectiveSettings::default().engine.straggler.lateness_ns_min),
        /// Number of findings that one process may report at once. Counters are not limited.
        pub records_burst: u32 = CollectiveSettings::default().verdicts_burst,
        /// Number of findings per minute that one process may report in the long run.
        pub records_per_minute: u32 = CollectiveSettings::default().verdicts_per_minute,
    }

    /// Selection of collectives that become traces.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TracesConfig {
        /// Share of all collectives: the same ones on every rank and node.
        pub rate: f64 = CollectiveSettings::default().engine.trace.rate => in 0.0..=1.0,
        /// Skew between the first and the last rank of this node from which a collective is traced too. 0 traces none
        /// for its skew.
        pub skew_min: GoDuration = duration(CollectiveSettings::default().engine.trace.skew_ns_min),
        /// Number of collectives that one process may trace for their skew at once.
        pub skewed_burst: u32 = CollectiveSettings::default().traces_burst,
        /// Number of collectives per minute that one process may trace for their skew in the long run.
        pub skewed_per_minute: u32 = CollectiveSettings::default().traces_per_minute,
    }
}

impl NcclConfig {
    /// Returns the settings of the analysis for at most `processes_max` processes.
    pub(super) fn settings(&self, processes_max: usize) -> CollectiveSettings {
        let (NcclConfig { stragglers, traces, .. }, defaults) = (self, CollectiveSettings::default());
        CollectiveSettings {
            is_enabled: self.enabled,
            communicators_max: self.communicators_max,
            verdicts_burst: stragglers.records_burst,
            verdicts_per_minute: stragglers.records_per_minute,
            traces_burst: traces.skewed_burst,
            traces_per_minute: traces.skewed_per_minute,
            engine: nccl::Settings {
                processes_max: processes_max.max(defaults.engine.processes_max),
                hang_timeout_ns: self.hang_timeout.nanoseconds(),
                straggler: StragglerSettings { lateness_ns_min: stragglers.lateness_min.nanoseconds() },
                trace: TraceSettings { rate: traces.rate, skew_ns_min: traces.skew_min.nanoseconds() },
                ..defaults.engine
            },
        }
    }
}

fn duration(ns: u64) -> GoDuration {
    std::time::Duration::from_nanos(ns).into()
}
