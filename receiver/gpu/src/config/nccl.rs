//! The keys under `nccl`: how collectives are judged, traced and told. Every default is meant to be left alone.

use config::{GoDuration, Problems};
use nccl::{StragglerSettings, TraceSettings};
use serde::Deserialize;

use crate::collectives::CollectiveSettings;

/// Shorter waits are not told from a busy machine.
const HANG_TIMEOUT_MIN_MS: u128 = 100;

/// How collectives are judged, traced and told.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct NcclConfig {
    /// False where nobody looks at collectives: then their libraries are not probed at all.
    pub enabled: bool,
    /// Ranks of communicators that a process has series of its own for. Further ones share one, and are counted.
    pub communicators_max: usize,
    /// A rank that its peers wait for, or a collective that nobody finishes, is a hang after this time.
    pub hang_timeout: GoDuration,
    /// Which ranks are late.
    pub stragglers: StragglersConfig,
    /// Which collectives become traces.
    pub traces: TracesConfig,
}

/// Which ranks are late, and how often it is told.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct StragglersConfig {
    /// A rank is not late for less than this behind the middle of its peers.
    pub lateness_min: GoDuration,
    /// Verdicts and the like that are told of a process at once. The counters are never limited.
    pub records_burst: u32,
    /// The same in the long run.
    pub records_per_minute: u32,
}

/// Which collectives become traces.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct TracesConfig {
    /// The share of all collectives, from 0 to 1: the same ones on every rank and node.
    pub rate: f64,
    /// And those with at least this from the first rank of this node to the last; 0 for none.
    pub skew_min: GoDuration,
    /// Collectives that are traced for their skew at once.
    pub skewed_burst: u32,
    /// The same in the long run.
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
    /// What is wrong with it.
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

    /// How collectives are analysed and told; of so many processes at a time.
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
