//! Delegation: components that this binary does not have run in an OpenTelemetry Collector beside it, the child.
//!
//! The configuration is divided in two ([`split`]): the own part, in which exporters and receivers of OTLP over Unix
//! sockets replace what is delegated, and the part of the child, which has the other ends of those sockets. The graph sees
//! an ordinary configuration with one more extension, which runs the child ([`child`]); a [`Bridge`](crate::graph::Bridge) tells it in which
//! order data passes through. An acknowledgement passes through, too: the exporters wait for the answer of the child, and
//! those of the child wait for ours.
//!
//! The child is a process of its own that ends with this one ([`guard`]).

mod child;
mod choose;
mod crossing;
mod directory;
pub mod guard;
mod log;
mod messages;
mod metadata;
mod metrics;
mod migration;
mod program;
mod split;
mod text;

use std::path::{Path, PathBuf};

use component::{ComponentId, ExtensionFactory};
use config::{ConfigError, Entry, Node, Position, Problem, Seen, Value};
use serde_json::json;

use crate::config::{CollectorConfig, ComponentKind, Loaded};
use crate::graph::{Factories, StartError};

pub use choose::{Chosen, choose};
pub use directory::Directory;
pub use migration::Migration;
pub use program::{Program, Row, find};

/// The row of the extension that runs the child. Users do not configure it.
pub const FACTORY: ExtensionFactory = child::FACTORY;

/// What the command line says about a Collector that runs what this one lacks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delegation {
    /// The argument of `--collector`; empty to search for one, none without the flag.
    pub program: Option<String>,
    /// The directory of the sockets of this process.
    pub directory: PathBuf,
}

impl Delegation {
    /// Returns the delegation that a command line asks for.
    pub fn new(program: Option<String>) -> Self {
        Delegation { program, directory: directory::of_this_process() }
    }
}

/// Divides a configuration that has components which only a Collector has, if the user names one. Returns the names of the
/// components that are delegated.
///
/// # Errors
/// The Collector cannot be run, or it refuses its part: problems have the positions of the user's configuration.
pub fn delegate(loaded: &mut Loaded, factories: Factories<'_>) -> Result<Vec<String>, ConfigError> {
    let seen = Seen::default();
    let sections = loaded.sections(&seen);
    let settings = sections.service.collector.clone();
    let Some(program) = program::wanted(&loaded.delegation, &settings) else { return Ok(Vec::new()) };
    let whole = |message: String| Problem::new(Position::unknown(), "service::collector::path", message);
    let program = program.and_then(|path| Program::open(&path)).map_err(whole)?;
    let chosen =
        choose(&sections, |kind, name| factories.has(kind, name), |kind, name| program.has(kind, name));
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    // What is wrong across components is reported by the checks of the whole configuration.
    ConfigError::unless_empty(sections.problems.clone())?;
    let places = split::Places {
        directory: &loaded.delegation.directory,
        exporter: program.otlp_exporter(),
        has_setter: program.has(ComponentKind::Extension, metadata::SETTER),
    };
    let split = split::split(&loaded.root, &sections, &chosen, &places);
    let text = text::of(&split.child)?;
    let refused = program.validate(&text).map_err(whole)?;
    ConfigError::unless_empty(messages::problems(&refused, &split.child, program.path()))?;
    let names = chosen.names();
    loaded.warnings.extend(split.warnings);
    loaded.root = split.native;
    add_child(&mut loaded.root, &section(&program, &loaded.delegation.directory, text, &settings));
    loaded.bridge = Some(split.bridge);
    Ok(names)
}

/// Makes the directory of the sockets if a configuration has delegated components. The receivers in it start before the child.
///
/// # Errors
/// It cannot be made, or belongs to others.
pub fn make_directory(loaded: &Loaded) -> Result<(), StartError> {
    let (path, Some(_)) = (&loaded.delegation.directory, &loaded.bridge) else { return Ok(()) };
    let failed = |e| StartError::new(child_id().to_string(), format!("cannot make {}: {e}", path.display()));
    directory::make(path).map_err(failed)
}

/// The id of the extension that runs the child.
fn child_id() -> ComponentId {
    ComponentId::parse(&format!("{}/delegated", FACTORY.kind)).expect("a type and a name are an id")
}

fn section(program: &Program, directory: &Path, text: String, settings: &CollectorConfig) -> Node {
    crossing::node(json!({
        "path": program.path(),
        "directory": directory,
        "configuration": text,
        "memory_limit_mib": settings.memory_limit_mib,
        "cpus": settings.cpus,
    }))
}

/// Adds the extension that runs the child to the extensions and to those of the service.
fn add_child(root: &mut Node, section: &Node) {
    let id = child_id().to_string();
    let position = Position::unknown();
    let entry = Entry { key: id.clone(), position: position.clone(), value: section.clone() };
    split::entries(root, ComponentKind::Extension.section()).push(entry);
    let service = split::value(root, "service");
    let list = split::value(service, "extensions");
    let own = Node::new(Value::String(id), position);
    match &mut list.value {
        Value::Sequence(items) => items.insert(0, own),
        other => *other = Value::Sequence(vec![own]),
    }
}
