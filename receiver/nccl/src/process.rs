//! One process: its streams, its environment, and how long it has waited.

use std::collections::VecDeque;

use crate::observe::{Environment, StepNote, StreamCall, UnderWay};
use crate::streams::{Bounds, Streams};

/// What is known of a process that uses NCCL.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) streams: Streams,
    pub(crate) environment: Option<Environment>,
    /// `NCCL_VERSION_CODE`; `None` not known.
    pub(crate) version: Option<u32>,
    /// Time in closers since the process is known, ns. Of threads that wait at once the sum.
    pub(crate) waited_ns: u64,
    /// Thread and entry of the last closer: one told stream by stream counts once.
    pub(crate) closer: (u32, u64),
    /// When anything was last observed of it.
    pub(crate) active_ns: u64,
    /// A call that did not return, as last seen.
    pub(crate) under_way: Option<UnderWay>,
    /// Its last steps, oldest first.
    pub(crate) steps: VecDeque<StepNote>,
    pub(crate) used: u64,
    /// Something about it is to be written to the flight recorder.
    pub(crate) is_changed: bool,
}

impl Process {
    pub(crate) fn new(bounds: Bounds) -> Process {
        Process {
            streams: Streams::new(bounds),
            environment: None,
            version: None,
            waited_ns: 0,
            closer: (0, 0),
            active_ns: 0,
            under_way: None,
            steps: VecDeque::new(),
            used: 0,
            is_changed: false,
        }
    }

    /// A thread waited.
    pub(crate) fn wait(&mut self, call: &StreamCall) {
        let closer = (call.tid, call.entry_ns);
        if self.closer != closer {
            self.closer = closer;
            self.waited_ns = self.waited_ns.saturating_add(call.duration_ns);
        }
    }

    pub(crate) fn remember_step(&mut self, step: StepNote, max: usize) {
        if self.steps.len() >= max.max(1) {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// Since when a call that was seen under way after `after_ns` has lasted.
    pub(crate) fn waits_since(&self, after_ns: u64) -> Option<u64> {
        self.under_way.filter(|u| u.at_ns >= after_ns).map(|u| u.entry_ns)
    }
}
