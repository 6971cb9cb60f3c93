//! The error that travels through serde: what is wrong with one value, and, once known, which value.

use std::fmt;

use serde::de::Error;

use super::decoder::Path;
use super::{Node, Problem, nearest};

/// Why a value was not decoded. Boxed, since every step of a decoder returns one.
#[derive(Debug)]
pub(super) struct Failure(Box<Detail>);

#[derive(Debug)]
struct Detail {
    message: String,
    nearest: Option<String>,
    missing: Option<&'static str>,
    place: Option<Place>,
}

/// The value that a failure is about.
#[derive(Debug)]
pub(super) struct Place {
    /// Its identity for as long as the tree is borrowed.
    pub(super) node: *const Node,
    /// True for the section itself.
    pub(super) is_root: bool,
    /// None where there is nothing to tell: a null, or what follows from an earlier problem.
    pub(super) problem: Option<Problem>,
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Failure(Box::new(Detail { message: message.into(), nearest: None, missing: None, place: None }))
    }

    /// The field that is absent, where that is the failure.
    pub(super) fn missing(&self) -> Option<&'static str> {
        self.0.missing
    }

    /// What failed; not known yet where the error comes out of a visitor.
    pub(super) fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// What failed.
    pub(super) fn into_place(self) -> Option<Place> {
        self.0.place
    }

    pub(super) fn put(&mut self, place: Place) {
        self.0.place = Some(place);
    }

    /// What there is to tell of it, if it is about `node`.
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
