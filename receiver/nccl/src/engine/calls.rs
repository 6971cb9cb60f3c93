//! Handlers of NCCL's functions: creation, end and properties of communicators.

use event::ProcessId;

use super::{Engine, MadeId, UNIQUE_IDS_MAX};
use crate::finding::Finding;
use crate::groups::{Ended, PendingCall, Verdict};
use crate::hash::{self, UniqueId};
use crate::identity::{CommunicatorId, Fact, IdSource, RankIdentity, Source};
use crate::member::{ChildOf, Draft, RankEnd};
use crate::observe::{Function, NcclCall, Out};
use crate::registry::MemberKey;

/// Source of facts read from the arguments of the call that made the communicator.
const FROM_ARGUMENTS: Source = Source::Init;

impl Engine {
    pub(super) fn call(&mut self, call: &NcclCall, out: &mut Vec<Finding>) {
        let exit_ns = call.exit_ns();
        let process = self.process(call.process, out);
        process.active_ns = process.active_ns.max(exit_ns);
        let has_succeeded = call.has_succeeded();
        match &call.function {
            Function::GetUniqueId { id } if has_succeeded => self.made_id(call, id),
            Function::Init { out: to, nranks, rank, id } if has_succeeded => {
                let name = self.name(call, *to, id.as_deref());
                let draft = self.draft(
                    call,
                    name,
                    Fact::new(*rank, FROM_ARGUMENTS),
                    Fact::new(*nranks, FROM_ARGUMENTS),
                );
                self.born(call, *to, draft, out);
            }
            Function::InitAll { handles, count, devices } if has_succeeded => {
                self.init_all(call, handles, *count, devices, out);
            }
            Function::Split { parent, color, key, child } => {
                self.split(call, *parent, *color, *key, *child, out)
            }
            Function::Shrink { parent, excluded, excluded_count, child } if has_succeeded => {
                self.shrink(call, *parent, excluded, *excluded_count, *child, out);
            }
            Function::Grow { parent, nranks, rank, child } if has_succeeded => {
                self.grow(call, *parent, *nranks, *rank, *child, out);
            }
            Function::Written(to) => self.written(call, *to, out),
            Function::Destroy { comm } if has_succeeded => self.end(call, *comm, RankEnd::Destroyed, out),
            Function::Abort { comm } => self.end(call, *comm, RankEnd::Aborted, out),
            Function::Count { comm, value } if has_succeeded => {
                self.learn(call, *comm, Fact::default(), Fact::new(*value, Source::Queried), out);
            }
            Function::UserRank { comm, value } if has_succeeded => {
                self.learn(call, *comm, Fact::new(*value, Source::Queried), Fact::default(), out);
            }
            Function::CuDevice { comm, value } if has_succeeded => {
                let key = self.member(call, *comm, out);
                self.registry.members.get_mut(key).into_iter().for_each(|m| m.who.device = *value);
            }
            Function::Operation(arguments) => {
                let (entry_ns, duration_ns) = (call.entry_ns, call.duration_ns);
                let pending =
                    PendingCall { arguments: *arguments, entry_ns, duration_ns, device: call.device };
                self.operation(call, pending, out);
            }
            Function::GroupStart if has_succeeded => self.groups.start(call.process, call.tid),
            Function::GroupEnd => self.group_end(call, out),
            _ => {}
        }
    }

    fn operation(&mut self, call: &NcclCall, pending: PendingCall, out: &mut Vec<Finding>) {
        if !call.has_succeeded() {
            self.tally.failed += 1;
            return;
        }
        match self.groups.call(call.process, call.tid, pending) {
            Verdict::Now => self.enqueue(call, &pending, out),
            Verdict::Pending => {}
            Verdict::Nested => self.tally.nested += 1,
            Verdict::Overflow => self.tally.groups_overflow += 1,
        }
    }

    fn group_end(&mut self, call: &NcclCall, out: &mut Vec<Finding>) {
        match self.groups.end(call.process, call.tid) {
            Ended::Inner => {}
            Ended::Unmatched => self.tally.groups_unmatched += 1,
            Ended::Outermost(pending) if call.has_succeeded() => {
                pending.iter().for_each(|pending| self.enqueue(call, pending, out));
            }
            Ended::Outermost(pending) => self.tally.failed += pending.len() as u64,
        }
    }

    /// Returns the rank of a handle, adding it if its creation was not seen.
    pub(super) fn member(&mut self, call: &NcclCall, handle: u64, out: &mut Vec<Finding>) -> MemberKey {
        if let Some(key) = self.registry.find(call.process, handle) {
            return key;
        }
        let draft = self.registry.take_unwritten(call.process, None).unwrap_or_else(|| {
            let hash = own_name(call.process, handle, call.entry_ns);
            let who = self.caller(call, CommunicatorId { hash, source: IdSource::Local });
            let environment = self.processes.get(&call.process).and_then(|p| p.environment.as_ref());
            self.registry.late(who, call.entry_ns, environment)
        });
        self.admit(draft, handle, call.exit_ns(), out)
    }

    /// Admits a draft under its handle.
    pub(super) fn admit(
        &mut self,
        draft: Draft,
        handle: u64,
        at_ns: u64,
        out: &mut Vec<Finding>,
    ) -> MemberKey {
        let process = draft.who.process;
        if let Some(old) = self.registry.find(process, handle) {
            self.leave(old, RankEnd::Replaced, at_ns, out);
        }
        while let Some(unused) = self.registry.crowded() {
            self.leave(unused, RankEnd::Evicted, at_ns, out);
        }
        let is_late = draft.is_late;
        let key = self.registry.admit(draft, handle, at_ns, &mut self.tally, out);
        if is_late {
            self.doubt_home(key);
        }
        if let Some(process) = self.processes.get_mut(&process) {
            process.is_changed = true;
            let waited_ns = process.waited_ns;
            self.registry.members.get_mut(key).into_iter().for_each(|m| m.waited_ns = waited_ns);
        }
        key
    }

    fn doubt_home(&mut self, key: MemberKey) {
        let home = self.registry.members.get(key).map(|m| m.communicator);
        if let Some(communicator) = home.and_then(|home| self.registry.communicators.get_mut(home)) {
            self.tally.rounds_dropped += communicator.doubt();
        }
    }

    fn born(&mut self, call: &NcclCall, to: Out, draft: Draft, out: &mut Vec<Finding>) {
        if to.handle == 0 {
            self.registry.put_unwritten(call.process, to, draft, &mut self.tally);
            return;
        }
        // The communicator was observed twice: NCCL made a nested call, or the handle was read again.
        if let Some(key) = self.registry.find(call.process, to.handle)
            && self.registry.members.get(key).is_some_and(|m| is_same(&m.who, &draft.who))
        {
            return;
        }
        self.admit(draft, to.handle, call.exit_ns(), out);
    }

    fn written(&mut self, call: &NcclCall, to: Out, out: &mut Vec<Finding>) {
        if to.handle != 0
            && let Some(draft) = self.registry.take_unwritten(call.process, Some(to.at))
        {
            self.born(call, to, draft, out);
        }
    }

    fn init_all(
        &mut self,
        call: &NcclCall,
        handles: &[u64],
        count: i32,
        devices: &[i32],
        out: &mut Vec<Finding>,
    ) {
        let is_inside =
            |id: &&MadeId| (id.process, id.tid) == (call.process, call.tid) && id.entry_ns >= call.entry_ns;
        let made = self.made_ids.iter().rev().find(is_inside).map(|id| (id.hash, id.own));
        let own = own_name(call.process, handles.first().copied().unwrap_or(0), call.entry_ns);
        let name = match made {
            Some((hash, own)) => self.gated(call.process, hash, own),
            // All its ranks are in this process, so all share a name computed here.
            None => CommunicatorId { hash: own, source: IdSource::Warptap },
        };
        for (rank, handle) in handles.iter().enumerate().take(usize::try_from(count).unwrap_or(0)) {
            let mut draft = self.draft(
                call,
                name,
                Fact::new(rank as i32, FROM_ARGUMENTS),
                Fact::new(count, FROM_ARGUMENTS),
            );
            draft.who.device = devices.get(rank).copied().unwrap_or(rank as i32);
            self.born(call, Out { at: 0, handle: *handle }, draft, out);
        }
    }

    fn split(
        &mut self,
        call: &NcclCall,
        parent: u64,
        color: i32,
        key: i32,
        child: Out,
        out: &mut Vec<Finding>,
    ) {
        let parent = self.member(call, parent, out);
        let Some(member) = self.registry.members.get_mut(parent) else { return };
        if !call.has_succeeded() {
            // It is unknown whether NCCL counted it.
            member.is_children_sure = false;
            return;
        }
        member.children = member.children.wrapping_add(1);
        let (ordinal, is_sure, home) = (member.children, member.is_children_sure, member.communicator);
        let (parent_name, parent_rank) = (member.who.communicator, member.who.rank.value);
        if let (Some(rank), Some(home)) = (parent_rank, self.registry.communicators.get_mut(home)) {
            home.splits.add(ordinal, rank, color, key);
        }
        if color >= 0 {
            let name = child_name(parent_name, ordinal, color, is_sure, IdSource::Nccl);
            let child_of = parent_rank.map(|parent_rank| ChildOf { parent: home, ordinal, parent_rank });
            let draft = self.draft(call, name, Fact::default(), Fact::default());
            self.born(call, child, Draft { child_of, ..draft }, out);
        }
        self.registry.infer(home, ordinal, call.exit_ns(), out);
    }

    fn shrink(
        &mut self,
        call: &NcclCall,
        parent: u64,
        excluded: &[i32],
        excluded_count: i32,
        child: Out,
        out: &mut Vec<Finding>,
    ) {
        let parent = self.member(call, parent, out);
        let Some(who) = self.registry.members.get(parent).map(|m| m.who) else { return };
        let inferred = |value: Option<u32>| Fact::maybe(value, Source::Inferred);
        let left_out = u32::try_from(excluded_count).ok();
        let nranks = who.nranks.value.and_then(|n| n.checked_sub(left_out?));
        let is_whole = left_out == Some(excluded.len() as u32);
        let before =
            |rank: u32| excluded.iter().filter(|r| u32::try_from(**r).is_ok_and(|r| r < rank)).count();
        // A list that names a rank twice can exclude more ranks than exist.
        let rank = who.rank.value.filter(|_| is_whole).and_then(|r| r.checked_sub(before(r) as u32));
        // In NCCL's hash a shrink is not a numbered child.
        let name = child_name(who.communicator, 0, 0, true, IdSource::Expected);
        let draft = self.draft(call, name, inferred(rank), inferred(nranks));
        self.born(call, child, draft, out);
    }

    /// Creates a grown communicator. The input of NCCL's hash for it is not read, so it gets a computed name that only
    /// ranks of the parent share.
    fn grow(
        &mut self,
        call: &NcclCall,
        parent: u64,
        nranks: i32,
        rank: i32,
        child: Out,
        out: &mut Vec<Finding>,
    ) {
        let mut rank = Fact::new(rank, FROM_ARGUMENTS);
        let mut name = CommunicatorId {
            hash: own_name(call.process, child.handle, call.entry_ns),
            source: IdSource::Local,
        };
        if parent != 0 {
            let parent = self.member(call, parent, out);
            let Some(member) = self.registry.members.get_mut(parent) else { return };
            member.children = member.children.wrapping_add(1);
            let parts =
                [member.who.communicator.hash, u64::from(member.children.cast_unsigned()), nranks as u64];
            name = CommunicatorId {
                hash: hash::own(&parts),
                source: member.who.communicator.source.min(IdSource::Warptap),
            };
            rank = Fact::maybe(member.who.rank.value, Source::Inferred);
        }
        let draft = self.draft(call, name, rank, Fact::new(nranks, FROM_ARGUMENTS));
        self.born(call, child, draft, out);
    }

    fn end(&mut self, call: &NcclCall, comm: u64, end: RankEnd, out: &mut Vec<Finding>) {
        let Some(key) = self.registry.find(call.process, comm) else { return };
        // The handle was freed and reused by another thread before this call returned.
        if self.registry.members.get(key).is_some_and(|m| m.born_ns <= call.entry_ns) {
            self.leave(key, end, call.exit_ns(), out);
        }
    }

    fn learn(&mut self, call: &NcclCall, comm: u64, rank: Fact, nranks: Fact, out: &mut Vec<Finding>) {
        let key = self.member(call, comm, out);
        self.registry.learn(key, rank, nranks, call.exit_ns(), &mut self.tally, out);
    }

    fn made_id(&mut self, call: &NcclCall, id: &UniqueId) {
        if self.made_ids.len() >= UNIQUE_IDS_MAX {
            self.made_ids.pop_front();
        }
        let (process, tid, entry_ns) = (call.process, call.tid, call.entry_ns);
        let (hash, own) = (hash::of_unique_id(id), own_of_id(id));
        self.made_ids.push_back(MadeId { process, tid, entry_ns, hash, own });
    }

    fn name(&self, call: &NcclCall, to: Out, id: Option<&UniqueId>) -> CommunicatorId {
        match id {
            Some(id) => self.gated(call.process, hash::of_unique_id(id), own_of_id(id)),
            None => {
                let parts = if to.handle == 0 { to.at } else { to.handle };
                CommunicatorId { hash: own_name(call.process, parts, call.entry_ns), source: IdSource::Local }
            }
        }
    }

    /// Returns NCCL's name unless the process's NCCL version is known to compute it differently; else the own name.
    fn gated(&self, process: ProcessId, hash: u64, own: u64) -> CommunicatorId {
        match self.processes.get(&process).and_then(|p| p.version) {
            None | Some(hash::VERSION_MIN..hash::VERSION_UNSEEN) => {
                CommunicatorId { hash, source: IdSource::Nccl }
            }
            Some(1..hash::VERSION_MIN) => CommunicatorId { hash: own, source: IdSource::Warptap },
            Some(_) => CommunicatorId { hash, source: IdSource::Expected },
        }
    }

    fn caller(&self, call: &NcclCall, communicator: CommunicatorId) -> RankIdentity {
        RankIdentity {
            communicator,
            rank: Fact::default(),
            nranks: Fact::default(),
            process: call.process,
            tid: call.tid,
            device: call.device,
        }
    }

    fn draft(&self, call: &NcclCall, communicator: CommunicatorId, rank: Fact, nranks: Fact) -> Draft {
        let who = RankIdentity { rank, nranks, ..self.caller(call, communicator) };
        Draft { who, born_ns: call.entry_ns, is_late: false, child_of: None }
    }
}

fn is_same(a: &RankIdentity, b: &RankIdentity) -> bool {
    a.communicator.hash == b.communicator.hash && (a.rank.value == b.rank.value || b.rank.value.is_none())
}

fn own_name(process: ProcessId, handle: u64, entry_ns: u64) -> u64 {
    hash::own(&[u64::from(process.pid), process.start_ns, handle, entry_ns])
}

fn own_of_id(id: &UniqueId) -> u64 {
    let words = id.chunks_exact(8).map(|word| word.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
    hash::own(&words.collect::<Vec<u64>>())
}

/// Returns a child's name: NCCL's if the parent's name and the child's ordinal are known, with a certainty of
/// `at_most`.
fn child_name(
    parent: CommunicatorId,
    ordinal: i32,
    color: i32,
    is_sure: bool,
    at_most: IdSource,
) -> CommunicatorId {
    let is_nccl = is_sure && parent.source >= IdSource::Expected;
    let own =
        || hash::own(&[parent.hash, u64::from(ordinal.cast_unsigned()), u64::from(color.cast_unsigned())]);
    match is_nccl {
        true => CommunicatorId {
            hash: hash::of_child(parent.hash, ordinal, color),
            source: parent.source.min(at_most),
        },
        false => CommunicatorId { hash: own(), source: parent.source.min(IdSource::Warptap) },
    }
}
