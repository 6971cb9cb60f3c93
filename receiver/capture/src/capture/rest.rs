//! What the capture does while there is nothing to trace: it waits longer, and returns memory that it does not need.

use std::time::Duration;

use super::Capture;
use crate::{clock, memory};

/// Longest wait for a mapping while processes are traced, whose records are read meanwhile.
const ACTIVE_WAIT: Duration = Duration::from_millis(5);
/// Longest wait while no process is traced, but some have mapped a library.
const IDLE_WAIT: Duration = Duration::from_millis(50);
/// Longest wait while no process has mapped a library and none is probed.
const EMPTY_WAIT: Duration = Duration::from_millis(250);

/// Whether memory was returned since a process was traced.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Rest {
    /// A process is traced, or was when processes were last listed.
    #[default]
    Active,
    /// No process was traced when processes were last listed.
    Idle,
    /// Memory was returned.
    Resting,
}

impl Capture {
    /// Returns true while no process is traced.
    pub(super) fn is_idle(&self) -> bool {
        self.processes.traced().next().is_none()
    }

    /// Returns how long to wait for a mapping.
    pub(super) fn wait_time(&self) -> Duration {
        if !self.is_idle() {
            return ACTIVE_WAIT;
        }
        match self.idle_until_ns() {
            None => IDLE_WAIT,
            Some(until_ns) => {
                let wait = Duration::from_nanos(until_ns.saturating_sub(clock::now_ns()));
                wait.min(EMPTY_WAIT).min(Duration::from_nanos(self.totals_interval.length_ns()))
            }
        }
    }

    /// Returns when a process is to be scanned, ns, if no process can call a probed function before it maps a library.
    fn idle_until_ns(&self) -> Option<u64> {
        let is_empty = self.libraries.attached().0 == 0 && self.hand_over.is_none();
        self.processes.idle_until_ns().filter(|_| is_empty)
    }

    /// Returns memory if no process was traced since the last call: what was needed to load the programs or to trace
    /// processes, and the mapped records.
    pub(super) fn rest(&mut self) {
        self.rest = match self.rest {
            _ if !self.is_idle() => Rest::Active,
            Rest::Active => Rest::Idle,
            Rest::Idle => {
                memory::release();
                Rest::Resting
            }
            Rest::Resting => Rest::Resting,
        };
        if self.rest == Rest::Resting {
            self.kernel.ring.rest();
        }
    }
}
