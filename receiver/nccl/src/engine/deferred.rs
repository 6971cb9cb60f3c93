//! Deferred completions: a wait may end, and be observed, before the call of the rank that it waited for has returned.
//!
//! A covered collective is complete, so every rank has reached it and missing arrivals are about to be observed. A
//! completion of an open round is deferred until the round is complete, for at most the time that a call takes to
//! return.

use std::collections::VecDeque;

use event::ProcessId;

use super::Engine;
use crate::finding::{Completed, Finding};
use crate::registry::CommunicatorKey;

/// Maximum number of deferred completions; above it the oldest is reported without skew.
const DEFERRED_MAX: usize = 1024;
/// Time within which a call that enqueued its work returns and is observed, ns.
const DEFERRED_NS: u64 = 100_000_000;

/// Completions whose skew is not known yet, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct DeferredCompletions {
    all: VecDeque<Deferred>,
}

#[derive(Clone, Copy, Debug)]
struct Deferred {
    home: CommunicatorKey,
    slot: usize,
    completed: Completed,
}

impl DeferredCompletions {
    /// Removes and returns the first completion that matches.
    fn take(&mut self, is_it: impl Fn(&Deferred) -> bool) -> Option<Deferred> {
        let at = self.all.iter().position(is_it)?;
        self.all.remove(at)
    }
}

impl Engine {
    /// Reports all deferred completions; call it after the last observation.
    pub fn finish(&mut self, out: &mut Vec<Finding>) {
        self.report_all(|_| true, out);
    }

    /// Reports a completion, or defers it while its round is open.
    pub(super) fn completed(
        &mut self,
        home: CommunicatorKey,
        slot: usize,
        completed: Completed,
        out: &mut Vec<Finding>,
    ) {
        let waiting = Deferred { home, slot, completed };
        let (op, is_open) = (&completed.op, self.registry.communicators.get(home));
        let is_open = is_open.is_some_and(|c| c.aligner.is_none() && c.rounds.is_open(op.seq));
        if !(op.operation.is_collective() && is_open) {
            return self.report(waiting, out);
        }
        if self.deferred.all.len() >= DEFERRED_MAX
            && let Some(oldest) = self.deferred.all.pop_front()
        {
            self.report(oldest, out);
        }
        self.deferred.all.push_back(waiting);
    }

    /// Reports the completions of a finished round, with their skew.
    pub(super) fn report_round(&mut self, home: CommunicatorKey, seq: u64, out: &mut Vec<Finding>) {
        self.report_all(|w| w.home == home && w.completed.op.seq == seq, out);
    }

    /// Reports the completions of a process that will send no more observations.
    pub(super) fn report_process(&mut self, process: ProcessId, out: &mut Vec<Finding>) {
        self.report_all(|w| w.completed.who.process == process, out);
    }

    /// Reports completions that were deferred for the maximum time.
    pub(super) fn report_due(&mut self, out: &mut Vec<Finding>) {
        let now_ns = self.now_ns;
        let is_due = |w: &mut Deferred| w.completed.end_ns.saturating_add(DEFERRED_NS) < now_ns;
        while let Some(waiting) = self.deferred.all.pop_front_if(is_due) {
            self.report(waiting, out);
        }
    }

    fn report_all(&mut self, is_it: impl Fn(&Deferred) -> bool, out: &mut Vec<Finding>) {
        while let Some(waiting) = self.deferred.take(&is_it) {
            self.report(waiting, out);
        }
    }

    fn report(&mut self, waiting: Deferred, out: &mut Vec<Finding>) {
        let Deferred { home, slot, mut completed } = waiting;
        let (who, op) = (completed.who, completed.op);
        if let Some(communicator) = self.registry.communicators.get(home) {
            let is_compared = op.operation.is_collective() && communicator.aligner.is_none();
            let seen = is_compared.then(|| communicator.straggler.seen(op.seq, slot)).flatten();
            completed.skew_ns = seen.map(|(skew_ns, _)| skew_ns);
            completed.behind_first_ns = seen.map(|(_, behind_ns)| behind_ns);
            let is_exact = communicator.is_exact;
            completed.trace = match completed.message.filter(|_| is_exact) {
                Some(number) => self.trace_message(&who, &op, number),
                None => is_exact.then(|| self.trace(&who, &op, completed.skew_ns)).flatten(),
            };
        }
        out.push(Finding::Completed(completed));
    }
}
