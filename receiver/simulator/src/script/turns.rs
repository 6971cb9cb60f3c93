//! How often a line runs: the keys that select turns of a `repeat`, and how long a `repeat` lasts.

use crate::text::{Result, ScriptLine, Unit};

/// The turns of the innermost `repeat`, counted from 0, on which a line runs.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct When {
    /// Period in turns; 0 for every turn.
    pub every: u64,
    /// Offset within the periods of `every` and `unless`.
    pub after: u64,
    /// Period in turns of those left out; 0 for none.
    pub unless: u64,
    /// First turn.
    pub from: u64,
    /// First turn after the last; 0 for no end.
    pub until: u64,
}

impl When {
    /// Keys of every line.
    pub const KEYS: &[&str] = &["after", "at", "every", "from", "unless", "until"];

    /// Parses the keys of a line.
    pub fn of(line: &ScriptLine<'_>) -> Result<When> {
        let key = |name: &str| line.value(name, Unit::Count, 0);
        let when = When {
            every: key("every")?,
            after: key("after")?,
            unless: key("unless")?,
            from: key("from")?,
            until: key("until")?,
        };
        match line.key("at") {
            Some(_) => Ok(When { from: key("at")?, until: key("at")? + 1, ..when }),
            None => Ok(when),
        }
    }

    /// Returns true if the line runs on `turn`.
    pub fn holds(&self, turn: u64) -> bool {
        let is_due = self.every == 0 || turn % self.every == self.after % self.every;
        let is_left_out = self.unless != 0 && turn % self.unless == self.after % self.unless;
        is_due && !is_left_out && turn >= self.from && (self.until == 0 || turn < self.until)
    }
}

/// How long a `repeat` lasts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// A number of turns.
    Count(u64),
    /// A time, ns.
    For(u64),
}

impl Times {
    /// Parses a number of turns or a time.
    pub fn parse(text: &str) -> Result<Times> {
        match Unit::Count.value(text) {
            Ok(count) => Ok(Times::Count(count)),
            Err(_) => {
                let ns = Unit::Time.value(text).map_err(|e| format!("{e}, nor a number of turns"))?;
                Ok(Times::For(ns))
            }
        }
    }
}
