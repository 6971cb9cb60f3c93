//! The section `service`: pipelines and extensions. Its telemetry is in [`super::telemetry`].

use std::fmt;

use component::ComponentId;
use config::{Node, Position, Problem, Section, Value, nearest};
use pdata::Signal;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::sections::ComponentKind;
use super::telemetry::TelemetryConfig;

/// The configured service.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The pipelines, in the order of the file.
    pub pipelines: Vec<Pipeline>,
    /// The extensions, in the order in which they start.
    pub extensions: Vec<Reference>,
    /// Telemetry of the collector about itself.
    pub telemetry: TelemetryConfig,
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

/// The minimum severity of logged messages, as in the Collector.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum LogLevel {
    /// Logs everything.
    Debug,
    /// Logs changes of state and above.
    #[default]
    Info,
    /// Logs irregularities and above.
    Warn,
    /// Logs failures. Levels above error are treated as error.
    Error,
}

const LOG_LEVELS: [(&str, LogLevel); 7] = [
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
    ("dpanic", LogLevel::Error),
    ("panic", LogLevel::Error),
    ("fatal", LogLevel::Error),
];

impl<'de> Deserialize<'de> for LogLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_named = |name: &str| text == name || text == name.to_uppercase();
        let level = LOG_LEVELS.iter().find(|(name, _)| is_named(name)).map(|(_, level)| *level);
        level.ok_or_else(|| D::Error::unknown_variant(&text, &["debug", "info", "warn", "error"]))
    }
}

impl Service {
    /// Reads the section; adds problems and warnings.
    pub(super) fn read(root: &Node, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) -> Self {
        let Some(node) = root.get("service") else { return Service::default() };
        let keys: ServiceKeys = noted(Section::new("service", node), problems);
        let extensions = references("service", "extensions", &keys.extensions, node, problems);
        let pipelines = read_pipelines(node, problems);
        let telemetry = node.get("telemetry").map(|node| TelemetryConfig::read(node, problems, warnings));
        Service { pipelines, extensions, telemetry: telemetry.unwrap_or_default() }
    }
}

/// The keys of the section. Those of type [`IgnoredAny`] are read individually.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ServiceKeys {
    extensions: Vec<String>,
    pipelines: IgnoredAny,
    telemetry: IgnoredAny,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PipelineKeys {
    exporters: Vec<String>,
    processors: Vec<String>,
    receivers: Vec<String>,
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
