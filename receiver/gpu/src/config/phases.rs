//! The keys under `phases`, `baselines` and `outliers`: classification, comparison and judgement of steps.

use config::GoDuration;
use steps::{BaselineKey, BaselineSettings, Classifier, Hint, Rules, Thresholds};

use crate::analyzer::{Settings, WorkloadRule};
use crate::contexts::Relation;

config::section! {
    /// Classification of steps into phases.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PhasesConfig {
        /// Method of the classification.
        pub classifier: ClassifierConfig,
        /// Thresholds of the classifier `rules`.
        pub rules: RulesConfig,
        /// Confidence below which a phase is reported as `unknown`. At 0.5, a label is more likely right than wrong.
        pub min_confidence: f64 = steps::Settings::default().min_confidence => in 0.0..=1.0,
        /// What is known of processes, which their phases follow from. The first entry that matches counts. A process can
        /// say the same of itself, by the variable `WARPTAP_WORKLOAD`.
        pub workloads: Vec<WorkloadConfig>,
    }

    /// What is known of the processes that an entry matches.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct WorkloadConfig {
        /// Names of the executable, the last part of its path. Without any, every name matches.
        pub executable_names: Vec<String>,
        /// Texts of which the command line contains one: the arguments, separated by spaces. Without any, every command
        /// line matches.
        pub command_lines: Vec<String>,
        /// What the processes do.
        pub workload: WorkloadKindConfig,
    }
}

config::choice! {
    /// What a process does.
    #[derive(Default)]
    pub enum WorkloadKindConfig {
        /// It trains a model: its steps are iterations, of phase `train`.
        Training = "training",
        /// It generates tokens: its steps are prefills, decodes and mixed steps.
        #[default]
        Inference = "inference",
        /// It runs models that generate no tokens: its steps are of phase `forward`.
        Forward = "forward",
    }
}

config::choice! {
    /// How phases are distinguished.
    #[derive(Default)]
    pub enum ClassifierConfig {
        /// Compares the steps of a stream with each other.
        #[default]
        Adaptive = "adaptive",
        /// Uses fixed thresholds.
        Rules = "rules",
        /// Does not distinguish phases: every phase is `unknown`.
        None = "none",
    }
}

config::section! {
    /// Thresholds between phases.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct RulesConfig {
        /// A step with one to this many graph launches is a decode.
        pub decode_graph_launches_max: u64 = Thresholds::default().decode_graph_launches_max,
        /// A step without graph launches, or with more, is a decode up to this many threads per launch.
        pub decode_threads_per_launch_max: u64 = Thresholds::default().decode_threads_per_launch_max,
        /// A step is a prefill from this many threads per launch, or mixed if it launches graphs.
        pub prefill_threads_per_launch_min: u64 = Thresholds::default().prefill_threads_per_launch_min,
    }

    /// Grouping of steps that are compared with each other.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct BaselinesConfig {
        /// Properties that the steps of one baseline have in common.
        pub key: Vec<BaselineKeyConfig> = vec![BaselineKeyConfig::Phase],
    }
}

config::choice! {
    /// A property that the steps of one baseline have in common.
    pub enum BaselineKeyConfig {
        /// The phase, which is always part of the key.
        Phase = "phase",
        /// The kernels and graphs that the steps launch.
        Fingerprint = "fingerprint",
    }
}

config::section! {
    /// Detection of outliers.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct OutliersConfig {
        /// Number of steps of a phase before outliers are detected.
        pub warm_up: u32 = BaselineSettings::default().warm_up => in 1..,
        /// Excess over the p95 below which a step is not an outlier.
        pub excess_min: GoDuration = std::time::Duration::from_nanos(BaselineSettings::default().excess_min_ns).into(),
        /// Number of spans that one process may emit at once. Counters are not limited.
        pub spans_burst: u32 = Settings::default().spans_burst,
        /// Number of spans per minute that one process may emit in the long run.
        pub spans_per_minute: u32 = Settings::default().spans_per_minute,
        /// Relation of a step's span to the application's span active on the waiting thread.
        pub trace_context: TraceContextConfig,
    }
}

config::choice! {
    /// The relation of a step's span to the span of the application.
    #[derive(Default)]
    pub enum TraceContextConfig {
        /// A child if the parent is sampled, otherwise the root of a new trace with a link.
        #[default]
        Auto = "auto",
        /// A child, whether the parent is sampled or not.
        Child = "child",
        /// The root of a new trace with a link.
        Link = "link",
        /// No relation. The memory of processes is not read for trace contexts.
        None = "none",
    }
}

impl PhasesConfig {
    /// Returns the classifier.
    pub(super) fn classifier(&self) -> Classifier {
        match (self.classifier, Rules::try_from(self.rules.thresholds())) {
            (ClassifierConfig::None, _) => Classifier::None,
            (ClassifierConfig::Rules, Ok(rules)) => Classifier::Rules(rules),
            _ => Classifier::Adaptive,
        }
    }

    /// Returns what is known of processes.
    pub(super) fn workloads(&self) -> Vec<WorkloadRule> {
        self.workloads.iter().map(WorkloadConfig::rule).collect()
    }
}

impl WorkloadConfig {
    fn rule(&self) -> WorkloadRule {
        WorkloadRule {
            executable_names: self.executable_names.clone(),
            command_lines: self.command_lines.clone(),
            hint: match self.workload {
                WorkloadKindConfig::Training => Hint::Training,
                WorkloadKindConfig::Inference => Hint::Inference,
                WorkloadKindConfig::Forward => Hint::Forward,
            },
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
