//! The top level of a configuration: which components are configured, under which ids, and the service.
//!
//! Reading goes on after a problem, so that one run tells all of them.

use component::{ComponentId, IdError};
use config::{Node, Position, Problem, Section, Seen, Value};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::gates::Gates;
use super::service::Service;

/// The kinds of components, by the section they are configured in.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ComponentKind {
    /// `connectors`
    Connector,
    /// `exporters`
    Exporter,
    /// `extensions`
    Extension,
    /// `processors`
    Processor,
    /// `receivers`
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

    /// The key of the section: `exporters`.
    pub fn section(self) -> &'static str {
        match self {
            ComponentKind::Connector => "connectors",
            ComponentKind::Exporter => "exporters",
            ComponentKind::Extension => "extensions",
            ComponentKind::Processor => "processors",
            ComponentKind::Receiver => "receivers",
        }
    }

    /// The word for one of them: `exporter`.
    pub fn noun(self) -> &'static str {
        self.section().trim_end_matches('s')
    }
}

/// One component as configured.
#[derive(Clone, Debug)]
pub struct Configured<'a> {
    /// In which section it stands.
    pub kind: ComponentKind,
    /// Its id.
    pub id: ComponentId,
    /// Its config path, such as `exporters::otlp_grpc`.
    pub path: String,
    /// Its body.
    pub node: &'a Node,
    /// The place of its key.
    pub position: &'a Position,
    /// Where it is noted how its section is read, if it is.
    seen: Option<&'a Seen>,
}

impl Configured<'_> {
    /// Its section, to be decoded by the component.
    pub fn section(&self) -> Section<'_> {
        let section = Section::new(&self.path, self.node);
        self.seen.map_or(section, |seen| section.noting(seen))
    }

    /// A problem with the component as a whole.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem::new(self.position.clone(), self.path.clone(), message)
    }
}

/// A configuration whose structure is known.
#[derive(Clone, Debug)]
pub struct Sections<'a> {
    /// All components, by section and id.
    pub components: Vec<Configured<'a>>,
    /// Pipelines and telemetry.
    pub service: Service,
    /// What is wrong so far. A plan is refused with these and with what its components find.
    pub problems: Vec<Problem>,
    /// What is odd but no error.
    pub warnings: Vec<Problem>,
}

impl<'a> Sections<'a> {
    /// Reads the top level of a loaded tree, with every gate as it is by default.
    pub fn read(root: &'a Node) -> Self {
        Sections::read_by(root, &Gates::default(), None)
    }

    pub(super) fn read_by(root: &'a Node, gates: &Gates, seen: Option<&'a Seen>) -> Self {
        let (mut problems, mut warnings) = (Vec::new(), Vec::new());
        if let Err(error) = Section::new("", root).decode::<TopLevel>() {
            problems.extend(error.into_problems());
        }
        let mut components: Vec<Configured<'a>> = ComponentKind::ALL
            .iter()
            .flat_map(|kind| read_components(root, *kind, seen, &mut problems))
            .collect();
        components.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
        let service = Service::read(root, &mut problems, &mut warnings);
        let mut sections = Sections { components, service, problems, warnings };
        let broken = super::check::check(root, &sections, gates);
        sections.problems.extend(broken);
        sections
    }

    /// The components of one kind, by id.
    pub fn of(&self, kind: ComponentKind) -> impl Iterator<Item = &Configured<'a>> {
        self.components.iter().filter(move |c| c.kind == kind)
    }

    /// True where a component of that kind and id is configured.
    pub fn has(&self, kind: ComponentKind, id: &ComponentId) -> bool {
        self.of(kind).any(|c| c.id == *id)
    }
}

/// Finds the keys of the top level that do not exist.
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
