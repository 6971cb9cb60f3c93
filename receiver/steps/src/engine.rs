//! The engine: receives events, reports findings.
//!
//! It reads no clock: the time is that of the latest event of any process, and a deferred step is reported when an event
//! passes its deadline. The same events give the same findings, in batches of any size, and the findings of one process
//! do not depend on other processes.

use std::collections::BTreeMap;

use event::{CallRecord, Event, GpuFunction, ProcessId, StepRecord};
use probe_abi::Action;

use crate::assemble::Assembled;
use crate::baseline_cache::BaselineCache;
use crate::finding::{Finding, StepTally};
use crate::gpu_attribution::GpuAttribution;
use crate::phase::Hint;
use crate::process::{ASSEMBLED, Process};
use crate::settings::Settings;

mod restore;

/// The engine that turns the events of many processes into steps with verdicts.
#[derive(Clone, Debug)]
pub struct Engine {
    settings: Settings,
    /// Boxed, since a node of the map allocates eleven values.
    processes: BTreeMap<ProcessId, Box<Process>>,
    /// Events that named a process, the clock of evictions.
    tick: u64,
    /// The earliest deadline of a deferred step; `u64::MAX` without one.
    due_ns: u64,
    /// Counts of processes that have ended or were evicted.
    ended: StepTally,
    cache: BaselineCache,
    gpus: GpuAttribution,
    /// Steps between assembly and verdict; empty between events.
    assembled: Vec<Assembled>,
}

impl Engine {
    /// Returns an engine that has seen no event.
    pub fn new(settings: Settings) -> Engine {
        Engine {
            settings,
            processes: BTreeMap::new(),
            tick: 0,
            due_ns: u64::MAX,
            ended: StepTally::default(),
            cache: BaselineCache::new(settings.processes_max),
            gpus: GpuAttribution::default(),
            assembled: Vec::with_capacity(ASSEMBLED),
        }
    }

    /// Processes the next event and appends its findings to `out`.
    pub fn observe(&mut self, event: &Event, out: &mut Vec<Finding>) {
        if let Some(at_ns) = event.at_ns() {
            self.advance(at_ns, out);
        }
        match event {
            Event::Step(record) => self.step(record, out),
            Event::Call(call) => self.call(call, out),
            Event::Process(info) => self.describe(info, out),
            Event::LauncherEnv(env) => self.launched(env),
            Event::Function(function) => self.function(function, out),
            Event::Exit { process, .. } => self.exit(*process, out),
            _ => {}
        }
        self.gpus.observe(event, out);
    }

    /// Sets what the user says of a process; unknown processes are ignored. Its phases and the assembly of its steps follow.
    pub fn set_hint(&mut self, process: ProcessId, hint: Option<Hint>) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.set_hint(hint);
        }
    }

    /// Records that a process waited for ranks that had not arrived at a collective, from `from_ns` to `to_ns`. Must be
    /// called before the step record of that wait is observed. Unknown processes are ignored.
    pub fn record_peer_wait(&mut self, process: ProcessId, from_ns: u64, to_ns: u64) {
        if let Some(process) = self.processes.get_mut(&process) {
            process.record_peer_wait(from_ns, to_ns);
        }
    }

    /// Ends all processes and reports every deferred step, at the end of the source.
    pub fn finish(&mut self, out: &mut Vec<Finding>) {
        while let Some((id, process)) = self.processes.pop_first() {
            self.end(id, process, out);
        }
        self.gpus.finish(out);
        self.due_ns = u64::MAX;
    }

    /// Returns the counts since the start, of all processes together.
    pub fn tally(&self) -> StepTally {
        let mut sum = self.ended;
        self.processes.values().for_each(|p| sum.add(&p.tally()));
        sum.baselines_evicted += self.cache.evicted();
        sum
    }

    fn advance(&mut self, now_ns: u64, out: &mut Vec<Finding>) {
        if now_ns <= self.due_ns {
            return;
        }
        self.due_ns = u64::MAX;
        for process in self.processes.values_mut() {
            process.advance(now_ns, &mut self.assembled);
            process.judge(&mut self.assembled, &mut self.gpus, out);
            self.due_ns = self.due_ns.min(process.due_ns().unwrap_or(u64::MAX));
        }
    }

    fn step(&mut self, record: &StepRecord, out: &mut Vec<Finding>) {
        let id = ProcessId::from(&record.header);
        self.touch(id, out);
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.observe(record, &mut self.assembled);
        process.judge(&mut self.assembled, &mut self.gpus, out);
        self.due_ns = self.due_ns.min(process.due_ns().unwrap_or(u64::MAX));
    }

    /// Marks a process as used now; an unknown one is added, and may evict another.
    fn touch(&mut self, id: ProcessId, out: &mut Vec<Finding>) {
        self.tick += 1;
        if !self.processes.contains_key(&id) {
            self.evict(out);
        }
        let process = self.processes.entry(id).or_insert_with(|| Box::new(Process::new(id, &self.settings)));
        process.used = self.tick;
    }

    fn function(&mut self, function: &GpuFunction, out: &mut Vec<Finding>) {
        self.touch(function.process, out);
        if let Some(process) = self.processes.get_mut(&function.process) {
            process.add_function(function);
        }
    }

    fn call(&mut self, call: &CallRecord, out: &mut Vec<Finding>) {
        let Some(row) = probe_abi::row(call.header.row).filter(|_| call.result == 0) else { return };
        let Some(process) = self.processes.get_mut(&ProcessId::from(&call.header)) else { return };
        match row.action {
            Action::StreamDestroy => {
                process.destroy_stream(call.stream, &mut self.assembled);
                process.judge(&mut self.assembled, &mut self.gpus, out);
            }
            // Without a handle it is the graph that is destroyed, not an executable one.
            Action::GraphUpdate | Action::GraphDestroy if call.handle != 0 => {
                process.change_graph(call.handle)
            }
            _ => {}
        }
    }

    fn exit(&mut self, id: ProcessId, out: &mut Vec<Finding>) {
        if let Some(process) = self.processes.remove(&id) {
            self.end(id, process, out);
        }
    }

    /// Ends the least recently used process if the table is full.
    fn evict(&mut self, out: &mut Vec<Finding>) {
        if self.processes.len() < self.settings.processes_max.max(1) {
            return;
        }
        let oldest = self.processes.iter().min_by_key(|(_, p)| p.used).map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.ended.processes_evicted += 1;
            self.exit(id, out);
        }
    }

    fn end(&mut self, id: ProcessId, mut process: Box<Process>, out: &mut Vec<Finding>) {
        process.finish(&mut self.assembled);
        process.judge(&mut self.assembled, &mut self.gpus, out);
        self.cache_baselines(id, &mut process);
        self.ended.add(&process.tally());
    }
}

#[cfg(test)]
mod tests;
