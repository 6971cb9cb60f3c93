//! The receiver's section of the configuration, and the settings derived from it.

mod hardware;
mod kernels;
mod nccl;
mod overhead;
mod phases;
mod processes;

use std::path::PathBuf;

use ::hardware::DriverFactory;
use capture::PinSettings;
use component::ComponentId;
use config::{ConfigError, GoDuration, Section};
use probe_abi::detail::Detail;
use steps::{BaselineSettings, Rules};

pub use self::hardware::HardwareConfig;
pub use self::kernels::KernelsConfig;
pub use self::nccl::{NcclConfig, StragglersConfig, TracesConfig};
pub use self::overhead::OverheadConfig;
pub use self::phases::{
    BaselineKeyConfig, BaselinesConfig, ClassifierConfig, OutliersConfig, PhasesConfig, RulesConfig,
    TraceContextConfig,
};
pub use self::processes::ProcessesConfig;
use crate::analyzer::Settings;
use crate::detail::DetailSettings;
use crate::source::Origin;

/// The minimum collection interval; shorter ones cost more than they show.
const INTERVAL_MIN: GoDuration = GoDuration::from_millis(100);

/// The minimum time until pins expire; a restart takes about as long.
const EXPIRE_AFTER_MIN: GoDuration = GoDuration::from_secs(1);

config::section! {
    /// The section of the receiver.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Config {
        /// Interval at which metrics are collected.
        pub collection_interval: GoDuration = GoDuration::from_secs(10) => in INTERVAL_MIN..,
        /// Source of events: the kernel, unless a recording is named.
        pub source: SourceConfig,
        /// Classification of steps into phases.
        pub phases: PhasesConfig,
        /// The GPU functions that processes launch.
        pub kernels: KernelsConfig,
        /// Grouping of steps that are compared with each other.
        pub baselines: BaselinesConfig,
        /// Detection of outliers, and limits of the spans emitted for them.
        pub outliers: OutliersConfig,
        /// Calls that are recorded individually.
        pub detail: DetailConfig,
        /// Analysis of collectives.
        pub nccl: NcclConfig,
        /// Polling of GPU clocks, which explains what slowed outliers down.
        pub hardware: HardwareConfig,
        /// Which processes are traced, by what is known of each when it first uses a GPU library.
        pub processes: ProcessesConfig,
        /// Processes that are captured.
        pub capture: CaptureConfig,
        /// Probes that stay attached while the collector restarts.
        pub pin: PinConfig,
        /// What probes may cost the processes that they are in.
        pub overhead: OverheadConfig,
        /// Largest number of processes with series of their own.
        pub processes_max: usize = Settings::default().processes_max => in 1..,
        /// Id of the extension that persists state across restarts: outstanding collectives of communicators, and
        /// usual durations of steps. Unset persists nothing.
        pub storage: Option<String>,
    }

    /// The source of events.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct SourceConfig {
        /// Recording or profiler trace to read, plain or gzip. Empty captures events from the kernel.
        pub recording: String,
    }

    /// Calls that are recorded individually. Launches are not, since their return is not observed.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct DetailConfig {
        /// Of the calls of a healthy process, one in this many is recorded, and every call of 1ms or longer. 0
        /// records none.
        pub healthy: u64 = Detail::HEALTHY.calls(),
        /// Time for which every call of a process is recorded after a step of twice its p95 or longer. 0s records
        /// none.
        pub trouble: GoDuration = GoDuration::from_secs(30),
    }

    /// Probes that stay attached and continue to count while the collector restarts, in a directory of a bpf file system.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct PinConfig {
        /// Whether probes are pinned. Where the directory cannot be used, the collector logs the reason once and runs
        /// without.
        pub enabled: bool = true,
        /// Directory of the pins, which is created if it is missing. No other user may be able to write to it. One
        /// collector at a time uses it.
        pub path: String = PinSettings::PATH.to_owned(),
        /// Time after which the pins of a collector that has ended are removed, unless another one has started.
        pub expire_after: GoDuration = GoDuration(PinSettings::EXPIRE_AFTER) => in EXPIRE_AFTER_MIN..,
    }

    /// The processes that are captured.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct CaptureConfig {
        /// Whether every process that calls a GPU library is captured.
        pub trace_all: bool = true,
        /// Processes to capture if `trace_all` is false.
        pub pids: Vec<u32>,
        /// Time for which a library stays attached after its last process ended.
        pub linger: GoDuration = GoDuration::from_secs(60),
        /// Whether the kernel expedites its RCU grace periods, on the whole machine, for the milliseconds in which a new
        /// library is probed. Otherwise its first 10 to 40 ms are not observed. Needs write access to
        /// /sys/kernel/rcu_expedited.
        pub expedite: bool = true,
    }
}

impl Config {
    /// Decodes and checks a section; reports all problems.
    pub fn read(section: Section<'_>) -> Result<Config, ConfigError> {
        let (config, mut problems) = section.read::<Config>();
        problems.require(
            config.baselines.key.contains(&BaselineKeyConfig::Phase),
            "baselines::key",
            format!("{:?}: expected `phase` among them", config.baselines.key),
        );
        if let Err(error) = Rules::try_from(config.phases.rules.thresholds()) {
            problems.add("phases::rules", error.to_string());
        }
        config.hardware.check(&mut problems);
        config.processes.check(&mut problems);
        problems.require(
            config.processes.is_everything() || config.capture.pids.is_empty(),
            "processes",
            "the processes to capture are named: expected `processes` or `capture::pids`, not both",
        );
        problems.require(
            config.processes.is_everything() || config.source.recording.is_empty(),
            "processes",
            "all processes of a recording are analysed: expected `processes` or `source::recording`, not both",
        );
        let CaptureConfig { trace_all, pids, .. } = &config.capture;
        problems.require(
            *trace_all == pids.is_empty(),
            "capture::pids",
            format!(
                "{} processes are named and trace_all is {trace_all}: expected one or the other",
                pids.len()
            ),
        );
        if let Some(Err(e)) = config.storage.as_deref().map(ComponentId::parse) {
            problems.add("storage", e.to_string());
        }
        problems.require(
            config.storage.is_none() || config.source.recording.is_empty(),
            "storage",
            "a replayed recording is not persisted: expected `storage` or `source::recording`, not both",
        );
        problems.finish()?;
        Ok(config)
    }

    /// Returns the settings of the analysis.
    pub fn settings(&self) -> Settings {
        let defaults = Settings::default();
        Settings {
            collection_interval_ns: self.collection_interval.nanoseconds(),
            processes_max: self.processes_max,
            spans_burst: self.outliers.spans_burst,
            spans_per_minute: self.outliers.spans_per_minute,
            relation: self.outliers.trace_context.into(),
            workloads: self.phases.workloads(),
            collectives: self.nccl.settings(self.processes_max),
            detail: DetailSettings { trouble_ns: self.detail.trouble.nanoseconds() },
            steps: steps::Settings {
                classifier: self.phases.classifier(),
                min_confidence: self.phases.min_confidence,
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

    /// Returns the source of events.
    pub(crate) fn origin(&self, drivers: &[DriverFactory], guard: &[&str]) -> Origin {
        match self.source.recording.as_str() {
            "" => {
                let capture = capture::Settings { pin: self.pin(guard), ..self.capture() };
                Origin::Kernel(Box::new(capture), self.hardware.settings(drivers))
            }
            path => Origin::File(PathBuf::from(path)),
        }
    }

    /// Returns the storage extension, if one is named.
    pub(crate) fn storage(&self) -> Option<ComponentId> {
        self.storage.as_deref().and_then(|storage| ComponentId::parse(storage).ok())
    }

    /// Returns the settings of pins. They expire by a process that runs this program with the arguments of `guard`.
    fn pin(&self, guard: &[&str]) -> Option<PinSettings> {
        let PinConfig { enabled, path, expire_after } = &self.pin;
        let guard = guard.iter().map(Into::into).collect();
        enabled.then(|| PinSettings { path: path.into(), expire_after: expire_after.0, guard })
    }

    fn capture(&self) -> capture::Settings {
        capture::Settings {
            trace_all: self.capture.trace_all,
            pids: self.capture.pids.clone(),
            selection: self.processes.selection(),
            collectives: self.nccl.enabled,
            totals_every_ns: self.collection_interval.nanoseconds(),
            linger_ns: self.capture.linger.nanoseconds(),
            expedite: self.capture.expedite,
            overhead_budget: self.overhead.share(),
            detail: Detail::one_of(self.detail.healthy),
            contexts: self.outliers.trace_context != TraceContextConfig::None,
            ..capture::Settings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use config::Node;
    use steps::{BaselineKey, Classifier, Thresholds};

    use super::*;
    use crate::contexts::Relation;

    pub(super) fn read(json: &str) -> Result<Config, String> {
        let node: Node = serde_json::from_str(json).unwrap();
        Config::read(Section::new("receivers::gpu", &node)).map_err(|e| e.to_string())
    }

    #[test]
    fn empty_section_is_the_default() {
        assert_eq!(read("null"), Ok(Config::default()));
        assert_eq!(read("{}"), Ok(Config::default()));
        let (config, settings) = (Config::default().settings(), Settings::default());
        assert_eq!(format!("{config:?}"), format!("{settings:?}"));
    }

    #[test]
    fn keys_reach_the_settings() {
        let config = read(
            r#"{"collection_interval": "2s", "phases": {"classifier": "rules", "min_confidence": 0.7,
                "workloads": [{"command_lines": ["train.py"], "workload": "training"}], "rules": {"decode_graph_launches_max": 3}}, "baselines": {"key": ["phase", "fingerprint"]},
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
        assert_eq!((settings.steps.classifier, settings.steps.min_confidence), (rules, 0.7));
        let [rule] = &settings.workloads[..] else { panic!("{:?}", settings.workloads) };
        let runs = |command: &str| {
            rule.matches(&event::ProcessInfo {
                command: command.split(' ').map(str::to_owned).collect(),
                ..event::ProcessInfo::default()
            })
        };
        assert_eq!(
            (rule.hint, runs("python train.py"), runs("python serve.py")),
            (steps::Hint::Training, true, false)
        );
        assert_eq!((config.capture().trace_all, config.capture().pids), (false, vec![7]));
        assert_eq!((config.capture().detail, settings.detail.trouble_ns), (Detail::one_of(7), 3_000_000_000));
        assert_eq!(Config::default().capture().detail, Detail::HEALTHY);
    }

    #[test]
    fn probes_are_pinned_unless_disabled() {
        let pin = |json| read(json).unwrap().pin(&["guard"]);
        let usual = pin("{}").unwrap();
        assert_eq!(
            (usual.path.as_path(), usual.expire_after),
            (Path::new(PinSettings::PATH), PinSettings::EXPIRE_AFTER)
        );
        assert_eq!(usual.guard, ["guard"]);
        let other = pin(r#"{"pin": {"path": "/x", "expire_after": "7s"}}"#).unwrap();
        assert_eq!((other.path.as_path(), other.expire_after.as_secs()), (Path::new("/x"), 7));
        assert_eq!(pin(r#"{"pin": {"enabled": false}}"#), None);
    }

    #[test]
    fn budget_of_all_time_is_none() {
        let budget = |json| read(json).unwrap().capture().overhead_budget;
        let budgets = [budget("{}"), budget(r#"{"overhead": {"budget": "0.5%"}}"#)];
        assert_eq!(budgets, [Some(0.01), Some(0.005)]);
        assert_eq!(budget(r#"{"overhead": {"budget": "100%"}}"#), None);
    }

    #[test]
    fn nccl_is_not_probed_when_disabled() {
        let probes = |json| read(json).unwrap().capture().collectives;
        assert_eq!([probes("{}"), probes(r#"{"nccl": {"enabled": false}}"#)], [true, false]);
    }

    #[test]
    fn wrong_values_are_reported_with_their_path() {
        for (json, want) in [
            (r#"{"collection_intervall": "2s"}"#, "collection_interval"),
            (
                r#"{"collection_interval": "1ms"}"#,
                "collection_interval: 1ms is out of range: expected 100ms or more",
            ),
            (r#"{"processes_max": 0}"#, "processes_max: 0 is out of range: expected 1 or more"),
            (r#"{"outliers": {"warm_up": 0}}"#, "outliers::warm_up: 0 is out of range"),
            (r#"{"phases": {"classifier": "guess"}}"#, "phases::classifier"),
            (r#"{"baselines": {"key": ["fingerprint"]}}"#, "baselines::key: [Fingerprint]: expected `phase`"),
            (r#"{"baselines": {"key": ["pid"]}}"#, "baselines::key"),
            (
                r#"{"phases": {"rules": {"decode_threads_per_launch_max": 9, "prefill_threads_per_launch_min": 9}}}"#,
                "phases::rules: decode_threads_per_launch_max is 9",
            ),
            (
                r#"{"hardware": {"interval": "1ms"}}"#,
                "hardware::interval: 1ms is out of range: expected 10ms or more",
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
            (
                r#"{"overhead": {"budget": "0%"}}"#,
                "overhead::budget: 0% is out of range: expected 0.1% to 100%",
            ),
            (r#"{"overhead": {"budget": "1"}}"#, "\"1\": expected a percentage such as 1%"),
            (r#"{"storage": "file storage"}"#, "storage: "),
            (
                r#"{"storage": "file_storage", "source": {"recording": "x"}}"#,
                "expected `storage` or `source::recording`, not both",
            ),
            (r#"{"nccl": {"communicator_max": 3}}"#, "communicators_max"),
            (r#"{"nccl": {"communicators_max": 0}}"#, "nccl::communicators_max: 0 is out of range"),
            (r#"{"nccl": {"hang_timeout": "1ms"}}"#, "nccl::hang_timeout: 1ms is out of range"),
            (r#"{"nccl": {"traces": {"rate": 2}}}"#, "nccl::traces::rate: 2 is out of range"),
            (r#"{"nccl": {"stragglers": {"lateness_min": "-1s"}}}"#, "lateness_min"),
            (r#"{"pin": {"expire_after": "1ms"}}"#, "pin::expire_after: 1ms is out of range"),
            (r#"{"capture": {"trace_all": false}}"#, "capture::pids: 0 processes are named"),
        ] {
            let error = read(json).unwrap_err();
            assert!(error.contains(want), "{error}");
        }
    }
}
