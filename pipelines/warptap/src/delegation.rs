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
use config::{ConfigError, Node, Position, Problem, Seen};
use serde_json::json;

use crate::config::{CollectorConfig, ComponentKind, Loaded, Sections};
use crate::graph::{Factories, StartError};
use crate::prepare;
use split::Split;

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

/// Divides a configuration that has components which only a Collector has, if the user names one.
///
/// A component that this collector refuses with settings that the Collector accepts, such as a key that does not exist here, is delegated,
/// too. If the Collector refuses them as well, the problems are those of this collector.
///
/// # Errors
/// The Collector cannot be run, or it refuses its part: problems have the positions of the user's configuration.
pub fn delegate(loaded: &mut Loaded, factories: Factories<'_>) -> Result<(), ConfigError> {
    let seen = Seen::default();
    let sections = loaded.sections(&seen);
    let settings = sections.service.collector.clone();
    let program = Program::open_wanted(&loaded.delegation, &settings).map_err(whole)?;
    let Some(program) = program else { return Ok(()) };
    // What is wrong across components is reported by the checks of the whole configuration.
    ConfigError::unless_empty(sections.problems.clone())?;
    let refused = prepare::refused(&sections, factories);
    let divider = Divider { loaded, sections: &sections, factories, program: &program };
    let with_refused = if refused.is_empty() { None } else { divider.divide(&refused).ok().flatten() };
    let (divided, warnings) = match with_refused {
        Some(divided) => (Some(divided), refused.iter().map(RefusedSettings::warning).collect()),
        None => (divider.divide(&[])?, Vec::new()),
    };
    let Some((split, text)) = divided else { return Ok(()) };
    let section = section(&program, &loaded.delegation.directory, text, &settings);
    loaded.warnings.extend(split.warnings.into_iter().chain(warnings));
    loaded.root = split.native;
    split::add_extension(&mut loaded.root, child_id().to_string(), section);
    loaded.bridge = Some(split.bridge);
    Ok(())
}

struct Divider<'a> {
    loaded: &'a Loaded,
    sections: &'a Sections<'a>,
    factories: Factories<'a>,
    program: &'a Program,
}

impl Divider<'_> {
    /// Divides the configuration, and asks the Collector about its part, whose text is returned. Returns nothing if the Collector
    /// would have nothing to do.
    fn divide(&self, refused: &[RefusedSettings]) -> Result<Option<(Split, String)>, ConfigError> {
        let is_in_child = |kind, name: &str| self.program.has(kind, name);
        let chosen = choose(self.sections, lacks(self.factories, refused), is_in_child);
        if chosen.is_empty() {
            return Ok(None);
        }
        let places = split::Places::of(&self.loaded.delegation.directory, Some(self.program));
        let split = split::split(&self.loaded.root, self.sections, &chosen, &places);
        let (text, problems) = validate(self.program, &split.child).map_err(whole)?;
        ConfigError::unless_empty(problems)?;
        Ok(Some((split, text)))
    }
}

/// Returns whether this collector does not run a component: it has none of that type, or the component refuses its settings.
fn lacks<'a>(
    factories: Factories<'a>,
    refused: &'a [RefusedSettings],
) -> impl Fn(ComponentKind, &ComponentId) -> bool + 'a {
    move |kind, id| !factories.has(kind, id.kind()) || refused.iter().any(|r| (r.kind, &r.id) == (kind, id))
}

/// Returns the text of the child's configuration, and the problems that the Collector finds in it.
///
/// # Errors
/// The Collector cannot be run.
fn validate(program: &Program, child: &Node) -> Result<(String, Vec<Problem>), String> {
    let text = text::of(child).map_err(|e| e.to_string())?;
    let output = program.validate(&text)?;
    Ok((text, messages::problems(&output, child, program.path())))
}

fn whole(message: String) -> Problem {
    Problem::new(Position::unknown(), "service::collector::path", message)
}

/// A component of this binary that refuses its settings.
pub struct RefusedSettings {
    /// The kind of the component.
    pub kind: ComponentKind,
    /// The id of the component.
    pub id: ComponentId,
    /// What is wrong with the settings here.
    pub problem: Problem,
}

impl RefusedSettings {
    fn warning(&self) -> Problem {
        let message = format!("runs in the Collector, since warptap refuses it: {}", self.problem.message);
        Problem { message, ..self.problem.clone() }
    }
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
