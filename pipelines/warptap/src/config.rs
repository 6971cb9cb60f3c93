//! The configuration of the collector: from `--config` arguments to a positioned tree, in the order of the
//! OpenTelemetry Collector.
//!
//! The one idea: each step is a small part of its own. [`source`] retrieves text, [`yaml`] reads it,
//! [`merge`] lays sources on top of each other, [`expand`] resolves references, [`service`] reads which
//! pipelines there are. What a component makes of its section is left to the component, and decoding to
//! `component::config`.

mod check;
mod expand;
mod merge;
mod scalar;
mod sections;
mod service;
mod source;
#[cfg(test)]
mod testing;
pub mod yaml;

use component::config::{ConfigError, Node, Position, Problem, Value};

use merge::{merge, unflatten};
pub use sections::{Configured, Kind, Sections};
pub use service::{LogLevel, Pipeline, PipelineId, Reference, Service};
use source::Location;
pub use source::{Outside, schemes};

/// A configuration with every source merged and every reference resolved.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The tree. Always a mapping.
    pub root: Node,
    /// What is odd but no error, to be logged once there is a log.
    pub warnings: Vec<Problem>,
}

/// Loads the locations of `--config` arguments, the later on top of the earlier.
pub fn load(locations: &[String], outside: &dyn Outside) -> Result<Loaded, ConfigError> {
    let mut root = Node::new(Value::Mapping(Vec::new()), Position::unknown());
    let mut problems = Vec::new();
    for location in locations {
        match load_one(location, outside) {
            Ok(source) => lay(&mut root, source, &mut problems),
            Err(error) => problems.extend(error.into_problems()),
        }
    }
    ConfigError::unless_empty(problems)?;
    let mut findings = expand::expand(&mut root, outside);
    // A mapping that came in through a reference may hold `::` in its keys, too.
    unflatten(&mut root, &mut findings.problems);
    ConfigError::unless_empty(findings.problems)?;
    Ok(Loaded { root, warnings: findings.warnings })
}

fn load_one(location: &str, outside: &dyn Outside) -> Result<Node, ConfigError> {
    let place = Position { source: location.into(), line: 0, column: 0 };
    let problem = |why: String| ConfigError::from(Problem::new(place.clone(), "", why));
    let location = Location::of_argument(location).map_err(problem)?;
    location.retrieve(outside).map_err(problem)?.into_configuration()
}

fn lay(root: &mut Node, mut source: Node, problems: &mut Vec<Problem>) {
    unflatten(&mut source, problems);
    if root.entries().is_empty() {
        root.position = source.position.clone();
    }
    merge(root, source);
}

/// The environment and the files of this process.
#[derive(Clone, Copy, Debug)]
pub struct Process;

impl Outside for Process {
    fn env(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|text| text.to_string_lossy().into_owned())
    }

    fn read(&self, path: &str, limit: usize) -> std::io::Result<Vec<u8>> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        std::fs::File::open(path)?.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
#[path = "config/load_tests.rs"]
mod tests;
