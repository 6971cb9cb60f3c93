//! Records of decoding: how each value of a tree was decoded, which determines its printed form, and the warnings
//! of components.
//!
//! Whether a value is a secret, a text or a duration is known from the type to which a component decodes it, and is
//! recorded then, so there is no list of secret keys. A value that no component decoded is printed as a secret.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Node, Problem};

/// How a value was decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reading {
    /// As the value itself.
    Value,
    /// As a bool.
    Bool,
    /// As a number.
    Number,
    /// As a text: the original text of an expanded value.
    Text,
    /// As a comma-separated list.
    Pieces,
    /// As a duration.
    Duration(Duration),
    /// As a secret.
    Secret,
}

/// The records of one tree, which must not move. They are added while sections are decoded.
#[derive(Debug, Default)]
pub struct Seen {
    readings: Mutex<HashMap<usize, Reading>>,
    warnings: Mutex<Vec<Problem>>,
}

impl Seen {
    /// Returns how the value was decoded; `None` if it was not.
    pub fn reading(&self, node: &Node) -> Option<Reading> {
        locked(&self.readings).get(&address(node)).copied()
    }

    /// Returns the warnings of components without duplicates.
    pub fn warnings(&self) -> Vec<Problem> {
        locked(&self.warnings).clone()
    }

    pub(super) fn warn(&self, warning: Problem) {
        let mut warnings = locked(&self.warnings);
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    }

    pub(super) fn add(&self, readings: Readings) {
        let mut all = locked(&self.readings);
        for (node, reading) in readings.0 {
            note(&mut all, node, reading);
        }
    }
}

/// Locks a mutex; the data is valid even if a thread panicked.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The records of one decoding.
#[derive(Debug, Default)]
pub(super) struct Readings(HashMap<usize, Reading>);

impl Readings {
    pub(super) fn note(&mut self, node: &Node, reading: Reading) {
        note(&mut self.0, address(node), reading);
    }
}

/// Records how a value was decoded. If it is decoded more than once, by nested types, the least revealing record
/// remains.
fn note(readings: &mut HashMap<usize, Reading>, node: usize, reading: Reading) {
    let held = readings.entry(node).or_insert(reading);
    if rank(reading) > rank(*held) {
        *held = reading;
    }
}

fn rank(reading: Reading) -> u8 {
    match reading {
        Reading::Value | Reading::Bool | Reading::Number => 0,
        Reading::Text => 1,
        Reading::Pieces => 2,
        Reading::Duration(_) => 3,
        Reading::Secret => 4,
    }
}

/// Returns the address of a node, which identifies it while its tree does not move.
fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}
