//! Enqueueing of operations: numbering them and recording each rank's arrival.

use super::Engine;
use crate::finding::{Arrived, Enqueued, Finding, Mismatch, Recovered, Straggler};
use crate::groups::PendingCall;
use crate::identity::RankIdentity;
use crate::member::Member;
use crate::observe::NcclCall;
use crate::op::Op;
use crate::operation::Operation;
use crate::process::Process;
use crate::registry::CommunicatorKey;
use crate::rounds::{Arrival, Round, Signature};
use crate::straggler::{Change, Lateness};
use crate::streams::Pending;

impl Engine {
    /// Enqueues an operation that takes effect with `call`: its own call, or the end of its group.
    pub(super) fn enqueue(&mut self, call: &NcclCall, pending: &PendingCall, out: &mut Vec<Finding>) {
        let arguments = &pending.arguments;
        let key = self.member(call, arguments.comm, out);
        let Some(process) = self.processes.get_mut(&call.process) else { return };
        let Some(member) = self.registry.members.get_mut(key) else { return };
        let mut op = Op::new(arguments, pending.entry_ns, pending.duration_ns);
        (op.arrival_ns, op.enqueued_ns) = (call.entry_ns, call.exit_ns());
        member.who.tid = call.tid;
        if pending.device >= 0 {
            member.who.device = pending.device;
        }
        let is_captured = process.streams.is_capturing(arguments.stream);
        if is_captured {
            self.tally.captured += 1;
            // The source counts it with the executed collectives; the engine does not.
            member.last_ordinal = arguments.ordinal.or(member.last_ordinal);
            op.seq = member.next_seq;
            out.push(Finding::Enqueued(Enqueued { who: member.who, op, bytes: op.bytes(), is_captured }));
            return;
        }
        let is_collective = op.operation.is_collective();
        let lost = if is_collective { number(member, &mut op, arguments.ordinal) } else { 0 };
        op.seq = if is_collective { op.seq } else { member.next_seq };
        self.tally.operations += 1;
        self.tally.collectives_lost = self.tally.collectives_lost.saturating_add(lost);
        self.tally.sizes_unknown += u64::from(op.bytes().is_none());
        let arrival = note(member, process, op, self.settings.recorder_last);
        let (who, home, slot) = (member.who, member.communicator, member.slot);
        let is_counted = !(is_collective || member.is_late);
        process.is_changed = true;
        let message = self.message(home, who, &op).filter(|_| is_counted);
        let Some(process) = self.processes.get_mut(&call.process) else { return };
        let mut dropped = std::mem::take(&mut self.pending);
        let pending = Pending { member: key, op, message, is_unarmed: arguments.is_unarmed };
        process.streams.push(arguments.stream, pending, &mut dropped);
        self.drop_pending(&mut dropped);
        self.pending = dropped;
        out.push(Finding::Enqueued(Enqueued { who, op, bytes: op.bytes(), is_captured }));
        if is_collective {
            self.arrive(home, slot, who, &op, arrival, lost > 0, out);
        }
    }

    /// Records a rank's arrival at a collective.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one arrival, taken apart by the borrow checker"
    )]
    fn arrive(
        &mut self,
        home: CommunicatorKey,
        slot: usize,
        who: RankIdentity,
        op: &Op,
        arrival: Arrival,
        has_gap: bool,
        out: &mut Vec<Finding>,
    ) {
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.progress += 1;
        let signature = Signature { operation: op.operation, datatype: op.datatype, count: op.count };
        if let Some(aligner) = &mut communicator.aligner {
            aligner.arrive(slot, op.seq, arrival.at_ns, signature);
            self.tally.unaligned += 1;
            return;
        }
        let rounds = &mut communicator.rounds;
        let entered = rounds.arrive(slot, op.seq, arrival, signature, self.settings.rounds_max);
        if has_gap {
            rounds.void_before(slot, op.seq);
        }
        self.tally.rounds_dropped += entered.dropped;
        self.tally.rounds_stale += u64::from(entered.is_stale);
        if let Some(first) = entered.mismatched.filter(|_| !communicator.is_mismatch_reported) {
            communicator.is_mismatch_reported = true;
            let parts = |s: Signature| (s.operation, s.datatype, s.count);
            let (called, first) = (parts(signature), parts(first));
            out.push(Finding::Mismatch(Box::new(Mismatch { who, seq: op.seq, called, first })));
        }
        self.settle(home, out);
    }

    /// Removes the rounds that every rank of this node has reached.
    fn settle(&mut self, home: CommunicatorKey, out: &mut Vec<Finding>) {
        let now_ns = self.now_ns;
        while let Some(communicator) = self.registry.communicators.get_mut(home) {
            let Some(front) = communicator.rounds.front() else { return };
            let (is_void, is_over) = (front.is_void, communicator.is_complete(front));
            let is_settled = || communicator.is_settled(now_ns, self.settings.join_grace_ns);
            if !(is_void || is_over && is_settled()) {
                return;
            }
            let Some(round) = communicator.rounds.take_front() else { return };
            match is_void {
                true => self.tally.rounds_dropped += 1,
                false => self.conclude(home, &round, out),
            }
            if let Some(communicator) = self.registry.communicators.get_mut(home) {
                communicator.rounds.recycle(round);
            }
        }
    }

    /// Finishes rounds of communicators whose last rank joined before the grace time.
    pub(super) fn settle_all(&mut self, out: &mut Vec<Finding>) {
        let open = |key: &CommunicatorKey| {
            self.registry.communicators.get(*key).is_some_and(|c| c.rounds.open() > 0)
        };
        let keys: Vec<CommunicatorKey> = self.registry.communicators.keys().filter(open).collect();
        keys.into_iter().for_each(|key| self.settle(key, out));
    }

    /// Evaluates a round that every rank of this node has reached.
    fn conclude(&mut self, home: CommunicatorKey, round: &Round, out: &mut Vec<Finding>) {
        self.tally.rounds += 1;
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.is_mismatch_reported &= round.is_mismatched;
        if round.arrived < 2 {
            return;
        }
        let mut changes = std::mem::take(&mut self.changes);
        let floor_ns = self.settings.straggler.lateness_ns_min;
        communicator.straggler.push(round, communicator.slots.len(), floor_ns, &mut changes);
        if let Some(last) = self.who(home, round.last_slot) {
            out.push(Finding::Arrived(Arrived {
                communicator: last.communicator,
                seq: round.seq,
                operation: round.signature.operation,
                ranks: round.arrived,
                first_ns: round.first_ns,
                skew_ns: round.skew_ns(),
                last,
            }));
        }
        self.report_round(home, round.seq, out);
        changes.drain(..).for_each(|change| self.change(home, round, change, out));
        self.changes = changes;
    }

    fn change(&mut self, home: CommunicatorKey, round: &Round, change: Change, out: &mut Vec<Finding>) {
        let at_ns = self.now_ns.max(round.last_ns);
        match change {
            Change::Recovered { slot } => {
                if let Some(who) = self.who(home, slot) {
                    out.push(Finding::Recovered(Box::new(Recovered { at_ns, who, seq: round.seq })));
                }
            }
            Change::Late { slot, how } => {
                if let Some(found) = self.straggler(home, round, slot, how, at_ns) {
                    out.push(Finding::Straggler(Box::new(found)));
                }
            }
        }
    }

    fn straggler(
        &self,
        home: CommunicatorKey,
        round: &Round,
        slot: usize,
        how: Lateness,
        at_ns: u64,
    ) -> Option<Straggler> {
        let who = self.who(home, slot)?;
        let (wait_ns, wait_peers_ns) = self.registry.communicators.get(home)?.waits(slot);
        Some(Straggler {
            at_ns,
            who,
            seq: round.seq,
            operation: round.signature.operation,
            behind_ns: how.behind_ns,
            scatter_ns: how.scatter_ns,
            rounds: how.rounds,
            late_rounds: how.late_rounds,
            waited_ns: how.waited_ns,
            wait_ns,
            wait_peers_ns,
            last_step: self.processes.get(&who.process).and_then(|p| p.steps.back().copied()),
        })
    }

    /// Returns the identity of the current or former rank in a slot.
    pub(super) fn who(&self, home: CommunicatorKey, slot: usize) -> Option<RankIdentity> {
        let slot = self.registry.communicators.get(home)?.slots.get(slot)?;
        match &slot.end {
            Some(end) => Some(end.0),
            None => self.registry.members.get(slot.member).map(|m| m.who),
        }
    }

    /// Counts a send or receive. Returns its number if both sides count alike.
    fn message(&mut self, home: CommunicatorKey, who: RankIdentity, op: &Op) -> Option<u64> {
        let communicator = self.registry.communicators.get_mut(home)?;
        if op.operation.is_collective() {
            return None;
        }
        communicator.progress += 1;
        let (from, to) = op.ends(who.rank.value?)?;
        let number = communicator.message(from, to, op.operation == Operation::Send);
        self.tally.pairs_overflow += u64::from(number.is_none());
        number.filter(|_| !communicator.are_messages_lost)
    }
}

/// Numbers a collective. Returns how many before it were lost.
fn number(member: &mut Member, op: &mut Op, ordinal: Option<u64>) -> u64 {
    let (seq, lost) = member.take_seq(ordinal);
    op.seq = seq;
    lost
}

/// Records that a rank has enqueued an operation.
fn note(member: &mut Member, process: &Process, op: Op, recent_max: usize) -> Arrival {
    member.outstanding += 1;
    member.progress_ns = member.progress_ns.max(op.enqueued_ns);
    member.push_recent(op, recent_max);
    let arrival = Arrival {
        at_ns: op.arrival_ns.max(1),
        waited_ns: process.waited_ns.saturating_sub(member.waited_ns),
    };
    if op.operation.is_collective() {
        member.enqueued_ns = member.enqueued_ns.max(op.arrival_ns);
        member.waited_ns = process.waited_ns;
    }
    arrival
}
