//! Detection of hanging communicators and the ranks that cause the hang.
//!
//! There are three kinds of hangs, each with its own evidence. A rank has not reached a collective that other ranks
//! have enqueued, and has made no progress since. Or all ranks have arrived and none completes: the cause is on another
//! node. Or one side of a message has not arrived. An idle program makes no progress either, so a rank counts as
//! waiting only while it has outstanding operations, and the second kind needs a thread seen inside a call or, if the
//! source does not report ongoing calls, processes without any activity.

use super::Engine;
use crate::communicator::{Communicator, Hanging, Slot};
use crate::finding::{Absent, Finding, Hang, HangKind, HangOver};
use crate::identity::RankIdentity;
use crate::member::Member;
use crate::op::Op;
use crate::operation::Operation;
use crate::registry::{CommunicatorKey, MemberKey};

/// A hang before its ranks are named.
struct Found {
    kind: HangKind,
    seq: u64,
    operation: Operation,
    since_ns: u64,
    missing: Vec<usize>,
    peer: Option<u32>,
    is_wait_seen: bool,
    is_mismatched: bool,
}

impl Engine {
    pub(super) fn check_hangs(&mut self, out: &mut Vec<Finding>) {
        let keys: Vec<CommunicatorKey> = self.registry.communicators.keys().collect();
        for key in keys {
            let Some(communicator) = self.registry.communicators.get(key) else { continue };
            match communicator.hanging {
                Some(hanging) => self.check_over(key, hanging, out),
                None => self.check_hang(key, out),
            }
        }
    }

    fn check_hang(&mut self, key: CommunicatorKey, out: &mut Vec<Finding>) {
        let Some(communicator) = self.registry.communicators.get(key) else { return };
        let found = self.missing(communicator).or_else(|| self.find_stuck(key, communicator));
        let Some(found) = found else { return };
        let hanging = Hanging {
            kind: found.kind,
            seq: found.seq,
            since_ns: found.since_ns,
            progress: communicator.progress,
        };
        out.push(Finding::Hang(Box::new(self.hang(communicator, &found))));
        self.registry.communicators.get_mut(key).into_iter().for_each(|c| c.hanging = Some(hanging));
    }

    fn check_over(&mut self, key: CommunicatorKey, hanging: Hanging, out: &mut Vec<Finding>) {
        let Some(communicator) = self.registry.communicators.get_mut(key) else { return };
        let is_over = match hanging.kind {
            HangKind::Missing if communicator.aligner.is_none() => {
                communicator.rounds.front().is_none_or(|front| front.seq > hanging.seq)
            }
            _ => communicator.progress != hanging.progress,
        };
        if is_over {
            communicator.hanging = None;
            let duration_ns = self.now_ns.saturating_sub(hanging.since_ns);
            let (communicator, seq, at_ns) = (communicator.id, hanging.seq, self.now_ns);
            out.push(Finding::HangOver(Box::new(HangOver { at_ns, communicator, seq, duration_ns })));
        }
    }

    /// Returns true if the hang would exceed the timeout at the next check: hangs are reported within the timeout, not
    /// after it.
    fn is_due(&self, since_ns: u64) -> bool {
        let next_ns = self.now_ns.saturating_add(self.check_interval_ns());
        next_ns.saturating_sub(since_ns) > self.settings.hang_timeout_ns
    }

    /// Finds ranks that have not reached the oldest collective.
    fn missing(&self, communicator: &Communicator) -> Option<Found> {
        let front = communicator.rounds.front().filter(|f| f.arrived > 0 && self.is_due(f.first_ns))?;
        let is_idle = |slot: usize| self.idle_since_ns(communicator, slot).is_none_or(|ns| self.is_due(ns));
        let missing: Vec<usize> =
            communicator.missing(front).map(|(slot, _)| slot).filter(|slot| is_idle(*slot)).collect();
        (!missing.is_empty()).then_some(Found {
            kind: HangKind::Missing,
            seq: front.seq,
            operation: front.signature.operation,
            since_ns: front.first_ns,
            missing,
            peer: None,
            is_wait_seen: self.is_any_waiting(communicator),
            is_mismatched: communicator.is_mismatch_reported,
        })
    }

    /// Finds ranks that have all arrived and do not complete, or whose messages do not.
    fn find_stuck(&self, key: CommunicatorKey, communicator: &Communicator) -> Option<Found> {
        let live = || communicator.slots.iter().filter(|s| s.end.is_none());
        let members = || live().filter_map(|s| Some((s.member, self.registry.members.get(s.member)?)));
        let waits = |m: &Member| m.outstanding > 0 && self.is_due(m.progress_ns);
        let waiting: Vec<(MemberKey, &Member)> = members().filter(|(_, m)| waits(m)).collect();
        let (first, op) = waiting
            .iter()
            .filter_map(|(key, member)| Some((*member, self.oldest(*key, member)?)))
            .min_by_key(|(_, op)| op.enqueued_ns)?;
        let is_wait_seen = self.is_any_waiting(communicator);
        let is_still = || members().all(|(_, m)| self.is_silent(m));
        if !op.operation.is_collective() {
            return self.peer(communicator, first, &op, is_wait_seen || is_still());
        }
        if communicator.aligner.is_some()
            && let Some(found) = self.absent_unnumbered(communicator, &op)
        {
            return Some(found);
        }
        let is_everyone = communicator.rounds.open() == 0 && waiting.len() == communicator.live;
        let is_evident = is_wait_seen || (!self.has_ongoing_calls && is_still());
        debug_assert!(self.registry.communicators.get(key).is_some());
        (is_everyone && is_evident).then_some(Found {
            kind: HangKind::Stuck,
            seq: op.seq,
            operation: op.operation,
            since_ns: op.enqueued_ns,
            missing: Vec::new(),
            peer: None,
            is_wait_seen,
            is_mismatched: communicator.is_mismatch_reported,
        })
    }

    /// Finds absent ranks while the alignment is unknown: those with nothing outstanding and no progress since the
    /// other ranks began to wait.
    fn absent_unnumbered(&self, communicator: &Communicator, op: &Op) -> Option<Found> {
        let is_absent = |slot: &Slot| match self.registry.members.get(slot.member) {
            Some(m) => m.outstanding == 0 && m.idle_since_ns() < op.arrival_ns && self.is_due(m.progress_ns),
            None => slot.is_expected(),
        };
        let slots = communicator.slots.iter().enumerate();
        let missing: Vec<usize> = slots.filter(|(_, slot)| is_absent(slot)).map(|(at, _)| at).collect();
        (!missing.is_empty()).then_some(Found {
            kind: HangKind::Missing,
            seq: op.seq,
            operation: op.operation,
            since_ns: op.enqueued_ns,
            missing,
            peer: None,
            is_wait_seen: self.is_any_waiting(communicator),
            is_mismatched: false,
        })
    }

    /// Finds a message whose other side has not arrived.
    fn peer(&self, communicator: &Communicator, member: &Member, op: &Op, is_evident: bool) -> Option<Found> {
        let peer = u32::try_from(op.peer).ok()?;
        let is_send = op.operation == Operation::Send;
        let pair = communicator.pairs.get(&op.ends(member.who.rank.value?)?)?;
        let is_here =
            |s: &Slot| self.registry.members.get(s.member).is_some_and(|m| m.who.rank.value == Some(peer));
        let missing = communicator.slots.iter().position(is_here);
        let has_come = if is_send { pair.received >= pair.sent } else { pair.sent >= pair.received };
        // Whether a rank on another node has arrived is unknown.
        (is_evident && !(missing.is_some() && has_come)).then_some(Found {
            kind: HangKind::Peer,
            seq: op.seq,
            operation: op.operation,
            since_ns: op.enqueued_ns,
            missing: missing.into_iter().collect(),
            peer: Some(peer),
            is_wait_seen: self.is_any_waiting(communicator),
            is_mismatched: false,
        })
    }

    fn hang(&self, communicator: &Communicator, found: &Found) -> Hang {
        let waiting = |slot: &Slot| {
            let member = self.registry.members.get(slot.member)?;
            (member.outstanding > 0).then_some(member.who)
        };
        let is_missing = |at: &usize| found.missing.contains(at);
        let others = communicator.slots.iter().enumerate().filter(|(at, _)| !is_missing(at));
        let mut waiting: Vec<RankIdentity> = others.filter_map(|(_, slot)| waiting(slot)).collect();
        waiting.sort_by_key(|who| (who.rank.value, who.process));
        let mut missing: Vec<Absent> =
            found.missing.iter().filter_map(|slot| self.absent(communicator, *slot)).collect();
        missing.sort_by_key(|absent| (absent.who.rank.value, absent.who.process));
        Hang {
            at_ns: self.now_ns,
            communicator: communicator.id,
            nranks: communicator.nranks.value,
            kind: found.kind,
            seq: found.seq,
            is_exact: communicator.is_exact,
            operation: found.operation,
            since_ns: found.since_ns,
            missing,
            peer: found.peer,
            waiting,
            is_mismatched: found.is_mismatched,
            is_wait_seen: found.is_wait_seen,
        }
    }

    fn absent(&self, communicator: &Communicator, slot: usize) -> Option<Absent> {
        let slot = communicator.slots.get(slot)?;
        let member = self.registry.members.get(slot.member);
        let end = slot.end.as_ref().map(|end| end.1);
        let who = slot.end.as_ref().map(|end| end.0).or(member.map(|m| m.who))?;
        let idle_ns = member.map_or(0, |m| self.now_ns.saturating_sub(m.idle_since_ns()));
        let last_step = self.processes.get(&who.process).and_then(|p| p.steps.back().copied());
        Some(Absent { who, idle_ns, next_seq: member.map_or(0, |m| m.next_seq), end, last_step })
    }

    fn idle_since_ns(&self, communicator: &Communicator, slot: usize) -> Option<u64> {
        let slot = communicator.slots.get(slot)?;
        self.registry.members.get(slot.member).map(Member::idle_since_ns)
    }

    /// Returns true if a thread of one of its ranks was recently seen inside a call that exceeds the timeout.
    fn is_any_waiting(&self, communicator: &Communicator) -> bool {
        let lately_ns = self.now_ns.saturating_sub(self.settings.hang_timeout_ns / 2);
        let members = communicator.slots.iter().filter_map(|s| self.registry.members.get(s.member));
        let mut processes = members.filter_map(|m| self.processes.get(&m.process()));
        processes.any(|p| p.waits_since(lately_ns).is_some_and(|since_ns| self.is_due(since_ns)))
    }

    fn is_silent(&self, member: &Member) -> bool {
        self.processes.get(&member.process()).is_none_or(|p| self.is_due(p.active_ns))
    }

    /// Returns the oldest operation of a rank that no call waited for.
    fn oldest(&self, key: MemberKey, member: &Member) -> Option<Op> {
        let process = self.processes.get(&member.process())?;
        let own = process.streams.pending().filter(|p| p.member == key).map(|p| p.op);
        own.min_by_key(|op| (op.enqueued_ns, op.seq))
    }
}
