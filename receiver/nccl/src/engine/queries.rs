//! Queries of an engine's state: counts, current ranks, flight records.

use event::ProcessId;

use super::Engine;
use crate::finding::RankState;
use crate::identity::Source;
use crate::member::{Draft, Member};
use crate::op::Op;
use crate::process::Process;
use crate::record::{FlightRecord, RankRecord};
use crate::{Fact, Finding, Tally};

impl Engine {
    /// Returns the counts since the beginning.
    pub fn tally(&self) -> Tally {
        let mut sum = self.tally;
        for process in self.processes.values() {
            sum.streams_evicted += process.streams.evicted.streams;
            sum.events_evicted += process.streams.evicted.events;
            sum.edges_evicted += process.streams.evicted.edges;
        }
        sum.threads_evicted = self.groups.evicted_threads;
        sum.groups_overflow += self.groups.evicted_calls;
        sum
    }

    /// Returns the number of operations of all ranks that no call waited for yet.
    pub fn outstanding(&self) -> u64 {
        self.registry.members.values().map(|m| m.outstanding).sum()
    }

    /// Returns the current ranks in unspecified order.
    pub fn ranks(&self) -> impl Iterator<Item = RankState> + '_ {
        self.registry.members.values().map(|member| self.rank_state(member))
    }

    /// Returns the numbers of known communicators and processes.
    pub fn sizes(&self) -> (usize, usize) {
        (self.registry.communicators.len(), self.processes.len())
    }

    /// Returns the processes whose flight record changed since the previous call.
    pub fn take_changed(&mut self) -> Vec<ProcessId> {
        let changed = |(id, p): (&ProcessId, &mut Process)| std::mem::take(&mut p.is_changed).then_some(*id);
        self.processes.iter_mut().filter_map(changed).collect()
    }

    /// Returns the flight record of a process; `None` if it is unknown or uses no communicator.
    pub fn flight_record(&self, process: ProcessId) -> Option<FlightRecord> {
        let keys = self.registry.of_process(process);
        let members = keys.into_iter().filter_map(|key| Some((key, self.registry.members.get(key)?)));
        let of = self.processes.get(&process)?;
        let ranks: Vec<RankRecord> = members
            .map(|(key, member)| {
                let ops = of.streams.pending().filter(|p| p.member == key).map(|p| p.op).collect();
                self.rank_record(member, ops)
            })
            .collect();
        let steps = of.steps.iter().copied().collect();
        (!ranks.is_empty()).then_some(FlightRecord { process, at_ns: self.now_ns, ranks, steps })
    }

    /// Restores the record of an earlier run for a process that is still alive. Only the ranks' identities are
    /// restored, since the time between the runs was not observed.
    pub fn restore(&mut self, record: &FlightRecord, out: &mut Vec<Finding>) {
        for rank in &record.ranks {
            if self.registry.find(record.process, rank.handle).is_some() {
                continue;
            }
            self.process(record.process, out);
            let mut who = rank.who;
            let restored = |fact: Fact| Fact::maybe(fact.value, fact.source.min(Source::Restored));
            (who.rank, who.nranks) = (restored(who.rank), restored(who.nranks));
            let born_ns = self.now_ns.max(record.at_ns);
            let draft = Draft { who, born_ns, is_late: true, child_of: None };
            self.admit(draft, rank.handle, self.now_ns, out);
        }
    }

    fn rank_state(&self, member: &Member) -> RankState {
        let communicator = self.registry.communicators.get(member.communicator);
        let peers = communicator.into_iter().flat_map(|c| &c.slots).filter(|s| s.end.is_none());
        let furthest = peers.filter_map(|s| self.registry.members.get(s.member)).map(|m| m.next_seq).max();
        let is_behind = furthest > Some(member.next_seq);
        let is_compared = communicator.is_some_and(|c| c.aligner.is_none());
        let since_ns = self.now_ns.saturating_sub(member.idle_since_ns());
        RankState {
            who: member.who,
            seq: member.next_seq,
            lateness_ns: communicator.and_then(|c| c.straggler.lateness_ns(member.slot)),
            idle_ns: if is_behind && is_compared { since_ns } else { 0 },
            outstanding: member.outstanding,
            is_late: communicator.is_some_and(|c| c.straggler.is_late(member.slot)),
        }
    }

    fn rank_record(&self, member: &Member, mut outstanding: Vec<Op>) -> RankRecord {
        outstanding.sort_by_key(|op| (op.enqueued_ns, op.seq));
        let outstanding_count = outstanding.len() as u64;
        outstanding.truncate(self.settings.recorder_last);
        let is_exact = self.registry.communicators.get(member.communicator).is_some_and(|c| c.is_exact);
        RankRecord {
            who: member.who,
            handle: member.handle,
            next_seq: member.next_seq,
            is_exact,
            enqueued_ns: member.enqueued_ns,
            outstanding_count,
            outstanding,
            recent: member.recent.iter().copied().collect(),
        }
    }
}
