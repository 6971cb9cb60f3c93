//! The error type of the decoder: a problem with one value, and, once known, the value.

use std::fmt;

use serde::de::Error;

use super::decoder::Path;
use super::{Node, Problem, nearest};

/// The reason why a value was not decoded. Boxed, because every step of a decoder returns one.
#[derive(Debug)]
pub(super) struct Failure(Box<Detail>);

#[derive(Debug)]
struct Detail {
    message: String,
    nearest: Option<String>,
    missing: Option<&'static str>,
    place: Option<Place>,
}

/// The value that failed.
#[derive(Debug)]
pub(super) struct Place {
    /// The address of its node, valid while the tree is borrowed.
    pub(super) node: *const Node,
    /// Whether it is the section itself.
    pub(super) is_root: bool,
    /// The problem; `None` if there is nothing to report, as for a null or a consequence of an earlier problem.
    pub(super) problem: Option<Problem>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Failure(Box::new(Detail { message: message.into(), nearest: None, missing: None, place: None }))
    }

    /// Returns the absent field, if that is the failure.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.0.missing
    }

    /// Returns the value that failed; `None` until it is known, as for errors of a visitor.
    pub(super) fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// Returns the value that failed.
    pub(super) fn into_place(self) -> Option<Place> {
        self.0.place
    }

    pub(super) fn put(&mut self, place: Place) {
        self.0.place = Some(place);
    }

    /// Returns the problem, attributed to `node` unless the value is known.
    pub(super) fn problem(&self, node: &Node, path: &Path<'_>) -> Problem {
        let mut problem = Problem::new(node.position.clone(), path.to_string(), self.0.message.clone());
        problem.nearest.extend(self.0.nearest.clone());
        problem
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Failure {}

impl Error for Failure {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Failure::new(message.to_string())
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let words: Vec<String> = expected.iter().map(|word| format!("{word:?}")).collect();
        let mut failure =
            Failure::new(format!("unsupported value {variant:?}: expected one of {}", words.join(", ")));
        failure.0.nearest = nearest(variant, expected.iter().copied()).map(str::to_owned);
        failure
    }

    fn missing_field(field: &'static str) -> Self {
        let mut failure = Failure::new(format!("requires the key {field:?}"));
        failure.0.missing = Some(field);
        failure
    }
}
