//! The receiver's section of the configuration, and what the program makes of it.

mod hardware;
mod nccl;
mod phases;

use std::path::PathBuf;

use component::ComponentId;
use config::{ConfigError, GoDuration, Section};
use probe_abi::detail::Detail;
use serde::Deserialize;
use steps::{BaselineSettings, Rules};

pub use self::hardware::HardwareConfig;
pub use self::nccl::{NcclConfig, StragglersConfig, TracesConfig};
pub use self::phases::{
    BaselineKeyConfig, BaselinesConfig, ClassifierConfig, OutliersConfig, PhasesConfig, RulesConfig,
    TraceContextConfig,
};
use crate::analyzer::Settings;
use crate::detail::DetailSettings;
use crate::source::Origin;

/// Collections that follow each other faster than this cost more than they tell.
const INTERVAL_MIN_MS: u128 = 100;

/// What the user writes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct Config {
    /// How often metrics are collected.
    pub collection_interval: GoDuration,
    /// Where events come from.
    pub source: SourceConfig,
    /// How phases are told apart.
    pub phases: PhasesConfig,
    /// Which steps are compared with each other.
    pub baselines: BaselinesConfig,
    /// When a step is an outlier, and how many of them are told one by one.
    pub outliers: OutliersConfig,
    /// Which calls are told one by one.
    pub detail: DetailConfig,
    /// How collectives are judged, traced and told.
    pub nccl: NcclConfig,
    /// Whether the clocks of the GPUs are looked at, for outliers to say what held them down.
    pub hardware: HardwareConfig,
    /// What is watched.
    pub capture: CaptureConfig,
    /// Processes that have series at a time.
    pub processes_max: usize,
    /// The extension that keeps what is to outlive the receiver: what was outstanding on each communicator, and what
    /// steps usually take. Without one nothing is written, and every start begins anew.
    pub storage: Option<String>,
}

/// Where events come from: the kernel, unless a recording is named.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct SourceConfig {
    /// A file with a recording or a profiler trace, plain or gzip.
    pub recording: String,
}

/// Which calls are told one by one. Launches are not: of them no return is seen.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct DetailConfig {
    /// One of so many calls of a process without trouble, and every one that takes a millisecond or longer; 0 none.
    pub healthy: u64,
    /// How long after a step of twice its p95 or more every call of its process is told; 0s never.
    pub trouble: GoDuration,
}

impl Default for DetailConfig {
    fn default() -> Self {
        DetailConfig { healthy: DetailSettings::default().healthy, trouble: GoDuration::from_secs(30) }
    }
}

/// What is watched.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct CaptureConfig {
    /// Every process that calls a GPU library.
    pub trace_all: bool,
    /// These processes alone, where `trace_all` is false.
    pub pids: Vec<u32>,
    /// How long a library stays attached after its last process.
    pub linger: GoDuration,
}

impl Default for Config {
    fn default() -> Self {
        let settings = Settings::default();
        Config {
            collection_interval: GoDuration::from_secs(10),
            source: SourceConfig::default(),
            phases: PhasesConfig::default(),
            baselines: BaselinesConfig::default(),
            outliers: OutliersConfig::default(),
            detail: DetailConfig::default(),
            nccl: NcclConfig::default(),
            hardware: HardwareConfig::default(),
            capture: CaptureConfig::default(),
            processes_max: settings.processes_max,
            storage: None,
        }
    }
}

impl Default for CaptureConfig {
    fn default() -> Self {
        CaptureConfig { trace_all: true, pids: Vec::new(), linger: GoDuration::from_secs(60) }
    }
}

impl Config {
    /// Reads and checks a section.
    pub fn read(section: Section<'_>) -> Result<Config, ConfigError> {
        let config: Config = section.decode()?;
        let mut problems = section.problems();
        let interval = config.collection_interval;
        problems.require(
            interval.as_millis() >= INTERVAL_MIN_MS,
            "collection_interval",
            format!("{:?} is too short: expected at least {INTERVAL_MIN_MS}ms", *interval),
        );
        problems.require(config.processes_max > 0, "processes_max", "0 processes: expected at least 1");
        problems.require(config.outliers.warm_up > 0, "outliers::warm_up", "0 steps: expected at least 1");
        problems.require(
            config.baselines.key.contains(&BaselineKeyConfig::Phase),
            "baselines::key",
            format!("{:?}: expected `phase` among them", config.baselines.key),
        );
        if let Err(error) = Rules::try_from(config.phases.rules.thresholds()) {
            problems.add("phases::rules", error.to_string());
        }
        config.hardware.check(&mut problems);
        let CaptureConfig { trace_all, pids, .. } = &config.capture;
        problems.require(
            *trace_all == pids.is_empty(),
            "capture::pids",
            format!(
                "{} processes are named and trace_all is {trace_all}: expected one or the other",
                pids.len()
            ),
        );
        config.nccl.check(&mut problems);
        if let Some(Err(e)) = config.storage.as_deref().map(ComponentId::parse) {
            problems.add("storage", e.to_string());
        }
        problems.require(
            config.storage.is_none() || config.source.recording.is_empty(),
            "storage",
            "a recording is replayed, and nothing is kept of it: expected `storage` or `source::recording`",
        );
        problems.finish()?;
        Ok(config)
    }

    /// How the analysis works.
    pub fn settings(&self) -> Settings {
        let defaults = Settings::default();
        Settings {
            collection_interval_ns: self.collection_interval.nanoseconds(),
            processes_max: self.processes_max,
            spans_burst: self.outliers.spans_burst,
            spans_per_minute: self.outliers.spans_per_minute,
            relation: self.outliers.trace_context.into(),
            collectives: self.nccl.settings(self.processes_max),
            detail: DetailSettings {
                healthy: self.detail.healthy,
                trouble_ns: self.detail.trouble.nanoseconds(),
            },
            steps: steps::Settings {
                classifier: self.phases.classifier(),
                baseline: BaselineSettings {
                    key: self.baselines.key(),
                    warm_up: self.outliers.warm_up,
                    excess_min_ns: self.outliers.excess_min.nanoseconds(),
                },
                processes_max: self.processes_max,
                ..defaults.steps
            },
            ..defaults
        }
    }

    /// Where events come from.
    pub(crate) fn origin(&self) -> Origin {
        match self.source.recording.as_str() {
            "" => Origin::Kernel(self.capture(), self.hardware.settings()),
            path => Origin::File(PathBuf::from(path)),
        }
    }

    /// The extension that keeps what is to outlive the receiver.
    pub(crate) fn storage(&self) -> Option<ComponentId> {
        self.storage.as_deref().and_then(|storage| ComponentId::parse(storage).ok())
    }

    fn capture(&self) -> capture::Settings {
        capture::Settings {
            trace_all: self.capture.trace_all,
            pids: self.capture.pids.clone(),
            collectives: self.nccl.enabled,
            totals_every_ns: self.collection_interval.nanoseconds(),
            linger_ns: self.capture.linger.nanoseconds(),
            detail: Detail::one_of(self.detail.healthy),
            contexts: self.outliers.trace_context != TraceContextConfig::None,
            ..capture::Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use config::Node;
    use steps::{BaselineKey, Classifier, Thresholds};

    use super::*;
    use crate::contexts::Relation;

    fn read(json: &str) -> Result<Config, String> {
        let node: Node = serde_json::from_str(json).unwrap();
        Config::read(Section::new("receivers::gpu", &node)).map_err(|e| e.to_string())
    }

    #[test]
    fn nothing_written_is_the_default() {
        assert_eq!(read("null"), Ok(Config::default()));
        assert_eq!(read("{}"), Ok(Config::default()));
        let (config, settings) = (Config::default().settings(), Settings::default());
        assert_eq!(format!("{config:?}"), format!("{settings:?}"));
    }

    #[test]
    fn what_is_written_is_what_runs() {
        let config = read(
            r#"{"collection_interval": "2s", "phases": {"classifier": "rules",
                "rules": {"decode_graph_launches_max": 3}}, "baselines": {"key": ["phase", "fingerprint"]},
                "outliers": {"warm_up": 7, "spans_per_minute": 5, "trace_context": "none"},
                "nccl": {"hang_timeout": "5s", "communicators_max": 3, "stragglers": {"lateness_min": "7ms"},
                    "traces": {"rate": 0.5, "skew_min": "1ms", "skewed_per_minute": 2}}, "capture": {"trace_all": false, "pids": [7]},
                "detail": {"healthy": 7, "trouble": "3s"}}"#,
        );
        let config = config.unwrap();
        let settings = config.settings();
        assert_eq!(settings.collection_interval_ns, 2_000_000_000);
        assert_eq!((settings.steps.baseline.warm_up, settings.spans_per_minute), (7, 5));
        assert_eq!((settings.relation, config.capture().contexts), (Relation::None, false));
        assert_eq!(settings.steps.baseline.key, BaselineKey::PhaseAndFingerprint);
        let collectives = settings.collectives;
        assert_eq!((collectives.communicators_max, collectives.traces_per_minute), (3, 2));
        assert_eq!(collectives.engine.hang_timeout_ns, 5_000_000_000);
        assert_eq!(collectives.engine.straggler.lateness_ns_min, 7_000_000);
        let trace = collectives.engine.trace;
        assert_eq!((trace.rate, trace.skew_ns_min), (0.5, 1_000_000));
        let thresholds = Thresholds { decode_graph_launches_max: 3, ..Thresholds::default() };
        let rules = Classifier::Rules(Rules::try_from(thresholds).unwrap());
        assert_eq!(settings.steps.classifier, rules);
        assert_eq!((config.capture().trace_all, config.capture().pids), (false, vec![7]));
        assert_eq!((config.capture().detail, settings.detail.trouble_ns), (Detail::one_of(7), 3_000_000_000));
        assert_eq!(Config::default().capture().detail, Detail::HEALTHY);
    }

    #[test]
    fn where_nobody_looks_at_collectives_their_libraries_are_left_alone() {
        let probes = |json| read(json).unwrap().capture().collectives;
        assert_eq!([probes("{}"), probes(r#"{"nccl": {"enabled": false}}"#)], [true, false]);
    }

    #[test]
    fn every_wrong_value_is_told_with_its_place() {
        for (json, want) in [
            (r#"{"collection_intervall": "2s"}"#, "collection_interval"),
            (
                r#"{"collection_interval": "1ms"}"#,
                "collection_interval: 1ms is too short: expected at least 100ms",
            ),
            (r#"{"processes_max": 0}"#, "processes_max: 0 processes"),
            (r#"{"outliers": {"warm_up": 0}}"#, "outliers::warm_up: 0 steps"),
            (r#"{"phases": {"classifier": "guess"}}"#, "phases::classifier"),
            (r#"{"baselines": {"key": ["fingerprint"]}}"#, "baselines::key: [Fingerprint]: expected `phase`"),
            (r#"{"baselines": {"key": ["pid"]}}"#, "baselines::key"),
            (
                r#"{"phases": {"rules": {"decode_threads_per_launch_max": 9, "prefill_threads_per_launch_min": 9}}}"#,
                "phases::rules: decode_threads_per_launch_max is 9",
            ),
            (
                r#"{"hardware": {"interval": "1ms"}}"#,
                "hardware::interval: 1ms is too short: expected at least 10ms",
            ),
            (
                r#"{"hardware": {"library": ""}}"#,
                "hardware::library: \"\": expected the name or path of a library",
            ),
            (
                r#"{"hardware": {"amdsmi_library": ""}}"#,
                "hardware::amdsmi_library: \"\": expected the name or path of a library",
            ),
            (r#"{"capture": {"pids": [1]}}"#, "capture::pids: 1 processes are named and trace_all is true"),
            (r#"{"storage": "file storage"}"#, "storage: "),
            (
                r#"{"storage": "file_storage", "source": {"recording": "x"}}"#,
                "expected `storage` or `source::recording`",
            ),
            (r#"{"nccl": {"communicator_max": 3}}"#, "communicators_max"),
            (r#"{"nccl": {"communicators_max": 0}}"#, "nccl::communicators_max: 0 communicators"),
            (r#"{"nccl": {"hang_timeout": "1ms"}}"#, "nccl::hang_timeout: 1ms is too short"),
            (r#"{"nccl": {"traces": {"rate": 2}}}"#, "nccl::traces::rate: 2: expected a share from 0 to 1"),
            (r#"{"nccl": {"stragglers": {"lateness_min": "-1s"}}}"#, "lateness_min"),
            (r#"{"capture": {"trace_all": false}}"#, "capture::pids: 0 processes are named"),
        ] {
            let told = read(json).unwrap_err();
            assert!(told.contains(want), "{told}");
        }
    }
}
