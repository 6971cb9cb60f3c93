//! NCCL's functions, one by one: which communicators come and go, and what is known of them.

use event::ProcessId;

use super::{Engine, MadeId, UNIQUE_IDS_MAX};
use crate::groups::{Ended, Held, Verdict};
use crate::hash::{self, UniqueId};
use crate::identity::{CommunicatorId, Fact, IdSource, Source, Who};
use crate::member::{ChildOf, Draft, End, Member};
use crate::observe::{Call, Function, Out};
use crate::registry::Take;
use crate::slab::Key;

/// What a call does to a communicator is known from its arguments: no need to ask NCCL.
const TOLD: Source = Source::Init;

impl Engine {
    pub(super) fn call(&mut self, call: &Call, out: Take<'_>) {
        let exit_ns = call.exit_ns();
        let process = self.process(call.process, out);
        process.active_ns = process.active_ns.max(exit_ns);
        let has_succeeded = call.has_succeeded();
        match &call.function {
            Function::GetUniqueId { id } if has_succeeded => self.made_id(call, id),
            Function::Init { out: to, nranks, rank, id } if has_succeeded => {
                let name = self.name(call, *to, id.as_deref());
                let draft = self.draft(call, name, Fact::told(*rank, TOLD), Fact::told(*nranks, TOLD));
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
            Function::Destroy { comm } if has_succeeded => self.end(call, *comm, End::Destroyed, out),
            Function::Abort { comm } => self.end(call, *comm, End::Aborted, out),
            Function::Count { comm, value } if has_succeeded => {
                self.told(call, *comm, Fact::default(), Fact::told(*value, Source::Asked), out);
            }
            Function::UserRank { comm, value } if has_succeeded => {
                self.told(call, *comm, Fact::told(*value, Source::Asked), Fact::default(), out);
            }
            Function::CuDevice { comm, value } if has_succeeded => {
                let key = self.member(call, *comm, out);
                self.registry.members.get_mut(key).into_iter().for_each(|m| m.who.device = *value);
            }
            Function::Operation(arguments) => {
                let (entry_ns, duration_ns) = (call.entry_ns, call.duration_ns);
                let held = Held { arguments: *arguments, entry_ns, duration_ns, device: call.device };
                self.operation(call, held, out);
            }
            Function::GroupStart if has_succeeded => self.groups.start(call.process, call.tid),
            Function::GroupEnd => self.group_end(call, out),
            _ => {}
        }
    }

    fn operation(&mut self, call: &Call, held: Held, out: Take<'_>) {
        if !call.has_succeeded() {
            self.tally.failed += 1;
            return;
        }
        match self.groups.call(call.process, call.tid, held) {
            Verdict::Now => self.enqueue(call, &held, out),
            Verdict::Held => {}
            Verdict::Nested => self.tally.nested += 1,
            Verdict::Overflow => self.tally.groups_overflow += 1,
        }
    }

    fn group_end(&mut self, call: &Call, out: Take<'_>) {
        match self.groups.end(call.process, call.tid) {
            Ended::Inner => {}
            Ended::Unmatched => self.tally.groups_unmatched += 1,
            Ended::Outermost(held) if call.has_succeeded() => {
                held.iter().for_each(|held| self.enqueue(call, held, out));
            }
            Ended::Outermost(held) => self.tally.failed += held.len() as u64,
        }
    }

    /// The rank behind a handle, whether or not anybody saw how it was made.
    pub(super) fn member(&mut self, call: &Call, handle: u64, out: Take<'_>) -> Key<Member> {
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

    /// Gives a draft its handle.
    pub(super) fn admit(&mut self, draft: Draft, handle: u64, at_ns: u64, out: Take<'_>) -> Key<Member> {
        let process = draft.who.process;
        if let Some(old) = self.registry.find(process, handle) {
            self.leave(old, End::Replaced, at_ns, out);
        }
        while let Some(unused) = self.registry.crowded() {
            self.leave(unused, End::Forgotten, at_ns, out);
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

    fn doubt_home(&mut self, key: Key<Member>) {
        let home = self.registry.members.get(key).map(|m| m.communicator);
        if let Some(communicator) = home.and_then(|home| self.registry.communicators.get_mut(home)) {
            self.tally.rounds_given_up += communicator.doubt();
        }
    }

    fn born(&mut self, call: &Call, to: Out, draft: Draft, out: Take<'_>) {
        if to.handle == 0 {
            self.registry.put_unwritten(call.process, to, draft, &mut self.tally);
            return;
        }
        // The same communicator told twice: NCCL made a call of its own, or the handle was read again.
        if let Some(key) = self.registry.find(call.process, to.handle)
            && self.registry.members.get(key).is_some_and(|m| is_same(&m.who, &draft.who))
        {
            return;
        }
        self.admit(draft, to.handle, call.exit_ns(), out);
    }

    fn written(&mut self, call: &Call, to: Out, out: Take<'_>) {
        if to.handle != 0
            && let Some(draft) = self.registry.take_unwritten(call.process, Some(to.at))
        {
            self.born(call, to, draft, out);
        }
    }

    fn init_all(&mut self, call: &Call, handles: &[u64], count: i32, devices: &[i32], out: Take<'_>) {
        let is_inside =
            |id: &&MadeId| (id.process, id.tid) == (call.process, call.tid) && id.entry_ns >= call.entry_ns;
        let made = self.made_ids.iter().rev().find(is_inside).map(|id| (id.hash, id.own));
        let own = own_name(call.process, handles.first().copied().unwrap_or(0), call.entry_ns);
        let name = match made {
            Some((hash, own)) => self.gated(call.process, hash, own),
            // All its ranks are here: a name of ours is shared by all.
            None => CommunicatorId { hash: own, source: IdSource::Ours },
        };
        for (rank, handle) in handles.iter().enumerate().take(usize::try_from(count).unwrap_or(0)) {
            let mut draft = self.draft(call, name, Fact::told(rank as i32, TOLD), Fact::told(count, TOLD));
            draft.who.device = devices.get(rank).copied().unwrap_or(rank as i32);
            self.born(call, Out { at: 0, handle: *handle }, draft, out);
        }
    }

    fn split(&mut self, call: &Call, parent: u64, color: i32, key: i32, child: Out, out: Take<'_>) {
        let parent = self.member(call, parent, out);
        let Some(member) = self.registry.members.get_mut(parent) else { return };
        if !call.has_succeeded() {
            // NCCL may or may not have counted it.
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
        self.registry.reckon(home, ordinal, call.exit_ns(), out);
    }

    fn shrink(
        &mut self,
        call: &Call,
        parent: u64,
        excluded: &[i32],
        excluded_count: i32,
        child: Out,
        out: Take<'_>,
    ) {
        let parent = self.member(call, parent, out);
        let Some(who) = self.registry.members.get(parent).map(|m| m.who) else { return };
        let reckoned = |value: Option<u32>| Fact::maybe(value, Source::Reckoned);
        let left_out = u32::try_from(excluded_count).ok();
        let nranks = who.nranks.value.and_then(|n| n.checked_sub(left_out?));
        let is_whole = left_out == Some(excluded.len() as u32);
        let before =
            |rank: u32| excluded.iter().filter(|r| u32::try_from(**r).is_ok_and(|r| r < rank)).count();
        // A list that names a rank twice may leave out more than there are.
        let rank = who.rank.value.filter(|_| is_whole).and_then(|r| r.checked_sub(before(r) as u32));
        // A shrink is no numbered child in NCCL's hash.
        let name = child_name(who.communicator, 0, 0, true, IdSource::Expected);
        let draft = self.draft(call, name, reckoned(rank), reckoned(nranks));
        self.born(call, child, draft, out);
    }

    /// What NCCL hashes of a grown communicator is not read: it gets a name of ours, which only ranks that were in
    /// the parent share.
    fn grow(&mut self, call: &Call, parent: u64, nranks: i32, rank: i32, child: Out, out: Take<'_>) {
        let mut rank = Fact::told(rank, TOLD);
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
                source: member.who.communicator.source.min(IdSource::Ours),
            };
            rank = Fact::maybe(member.who.rank.value, Source::Reckoned);
        }
        let draft = self.draft(call, name, rank, Fact::told(nranks, TOLD));
        self.born(call, child, draft, out);
    }

    fn end(&mut self, call: &Call, comm: u64, end: End, out: Take<'_>) {
        let Some(key) = self.registry.find(call.process, comm) else { return };
        // Freed and given to another thread's communicator before this call had returned.
        if self.registry.members.get(key).is_some_and(|m| m.born_ns <= call.entry_ns) {
            self.leave(key, end, call.exit_ns(), out);
        }
    }

    fn told(&mut self, call: &Call, comm: u64, rank: Fact, nranks: Fact, out: Take<'_>) {
        let key = self.member(call, comm, out);
        self.registry.learn(key, rank, nranks, call.exit_ns(), &mut self.tally, out);
    }

    fn made_id(&mut self, call: &Call, id: &UniqueId) {
        if self.made_ids.len() >= UNIQUE_IDS_MAX {
            self.made_ids.pop_front();
        }
        let (process, tid, entry_ns) = (call.process, call.tid, call.entry_ns);
        let (hash, own) = (hash::of_unique_id(id), own_of_id(id));
        self.made_ids.push_back(MadeId { process, tid, entry_ns, hash, own });
    }

    fn name(&self, call: &Call, to: Out, id: Option<&UniqueId>) -> CommunicatorId {
        match id {
            Some(id) => self.gated(call.process, hash::of_unique_id(id), own_of_id(id)),
            None => {
                let parts = if to.handle == 0 { to.at } else { to.handle };
                CommunicatorId { hash: own_name(call.process, parts, call.entry_ns), source: IdSource::Local }
            }
        }
    }

    /// NCCL's name where the process's NCCL is known, or not known not, to make it this way; else ours.
    fn gated(&self, process: ProcessId, hash: u64, own: u64) -> CommunicatorId {
        match self.processes.get(&process).and_then(|p| p.version) {
            None | Some(hash::VERSION_MIN..hash::VERSION_UNSEEN) => {
                CommunicatorId { hash, source: IdSource::Nccl }
            }
            Some(1..hash::VERSION_MIN) => CommunicatorId { hash: own, source: IdSource::Ours },
            Some(_) => CommunicatorId { hash, source: IdSource::Expected },
        }
    }

    fn caller(&self, call: &Call, communicator: CommunicatorId) -> Who {
        Who {
            communicator,
            rank: Fact::default(),
            nranks: Fact::default(),
            process: call.process,
            tid: call.tid,
            device: call.device,
        }
    }

    fn draft(&self, call: &Call, communicator: CommunicatorId, rank: Fact, nranks: Fact) -> Draft {
        let who = Who { rank, nranks, ..self.caller(call, communicator) };
        Draft { who, born_ns: call.entry_ns, is_late: false, child_of: None }
    }
}

fn is_same(a: &Who, b: &Who) -> bool {
    a.communicator.hash == b.communicator.hash && (a.rank.value == b.rank.value || b.rank.value.is_none())
}

fn own_name(process: ProcessId, handle: u64, entry_ns: u64) -> u64 {
    hash::own(&[u64::from(process.pid), process.start_ns, handle, entry_ns])
}

fn own_of_id(id: &UniqueId) -> u64 {
    let words = id.chunks_exact(8).map(|word| word.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)));
    hash::own(&words.collect::<Vec<u64>>())
}

/// A child's name: NCCL's where the parent's is and which child it is is known; `at_most` as certain as this.
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
        false => CommunicatorId { hash: own(), source: parent.source.min(IdSource::Ours) },
    }
}
