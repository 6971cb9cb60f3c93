//! The engine: events in, findings out.
//!
//! The one idea: it knows no clock. Time is the time of the last event, of whatever process; what is held back goes
//! out when an event says that its time has come. The same events give the same findings, in any batches, and what
//! is found of one process does not depend on the others.

use std::collections::BTreeMap;

use event::{CallRecord, Event, ProcessId, StepRecord};
use probe_abi::Action;

use crate::finding::{Finding, Tally};
use crate::hardware::{Beside, Hardware};
use crate::mode::Mode;
use crate::process::Process;
use crate::settings::Settings;
use crate::shelf::Shelf;

mod keep;

/// One process, as the engine sees it now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadState {
    /// Which.
    pub process: ProcessId,
    /// What it does.
    pub mode: Mode,
    /// What was counted of it.
    pub tally: Tally,
}

/// Turns the events of many processes into steps with verdicts.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    processes: BTreeMap<ProcessId, Process>,
    tick: u64,
    /// Nothing that is held back is due before; `u64::MAX` where nothing is.
    due_ns: u64,
    ended: Tally,
    shelf: Shelf,
    hardware: Hardware,
}

impl Engine {
    /// An engine that has seen nothing.
    pub fn new(settings: Settings) -> Engine {
        Engine {
            settings,
            processes: BTreeMap::new(),
            tick: 0,
            due_ns: u64::MAX,
            ended: Tally::default(),
            shelf: Shelf::new(settings.processes_max),
            hardware: Hardware::default(),
        }
    }

    /// Takes the next event, and gives what it brings to light to `out`.
    pub fn observe(&mut self, event: &Event, out: &mut impl FnMut(Finding)) {
        self.beside_hardware(out, |engine, out| engine.take(event, out));
        self.hardware.observe(event, out);
    }

    /// What is found goes past what is known of the hardware.
    fn beside_hardware(
        &mut self,
        out: &mut dyn FnMut(Finding),
        work: impl FnOnce(&mut Engine, &mut Beside<'_>),
    ) {
        let mut hardware = std::mem::take(&mut self.hardware);
        work(self, &mut Beside::new(&mut hardware, out));
        self.hardware = hardware;
    }

    fn take(&mut self, event: &Event, out: &mut Beside<'_>) {
        if let Some(at_ns) = event.at_ns() {
            self.advance(at_ns, out);
        }
        match event {
            Event::Step(record) => self.step(record, out),
            Event::Call(call) => self.call(call, out),
            Event::Process(info) => self.describe(info, out),
            Event::LauncherEnv(launched) => self.launched(launched),
            Event::Exit { process, .. } => self.exit(*process, out),
            _ => {}
        }
    }

    /// A process waited for others, ranks that had not come to a collective yet. Told before the record of the wait.
    pub fn wait_for_others(&mut self, process: ProcessId, from_ns: u64, to_ns: u64) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.wait_for_others(from_ns, to_ns);
        }
    }

    /// The source has ended: gives out all that is held back, and forgets every process.
    pub fn finish(&mut self, out: &mut impl FnMut(Finding)) {
        self.beside_hardware(out, |engine, out| {
            while let Some((id, process)) = engine.processes.pop_first() {
                engine.end(id, process, out);
            }
        });
        self.hardware.finish(out);
        self.due_ns = u64::MAX;
    }

    /// What was counted since the beginning, of all processes.
    pub fn tally(&self) -> Tally {
        let mut sum = self.ended;
        self.processes.values().for_each(|p| sum.add(&p.tally()));
        sum.baselines_evicted += self.shelf.evicted();
        sum
    }

    /// The processes it remembers, in the order of their ids.
    pub fn workloads(&self) -> impl Iterator<Item = WorkloadState> + '_ {
        self.processes.iter().map(|(id, p)| WorkloadState { process: *id, mode: p.mode(), tally: p.tally() })
    }

    /// Bytes held for processes, and for workloads whose processes are not there.
    pub fn size_bytes(&self) -> usize {
        self.processes.values().map(Process::size_bytes).sum::<usize>() + self.shelf.heap_bytes()
    }

    fn advance(&mut self, now_ns: u64, out: &mut Beside<'_>) {
        if now_ns <= self.due_ns {
            return;
        }
        self.due_ns = u64::MAX;
        for process in self.processes.values_mut() {
            process.advance(now_ns, out);
            self.due_ns = self.due_ns.min(process.due_ns().unwrap_or(u64::MAX));
        }
    }

    fn step(&mut self, record: &StepRecord, out: &mut Beside<'_>) {
        let process = self.process(ProcessId::from(&record.header), out);
        process.observe(record, out);
        let due_ns = process.due_ns().unwrap_or(u64::MAX);
        self.due_ns = self.due_ns.min(due_ns);
    }

    /// The process, heard of just now; begun where it is not known.
    fn process(&mut self, id: ProcessId, out: &mut Beside<'_>) -> &mut Process {
        self.tick += 1;
        if !self.processes.contains_key(&id) {
            self.make_room(out);
        }
        let process = self.processes.entry(id).or_insert_with(|| Process::new(id, &self.settings));
        process.used = self.tick;
        process
    }

    fn call(&mut self, call: &CallRecord, out: &mut Beside<'_>) {
        let Some(row) = probe_abi::row(call.header.row).filter(|_| call.result == 0) else { return };
        let Some(process) = self.processes.get_mut(&ProcessId::from(&call.header)) else { return };
        match row.action {
            Action::StreamDestroy => process.destroy_stream(call.stream, out),
            // Without a handle it is the graph that is destroyed, not an executable one.
            Action::GraphUpdate | Action::GraphDestroy if call.handle != 0 => {
                process.change_graph(call.handle)
            }
            _ => {}
        }
    }

    fn exit(&mut self, id: ProcessId, out: &mut Beside<'_>) {
        if let Some(process) = self.processes.remove(&id) {
            self.end(id, process, out);
        }
    }

    fn make_room(&mut self, out: &mut Beside<'_>) {
        if self.processes.len() < self.settings.processes_max.max(1) {
            return;
        }
        let silent = self.processes.iter().min_by_key(|(_, p)| p.used).map(|(id, _)| *id);
        if let Some(id) = silent {
            self.ended.processes_evicted += 1;
            self.exit(id, out);
        }
    }

    fn end(&mut self, id: ProcessId, mut process: Process, out: &mut Beside<'_>) {
        process.finish(out);
        self.shelve(id, &mut process);
        self.ended.add(&process.tally());
    }
}

#[cfg(test)]
mod tests;
