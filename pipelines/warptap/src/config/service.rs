//! The `service` section: pipelines and extensions; its telemetry is read by [`super::telemetry`].

use std::fmt;

use component::ComponentId;
use config::{Node, Position, Problem, Section, Value, nearest};
use pdata::Signal;
use serde::de::{Error, IgnoredAny};
use serde::{Deserialize, Deserializer};

use super::sections::ComponentKind;
use super::telemetry::TelemetryConfig;

/// What the service runs.
#[derive(Clone, Debug, Default)]
pub struct Service {
    /// The pipelines, in the order of the file.
    pub pipelines: Vec<Pipeline>,
    /// The extensions to start, in the order given.
    pub extensions: Vec<Reference>,
    /// What the collector tells of itself.
    pub telemetry: TelemetryConfig,
}

/// A pipeline as configured.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its id.
    pub id: PipelineId,
    /// Its config path, such as `service::pipelines::traces`.
    pub path: String,
    /// Where its data comes from.
    pub receivers: Vec<Reference>,
    /// What is done to it, in this order.
    pub processors: Vec<Reference>,
    /// Where it goes.
    pub exporters: Vec<Reference>,
}

impl Pipeline {
    /// The references to components of one kind.
    pub fn references(&self, kind: ComponentKind) -> &[Reference] {
        match kind {
            ComponentKind::Receiver => &self.receivers,
            ComponentKind::Processor => &self.processors,
            ComponentKind::Exporter => &self.exporters,
            ComponentKind::Connector | ComponentKind::Extension => &[],
        }
    }
}

/// The name of a component where it is used.
#[derive(Clone, Debug)]
pub struct Reference {
    /// The component.
    pub id: ComponentId,
    /// Where it is written.
    pub position: Position,
}

/// A pipeline's id: the signal it carries, and perhaps a name.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct PipelineId {
    /// What it carries.
    pub signal: Signal,
    /// What stands behind the slash; empty where there is none.
    pub name: String,
}

impl PipelineId {
    /// Reads `signal` or `signal/name`, trimming white space around both.
    pub fn parse(text: &str) -> Result<Self, String> {
        // A signal is shaped like a component type, and the name like a component's.
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

/// How severe a message must be to be logged, in the Collector's words.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Changes of state, and worse.
    #[default]
    Info,
    /// What is odd, and worse.
    Warn,
    /// What failed. The levels above error count as this one.
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
    /// Reads the section of a loaded tree, noting what is wrong and what has no effect.
    pub(super) fn read(root: &Node, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) -> Self {
        let Some(node) = root.get("service") else { return Service::default() };
        let keys: ServiceKeys = noted(Section::new("service", node), problems);
        let extensions = references("service", "extensions", &keys.extensions, node, problems);
        let pipelines = read_pipelines(node, problems);
        let telemetry = node.get("telemetry").map(|node| TelemetryConfig::read(node, problems, warnings));
        Service { pipelines, extensions, telemetry: telemetry.unwrap_or_default() }
    }
}

/// The keys of the section. Those of type [`IgnoredAny`] are read one by one.
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

/// Decodes a section, or notes what is wrong and goes on with the defaults.
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

/// Reads a list of ids, which stands at `key` of the section at `path`.
fn references(
    path: &str,
    key: &str,
    texts: &[String],
    node: &Node,
    problems: &mut Vec<Problem>,
) -> Vec<Reference> {
    let section = Section::new(path, node);
    // Elsewhere a text is the list of what stands between its commas; not where ids are meant.
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
