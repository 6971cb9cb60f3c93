//! A part of the tree that belongs to one component, and the problems a component finds in it.

use serde::de::DeserializeOwned;

use super::{ConfigError, Node, Position, Problem, Seen, Value};

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

    /// The same section, whose decoding notes in `seen` how each value was read.
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

    /// Reads the section into `T`, or tells all that does not fit. A null section is `T` of an empty mapping.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        super::decode::decode(self.path, self.node, self.seen)
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
        Problems { section: *self, found: Vec::new() }
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

/// The value of a key, or of an item where `step` is the rest of `[0]`.
fn below<'a>(node: &'a Node, step: &str) -> Option<&'a Node> {
    match (&node.value, step.strip_suffix(']')) {
        (Value::Sequence(items), Some(index)) => items.get(index.parse::<usize>().ok()?),
        _ => node.get(step),
    }
}

/// What a component finds wrong with values that decoded well.
#[derive(Debug)]
pub struct Problems<'a> {
    section: Section<'a>,
    found: Vec<Problem>,
}

impl Problems<'_> {
    /// Adds a problem with the value at `key_path`, such as `sending_queue::queue_size`; empty for the section.
    pub fn add(&mut self, key_path: &str, message: impl Into<String>) {
        self.found.push(self.section.problem(key_path, message));
    }

    /// Adds a problem unless `holds`.
    pub fn require(&mut self, holds: bool, key_path: &str, message: impl Into<String>) {
        if !holds {
            self.add(key_path, message);
        }
    }

    /// `Ok` where nothing was added.
    pub fn finish(self) -> Result<(), ConfigError> {
        ConfigError::unless_empty(self.found)
    }
}
