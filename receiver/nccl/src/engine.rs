//! The engine: it turns observations into findings.
//!
//! The engine reads no clock. Its time is that of the last observation; timeouts (hangs, expiry) are checked when an
//! observation is past their deadline. Equal observations give equal findings.

mod calls;
mod completion;
mod deferred;
mod hang;
mod queries;
mod work;

use std::collections::{BTreeMap, VecDeque};

use event::{ExitStatus, ProcessId};

use self::deferred::DeferredCompletions;
use crate::finding::{Ended, Finding};
use crate::groups::Groups;
use crate::member::{Member, RankEnd};
use crate::observe::Observation;
use crate::op::Op;
use crate::process::Process;
use crate::registry::{MemberKey, Registry};
use crate::settings::Settings;
use crate::straggler::Change;
use crate::streams::{Bounds, Pending};
use crate::tally::Tally;

/// Maximum number of ids from `ncclGetUniqueId` in memory; the oldest is evicted. Only `ncclCommInitAll` needs one,
/// immediately after.
const UNIQUE_IDS_MAX: usize = 64;
/// Number of hang checks within one timeout; also the bounds of their interval, ns.
const CHECKS: u64 = 20;
const CHECK_NS_MIN: u64 = 1_000_000;
const CHECK_NS_MAX: u64 = 250_000_000;

/// An id and the call that created it.
#[derive(Clone, Copy, Debug)]
struct MadeId {
    process: ProcessId,
    tid: u32,
    entry_ns: u64,
    hash: u64,
    own: u64,
}

/// An analyzer that turns observations of many processes into findings about their communicators.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    registry: Registry,
    groups: Groups,
    processes: BTreeMap<ProcessId, Process>,
    made_ids: VecDeque<MadeId>,
    now_ns: u64,
    next_check_ns: u64,
    /// The source reports ongoing calls.
    has_ongoing_calls: bool,
    tick: u64,
    tally: Tally,
    deferred: DeferredCompletions,
    pending: Vec<Pending>,
    changes: Vec<Change>,
}

impl Engine {
    /// Returns an engine with no state.
    pub fn new(settings: Settings) -> Engine {
        Engine {
            settings,
            registry: Registry::new(settings.members_max),
            groups: Groups::new(settings.threads_max, settings.group_calls_max),
            processes: BTreeMap::new(),
            made_ids: VecDeque::new(),
            now_ns: 0,
            next_check_ns: 0,
            has_ongoing_calls: false,
            tick: 0,
            tally: Tally::default(),
            deferred: DeferredCompletions::default(),
            pending: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Processes the next observation and passes the resulting findings to `out`.
    pub fn observe(&mut self, observation: &Observation, out: &mut Vec<Finding>) {
        match observation {
            Observation::Call(call) => self.call(call, out),
            Observation::Stream(call) => self.stream(call, out),
            Observation::OngoingCall(call) => {
                self.has_ongoing_calls = true;
                if let Some(process) = self.processes.get_mut(&call.process) {
                    process.ongoing_call = Some(*call);
                }
            }
            Observation::Environment(environment) => {
                self.process(environment.process, out).environment = Some(*environment);
            }
            Observation::Library { process, version } => self.process(*process, out).version = Some(*version),
            Observation::Step(step) => {
                let max = self.settings.recorder_last;
                if let Some(process) = self.processes.get_mut(&step.process) {
                    process.push_step(*step, max);
                }
            }
            Observation::Exit { process, at_ns, status } => self.exit(*process, *at_ns, *status, out),
            Observation::Lost { count, .. } => self.lost(*count),
            Observation::Tick { .. } => {}
        }
        if let Some(at_ns) = observation.at_ns() {
            self.advance(at_ns, out);
        }
    }

    fn advance(&mut self, at_ns: u64, out: &mut Vec<Finding>) {
        self.now_ns = self.now_ns.max(at_ns);
        self.report_due(out);
        if self.now_ns < self.next_check_ns {
            return;
        }
        self.next_check_ns = self.now_ns.saturating_add(self.check_interval_ns());
        self.expire();
        self.settle_all(out);
        self.check_hangs(out);
    }

    fn check_interval_ns(&self) -> u64 {
        (self.settings.hang_timeout_ns / CHECKS).clamp(CHECK_NS_MIN, CHECK_NS_MAX)
    }

    /// Returns the process, adding it if it is new.
    fn process(&mut self, id: ProcessId, out: &mut Vec<Finding>) -> &mut Process {
        self.tick += 1;
        if !self.processes.contains_key(&id) && self.processes.len() >= self.settings.processes_max.max(1) {
            self.evict_process(out);
        }
        let settings = &self.settings;
        let bounds = Bounds {
            streams: settings.streams_max,
            pending: settings.pending_max,
            events: settings.events_max,
        };
        let process = self.processes.entry(id).or_insert_with(|| Process::new(bounds));
        process.used = self.tick;
        process
    }

    fn evict_process(&mut self, out: &mut Vec<Finding>) {
        let Some(id) = self.processes.iter().min_by_key(|(_, p)| p.used).map(|(id, _)| *id) else { return };
        self.tally.processes_evicted += 1;
        self.report_process(id, out);
        for key in self.registry.of_process(id) {
            self.leave(key, RankEnd::Evicted, self.now_ns, out);
        }
        self.evict_records_of(id);
    }

    fn exit(&mut self, id: ProcessId, at_ns: u64, status: ExitStatus, out: &mut Vec<Finding>) {
        let end = RankEnd::of(status);
        self.report_process(id, out);
        for key in self.registry.of_process(id) {
            self.leave(key, end, at_ns, out);
        }
        self.evict_records_of(id);
    }

    fn evict_records_of(&mut self, id: ProcessId) {
        self.tally.groups_open += self.groups.remove_process(id);
        self.registry.remove_unwritten(id);
        if let Some(process) = self.processes.remove(&id) {
            self.tally.streams_evicted += process.streams.evicted.streams;
            self.tally.events_evicted += process.streams.evicted.events;
            self.tally.edges_evicted += process.streams.evicted.edges;
        }
    }

    /// Removes a rank and its outstanding operations.
    fn leave(&mut self, key: MemberKey, end: RankEnd, at_ns: u64, out: &mut Vec<Finding>) {
        let Some(id) = self.registry.members.get(key).map(Member::process) else { return };
        let mut gone = std::mem::take(&mut self.pending);
        let process = self.processes.get_mut(&id);
        if let Some(process) = process {
            process.streams.remove_of(key, &mut gone);
            process.is_changed = true;
        }
        self.tally.ended += gone.len() as u64;
        if let Some(member) = self.registry.leave(key, end, &mut self.tally).filter(|_| end.is_loss()) {
            out.push(Finding::Ended(Box::new(self.ended(&member, &gone, end, at_ns))));
        }
        gone.clear();
        self.pending = gone;
    }

    fn ended(&self, member: &Member, gone: &[Pending], end: RankEnd, at_ns: u64) -> Ended {
        let mut outstanding: Vec<Op> = gone.iter().map(|p| p.op).collect();
        outstanding.sort_by_key(|op| (op.enqueued_ns, op.seq));
        outstanding.truncate(self.settings.recorder_last);
        let steps = self.processes.get(&member.process()).map(|p| p.steps.iter().copied().collect());
        Ended {
            at_ns,
            who: member.who,
            end,
            outstanding,
            outstanding_count: gone.len() as u64,
            recent: member.recent.iter().copied().collect(),
            steps: steps.unwrap_or_default(),
        }
    }

    /// Handles a loss of records of unknown processes: counts of ranks and open groups are no longer reliable, except
    /// where the source counts as well.
    fn lost(&mut self, count: u64) {
        self.tally.records_lost = self.tally.records_lost.saturating_add(count);
        self.tally.groups_overflow += self.groups.abandon();
        let members = &self.registry.members;
        for communicator in self.registry.communicators.values_mut() {
            communicator.are_messages_lost = true;
            let is_counted = |key| members.get(key).is_some_and(|m| m.last_ordinal.is_some());
            let mut live = communicator.slots.iter().filter(|s| s.end.is_none());
            if live.any(|slot| !is_counted(slot.member)) {
                self.tally.rounds_dropped += communicator.doubt();
            }
        }
    }
}
