//! The keys under `phases`, `baselines` and `outliers`: classification, comparison and judgement of steps.

use config::GoDuration;
use serde::Deserialize;
use steps::{BaselineKey, BaselineSettings, Classifier, Rules, Thresholds};

use crate::analyzer::Settings;
use crate::contexts::Relation;

/// Classification of phases.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct PhasesConfig {
    /// The classifier.
    pub classifier: ClassifierConfig,
    /// The thresholds of the classifier `rules`.
    pub rules: RulesConfig,
}

/// A classifier of phases.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum ClassifierConfig {
    /// Compares the steps of a stream with each other.
    #[default]
    Adaptive,
    /// Applies thresholds.
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
    /// A step with at least this many threads per launch is a prefill, or mixed if it launches graphs.
    pub prefill_threads_per_launch_min: u64,
}

/// Grouping of steps into baselines.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct BaselinesConfig {
    /// Properties that the steps of one baseline have in common.
    pub key: Vec<BaselineKeyConfig>,
}

/// A property that the steps of one baseline have in common.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKeyConfig {
    /// The phase; required.
    Phase,
    /// The launched kernels and graphs.
    Fingerprint,
}

/// Detection of outliers and limits of their spans.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct OutliersConfig {
    /// Number of steps of a phase before outliers are detected.
    pub warm_up: u32,
    /// The minimum excess over the p95 for a step to be an outlier.
    pub excess_min: GoDuration,
    /// The burst of outlier spans of a process.
    pub spans_burst: u32,
    /// The rate of outlier spans of a process. Counters are not limited.
    pub spans_per_minute: u32,
    /// Relation of an outlier's span to the application's active span on the waiting thread.
    pub trace_context: TraceContextConfig,
}

/// Relation of an outlier's span to the application's span.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum TraceContextConfig {
    /// A child if the application's span is sampled, otherwise a root span with a link.
    #[default]
    Auto,
    /// A child, whether the application's span is sampled or not.
    Child,
    /// A root span with a link.
    Link,
    /// No relation; trace contexts are not read.
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
    /// Returns the classifier.
    pub(super) fn classifier(&self) -> Classifier {
        match (self.classifier, Rules::try_from(self.rules.thresholds())) {
            (ClassifierConfig::Rules, Ok(rules)) => Classifier::Rules(rules),
            _ => Classifier::Adaptive,
        }
    }
}

impl BaselinesConfig {
    /// Returns the key of baselines.
    pub(super) fn key(&self) -> BaselineKey {
        match self.key.contains(&BaselineKeyConfig::Fingerprint) {
            true => BaselineKey::PhaseAndFingerprint,
            false => BaselineKey::Phase,
        }
    }
}

impl RulesConfig {
    /// Returns the thresholds in the form of `steps`.
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
