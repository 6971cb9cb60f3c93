//! Decoding that reports all problems of a section, although serde stops at the first.
//!
//! A value that fails is recorded and skipped as if its key were absent, and the section is decoded again. Each
//! pass skips one more value, so the number of passes is bounded. A null for a type without a null is skipped
//! without a problem, so that the default is retained.

use std::cell::RefCell;
use std::collections::HashSet;

use serde::de::DeserializeOwned;

use super::decoder::{Decoder, Path};
use super::failure::Failure;
use super::seen::Readings;
use super::{Entry, Node, Problem, Reading, Seen, nearest};

/// Maximum number of problems that are reported for a section.
const PROBLEMS_MAX: usize = 100;
/// The maximum number of passes for a section. Nulls also need a pass each, so it exceeds the number of problems.
const PASSES_MAX: usize = 1000;

/// The result of decoding a section.
pub(super) struct Outcome<T> {
    /// The value, with defaults for what failed; `None` if the section as a whole failed.
    pub(super) value: Option<T>,
    pub(super) problems: Vec<Problem>,
    /// The paths of the values that failed.
    pub(super) failed: Vec<String>,
}

/// Reads `node`, the section at `path`, into `T`, and records in `seen` how each value was read.
pub(super) fn decode<T: DeserializeOwned>(path: &str, node: &Node, seen: Option<&Seen>) -> Outcome<T> {
    let pass = Pass::default();
    let value = decode_by_passes(path, node, &pass);
    if let Some(seen) = seen {
        seen.add(pass.readings.take());
    }
    Outcome { value, problems: pass.problems.take(), failed: pass.failed.take() }
}

fn decode_by_passes<T: DeserializeOwned>(path: &str, node: &Node, pass: &Pass) -> Option<T> {
    for _ in 0..PASSES_MAX {
        let decoder = Decoder::root(path, node, pass);
        let failure = match T::deserialize(decoder) {
            Ok(value) => return Some(value),
            Err(failure) => decoder.blame(failure),
        };
        if !pass.skip(failure) {
            // The failure was recorded before, or is the consequence of one that was.
            return None;
        }
    }
    let message = format!("more than {PASSES_MAX} nulls where a value is expected");
    pass.problems.borrow_mut().push(Problem::new(node.position.clone(), path, message));
    None
}

/// The state that is common to all passes.
#[derive(Default)]
pub(super) struct Pass {
    skipped: RefCell<HashSet<*const Node>>,
    checked: RefCell<HashSet<*const Node>>,
    problems: RefCell<Vec<Problem>>,
    failed: RefCell<Vec<String>>,
    readings: RefCell<Readings>,
}

/// Keys that the Collector had once: the beginning of the path of their section, their name, and what to do instead.
const REMOVED: [(&str, &str, &str); 3] = [
    (
        "service::telemetry::metrics",
        "address",
        "write readers: [{pull: {exporter: {prometheus: {host: localhost, port: 8888}}}}]",
    ),
    ("processors::memory_limiter", "ballast_size_mib", "delete it, the memory ballast is gone"),
    ("exporters::", "num_workers", "write sending_queue: {num_consumers: N}"),
];

/// Returns a key that was removed, and what to do instead.
fn removed(path: &str, key: &str) -> Option<(&'static str, &'static str)> {
    let row = REMOVED.iter().find(|(section, name, _)| path.starts_with(section) && *name == key);
    row.map(|(_, name, advice)| (*name, *advice))
}

impl Pass {
    /// Returns whether an earlier pass failed at `node`.
    pub(super) fn skips(&self, node: &Node) -> bool {
        self.skipped.borrow().contains(&std::ptr::from_ref(node))
    }

    /// Records the unknown keys of a struct's mapping, once.
    pub(super) fn unknown_keys(&self, node: &Node, path: &Path<'_>, keys: &[&Entry], known: &[&'static str]) {
        let Some(first) = keys.first() else { return };
        if !self.checked.borrow_mut().insert(node) {
            return;
        }
        let mut names: Vec<&str> = keys.iter().map(|e| e.key.as_str()).collect();
        names.sort_unstable();
        let free = || known.iter().copied().filter(|name| node.get(name).is_none());
        let path = path.to_string();
        let advice = names.iter().filter_map(|name| removed(&path, name));
        let advice: String = advice.map(|(key, advice)| format!(" ({key} was removed: {advice})")).collect();
        let message = format!("has invalid keys: {}{advice}", names.join(", "));
        let mut problem = Problem::new(first.position.clone(), path, message);
        problem.nearest = names.iter().filter_map(|name| nearest(name, free())).map(str::to_owned).collect();
        self.problems.borrow_mut().push(problem);
    }

    /// Records a failure and skips its value from now on. Returns false if another pass would not help.
    fn skip(&self, failure: Failure) -> bool {
        let Some(place) = failure.into_place() else { return false };
        let fresh = self.skipped.borrow_mut().insert(place.node);
        let mut problems = self.problems.borrow_mut();
        self.failed.borrow_mut().extend(place.problem.iter().map(|problem| problem.path.clone()));
        problems.extend(place.problem);
        fresh && !place.is_root && problems.len() < PROBLEMS_MAX
    }

    /// Records how a value was decoded.
    pub(super) fn note(&self, node: &Node, reading: Reading) {
        self.readings.borrow_mut().note(node, reading);
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
