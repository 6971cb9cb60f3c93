//! The section `service`: pipelines and extensions. Its telemetry is in [`super::telemetry`].

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use component::ComponentId;
use config::{Key, Node, Position, Problem, Section, Seen, Setting, Value, nearest};
use pdata::Signal;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};

use super::sections::ComponentKind;
use super::telemetry::{TelemetryConfig, TelemetryKeys};

/// The configured service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The pipelines, in the order of the file.
    pub pipelines: Vec<Pipeline>,
    /// The extensions, in the order in which they start.
    pub extensions: Vec<Reference>,
    /// Why the privileges that nothing uses are kept; empty if they are dropped.
    pub keep_privileges: String,
    /// Telemetry of the collector about itself.
    pub telemetry: TelemetryConfig,
    /// The Collector that runs what this one lacks.
    pub collector: CollectorConfig,
}

/// A configured pipeline.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// The id of the pipeline.
    pub id: PipelineId,
    /// The path in the configuration, such as `service::pipelines::traces`.
    pub path: String,
    /// The receivers, or connectors, whose data it gets.
    pub receivers: Vec<Reference>,
    /// The processors, in order.
    pub processors: Vec<Reference>,
    /// The exporters, or connectors, that get its data.
    pub exporters: Vec<Reference>,
}

impl Pipeline {
    /// Returns the references to components of one kind.
    pub fn references(&self, kind: ComponentKind) -> &[Reference] {
        match kind {
            ComponentKind::Receiver => &self.receivers,
            ComponentKind::Processor => &self.processors,
            ComponentKind::Exporter => &self.exporters,
            ComponentKind::Connector | ComponentKind::Extension => &[],
        }
    }
}

/// A reference to a component.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The id of the component.
    pub id: ComponentId,
    /// The position of the reference.
    pub position: Position,
}

/// The id of a pipeline: a signal and an optional name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PipelineId {
    /// The signal of the pipeline.
    pub signal: Signal,
    /// The name after the slash; empty if there is none.
    pub name: String,
}

impl PipelineId {
    /// Parses `signal` or `signal/name`, ignoring white space around both.
    pub fn parse(text: &str) -> Result<Self, String> {
        // Signals have the syntax of component types, and names that of component names.
        let id = ComponentId::parse(text).map_err(|e| e.to_string())?;
        let signal = Signal::ALL.into_iter().find(|s| s.name() == id.kind());
        let signal = signal.ok_or_else(|| unknown_signal(text, id.kind()))?;
        Ok(PipelineId { signal, name: id.name().to_owned() })
    }
}

fn unknown_signal(text: &str, kind: &str) -> String {
    let names = Signal::ALL.map(Signal::name);
    let hint = nearest(kind, names).map(|name| format!(" (did you mean {name:?}?)")).unwrap_or_default();
    format!("in {text:?} id: unknown pipeline signal: {kind:?}: expected one of {}{hint}", names.join(", "))
}

impl fmt::Display for PipelineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => f.write_str(self.signal.name()),
            name => write!(f, "{}/{name}", self.signal.name()),
        }
    }
}

config::choice! {
    /// The minimum severity of logged messages, as in the Collector.
    #[derive(Default, Ord, PartialOrd)]
    pub enum LogLevel {
        /// Logs everything.
        Debug = "debug" | "DEBUG",
        /// Logs changes of state and above.
        #[default]
        Info = "info" | "INFO",
        /// Logs irregularities and above.
        Warn = "warn" | "WARN",
        /// Logs failures. Levels above error are treated as error.
        Error = "error" | "ERROR" | "dpanic" | "DPANIC" | "panic" | "PANIC" | "fatal" | "FATAL",
    }
}

impl Service {
    /// Reads the section; adds problems. Warns in `seen` of keys without effect.
    pub(super) fn read(root: &Node, seen: Option<&Seen>, problems: &mut Vec<Problem>) -> Self {
        let Some(node) = root.get("service") else { return Service::default() };
        let keys: ServiceKeys = noted(Section::new("service", node), problems);
        let extensions = references("service", "extensions", &keys.extensions, node, problems);
        let pipelines = read_pipelines(node, problems);
        let telemetry = node.get("telemetry").map(|node| {
            let section = Section::new("service::telemetry", node).noting(seen);
            let (telemetry, error) = TelemetryConfig::read(section);
            problems.extend(error.into_problems());
            telemetry
        });
        let ServiceKeys { keep_privileges, collector, .. } = keys;
        Service {
            pipelines,
            extensions,
            keep_privileges,
            telemetry: telemetry.unwrap_or_default(),
            collector,
        }
    }

    /// Returns the ids of the extensions and of the components in pipelines, in which a connector is an exporter and a receiver.
    pub fn components(&self) -> Vec<(ComponentKind, ComponentId)> {
        let extensions = self.extensions.iter().map(|r| (ComponentKind::Extension, r));
        let of = |kind| self.pipelines.iter().flat_map(move |p| p.references(kind)).map(move |r| (kind, r));
        let kinds = [ComponentKind::Exporter, ComponentKind::Processor, ComponentKind::Receiver];
        let all = extensions.chain(kinds.into_iter().flat_map(of));
        all.map(|(kind, reference)| (kind, reference.id.clone())).collect()
    }
}

config::section! {
    /// The keys of the section.
    pub struct ServiceKeys {
        /// The OpenTelemetry Collector that runs the components which warptap does not have.
        collector: CollectorConfig,
        /// Ids of the extensions to start, in this order.
        extensions: Vec<String>,
        /// A reason to keep the privileges that no component uses when the collector starts. Unless there is one, it drops
        /// their capabilities, and refuses itself system calls that it never makes. A change takes effect at the next start.
        keep_privileges: String,
        /// Pipelines by id: `traces`, `metrics`, `logs` or `profiles`, with a name after a slash if there are several.
        pipelines: Nested<BTreeMap<String, PipelineKeys>>,
        /// Telemetry of the collector itself.
        telemetry: Nested<TelemetryKeys>,
    }

    /// The section `collector`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CollectorConfig {
        /// The program, such as `/usr/bin/otelcol-contrib`; the flag `--collector` takes precedence. Without one, a component that
        /// warptap does not have is an error.
        pub path: String,
        /// Largest memory of the Collector in MiB, beyond which it ends and is started again; 0 for no limit.
        pub memory_limit_mib: u64,
        /// Largest number of cores that it uses at once; 0 for no limit.
        pub cpus: u64,
    }

    /// The keys of a pipeline.
    struct PipelineKeys {
        /// Ids of the receivers and connectors that data comes from, at least one.
        receivers: Vec<String>,
        /// Ids of the processors, in this order.
        processors: Vec<String>,
        /// Ids of the exporters and connectors that data is sent to, at least one.
        exporters: Vec<String>,
    }
}

/// A part of a section that is read on its own, with its keys.
#[derive(Default)]
pub(super) struct Nested<T>(PhantomData<T>);

impl<T: Setting> Setting for Nested<T> {
    fn kind() -> String {
        T::kind()
    }

    fn shown(&self) -> String {
        String::new()
    }

    fn own_keys() -> Vec<Key> {
        T::own_keys()
    }
}

impl<'de, T> Deserialize<'de> for Nested<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Nested(PhantomData))
    }
}

/// Decodes a section; on errors, adds problems and returns the defaults.
fn noted<T: Default + for<'de> Deserialize<'de>>(section: Section<'_>, problems: &mut Vec<Problem>) -> T {
    section.decode().unwrap_or_else(|error| {
        problems.extend(error.into_problems());
        T::default()
    })
}

fn read_pipelines(service: &Node, problems: &mut Vec<Problem>) -> Vec<Pipeline> {
    let entries = service.get("pipelines").map(Node::entries).unwrap_or_default();
    let mut pipelines: Vec<Pipeline> = Vec::new();
    for entry in entries {
        let path = format!("service::pipelines::{}", entry.key);
        let keys: PipelineKeys = noted(Section::new(&path, &entry.value), problems);
        let id = match PipelineId::parse(&entry.key) {
            Ok(id) if pipelines.iter().any(|p| p.id == id) => {
                Err(format!("duplicate name {:?} after unmarshaling {id}", entry.key))
            }
            parsed => parsed,
        };
        match id {
            Ok(id) => pipelines.push(Pipeline {
                id,
                receivers: references(&path, "receivers", &keys.receivers, &entry.value, problems),
                processors: references(&path, "processors", &keys.processors, &entry.value, problems),
                exporters: references(&path, "exporters", &keys.exporters, &entry.value, problems),
                path,
            }),
            Err(message) => problems.push(Problem::new(entry.position.clone(), path, message)),
        }
    }
    pipelines
}

/// Reads the list of ids at `key` of the section at `path`.
fn references(
    path: &str,
    key: &str,
    texts: &[String],
    node: &Node,
    problems: &mut Vec<Problem>,
) -> Vec<Reference> {
    let section = Section::new(path, node);
    // A string would be decoded as a comma-separated list, which is refused for ids.
    if node.get(key).is_some_and(|list| matches!(list.value, Value::String(_))) {
        problems.push(section.problem(key, "source data must be an array or slice, got string"));
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let key_path = format!("{key}[{index}]");
        let problem = section.problem(&key_path, String::new());
        match ComponentId::parse(text) {
            Ok(id) => found.push(Reference { id, position: problem.position }),
            Err(e) => problems.push(Problem { message: e.to_string(), ..problem }),
        }
    }
    found
}
