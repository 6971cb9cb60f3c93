//! What was noted while a tree was decoded: how its values were read, which a printed configuration shows, and what
//! components find odd but not wrong.
//!
//! The one idea: the type that a component decodes a value into knows whether it is a secret, a text or a
//! duration; so it is noted there, and no list of secret keys is kept anywhere. A value that no component read is
//! unknown to a `Seen`, and is printed as a secret.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::{Node, Problem};

/// How one value was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reading {
    /// As the value it is.
    Value,
    /// As a bool.
    Bool,
    /// As a number.
    Number,
    /// As a text: of an expanded value that is its original text.
    Text,
    /// As a text that stands for the list of what is between its commas.
    Pieces,
    /// As a duration.
    Duration(Duration),
    /// As a text that must not be printed.
    Secret,
}

/// What was noted of one tree, which must stay where it is. Filled while sections are decoded.
#[derive(Debug, Default)]
pub struct Seen {
    readings: Mutex<HashMap<usize, Reading>>,
    warnings: Mutex<Vec<Problem>>,
}

impl Seen {
    /// How the value was read; none where nothing read it.
    pub fn reading(&self, node: &Node) -> Option<Reading> {
        locked(&self.readings).get(&address(node)).copied()
    }

    /// What components found odd, each once however often they were built.
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

/// What a panic elsewhere left behind is as good as before.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The readings of one decoding.
#[derive(Debug, Default)]
pub(super) struct Readings(HashMap<usize, Reading>);

impl Readings {
    pub(super) fn note(&mut self, node: &Node, reading: Reading) {
        note(&mut self.0, address(node), reading);
    }
}

/// A value may be read more than once, by types within types: the least harmless reading holds.
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

/// The identity of a value for as long as its tree stays where it is.
fn address(node: &Node) -> usize {
    std::ptr::from_ref(node).addr()
}
