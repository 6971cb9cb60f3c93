//! The top level of a configuration: the configured components by kind and id, and the service.
//!
//! Decoding continues after a problem, so that one run reports all of them.

use component::{ComponentId, IdError};
use config::{Node, Position, Problem, Section, Seen, Value};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::gates::Gates;
use super::service::Service;

/// The kinds of components, in the order of their sections.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ComponentKind {
    /// A row of `connectors`.
    Connector,
    /// A row of `exporters`.
    Exporter,
    /// A row of `extensions`.
    Extension,
    /// A row of `processors`.
    Processor,
    /// A row of `receivers`.
    Receiver,
}

impl ComponentKind {
    /// All kinds, in the order of their sections.
    pub const ALL: [ComponentKind; 5] = [
        ComponentKind::Connector,
        ComponentKind::Exporter,
        ComponentKind::Extension,
        ComponentKind::Processor,
        ComponentKind::Receiver,
    ];

    /// Returns the key of the section, such as `exporters`.
    pub fn section(self) -> &'static str {
        match self {
            ComponentKind::Connector => "connectors",
            ComponentKind::Exporter => "exporters",
            ComponentKind::Extension => "extensions",
            ComponentKind::Processor => "processors",
            ComponentKind::Receiver => "receivers",
        }
    }

    /// Returns the noun, such as `exporter`.
    pub fn noun(self) -> &'static str {
        self.section().trim_end_matches('s')
    }
}

/// A configured component.
#[derive(Clone, Debug)]
pub struct Configured<'a> {
    /// The kind of the component.
    pub kind: ComponentKind,
    /// The id of the component.
    pub id: ComponentId,
    /// The path in the configuration, such as `exporters::otlp_grpc`.
    pub path: String,
    /// The value of its section.
    pub node: &'a Node,
    /// The position of its key.
    pub position: &'a Position,
    /// Records how the section is decoded.
    seen: Option<&'a Seen>,
}

impl Configured<'_> {
    /// Returns the section, which the component decodes.
    pub fn section(&self) -> Section<'_> {
        Section::new(&self.path, self.node).noting(self.seen)
    }

    /// Returns a problem of the component as a whole.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.position.clone(), self.path.clone(), message)
    }
}

/// The structure of a configuration.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    /// All components, by section and id.
    pub components: Vec<Configured<'a>>,
    /// Pipelines, extensions and telemetry.
    pub service: Service,
    /// The problems so far. A plan adds those of the components.
    pub problems: Vec<Problem>,
}

impl<'a> Sections<'a> {
    /// Reads the top level of a loaded tree with default feature gates.
    pub fn read(root: &'a Node) -> Self {
        Sections::read_by(root, &Gates::default(), None)
    }

    pub(super) fn read_by(root: &'a Node, gates: &Gates, seen: Option<&'a Seen>) -> Self {
        let mut problems = Vec::new();
        if let Err(error) = Section::new("", root).decode::<TopLevel>() {
            problems.extend(error.into_problems());
        }
        let mut components: Vec<Configured<'a>> = ComponentKind::ALL
            .iter()
            .flat_map(|kind| read_components(root, *kind, seen, &mut problems))
            .collect();
        components.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        let service = Service::read(root, seen, &mut problems);
        let mut sections = Sections { components, service, problems };
        let broken = super::check::check(root, &sections, gates);
        sections.problems.extend(broken);
        sections
    }

    /// Returns the components of one kind, sorted by id.
    pub fn of(&self, kind: ComponentKind) -> impl Iterator<Item = &Configured<'a>> {
        self.components.iter().filter(move |c| c.kind == kind)
    }

    /// Returns whether a component of that kind and id is configured.
    pub fn has(&self, kind: ComponentKind, id: &ComponentId) -> bool {
        self.of(kind).any(|c| c.id == *id)
    }
}

/// Finds unknown keys of the top level.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TopLevel {
    connectors: IgnoredAny,
    exporters: IgnoredAny,
    extensions: IgnoredAny,
    processors: IgnoredAny,
    receivers: IgnoredAny,
    service: IgnoredAny,
}

fn read_components<'a>(
    root: &'a Node,
    kind: ComponentKind,
    seen: Option<&'a Seen>,
    problems: &mut Vec<Problem>,
) -> Vec<Configured<'a>> {
    let section = kind.section();
    let Some(node) = root.get(section) else { return Vec::new() };
    if !matches!(node.value, Value::Mapping(_) | Value::Null) {
        let message = format!("expected a map or struct, got {:?}", node.value.go_type());
        problems.push(Problem::new(node.position.clone(), section, message));
    }
    let mut found: Vec<Configured<'a>> = Vec::new();
    for entry in node.entries() {
        let path = format!("{section}::{}", entry.key);
        match read_id(&entry.key, &found) {
            Ok(id) => {
                let (node, position) = (&entry.value, &entry.position);
                found.push(Configured { kind, id, path, node, position, seen });
            }
            Err(message) => problems.push(Problem::new(entry.position.clone(), path, message)),
        }
    }
    found
}

fn read_id(key: &str, found: &[Configured<'_>]) -> Result<ComponentId, String> {
    let id = ComponentId::parse(key).map_err(|e: IdError| e.to_string())?;
    match found.iter().any(|c| c.id == id) {
        true => Err(format!("duplicate name {key:?} after unmarshaling {id}")),
        false => Ok(id),
    }
}
