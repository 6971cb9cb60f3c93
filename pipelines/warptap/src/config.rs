//! The configuration of the collector: from `--config` arguments to a tree with positions.
//!
//! The loading steps are modules: [`source`] retrieves text, [`yaml`] parses it, [`merge`] merges sources,
//! [`expand`] resolves references, [`service`] reads the pipelines. Each component decodes its own section with the
//! crate `config`.

mod check;
mod expand;
pub mod gates;
mod http;
mod merge;
mod print;
mod scalar;
mod sections;
mod service;
mod source;
pub mod telemetry;
#[cfg(test)]
pub(crate) mod testing;
pub mod yaml;
mod yaml_out;

use config::{ConfigError, Node, Position, Problem, Seen, Value};

use crate::delegation::Delegation;
use crate::graph::Bridge;
use gates::Gates;
use merge::{Lists, merge, unflatten};
pub use print::Printed;
pub use sections::{ComponentKind, Configured, Sections};
pub use service::{CollectorConfig, LogLevel, Pipeline, PipelineId, Reference, Service, ServiceKeys};
use source::Location;
pub use source::{Environment, schemes};
pub use yaml_out::to_yaml;

/// The locations of a configuration and the feature gates, from the command line.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The locations, in the order in which they are merged.
    pub locations: Vec<String>,
    /// The feature gates.
    pub gates: Gates,
    /// What runs the components that this collector lacks.
    pub delegation: Delegation,
}

/// Locations with default gates.
impl From<&[String]> for Sources {
    fn from(locations: &[String]) -> Self {
        Sources { locations: locations.to_vec(), ..Sources::default() }
    }
}

impl<const N: usize> From<&[String; N]> for Sources {
    fn from(locations: &[String; N]) -> Self {
        locations.as_slice().into()
    }
}

impl From<&Sources> for Sources {
    fn from(sources: &Sources) -> Self {
        sources.clone()
    }
}

/// A configuration with all sources merged and all references resolved.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The tree, whose root is a mapping.
    pub root: Node,
    /// Warnings, to be logged once logging is set up.
    pub warnings: Vec<Problem>,
    /// The feature gates.
    pub gates: Gates,
    /// What runs the components that this collector lacks.
    pub delegation: Delegation,
    /// The order in which data passes through delegated components, if there are any.
    pub bridge: Option<Bridge>,
}

/// Loads and merges all locations; a later one takes precedence.
pub fn load(sources: impl Into<Sources>, environment: &dyn Environment) -> Result<Loaded, ConfigError> {
    let Sources { locations, gates, delegation } = sources.into();
    let lists = if gates.is_on(gates::MERGE_APPEND) { Lists::Append } else { Lists::Replace };
    let mut root = Node::new(Value::Mapping(Vec::new()), Position::unknown());
    let mut problems = Vec::new();
    for location in &locations {
        match load_one(location, environment) {
            Ok(source) => lay(&mut root, source, lists, &mut problems),
            Err(error) => problems.extend(error.into_problems()),
        }
    }
    ConfigError::unless_empty(problems)?;
    let mut findings = expand::expand(&mut root, environment);
    // A mapping from a reference may have keys with `::`, too.
    unflatten(&mut root, &mut findings.problems);
    ConfigError::unless_empty(findings.problems)?;
    let mut warnings = findings.warnings;
    warnings.extend(gates.without_effect().map(no_effect));
    Ok(Loaded { root, warnings, gates, delegation, bridge: None })
}

fn no_effect(gate: &'static str) -> Problem {
    Problem::new(
        Position { source: "--feature-gates".into(), line: 0, column: 0 },
        gate,
        "changes nothing here",
    )
}

fn load_one(location: &str, environment: &dyn Environment) -> Result<Node, ConfigError> {
    let place = Position { source: location.into(), line: 0, column: 0 };
    let problem = |why: String| ConfigError::from(Problem::new(place.clone(), "", why));
    let location = Location::of_argument(location).map_err(problem)?;
    location.retrieve(environment).map_err(problem)?.into_configuration()
}

fn lay(root: &mut Node, mut source: Node, lists: Lists, problems: &mut Vec<Problem>) {
    unflatten(&mut source, problems);
    if root.entries().is_empty() {
        root.position = source.position.clone();
    }
    merge(root, source, lists);
}

/// The environment variables, files and network of this process.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Loaded {
    /// Returns the sections of the configuration. Their decoding is recorded in `seen`.
    pub fn sections<'a>(&'a self, seen: &'a Seen) -> Sections<'a> {
        Sections::read_by(&self.root, &self.gates, Some(seen))
    }
}

impl Environment for Process {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|text| text.to_string_lossy().into_owned())
    }

    fn read(&self, path: &str, limit: usize) -> std::io::Result<Vec<u8>> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn fetch(&self, uri: &str, limit: usize) -> Result<Vec<u8>, String> {
        http::get(uri, limit)
    }
}

#[cfg(test)]
#[path = "config/load_tests.rs"]
mod tests;
