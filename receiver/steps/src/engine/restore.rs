//! Baselines across restarts: records for the store, and baselines restored from it.
//!
//! The caller polls [`Engine::take_changed`] and stores each [`Engine::baseline_record`]. It may call
//! [`Engine::restore`] at any time: before a process is seen, or while it runs. The record of a process that ends is
//! cached for the next process of its workload.

use event::{LauncherEnv, ProcessId, ProcessInfo};

use super::Engine;
use crate::finding::Finding;
use crate::identity::{Identity, WorkloadId};
use crate::phase::Hint;
use crate::process::Process;
use crate::record::BaselineRecord;

impl Engine {
    /// Returns the workloads whose baselines changed, or were evicted, since the last call, sorted by id.
    pub fn take_changed(&mut self) -> Vec<WorkloadId> {
        let mut changed = self.cache.take_changed();
        changed.extend(self.processes.values_mut().filter_map(|process| process.take_changed()));
        changed.sort();
        changed.dedup();
        changed
    }

    /// Returns the baselines of a workload to store: those of its most recently used process, else the cached ones.
    /// `None` if they were evicted or are still warming up.
    pub fn baseline_record(&self, workload: WorkloadId) -> Option<BaselineRecord> {
        let of_workload = self.processes.iter().filter(|(_, p)| p.identity.workload() == Some(workload));
        let records = of_workload.filter_map(|(id, process)| Some((process.used, process.record(*id)?)));
        let latest = records.max_by_key(|(used, _)| *used).map(|(_, record)| record);
        latest.or_else(|| self.cache.peek(workload))
    }

    /// Restores the baselines of a workload from an earlier run. Baselines that its processes have learnt since win.
    pub fn restore(&mut self, record: &BaselineRecord) {
        self.cache.put(record, false);
        let is_of_workload = |p: &&mut Box<Process>| p.identity.workload() == Some(record.workload);
        self.processes
            .values_mut()
            .filter(is_of_workload)
            .for_each(|process| process.restore(record.clone()));
    }

    /// Handles the description of a new or known process.
    pub(super) fn describe(&mut self, info: &ProcessInfo, out: &mut Vec<Finding>) {
        self.touch(info.process, out);
        self.identify(info.process, |identity| identity.describe(info));
        let said = info.attributes.iter().find(|(key, _)| key == Hint::ATTRIBUTE);
        if let Some(hint) = said.and_then(|(_, value)| Hint::of(value)) {
            self.set_hint(info.process, Some(hint));
        }
    }

    /// Handles the environment that a launcher gave a process.
    pub(super) fn launched(&mut self, env: &LauncherEnv) {
        self.identify(env.process, |identity| identity.launched(env));
    }

    /// Caches the baselines of a process that ends.
    pub(super) fn cache_baselines(&mut self, id: ProcessId, process: &mut Process) {
        let is_changed = process.take_changed().is_some();
        if let Some(record) = process.record(id) {
            self.cache.put(&record, is_changed);
        }
    }

    /// Updates the identity of a process, and restores the baselines of a workload that it turns out to be.
    fn identify(&mut self, id: ProcessId, update: impl FnOnce(&mut Identity)) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let before = process.identity.workload();
        update(&mut process.identity);
        let Some(workload) = process.identity.workload().filter(|now| Some(*now) != before) else { return };
        if let Some(record) = self.cache.get(workload) {
            process.restore(record);
        }
    }
}
