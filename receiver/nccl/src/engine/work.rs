//! Operations on their way: enqueued, come to, waited for, given up.

use event::ProcessId;

use super::Engine;
use crate::communicator::Communicator;
use crate::finding::{Arrived, Completed, Enqueued, Finding, Mismatch, Recovered, Straggler, Traced};
use crate::groups::Held;
use crate::identity::{Fact, Who};
use crate::member::Member;
use crate::observe::{Call, StreamAction, StreamCall};
use crate::op::Op;
use crate::process::Process;
use crate::registry::Take;
use crate::rounds::{Arrival, Round, Signature};
use crate::slab::Key;
use crate::straggler::{Change, Lateness};
use crate::streams::Pending;
use crate::trace::{Chosen, TraceIds};

/// How a wait ended.
#[derive(Clone, Copy)]
enum How<'a> {
    /// A thread waited.
    Waited(&'a StreamCall),
    /// Somebody asked.
    Polled(&'a StreamCall),
}

impl Engine {
    /// An operation takes effect with `call`: its own, or the end of its group.
    pub(super) fn enqueue(&mut self, call: &Call, held: &Held, out: Take<'_>) {
        let arguments = &held.arguments;
        let key = self.member(call, arguments.comm, out);
        let Some(process) = self.processes.get_mut(&call.process) else { return };
        let Some(member) = self.registry.members.get_mut(key) else { return };
        let mut op = Op::new(arguments, held.entry_ns, held.duration_ns);
        (op.arrival_ns, op.enqueued_ns) = (call.entry_ns, call.exit_ns());
        member.who.tid = call.tid;
        if held.device >= 0 {
            member.who.device = held.device;
        }
        let is_captured = process.streams.is_capturing(arguments.stream);
        if is_captured {
            self.tally.captured += 1;
            op.seq = member.next_seq;
            out(Finding::Enqueued(Enqueued { who: member.who, op, bytes: op.bytes(), is_captured }));
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
        process.is_changed = true;
        let mut crowded = std::mem::take(&mut self.pending);
        process.streams.push(arguments.stream, Pending { member: key, op }, &mut crowded);
        self.give_up(&mut crowded);
        self.pending = crowded;
        out(Finding::Enqueued(Enqueued { who, op, bytes: op.bytes(), is_captured }));
        match is_collective {
            true => self.arrive(home, slot, who, &op, arrival, lost > 0, out),
            false => self.message(home, who, &op),
        }
    }

    /// A rank comes to a collective.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one arrival, taken apart by the borrow checker"
    )]
    fn arrive(
        &mut self,
        home: Key<Communicator>,
        slot: usize,
        who: Who,
        op: &Op,
        arrival: Arrival,
        has_gap: bool,
        out: Take<'_>,
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
        self.tally.rounds_given_up += entered.given_up;
        self.tally.rounds_stale += u64::from(entered.is_stale);
        if let Some(first) = entered.mismatched.filter(|_| !communicator.is_mismatch_told) {
            communicator.is_mismatch_told = true;
            let parts = |s: Signature| (s.operation, s.datatype, s.count);
            let (called, first) = (parts(signature), parts(first));
            out(Finding::Mismatch(Box::new(Mismatch { who, seq: op.seq, called, first })));
        }
        self.settle(home, out);
    }

    /// Takes out the rounds that every rank of this node has come to.
    fn settle(&mut self, home: Key<Communicator>, out: Take<'_>) {
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
                true => self.tally.rounds_given_up += 1,
                false => self.finish(home, &round, out),
            }
            if let Some(communicator) = self.registry.communicators.get_mut(home) {
                communicator.rounds.recycle(round);
            }
        }
    }

    /// Where ranks may still join, rounds are over when none has for long enough.
    pub(super) fn settle_all(&mut self, out: Take<'_>) {
        let open = |key: &Key<Communicator>| {
            self.registry.communicators.get(*key).is_some_and(|c| c.rounds.open() > 0)
        };
        let keys: Vec<Key<Communicator>> = self.registry.communicators.keys().filter(open).collect();
        keys.into_iter().for_each(|key| self.settle(key, out));
    }

    /// Every rank of this node has come.
    fn finish(&mut self, home: Key<Communicator>, round: &Round, out: Take<'_>) {
        self.tally.rounds += 1;
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.is_mismatch_told &= round.is_mismatched;
        if round.arrived < 2 {
            return;
        }
        let mut changes = std::mem::take(&mut self.changes);
        let floor_ns = self.settings.straggler.lateness_ns_min;
        communicator.straggler.push(round, communicator.slots.len(), floor_ns, &mut changes);
        if let Some(last) = self.who(home, round.last_slot) {
            out(Finding::Arrived(Arrived {
                communicator: last.communicator,
                seq: round.seq,
                operation: round.signature.operation,
                ranks: round.arrived,
                first_ns: round.first_ns,
                skew_ns: round.skew_ns(),
                last,
            }));
        }
        changes.drain(..).for_each(|change| self.change(home, round, change, out));
        self.changes = changes;
    }

    fn change(&mut self, home: Key<Communicator>, round: &Round, change: Change, out: Take<'_>) {
        let at_ns = self.now_ns.max(round.last_ns);
        match change {
            Change::Recovered { slot } => {
                if let Some(who) = self.who(home, slot) {
                    out(Finding::Recovered(Box::new(Recovered { at_ns, who, seq: round.seq })));
                }
            }
            Change::Late { slot, how } => {
                if let Some(found) = self.straggler(home, round, slot, how, at_ns) {
                    out(Finding::Straggler(Box::new(found)));
                }
            }
        }
    }

    fn straggler(
        &self,
        home: Key<Communicator>,
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

    /// Who is, or was, in a slot.
    pub(super) fn who(&self, home: Key<Communicator>, slot: usize) -> Option<Who> {
        let slot = self.registry.communicators.get(home)?.slots.get(slot)?;
        match &slot.end {
            Some(end) => Some(end.0),
            None => self.registry.members.get(slot.member).map(|m| m.who),
        }
    }

    fn message(&mut self, home: Key<Communicator>, who: Who, op: &Op) {
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.progress += 1;
        let (Some(rank), Ok(peer)) = (who.rank.value, u32::try_from(op.peer)) else { return };
        let is_send = op.operation == crate::Operation::Send;
        let (from, to) = if is_send { (rank, peer) } else { (peer, rank) };
        self.tally.pairs_overflow += u64::from(!communicator.message(from, to, is_send));
    }

    /// A call that waits for streams or orders them. Processes that never used NCCL are none of our business.
    pub(super) fn stream(&mut self, call: &StreamCall, out: Take<'_>) {
        let Some(process) = self.processes.get_mut(&call.process) else { return };
        process.active_ns = process.active_ns.max(call.exit_ns());
        let (entry_ns, streams) = (call.entry_ns, &mut process.streams);
        let mut taken = std::mem::take(&mut self.pending);
        let mut crowded = Vec::new();
        match call.action {
            StreamAction::Sync(stream) | StreamAction::PolledStream(stream) => {
                streams.close(stream, entry_ns, &mut taken);
            }
            StreamAction::SyncUntil(stream, until_ns) => streams.close(stream, until_ns, &mut taken),
            StreamAction::EventSync(event) | StreamAction::PolledEvent(event) => {
                let is_known = streams.close_event(event, entry_ns, &mut taken);
                self.tally.events_unknown += u64::from(!is_known);
            }
            StreamAction::DeviceSync => streams.close_all(entry_ns, &mut taken),
            StreamAction::Record(event, stream) => streams.record(event, stream, entry_ns),
            StreamAction::WaitEvent(stream, event) => {
                streams.wait_event(stream, event, entry_ns, &mut crowded);
            }
            StreamAction::BeginCapture(stream) => streams.begin_capture(stream, &mut crowded),
            StreamAction::EndCapture(stream) => streams.end_capture(stream),
            StreamAction::DestroyStream(stream) => {
                let mut gone = Vec::new();
                streams.destroy(stream, &mut gone);
                self.tally.ended += gone.len() as u64;
                gone.iter().for_each(|p| self.release(p, call.exit_ns()));
            }
            StreamAction::DestroyEvent(event) => streams.destroy_event(event),
        }
        self.give_up(&mut crowded);
        match call.action {
            StreamAction::PolledStream(_) | StreamAction::PolledEvent(_) => {
                self.close(How::Polled(call), &taken, out);
            }
            _ => self.close(How::Waited(call), &taken, out),
        }
        taken.clear();
        self.pending = taken;
    }

    /// A closer covers these.
    fn close(&mut self, how: How<'_>, taken: &[Pending], out: Take<'_>) {
        let (How::Waited(call) | How::Polled(call)) = how;
        let is_wait = matches!(how, How::Waited(_)) && is_closer(call.action);
        if let Some(process) = self.processes.get_mut(&call.process) {
            process.waited_ns = process.waited_ns.saturating_add(if is_wait { call.duration_ns } else { 0 });
            process.is_changed |= !taken.is_empty();
        }
        for pending in taken {
            self.release(pending, call.exit_ns());
            match is_wait {
                true => self.complete(call, pending, out),
                false => self.tally.polled += 1,
            }
            self.done(pending, call.exit_ns());
        }
    }

    fn complete(&mut self, call: &StreamCall, pending: &Pending, out: Take<'_>) {
        self.tally.completed += 1;
        let (op, end_ns) = (pending.op, call.exit_ns());
        let Some(member) = self.registry.members.get(pending.member) else { return };
        let (who, home, slot) = (member.who, member.communicator, member.slot);
        let barrier_wait_ns = end_ns.saturating_sub(op.enqueued_ns);
        let issue_gap_ns = call.entry_ns.saturating_sub(op.enqueued_ns);
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.waited(slot, barrier_wait_ns);
        let is_compared = op.operation.is_collective() && communicator.aligner.is_none();
        let seen = is_compared.then(|| communicator.straggler.seen(op.seq, slot)).flatten();
        let skew_ns = seen.map(|(skew_ns, _)| skew_ns);
        let trace = if communicator.is_exact { self.trace(&who, &op, skew_ns) } else { None };
        out(Finding::Completed(Completed {
            who,
            op,
            closer_tid: call.tid,
            end_ns,
            issue_gap_ns,
            wait_ns: barrier_wait_ns - issue_gap_ns,
            barrier_wait_ns,
            skew_ns,
            behind_first_ns: seen.map(|(_, behind_ns)| behind_ns),
            trace,
        }));
    }

    /// Ids, where the collective is to be traced. Only names and numbers that all ranks share make ids that do.
    fn trace(&self, who: &Who, op: &Op, skew_ns: Option<u64>) -> Option<Traced> {
        if !op.operation.is_collective() || !who.communicator.is_shared() {
            return None;
        }
        let settings = self.settings.trace;
        let ids = TraceIds::of(who.communicator, op.seq, part(who));
        let is_skewed = settings.skew_ns_min > 0 && skew_ns.is_some_and(|ns| ns >= settings.skew_ns_min);
        let chosen = match ids.is_chosen(settings.rate) {
            true => Chosen::Rate,
            false if is_skewed => Chosen::Skew,
            false => return None,
        };
        Some(Traced { ids, chosen, is_root: who.rank.value == Some(0) })
    }

    /// One operation less is outstanding.
    fn release(&mut self, pending: &Pending, at_ns: u64) {
        if let Some(member) = self.registry.members.get_mut(pending.member) {
            member.outstanding = member.outstanding.saturating_sub(1);
            member.progress_ns = member.progress_ns.max(at_ns);
        }
    }

    /// Tells the aligner, if one is at work, that a rank is done with a collective.
    fn done(&mut self, pending: &Pending, at_ns: u64) {
        let Some(member) = self.registry.members.get(pending.member) else { return };
        let (home, slot) = (member.communicator, member.slot);
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.progress += 1;
        let Some(aligner) = communicator.aligner.as_mut().filter(|_| pending.op.operation.is_collective())
        else {
            return;
        };
        if !aligner.done(slot, pending.op.seq, at_ns) {
            return;
        }
        let slots = &communicator.slots;
        if let Some(shifts) = aligner.shifts(slots.len(), |slot| slots[slot].end.is_none()) {
            self.align(home, &shifts);
        }
    }

    /// From here on the ranks' sequence numbers agree.
    fn align(&mut self, home: Key<Communicator>, shifts: &[i64]) {
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        // Counts are too low where something was not seen, never too high.
        let least = shifts.iter().copied().min().unwrap_or(0);
        let mut next = 0;
        for (slot, shift) in communicator.slots.iter().zip(shifts) {
            let Some(member) = self.registry.members.get_mut(slot.member) else { continue };
            let shift = (shift - least).cast_unsigned();
            member.next_seq = member.next_seq.wrapping_add(shift);
            member.recent.iter_mut().for_each(|op| op.seq = op.seq.wrapping_add(shift));
            next = next.max(member.next_seq);
            if let Some(process) = self.processes.get_mut(&member.process()) {
                process.streams.renumber(slot.member, shift);
            }
        }
        communicator.aligner = None;
        communicator.rounds.restart(next);
        communicator.straggler.reset(communicator.slots.len());
    }

    /// These are no longer followed.
    fn give_up(&mut self, crowded: &mut Vec<Pending>) {
        self.tally.forgotten += crowded.len() as u64;
        for pending in crowded.drain(..) {
            let member = self.registry.members.get_mut(pending.member);
            member.into_iter().for_each(|m| m.outstanding = m.outstanding.saturating_sub(1));
        }
    }

    /// Gives up what nobody has waited for in a long time, but not what hangs.
    pub(super) fn expire(&mut self) {
        let before_ns = self.now_ns.saturating_sub(self.settings.expiry_ns);
        let hangs = |id: &ProcessId| {
            let keys = self.registry.of_process(*id);
            let homes = keys.into_iter().filter_map(|key| Some(self.registry.members.get(key)?.communicator));
            homes.filter_map(|home| self.registry.communicators.get(home)).any(|c| c.hanging.is_some())
        };
        let mut gone = std::mem::take(&mut self.pending);
        for (id, process) in &mut self.processes {
            if process.streams.has_before(before_ns) && !hangs(id) {
                process.streams.expire(before_ns, &mut gone);
            }
        }
        self.tally.expired += gone.len() as u64;
        for pending in gone.drain(..) {
            let member = self.registry.members.get_mut(pending.member);
            member.into_iter().for_each(|m| m.outstanding = m.outstanding.saturating_sub(1));
        }
        self.pending = gone;
    }
}

/// Numbers a collective; says how many before it were lost.
fn number(member: &mut Member, op: &mut Op, ordinal: Option<u64>) -> u64 {
    let (seq, lost) = member.take_seq(ordinal);
    op.seq = seq;
    lost
}

/// Notes that a rank has enqueued an operation.
fn note(member: &mut Member, process: &Process, op: Op, recent_max: usize) -> Arrival {
    member.outstanding += 1;
    member.progress_ns = member.progress_ns.max(op.enqueued_ns);
    member.remember(op, recent_max);
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

fn is_closer(action: StreamAction) -> bool {
    matches!(
        action,
        StreamAction::Sync(_)
            | StreamAction::SyncUntil(..)
            | StreamAction::EventSync(_)
            | StreamAction::DeviceSync
    )
}

/// What tells a rank's spans from other ranks'.
fn part(who: &Who) -> u64 {
    let Fact { value, .. } = who.rank;
    let own = || crate::hash::own(&[u64::from(who.process.pid), who.process.start_ns, who.tid.into()]);
    value.map_or_else(own, u64::from)
}
