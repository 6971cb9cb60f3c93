//! The keys under `phases`, `baselines` and `outliers`: how steps are told apart, compared and judged.

use config::GoDuration;
use serde::Deserialize;
use steps::{BaselineKey, BaselineSettings, Classifier, Rules, Thresholds};

use crate::analyzer::Settings;
use crate::contexts::Relation;

/// How phases are told apart.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct PhasesConfig {
    /// Which way.
    pub classifier: ClassifierConfig,
    /// The thresholds of `rules`.
    pub rules: RulesConfig,
}

/// A way to tell phases apart.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum ClassifierConfig {
    /// By comparing the steps of a stream with each other.
    #[default]
    Adaptive,
    /// By thresholds.
    Rules,
}

/// Thresholds between phases.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct RulesConfig {
    /// A step with one to this many graph launches is a decode.
    pub decode_graph_launches_max: u64,
    /// A step without graphs, or with more, is a decode up to this many threads per launch.
    pub decode_threads_per_launch_max: u64,
    /// From this many threads per launch on it is a prefill, or mixed where it launches graphs.
    pub prefill_threads_per_launch_min: u64,
}

/// Which steps are compared with each other.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct BaselinesConfig {
    /// What the steps of one baseline have in common.
    pub key: Vec<BaselineKeyConfig>,
}

/// Something that the steps of one baseline have in common.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKeyConfig {
    /// The phase: always.
    Phase,
    /// The kernels and graphs that they launch.
    Fingerprint,
}

/// When a step is an outlier, and how many of them are told one by one.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct OutliersConfig {
    /// Steps of a phase before anything is judged.
    pub warm_up: u32,
    /// A step is no outlier for less than this over the p95.
    pub excess_min: GoDuration,
    /// Spans that a process may emit at once.
    pub spans_burst: u32,
    /// Spans that a process may emit in the long run. The counters are never limited.
    pub spans_per_minute: u32,
    /// What a step's span is to the application's own span that was active on the thread that waited.
    pub trace_context: TraceContextConfig,
}

/// What a step's span is to the application's own.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum TraceContextConfig {
    /// Its child where that is sampled, else the root of a trace of its own, with a link.
    #[default]
    Auto,
    /// Its child, sampled or not.
    Child,
    /// The root of a trace of its own, with a link.
    Link,
    /// Nothing: no process is looked into for what its threads publish.
    None,
}

impl Default for RulesConfig {
    fn default() -> Self {
        let preset = Thresholds::default();
        RulesConfig {
            decode_graph_launches_max: preset.decode_graph_launches_max,
            decode_threads_per_launch_max: preset.decode_threads_per_launch_max,
            prefill_threads_per_launch_min: preset.prefill_threads_per_launch_min,
        }
    }
}

impl Default for BaselinesConfig {
    fn default() -> Self {
        BaselinesConfig { key: vec![BaselineKeyConfig::Phase] }
    }
}

impl Default for OutliersConfig {
    fn default() -> Self {
        let (settings, baseline) = (Settings::default(), BaselineSettings::default());
        OutliersConfig {
            warm_up: baseline.warm_up,
            excess_min: std::time::Duration::from_nanos(baseline.excess_min_ns).into(),
            spans_burst: settings.spans_burst,
            spans_per_minute: settings.spans_per_minute,
            trace_context: TraceContextConfig::default(),
        }
    }
}

impl PhasesConfig {
    /// What tells phases apart.
    pub(super) fn classifier(&self) -> Classifier {
        match (self.classifier, Rules::try_from(self.rules.thresholds())) {
            (ClassifierConfig::Rules, Ok(rules)) => Classifier::Rules(rules),
            _ => Classifier::Adaptive,
        }
    }
}

impl BaselinesConfig {
    /// What baselines are kept by.
    pub(super) fn key(&self) -> BaselineKey {
        match self.key.contains(&BaselineKeyConfig::Fingerprint) {
            true => BaselineKey::PhaseAndFingerprint,
            false => BaselineKey::Phase,
        }
    }
}

impl RulesConfig {
    /// As `steps` has them.
    pub(super) fn thresholds(&self) -> Thresholds {
        Thresholds {
            decode_graph_launches_max: self.decode_graph_launches_max,
            decode_threads_per_launch_max: self.decode_threads_per_launch_max,
            prefill_threads_per_launch_min: self.prefill_threads_per_launch_min,
        }
    }
}

impl From<TraceContextConfig> for Relation {
    fn from(config: TraceContextConfig) -> Relation {
        match config {
            TraceContextConfig::Auto => Relation::Auto,
            TraceContextConfig::Child => Relation::Child,
            TraceContextConfig::Link => Relation::Link,
            TraceContextConfig::None => Relation::None,
        }
    }
}
