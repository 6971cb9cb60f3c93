//! Changes between working and failing, so that a log shows each change once and not every failure.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether an operation works, as of its last outcome. Starts as working.
#[derive(Debug, Default)]
pub struct Health {
    is_failing: AtomicBool,
}

/// A change of health.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// The operation failed after it worked.
    Failed,
    /// The operation worked after it failed.
    Recovered,
}

impl Health {
    /// Records an outcome; returns the change if the previous outcome was different.
    pub fn record(&self, is_ok: bool) -> Option<Change> {
        let was_failing = self.is_failing.swap(!is_ok, Ordering::Relaxed);
        match (was_failing, is_ok) {
            (false, false) => Some(Change::Failed),
            (true, true) => Some(Change::Recovered),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_reported() {
        let health = Health::default();
        let changes = [true, false, false, true, true, false].map(|is_ok| health.record(is_ok));
        let (failed, recovered) = (Some(Change::Failed), Some(Change::Recovered));
        assert_eq!(changes, [None, failed, None, recovered, None, failed]);
    }
}
