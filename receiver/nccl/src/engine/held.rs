//! Completions that wait for an arrival to be told: a wait ends, and may be told, before the call of the rank that it
//! waited for has returned.
//!
//! The one idea: what a closer covers has come to its end, so every rank has come to it, and whatever is missing is on its
//! way to us. A completion of an open round is held until the round is over, for as long as a call may take to return.

use std::collections::VecDeque;

use event::ProcessId;

use super::Engine;
use crate::communicator::Communicator;
use crate::finding::{Completed, Finding};
use crate::registry::Take;
use crate::slab::Key;

/// Completions held. Full: the oldest is given out as it is.
const HELD_MAX: usize = 1024;
/// A call that has enqueued its work returns, and is told, within this time, ns.
const HELD_NS: u64 = 100_000_000;

/// Completions whose skew is not known yet, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    all: VecDeque<Waiting>,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    home: Key<Communicator>,
    slot: usize,
    completed: Completed,
}

impl Held {
    /// Takes out the first one that is so.
    fn take(&mut self, is_it: impl Fn(&Waiting) -> bool) -> Option<Waiting> {
        let at = self.all.iter().position(is_it)?;
        self.all.remove(at)
    }
}

impl Engine {
    /// Nothing more will be observed: gives out what was held.
    pub fn finish(&mut self, out: &mut impl FnMut(Finding)) {
        self.give_all(|_| true, out);
    }

    /// A completion: given out where nothing more will be known of its collective.
    pub(super) fn completed(
        &mut self,
        home: Key<Communicator>,
        slot: usize,
        completed: Completed,
        out: Take<'_>,
    ) {
        let waiting = Waiting { home, slot, completed };
        let (op, is_open) = (&completed.op, self.registry.communicators.get(home));
        let is_open = is_open.is_some_and(|c| c.aligner.is_none() && c.rounds.is_open(op.seq));
        if !(op.operation.is_collective() && is_open) {
            return self.give(waiting, out);
        }
        if self.held.all.len() >= HELD_MAX
            && let Some(oldest) = self.held.all.pop_front()
        {
            self.give(oldest, out);
        }
        self.held.all.push_back(waiting);
    }

    /// The round is over: its completions know their skew.
    pub(super) fn give_round(&mut self, home: Key<Communicator>, seq: u64, out: Take<'_>) {
        self.give_all(|w| w.home == home && w.completed.op.seq == seq, out);
    }

    /// Nothing more will be told of this process.
    pub(super) fn give_process(&mut self, process: ProcessId, out: Take<'_>) {
        self.give_all(|w| w.completed.who.process == process, out);
    }

    /// What was held for too long.
    pub(super) fn give_due(&mut self, out: Take<'_>) {
        let now_ns = self.now_ns;
        let is_due = |w: &mut Waiting| w.completed.end_ns.saturating_add(HELD_NS) < now_ns;
        while let Some(waiting) = self.held.all.pop_front_if(is_due) {
            self.give(waiting, out);
        }
    }

    fn give_all(&mut self, is_it: impl Fn(&Waiting) -> bool, out: Take<'_>) {
        while let Some(waiting) = self.held.take(&is_it) {
            self.give(waiting, out);
        }
    }

    fn give(&mut self, waiting: Waiting, out: Take<'_>) {
        let Waiting { home, slot, mut completed } = waiting;
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
        out(Finding::Completed(completed));
    }
}
