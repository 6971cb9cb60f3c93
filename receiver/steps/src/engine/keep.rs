//! What the engine leaves behind for its next run, and takes over from its last.
//!
//! The one idea: whoever keeps records asks now and then what has changed ([`Engine::take_changed`]), and gives back
//! what he has ([`Engine::restore`]) at any time: before a process is seen, or while it runs. A process that ends
//! leaves its record here for the next one of its workload.

use event::{LauncherEnv, ProcessId, ProcessInfo};

use super::Engine;
use crate::hardware::Beside;
use crate::identity::{Identity, WorkloadId};
use crate::process::Process;
use crate::record::BaselineRecord;

impl Engine {
    /// The workloads of which something was learnt since this was last asked, and those forgotten to make room, in
    /// the order of their ids.
    pub fn take_changed(&mut self) -> Vec<WorkloadId> {
        let mut changed = self.shelf.take_changed();
        changed.extend(self.processes.values_mut().filter_map(Process::take_changed));
        changed.sort();
        changed.dedup();
        changed
    }

    /// What is to be kept of a workload: of its process heard of last, else what is kept here already; `None` where
    /// it is forgotten, or still warms up.
    pub fn baseline_record(&self, workload: WorkloadId) -> Option<BaselineRecord> {
        let its = self.processes.iter().filter(|(_, p)| p.identity.workload() == Some(workload));
        let records = its.filter_map(|(id, process)| Some((process.used, process.record(*id)?)));
        let last = records.max_by_key(|(used, _)| *used).map(|(_, record)| record);
        last.or_else(|| self.shelf.peek(workload))
    }

    /// Takes over what an earlier run knew of a workload. What its processes have learnt by now stays.
    pub fn restore(&mut self, record: &BaselineRecord) {
        self.shelf.put(record, false);
        let its = |p: &&mut Process| p.identity.workload() == Some(record.workload);
        self.processes.values_mut().filter(its).for_each(|process| process.restore(record.clone()));
    }

    /// A process is seen, or described anew.
    pub(super) fn describe(&mut self, info: &ProcessInfo, out: &mut Beside<'_>) {
        self.process(info.process, out);
        self.identify(info.process, |identity| identity.describe(info));
    }

    /// A launcher told a process who it is.
    pub(super) fn launched(&mut self, launched: &LauncherEnv) {
        self.identify(launched.process, |identity| identity.launched(launched));
    }

    /// A process is gone: the next one of its workload finds what it has learnt.
    pub(super) fn shelve(&mut self, id: ProcessId, process: &mut Process) {
        let is_changed = process.take_changed().is_some();
        if let Some(record) = process.record(id) {
            self.shelf.put(&record, is_changed);
        }
    }

    fn identify(&mut self, id: ProcessId, tell: impl FnOnce(&mut Identity)) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let before = process.identity.workload();
        tell(&mut process.identity);
        let Some(workload) = process.identity.workload().filter(|now| Some(*now) != before) else { return };
        if let Some(record) = self.shelf.get(workload) {
            process.restore(record);
        }
    }
}
