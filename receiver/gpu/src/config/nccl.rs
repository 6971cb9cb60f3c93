//! The keys under `nccl`: analysis and tracing of collectives. The defaults suit most jobs.

use config::{GoDuration, Problems};
use nccl::{StragglerSettings, TraceSettings};
use serde::Deserialize;

use crate::collectives::CollectiveSettings;

/// The minimum hang timeout; shorter waits occur on a busy machine.
const HANG_TIMEOUT_MIN_MS: u128 = 100;

/// Analysis and tracing of collectives.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct NcclConfig {
    /// Whether NCCL and RCCL are probed.
    pub enabled: bool,
    /// The maximum number of ranks of communicators with their own series in a process; further ones share one series.
    pub communicators_max: usize,
    /// Time after which a missing rank or an unfinished collective is reported as a hang.
    pub hang_timeout: GoDuration,
    /// Detection of late ranks.
    pub stragglers: StragglersConfig,
    /// Tracing of collectives.
    pub traces: TracesConfig,
}

/// Detection of late ranks and limits of their log records.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct StragglersConfig {
    /// The minimum delay after the median of its peers for a rank to be late.
    pub lateness_min: GoDuration,
    /// The burst of log records of a process. Counters are not limited.
    pub records_burst: u32,
    /// The rate of log records of a process.
    pub records_per_minute: u32,
}

/// Tracing of collectives.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct TracesConfig {
    /// The share of collectives to trace, from 0 to 1; the same ones on every rank and node.
    pub rate: f64,
    /// Traces collectives with at least this skew on the node; 0s disables.
    pub skew_min: GoDuration,
    /// The burst of collectives traced for their skew.
    pub skewed_burst: u32,
    /// The rate of collectives traced for their skew.
    pub skewed_per_minute: u32,
}

impl Default for NcclConfig {
    fn default() -> Self {
        let settings = CollectiveSettings::default();
        NcclConfig {
            enabled: settings.is_enabled,
            communicators_max: settings.communicators_max,
            hang_timeout: duration(settings.engine.hang_timeout_ns),
            stragglers: StragglersConfig::default(),
            traces: TracesConfig::default(),
        }
    }
}

impl Default for StragglersConfig {
    fn default() -> Self {
        let settings = CollectiveSettings::default();
        StragglersConfig {
            lateness_min: duration(settings.engine.straggler.lateness_ns_min),
            records_burst: settings.verdicts_burst,
            records_per_minute: settings.verdicts_per_minute,
        }
    }
}

impl Default for TracesConfig {
    fn default() -> Self {
        let settings = CollectiveSettings::default();
        TracesConfig {
            rate: settings.engine.trace.rate,
            skew_min: duration(settings.engine.trace.skew_ns_min),
            skewed_burst: settings.traces_burst,
            skewed_per_minute: settings.traces_per_minute,
        }
    }
}

impl NcclConfig {
    /// Checks the values.
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        let rate = self.traces.rate;
        problems.require(
            self.communicators_max > 0,
            "nccl::communicators_max",
            "0 communicators: expected at least 1",
        );
        problems.require(
            self.hang_timeout.as_millis() >= HANG_TIMEOUT_MIN_MS,
            "nccl::hang_timeout",
            format!("{:?} is too short: expected at least {HANG_TIMEOUT_MIN_MS}ms", *self.hang_timeout),
        );
        problems.require(
            (0.0..=1.0).contains(&rate),
            "nccl::traces::rate",
            format!("{rate}: expected a share from 0 to 1"),
        );
    }

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
