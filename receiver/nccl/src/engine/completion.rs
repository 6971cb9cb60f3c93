//! Completion of operations: waited for, queried, dropped; and the waits of a rank.

use event::ProcessId;

use super::Engine;
use crate::finding::{Completed, Finding, Traced};
use crate::identity::{Fact, RankIdentity};
use crate::observe::{StreamAction, StreamCall};
use crate::op::Op;
use crate::operation::Operation;
use crate::registry::{CommunicatorKey, MemberKey};
use crate::streams::Pending;
use crate::trace::{Chosen, TraceIds, is_chosen, message_trace_id, trace_id};

impl Engine {
    /// Handles a call that waits for streams or orders them. Processes without NCCL are ignored.
    pub(super) fn stream(&mut self, call: &StreamCall, out: &mut Vec<Finding>) {
        let Some(process) = self.processes.get_mut(&call.process) else { return };
        process.active_ns = process.active_ns.max(call.exit_ns());
        let (entry_ns, streams) = (call.entry_ns, &mut process.streams);
        let mut taken = std::mem::take(&mut self.pending);
        let mut dropped = Vec::new();
        match call.action {
            StreamAction::Sync(stream) => streams.close(stream, entry_ns, &mut taken),
            StreamAction::SyncUntil(stream, until_ns) => streams.close(stream, until_ns, &mut taken),
            StreamAction::EventSync(event) => {
                let is_known = streams.close_event(event, entry_ns, &mut taken);
                self.tally.events_unknown += u64::from(!is_known);
            }
            StreamAction::DeviceSync => streams.close_all(entry_ns, &mut taken),
            StreamAction::Record(event, stream) => streams.record(event, stream, entry_ns),
            StreamAction::WaitEvent(stream, event) => {
                streams.wait_event(stream, event, entry_ns, &mut dropped);
            }
            StreamAction::BeginCapture(stream) => streams.begin_capture(stream, &mut dropped),
            StreamAction::EndCapture(stream) => streams.end_capture(stream),
            StreamAction::DestroyStream(stream) => {
                let mut gone = Vec::new();
                streams.destroy(stream, &mut gone);
                self.tally.ended += gone.len() as u64;
                gone.iter().for_each(|p| self.release(p, call.exit_ns()));
            }
            StreamAction::DestroyEvent(event) => streams.destroy_event(event),
        }
        self.drop_pending(&mut dropped);
        self.close(call, &taken, out);
        taken.clear();
        self.pending = taken;
    }

    /// Completes the operations that a sync call waited for.
    fn close(&mut self, call: &StreamCall, taken: &[Pending], out: &mut Vec<Finding>) {
        if let Some(process) = self.processes.get_mut(&call.process) {
            if is_sync_call(call.action) {
                process.wait(call);
            }
            process.is_changed |= !taken.is_empty();
        }
        for pending in taken {
            self.release(pending, call.exit_ns());
            self.own_wait(call, pending.member);
            self.complete(call, pending, out);
            self.done(pending, call.exit_ns());
        }
    }

    fn complete(&mut self, call: &StreamCall, pending: &Pending, out: &mut Vec<Finding>) {
        self.tally.completed += 1;
        if pending.is_unarmed {
            self.tally.waits_unarmed += 1;
            return;
        }
        let (op, end_ns) = (pending.op, call.exit_ns());
        let Some(member) = self.registry.members.get(pending.member) else { return };
        let (who, home, slot) = (member.who, member.communicator, member.slot);
        let barrier_wait_ns = end_ns.saturating_sub(op.enqueued_ns);
        let issue_gap_ns = call.entry_ns.saturating_sub(op.enqueued_ns);
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        communicator.waited(slot, barrier_wait_ns);
        let completed = Completed {
            who,
            op,
            sync_tid: call.tid,
            end_ns,
            issue_gap_ns,
            wait_ns: barrier_wait_ns - issue_gap_ns,
            barrier_wait_ns,
            skew_ns: None,
            behind_first_ns: None,
            message: pending.message,
            trace: None,
        };
        self.completed(home, slot, completed, out);
    }

    /// Returns trace ids if the collective is to be traced. Only names and numbers that all ranks share give valid ids.
    pub(super) fn trace(&self, who: &RankIdentity, op: &Op, skew_ns: Option<u64>) -> Option<Traced> {
        if !op.operation.is_collective() || !who.communicator.is_shared() {
            return None;
        }
        let settings = self.settings.trace;
        let is_skewed = settings.skew_ns_min > 0 && skew_ns.is_some_and(|ns| ns >= settings.skew_ns_min);
        let chosen = match is_chosen(trace_id(who.communicator.hash, op.seq), settings.rate) {
            true => Chosen::Rate,
            false if is_skewed => Chosen::Skew,
            false => return None,
        };
        let ids = TraceIds::of(who.communicator, op.seq, part(who));
        Some(Traced { ids, chosen, is_root: who.rank.value == Some(0) })
    }

    /// Returns trace ids of a message, which are derived from its two ranks.
    pub(super) fn trace_message(&self, who: &RankIdentity, op: &Op, number: u64) -> Option<Traced> {
        let (from, to) = op.ends(who.rank.value?).filter(|_| who.communicator.is_shared())?;
        let trace_id = message_trace_id(who.communicator.hash, from, to, number);
        let is_root = op.operation == Operation::Send;
        is_chosen(trace_id, self.settings.trace.rate).then(|| {
            let ids = TraceIds::of_trace(trace_id, u64::from(is_root));
            Traced { ids, chosen: Chosen::Rate, is_root }
        })
    }

    /// Excludes a sync call that covers operations of a rank from its waits for other work.
    fn own_wait(&mut self, call: &StreamCall, key: MemberKey) {
        let member = self.registry.members.get_mut(key).filter(|m| m.sync_ns != call.entry_ns);
        if let Some(member) = member {
            member.sync_ns = call.entry_ns;
            member.waited_ns = member.waited_ns.saturating_add(call.duration_ns);
        }
    }

    /// Decrements the outstanding operations of a rank.
    pub(super) fn release(&mut self, pending: &Pending, at_ns: u64) {
        if let Some(member) = self.registry.members.get_mut(pending.member) {
            member.outstanding = member.outstanding.saturating_sub(1);
            member.progress_ns = member.progress_ns.max(at_ns);
        }
    }

    /// Reports to an active aligner that a rank completed a collective.
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

    /// Applies shifts after which the ranks' sequence numbers agree.
    fn align(&mut self, home: CommunicatorKey, shifts: &[i64]) {
        let Some(communicator) = self.registry.communicators.get_mut(home) else { return };
        // Counts are too low if something was not seen, but never too high.
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

    /// Drops these operations and counts them.
    pub(super) fn drop_pending(&mut self, dropped: &mut Vec<Pending>) {
        self.tally.evicted += dropped.len() as u64;
        for pending in dropped.drain(..) {
            let member = self.registry.members.get_mut(pending.member);
            member.into_iter().for_each(|m| m.outstanding = m.outstanding.saturating_sub(1));
        }
    }

    /// Drops operations that no call waited for within the expiry time, unless they hang.
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

fn is_sync_call(action: StreamAction) -> bool {
    matches!(
        action,
        StreamAction::Sync(_)
            | StreamAction::SyncUntil(..)
            | StreamAction::EventSync(_)
            | StreamAction::DeviceSync
    )
}

/// Returns a number that distinguishes a rank's spans from those of other ranks.
fn part(who: &RankIdentity) -> u64 {
    let Fact { value, .. } = who.rank;
    let own = || crate::hash::own(&[u64::from(who.process.pid), who.process.start_ns, who.tid.into()]);
    value.map_or_else(own, u64::from)
}
