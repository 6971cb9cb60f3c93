//! A part of the tree that belongs to one component, and the problems a component finds in it.

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
    /// The section at `path`.
    pub fn new(path: &'a str, node: &'a Node) -> Self {
        Section { path, node, seen: None }
    }

    /// Returns the section with a log, in which decoding records how each value was read.
    pub fn noting(self, seen: &'a Seen) -> Self {
        Section { seen: Some(seen), ..self }
    }

    /// The path of the section itself.
    pub fn path(&self) -> &'a str {
        self.path
    }

    /// The tree of the section.
    pub fn node(&self) -> &'a Node {
        self.node
    }

    /// Reads the section into `T`, or reports all that does not fit. A null section is `T` of an empty mapping.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        let outcome = decode::decode(self.path, self.node, self.seen);
        ConfigError::unless_empty(outcome.problems)?;
        outcome.value.ok_or_else(|| self.problem("", "cannot be decoded").into())
    }

    /// Reads the section into `T` with the defaults of what does not fit, and returns the problems found so far,
    /// values out of range included, to which a component adds those of its own checks. Warns of keys that were written
    /// without effect.
    pub fn read<T: Decoded>(&self) -> (T, Problems<'a>) {
        let outcome = decode::decode(self.path, self.node, self.seen);
        unused::warn(self, &keys::<T>());
        let mut problems = Problems { section: *self, found: outcome.problems, failed: outcome.failed };
        let value: T = outcome.value.unwrap_or_default();
        value.check_ranges("", &mut problems);
        (value, problems)
    }

    /// A problem with the value at `key_path`, such as `sending_queue::queue_size`; empty for the section.
    pub fn problem(&self, key_path: &str, message: impl Into<String>) -> Problem {
        let path = match key_path {
            "" => self.path.to_owned(),
            key_path => format!("{}::{key_path}", self.path),
        };
        Problem::new(self.position(key_path), path, message)
    }

    /// Notes what is odd with the value at `key_path`, and no error: a key without effect, a deprecated one. It is
    /// logged once the log has been started.
    pub fn warn(&self, key_path: &str, message: impl Into<String>) {
        if let Some(seen) = self.seen {
            seen.warn(self.problem(key_path, message));
        }
    }

    /// A list to add findings to, of a component that validates what it decoded.
    pub fn problems(&self) -> Problems<'a> {
        Problems { section: *self, found: Vec::new(), failed: Vec::new() }
    }

    /// Where `key_path` (keys joined by `::`, items as `[0]`) was written, or its nearest ancestor that was.
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

/// True where `path` is `above` or a path below it.
fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    above.is_empty()
        || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::") || rest.starts_with('['))
}

/// The value of a key, or of an item where `step` is the rest of `[0]`.
fn below<'a>(node: &'a Node, step: &str) -> Option<&'a Node> {
    match (&node.value, step.strip_suffix(']')) {
        (Value::Sequence(items), Some(index)) => items.get(index.parse::<usize>().ok()?),
        _ => node.get(step),
    }
}

/// The problems of a section: those of decoding, then those of a component's own checks.
#[derive(Debug)]
pub struct Problems<'a> {
    section: Section<'a>,
    found: Vec<Problem>,
    /// The paths of values that were not decoded, so that a default is checked in their place.
    failed: Vec<String>,
}

impl Problems<'_> {
    /// Adds a problem with the value at `key_path`, such as `sending_queue::queue_size`; empty for the section.
    /// A problem that may be the consequence of a value that was not decoded is left out.
    pub fn add(&mut self, key_path: &str, message: impl Into<String>) {
        let problem = self.section.problem(key_path, message);
        let is_consequence =
            |failed: &String| is_within(failed, &problem.path) || is_within(&problem.path, failed);
        if !self.failed.iter().any(is_consequence) {
            self.found.push(problem);
        }
    }

    /// The value, or none where it is an error, which is added as a problem with the value at `key_path`.
    pub fn take<T, E: ToString>(&mut self, key_path: &str, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.add(key_path, error.to_string())).ok()
    }

    /// Adds a problem unless `holds`.
    pub fn require(&mut self, holds: bool, key_path: &str, message: impl Into<String>) {
        if !holds {
            self.add(key_path, message);
        }
    }

    /// `Ok` if there are none.
    pub fn finish(self) -> Result<(), ConfigError> {
        ConfigError::unless_empty(self.found)
    }
}

impl From<Problems<'_>> for ConfigError {
    fn from(problems: Problems<'_>) -> Self {
        problems.found.into()
    }
}
