//! One process: its streams, its environment, and its wait time.

use std::collections::VecDeque;

use crate::observe::{Environment, OngoingCall, StepNote, StreamCall};
use crate::streams::{Bounds, Streams};

/// State of a process that uses NCCL.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) streams: Streams,
    pub(crate) environment: Option<Environment>,
    /// `NCCL_VERSION_CODE`; `None` if unknown.
    pub(crate) version: Option<u32>,
    /// Time in sync calls since the process is known, ns; the sum over threads.
    pub(crate) waited_ns: u64,
    /// Thread and entry of the last sync call; a call observed once per stream counts once.
    pub(crate) sync_call: (u32, u64),
    /// Time of the last observation of the process, ns.
    pub(crate) active_ns: u64,
    /// A call that had not returned when last seen.
    pub(crate) ongoing_call: Option<OngoingCall>,
    /// Its last steps, oldest first.
    pub(crate) steps: VecDeque<StepNote>,
    pub(crate) used: u64,
    /// Its flight record changed.
    pub(crate) is_changed: bool,
}

impl Process {
    pub(crate) fn new(bounds: Bounds) -> Process {
        Process {
            streams: Streams::new(bounds),
            environment: None,
            version: None,
            waited_ns: 0,
            sync_call: (0, 0),
            active_ns: 0,
            ongoing_call: None,
            steps: VecDeque::new(),
            used: 0,
            is_changed: false,
        }
    }

    /// Adds the wait of a sync call.
    pub(crate) fn wait(&mut self, call: &StreamCall) {
        let sync_call = (call.tid, call.entry_ns);
        if self.sync_call != sync_call {
            self.sync_call = sync_call;
            self.waited_ns = self.waited_ns.saturating_add(call.duration_ns);
        }
    }

    pub(crate) fn push_step(&mut self, step: StepNote, max: usize) {
        if self.steps.len() >= max.max(1) {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
    }

    /// Returns the entry of a call that was seen in progress after `after_ns`.
    pub(crate) fn waits_since(&self, after_ns: u64) -> Option<u64> {
        self.ongoing_call.filter(|u| u.at_ns >= after_ns).map(|u| u.entry_ns)
    }
}
