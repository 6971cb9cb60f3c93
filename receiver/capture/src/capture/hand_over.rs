//! The hand-over from a former agent with other objects: its programs stay attached until those of this agent have
//! counted beside them for a while, so that no call is missed.
//!
//! Both count the calls of that time. The totals of the former programs are therefore carried as the difference between
//! the two, which is constant. A record is taken from the ring of one of them, by the time at which its call began.

use std::collections::BTreeMap;

use event::decode::{self, Record};
use event::{Event, ProcessId};
use probe_abi::counters::DropReason;
use probe_abi::function::Signature;
use probe_abi::record::{Header, RecordKind, flag};

use super::Capture;
use crate::arming::Arming;
use crate::kernel::Kernel;
use crate::pins::{Former, FormerMaps, process_id};
use crate::totals::{self, Share};
use crate::{clock, proc};

/// Time for which both count, so that most steps that the former programs did not end are whole in the new ones.
const OVERLAP_NS: u64 = 1_000_000_000;

/// A hand-over that is not complete.
pub(super) struct HandOver {
    former: Former,
    /// Marks of the former programs' records.
    arming: Arming,
    /// Processes whose totals are those of the former programs.
    processes: BTreeMap<u32, ProcessId>,
    /// When this agent's tracepoint programs were attached, ns.
    attached_ns: u64,
}

/// The calls whose records are those of the former programs: those that began before a time, and ended while the former
/// programs were attached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FormerCalls {
    begun_before_ns: u64,
    ended_before_ns: u64,
}

impl FormerCalls {
    pub(super) fn contain(self, record: &Record) -> bool {
        header(record).is_some_and(|h| {
            h.entry_ns < self.begun_before_ns
                && h.entry_ns.saturating_add(h.duration_ns) < self.ended_before_ns
        })
    }
}

/// Returns the header of the record of a call.
pub(super) fn header(record: &Record) -> Option<&Header> {
    match record {
        Record::Step(step) => Some(&step.header),
        Record::Context(context) => Some(&context.header),
        Record::Call(call) => Some(&call.header),
        Record::CallArgs(args) => Some(&args.header),
        Record::Function(function) => Some(&function.header),
        Record::Process(_) => None,
    }
}

impl HandOver {
    fn maps(&mut self) -> Option<&mut FormerMaps> {
        self.former.maps.as_mut()
    }

    /// Returns true if the end or the exec of a process is known from the former programs only.
    fn is_news(&self, kind: RecordKind, at_ns: u64) -> bool {
        // This agent's program reports only the end of processes that made a call since.
        kind == RecordKind::ProcessExit || kind == RecordKind::ProcessExec && at_ns < self.attached_ns
    }
}

impl Capture {
    /// Begins to take over from a former agent, if there is one: attaches to everything that is mapped now.
    pub(super) fn take_over(&mut self) {
        let Some(mut former) = self.pins.as_mut().and_then(|pins| pins.take_former()) else { return };
        let attached_ns = clock::now_ns();
        if self.trace_all {
            for pid in proc::pids() {
                self.scan(pid, attached_ns, None, &mut Vec::new());
            }
        }
        let (mut arming, mut processes) = (Arming::default(), BTreeMap::new());
        if let Some(maps) = &mut former.maps {
            let read_ns = maps.progress.read_ns;
            for process in maps.kernel.processes.iter().flatten().map(process_id) {
                arming.adopt(process.pid, read_ns);
                processes.insert(process.pid, process);
                self.adopted.push((process, read_ns));
            }
        }
        tracing::info!(processes = processes.len(), "probes of an agent with other objects are replaced");
        // Without its maps, the hand-over is complete when everything is attached.
        let begun_before_ns = if former.maps.is_some() { clock::now_ns() + OVERLAP_NS } else { 0 };
        self.former_calls = FormerCalls { begun_before_ns, ended_before_ns: u64::MAX };
        self.hand_over = Some(HandOver { former, arming, processes, attached_ns });
    }

    /// Appends the records of the former programs, and removes these when their time is over.
    pub(super) fn read_former(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        if self.hand_over.is_none() {
            return;
        }
        let is_over = now_ns >= self.former_calls.begun_before_ns;
        if is_over {
            let unsettled = self.hand_over.iter().flat_map(|h| h.processes.values().copied());
            unsettled.collect::<Vec<_>>().into_iter().for_each(|process| self.settle(process));
            self.former_calls.ended_before_ns = clock::now_ns();
        }
        for record in self.former_records() {
            self.take_former(record, now_ns, into);
        }
        if is_over && let Some(hand_over) = self.hand_over.take() {
            report_former_drops(&hand_over.former, now_ns, into);
            self.pins.iter().for_each(|pins| pins.release(&hand_over.former));
        }
    }

    fn former_records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        let maps = self.hand_over.as_mut().and_then(HandOver::maps);
        if let Some(maps) = maps {
            while let Some(item) = maps.kernel.ring.next() {
                records.extend(decode::decode(&item));
            }
        }
        records
    }

    /// Takes a record of the former programs, unless this agent's programs make one, too.
    fn take_former(&mut self, mut record: Record, now_ns: u64, into: &mut Vec<Event>) {
        let is_call = self.former_calls.contain(&record);
        let Some(hand_over) = &mut self.hand_over else { return };
        let read_ns = hand_over.former.maps.as_ref().map_or(0, |maps| maps.progress.read_ns);
        match &mut record {
            Record::Process(process) if hand_over.is_news(process.kind, process.header.entry_ns) => {
                return self.take(record, now_ns, into);
            }
            _ if !is_call => return,
            Record::Step(step) => {
                hand_over.arming.mark_step(step, proc::has_gpu_open);
                // Its functions have the numbers of the former programs.
                step.signature = Signature::default();
            }
            Record::Call(call) => hand_over.arming.mark_call(call, proc::has_gpu_open),
            Record::CallArgs(args) if args.header.entry_ns < read_ns => args.header.flags |= flag::UNARMED,
            Record::CallArgs(_) | Record::Context(_) | Record::Process(_) | Record::Function(_) => {}
        }
        if header(&record).copied().is_some_and(|header| self.admits(&header, into)) {
            into.extend(event_of(record));
        }
    }

    /// Returns the former maps that have the state of a process, while both agents' programs are attached.
    pub(super) fn former_kernel_of(&mut self, process: ProcessId) -> Option<&mut Kernel> {
        let hand_over = self.hand_over.as_mut()?;
        let is_former = hand_over.processes.get(&process.pid) == Some(&process);
        hand_over.maps().filter(|_| is_former).map(|maps| &mut maps.kernel)
    }

    /// Leaves the former totals of an excluded process out.
    pub(super) fn forget_former(&mut self, pid: u32) {
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.processes.remove(&pid);
        }
    }

    /// Carries the totals of a process that the former programs count. Does nothing for others.
    pub(super) fn settle(&mut self, process: ProcessId) {
        let Some(hand_over) = &mut self.hand_over else { return };
        if hand_over.processes.get(&process.pid) != Some(&process) {
            return;
        }
        hand_over.processes.remove(&process.pid);
        let Some(maps) = &hand_over.former.maps else { return };
        for (row, carried, is_exact) in maps.carried.read(&maps.kernel, &self.kernel, process) {
            if !is_exact {
                let function = probe_abi::row(row).map_or("", |row| row.symbol);
                tracing::warn!(
                    pid = process.pid,
                    function,
                    "calls during the hand-over may be counted twice or not at all"
                );
            }
            self.carried.insert(process.pid, row, carried);
            self.pins.iter_mut().for_each(|pins| pins.carry(process.pid, row, &carried));
        }
    }

    /// Appends the totals of each function that the process called. Returns its share of the account.
    pub(super) fn operations(&self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) -> Share {
        let former = self.hand_over.as_ref().filter(|h| h.processes.get(&process.pid) == Some(&process));
        let former = former.and_then(|h| h.former.maps.as_ref());
        let (kernel, carried) =
            former.map_or((&self.kernel, &self.carried), |maps| (&maps.kernel, &maps.carried));
        match carried.totals(kernel, process, at_ns) {
            Some(all) => into.extend(all.into_iter().map(|total| Event::Operation(Box::new(total)))),
            None => drop(totals::operations(kernel, process, at_ns, into)),
        }
        totals::share(&self.kernel, process.pid)
    }
}

fn event_of(record: Record) -> Option<Event> {
    match record {
        Record::Step(step) => Some(Event::Step(step)),
        Record::Context(context) => Some(Event::Context(context)),
        Record::Call(call) => Some(Event::Call(call)),
        Record::CallArgs(args) => Some(Event::CallArgs(args)),
        Record::Process(_) | Record::Function(_) => None,
    }
}

/// Appends the drops that the former agent did not report.
fn report_former_drops(former: &Former, at_ns: u64, into: &mut Vec<Event>) {
    let Some(maps) = &former.maps else { return };
    let dropped = totals::values(&totals::counters(&maps.kernel).dropped);
    for ((reason, now), before) in DropReason::ALL.into_iter().zip(dropped).zip(maps.progress.lost) {
        let count = now.saturating_sub(before);
        if count > 0 {
            into.push(Event::Lost { at_ns, reason, count });
        }
    }
}
