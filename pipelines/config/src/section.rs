//! The section of one component, and its problems.

use serde::de::DeserializeOwned;

use super::{ConfigError, Decoded, Node, Position, Problem, Seen, Value, decode, keys, unused};

/// A node and its path in the configuration, such as `exporters::otlp_grpc`.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    path: &'a str,
    node: &'a Node,
    seen: Option<&'a Seen>,
}

impl<'a> Section<'a> {
    /// Creates a section from its path and node.
    pub fn new(path: &'a str, node: &'a Node) -> Self {
        Section { path, node, seen: None }
    }

    /// Returns the section with a log, if one is given, in which decoding records how each value was read.
    pub fn noting(self, seen: impl Into<Option<&'a Seen>>) -> Self {
        Section { seen: seen.into(), ..self }
    }

    /// Returns the path of the section.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// Returns the tree of the section.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Decodes the section, or returns all problems. A null section is decoded as an empty mapping.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let outcome = decode::decode(self.path, self.node, self.seen);
        ConfigError::unless_empty(outcome.problems)?;
        outcome.value.ok_or_else(|| self.problem("", "cannot be decoded").into())
    }

    /// Decodes the section with defaults for wrong values; returns the problems found so far, values out of range
    /// included, to which a component adds those of its own checks. Warns of configured keys without effect.
    pub fn read<T: Decoded>(&self) -> (T, Problems<'a>) {
        let outcome = decode::decode(self.path, self.node, self.seen);
        unused::warn(self, &keys::<T>());
        let mut problems = Problems { section: *self, found: outcome.problems, failed: outcome.failed };
        let value: T = outcome.value.unwrap_or_default();
        value.check_ranges("", &mut problems);
        (value, problems)
    }

    /// Returns a problem with the value at `key_path`, such as `sending_queue::queue_size`; empty for the section.
    pub fn problem(&self, key_path: &str, message: impl Into<String>) -> Problem {
        let path = match key_path {
            "" => self.path.to_owned(),
            key_path => format!("{}::{key_path}", self.path),
        };
        Problem::new(self.position(key_path), path, message)
    }

    /// Records a warning about the value at `key_path`, such as a deprecated key or one without effect. It is
    /// logged once logging has started.
    pub fn warn(&self, key_path: &str, message: impl Into<String>) {
        if let Some(seen) = self.seen {
            seen.warn(self.problem(key_path, message));
        }
    }

    /// Returns an empty list of problems, for a component that validates what it decoded.
    pub fn problems(&self) -> Problems<'a> {
        Problems { section: *self, found: Vec::new(), failed: Vec::new() }
    }

    /// Returns the position of `key_path` (keys joined by `::`, items as `[0]`), or of its nearest existing
    /// ancestor.
    fn position(&self, key_path: &str) -> Position {
        let steps = key_path.split("::").flat_map(|key| key.split_inclusive('['));
        let steps = steps.map(|step| step.trim_end_matches('[')).filter(|step| !step.is_empty());
        let found = steps.map_while({
            let mut node = self.node;
            move |step| {
                node = below(node, step)?;
                Some(node)
            }
        });
        found.last().unwrap_or(self.node).position.clone()
    }
}

/// Returns whether `path` is `above` or below it.
fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    above.is_empty()
        || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('['))
}

/// Returns the value of a key, or of an item if `step` is the rest of `[0]`.
fn below<'a>(node: &'a Node, step: &str) -> Option<&'a Node> {
    match (&node.value, step.strip_suffix(']')) {
        (Value::Sequence(items), Some(index)) => items.get(index.parse::<usize>().ok()?),
        _ => node.get(step),
    }
}

/// The problems of a section: those of decoding and those of a component's own checks.
#[derive(Debug)]
pub struct Problems<'a> {
    section: Section<'a>,
    found: Vec<Problem>,
    /// The paths of values that were not decoded, whose defaults are checked instead.
    failed: Vec<String>,
}

impl Problems<'_> {
    /// Adds a problem with the value at `key_path`, such as `sending_queue::queue_size`; empty for the section. A
    /// problem that may be the consequence of a value that was not decoded is ignored.
    pub fn add(&mut self, key_path: &str, message: impl Into<String>) {
        let problem = self.section.problem(key_path, message);
        let is_consequence =
            |failed: &String| is_within(failed, &problem.path) || is_within(&problem.path, failed);
        if !self.failed.iter().any(is_consequence) {
            self.found.push(problem);
        }
    }

    /// Returns the value of a result; an error is added as a problem with the value at `key_path`.
    pub fn take<T, E: ToString>(&mut self, key_path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(key_path, error.to_string())).ok()
    }

    /// Adds a problem unless `holds`.
    pub fn require(&mut self, holds: bool, key_path: &str, message: impl Into<String>) {
        if !holds {
            self.add(key_path, message);
        }
    }

    /// Adds the problems of a part that was read on its own.
    pub fn extend(&mut self, error: ConfigError) {
        self.found.extend(error.into_problems());
    }

    /// Warns about the value at `key_path`, as [`Section::warn`] does.
    pub fn warn(&self, key_path: &str, message: impl Into<String>) {
        self.section.warn(key_path, message);
    }

    /// Returns an error if there are problems.
    pub fn finish(self) -> Result<(), ConfigError> {
        ConfigError::unless_empty(self.found)
    }
}

impl From<Problems<'_>> for ConfigError {
    fn from(problems: Problems<'_>) -> Self {
        problems.found.into()
    }
}
