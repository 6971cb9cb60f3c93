//! Mapping from process and handle to communicator and rank.
//!
//! A handle is an address and may be reused; a communicator's name is permanent. Every function that makes a
//! communicator ends in [`Registry::admit`], every end of one in [`Registry::leave`], so a reused handle, or one first
//! seen during use, needs no separate path.

use std::collections::{BTreeMap, VecDeque};

use event::ProcessId;
use slotmap::SlotMap;

use crate::communicator::{Communicator, Slot};
use crate::finding::{Disagreement, Dispute, Finding, RankKnown};
use crate::identity::{CommunicatorId, Fact, IdSource, RankIdentity, Source};
use crate::member::{ChildOf, Draft, Member, RankEnd};
use crate::observe::{Environment, Out};
use crate::tally::Tally;

/// Maximum number of communicators with an unwritten handle; the oldest is evicted and counted.
const UNWRITTEN_MAX: usize = 1024;

slotmap::new_key_type! {
    /// The key of a rank. Keys of removed ranks find nothing.
    pub(crate) struct MemberKey;

    /// The key of a communicator. Keys of removed communicators find nothing.
    pub(crate) struct CommunicatorKey;
}

/// A communicator whose handle is not written yet.
#[derive(Clone, Debug)]
struct Unwritten {
    process: ProcessId,
    at: u64,
    draft: Draft,
}

/// The current ranks and communicators.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    members_max: usize,
    pub(crate) members: SlotMap<MemberKey, Member>,
    pub(crate) communicators: SlotMap<CommunicatorKey, Communicator>,
    by_handle: BTreeMap<(ProcessId, u64), MemberKey>,
    by_name: BTreeMap<u64, CommunicatorKey>,
    unwritten: VecDeque<Unwritten>,
    tick: u64,
}

impl Registry {
    pub(crate) fn new(members_max: usize) -> Registry {
        Registry {
            members_max,
            members: SlotMap::default(),
            communicators: SlotMap::default(),
            by_handle: BTreeMap::new(),
            by_name: BTreeMap::new(),
            unwritten: VecDeque::new(),
            tick: 0,
        }
    }

    /// Returns the rank of a handle, if known.
    pub(crate) fn find(&mut self, process: ProcessId, handle: u64) -> Option<MemberKey> {
        let key = *self.by_handle.get(&(process, handle))?;
        self.tick += 1;
        self.members.get_mut(key)?.used = self.tick;
        Some(key)
    }

    /// Takes the unwritten draft for a handle, or the only one of the process.
    pub(crate) fn take_unwritten(&mut self, process: ProcessId, at: Option<u64>) -> Option<Draft> {
        let mut of = self.unwritten.iter().enumerate();
        let index = match at {
            Some(at) => of.rfind(|(_, u)| (u.process, u.at) == (process, at))?.0,
            None => {
                // A handle used before its memory was read matches only a process's single draft.
                let mut own = of.filter(|(_, u)| u.process == process);
                let only = own.next()?.0;
                if own.next().is_some() {
                    return None;
                }
                only
            }
        };
        self.unwritten.remove(index).map(|u| u.draft)
    }

    pub(crate) fn put_unwritten(&mut self, process: ProcessId, out: Out, draft: Draft, tally: &mut Tally) {
        self.unwritten.retain(|u| (u.process, u.at) != (process, out.at));
        if self.unwritten.len() >= UNWRITTEN_MAX {
            self.unwritten.pop_front();
            tally.unwritten_evicted += 1;
        }
        self.unwritten.push_back(Unwritten { process, at: out.at, draft });
    }

    /// Returns the member to evict before another one is admitted.
    pub(crate) fn crowded(&self) -> Option<MemberKey> {
        if self.members.len() < self.members_max.max(1) {
            return None;
        }
        let unused = self.by_handle.values().filter_map(|key| Some((self.members.get(*key)?.used, *key)));
        unused.min_by_key(|(used, _)| *used).map(|(_, key)| key)
    }

    /// Adds a rank. Its handle must be unused: see [`Registry::find`].
    pub(crate) fn admit(
        &mut self,
        draft: Draft,
        handle: u64,
        at_ns: u64,
        tally: &mut Tally,
        out: &mut Vec<Finding>,
    ) -> MemberKey {
        let who = draft.who;
        let (is_late, child_of) = (draft.is_late, draft.child_of);
        let home = self.home(&who);
        let slot = self.communicators.get(home).map_or(0, |c| c.slots.len());
        self.tick += 1;
        let tick = self.tick;
        let key = self.members.insert(draft.into_member(handle, home, slot, tick));
        self.by_handle.insert((who.process, handle), key);
        self.communicators.get_mut(home).into_iter().for_each(|c| {
            c.join(key, at_ns);
        });
        tally.joined += 1;
        tally.late_attached += u64::from(is_late);
        out.push(Finding::Rank(Box::new(RankKnown { at_ns, who, is_new: true, is_late })));
        self.compare(key, at_ns, tally, out);
        child_of.into_iter().for_each(|child| self.settle_child(key, child, at_ns, out));
        key
    }

    /// Removes a rank, and its communicator with the last rank.
    pub(crate) fn leave(&mut self, key: MemberKey, end: RankEnd, tally: &mut Tally) -> Option<Member> {
        let member = self.members.remove(key)?;
        self.by_handle.remove(&(member.process(), member.handle));
        tally.left += 1;
        tally.replaced += u64::from(end == RankEnd::Replaced);
        tally.members_evicted += u64::from(end == RankEnd::Evicted);
        if let Some(communicator) = self.communicators.get_mut(member.communicator) {
            communicator.leave(member.slot, member.who, end);
        }
        self.remove_if_empty(member.communicator, tally);
        Some(member)
    }

    /// Returns the ranks of a process.
    pub(crate) fn of_process(&self, process: ProcessId) -> Vec<MemberKey> {
        self.by_handle.range((process, 0)..=(process, u64::MAX)).map(|(_, key)| *key).collect()
    }

    pub(crate) fn remove_unwritten(&mut self, process: ProcessId) {
        self.unwritten.retain(|u| u.process != process);
    }

    /// Merges reported facts into a rank and reports its updated identity.
    pub(crate) fn learn(
        &mut self,
        key: MemberKey,
        rank: Fact,
        nranks: Fact,
        at_ns: u64,
        tally: &mut Tally,
        out: &mut Vec<Finding>,
    ) {
        let Some(member) = self.members.get_mut(key) else { return };
        let before = member.who;
        let disputes = [
            (member.who.rank.learn(rank), Dispute::Rank, rank.value),
            (member.who.nranks.learn(nranks), Dispute::Nranks, nranks.value),
        ];
        let (who, is_late) = (member.who, member.is_late);
        for (_, about, rejected) in disputes.into_iter().filter(|(differs, ..)| *differs) {
            tally.disagreements += 1;
            out.push(Finding::Disagreement(Box::new(Disagreement { at_ns, who, about, rejected })));
        }
        if who == before {
            return;
        }
        out.push(Finding::Rank(Box::new(RankKnown { at_ns, who, is_new: false, is_late })));
        let is_guess = who.communicator.source == IdSource::Warptap && is_late;
        if is_guess && before.nranks.value.is_some() && before.nranks.value != who.nranks.value {
            self.move_out(key, at_ns, tally);
        }
        self.compare(key, at_ns, tally, out);
    }

    /// Returns a draft for a handle whose creation was not seen.
    pub(crate) fn late(&self, who: RankIdentity, born_ns: u64, environment: Option<&Environment>) -> Draft {
        let is_first = self.of_process(who.process).is_empty();
        // The job's own communicator is created first; the environment does not describe later ones.
        let world = environment.filter(|e| is_first && e.world_size.is_some());
        let source = Source::Environment;
        let facts = world.map_or_else(Default::default, |e| {
            (Fact::maybe(e.rank, source), Fact::maybe(e.world_size, source))
        });
        let shared = world.filter(|e| e.job != 0).map(|e| CommunicatorId {
            hash: crate::hash::own(&[e.job, u64::from(e.world_size.unwrap_or(0))]),
            source: IdSource::Warptap,
        });
        let communicator = shared.unwrap_or(who.communicator);
        let who = RankIdentity { communicator, rank: facts.0, nranks: facts.1, ..who };
        Draft { who, born_ns, is_late: true, child_of: None }
    }

    /// Infers a child's rank and number of ranks if they are known now.
    pub(crate) fn settle_child(
        &mut self,
        key: MemberKey,
        child: ChildOf,
        at_ns: u64,
        out: &mut Vec<Finding>,
    ) {
        let Some(parent) = self.communicators.get_mut(child.parent) else { return };
        parent.splits.set_child(child.ordinal, child.parent_rank, key);
        self.infer(child.parent, child.ordinal, at_ns, out);
    }

    /// Infers the facts of all children of a complete split.
    pub(crate) fn infer(
        &mut self,
        parent: CommunicatorKey,
        ordinal: i32,
        at_ns: u64,
        out: &mut Vec<Finding>,
    ) {
        let Some(communicator) = self.communicators.get(parent) else { return };
        let Some(nranks) = communicator.nranks.value else { return };
        let mut tally = Tally::default();
        for (key, inferred) in communicator.splits.infer(ordinal, nranks) {
            let fact = |value| Fact { value: Some(value), source: Source::Inferred };
            self.learn(key, fact(inferred.rank), fact(inferred.nranks), at_ns, &mut tally, out);
        }
    }

    /// Returns the communicator of this name; another one if this rank number is taken in it.
    fn home(&mut self, who: &RankIdentity) -> CommunicatorKey {
        let name = who.communicator.hash;
        let known = self.by_name.get(&name).copied();
        let is_in = |slot: &Slot| {
            let there = self.members.get(slot.member).map(|m| m.who);
            there.is_some_and(|w| w.process == who.process && w.rank.value == who.rank.value)
        };
        let fits =
            |key: &CommunicatorKey| self.communicators.get(*key).is_some_and(|c| !c.slots.iter().any(is_in));
        if let Some(key) = known.filter(fits) {
            return key;
        }
        let key = self.communicators.insert(Communicator::new(who.communicator, who.nranks));
        self.by_name.insert(name, key);
        key
    }

    /// Reports disagreements between the ranks of one communicator.
    fn compare(&mut self, key: MemberKey, at_ns: u64, tally: &mut Tally, out: &mut Vec<Finding>) {
        let Some(member) = self.members.get(key) else { return };
        let (who, home) = (member.who, member.communicator);
        let Some(communicator) = self.communicators.get_mut(home) else { return };
        let before = communicator.nranks.value;
        let mut report = |about, rejected| {
            tally.disagreements += 1;
            out.push(Finding::Disagreement(Box::new(Disagreement { at_ns, who, about, rejected })));
        };
        if communicator.nranks.learn(who.nranks) {
            report(Dispute::Nranks, before);
        }
        let Some(rank) = who.rank.value else { return };
        let others: Vec<MemberKey> =
            communicator.slots.iter().map(|s| s.member).filter(|m| *m != key).collect();
        let is_same =
            |other: &MemberKey| self.members.get(*other).is_some_and(|m| m.who.rank.value == Some(rank));
        if others.iter().any(is_same) {
            report(Dispute::SameRank, Some(rank));
        }
    }

    /// Moves a rank whose environment was misleading to a communicator of its own.
    fn move_out(&mut self, key: MemberKey, at_ns: u64, tally: &mut Tally) {
        let Some(member) = self.members.get_mut(key) else { return };
        let (old, slot, who) = (member.communicator, member.slot, member.who);
        let hash = crate::hash::own(&[u64::from(who.process.pid), who.process.start_ns, member.handle]);
        member.who.communicator = CommunicatorId { hash, source: IdSource::Local };
        let who_now = member.who;
        let home = self.home(&who_now);
        let slot_now = self.communicators.get_mut(home).map_or(0, |c| c.join(key, at_ns));
        if let Some(member) = self.members.get_mut(key) {
            (member.communicator, member.slot) = (home, slot_now);
        }
        if let Some(communicator) = self.communicators.get_mut(home) {
            communicator.is_exact = false;
        }
        if let Some(communicator) = self.communicators.get_mut(old) {
            communicator.leave(slot, who, RankEnd::Evicted);
        }
        self.remove_if_empty(old, tally);
    }

    fn remove_if_empty(&mut self, key: CommunicatorKey, tally: &mut Tally) {
        if self.communicators.get(key).is_none_or(|c| c.live > 0) {
            return;
        }
        let gone = self.communicators.remove(key);
        let Some(gone) = gone else { return };
        tally.rounds_dropped += gone.rounds.open() as u64;
        if self.by_name.get(&gone.id.hash) == Some(&key) {
            self.by_name.remove(&gone.id.hash);
        }
    }
}
