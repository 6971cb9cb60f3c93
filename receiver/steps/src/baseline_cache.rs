//! The baselines of workloads that have no running process: ended, or not started yet.
//!
//! A restarted server finds its baselines here, whether the agent saw the old process end or was itself restarted in
//! between. Records are cached encoded, which takes half the memory. When full, the least recently used one is evicted
//! and counted.

use std::collections::BTreeMap;

use crate::identity::WorkloadId;
use crate::record::BaselineRecord;

#[derive(Clone, Debug)]
struct Entry {
    bytes: Vec<u8>,
    used: u64,
    is_changed: bool,
}

/// A bounded cache of baseline records by workload.
#[derive(Clone, Debug)]
pub(crate) struct BaselineCache {
    capacity: usize,
    entries: BTreeMap<WorkloadId, Entry>,
    /// Evicted since changes were last taken; at most `capacity`.
    gone: Vec<WorkloadId>,
    tick: u64,
    evicted: u64,
}

impl BaselineCache {
    /// Returns an empty cache for `capacity` records; 0 counts as 1.
    pub(crate) fn new(capacity: usize) -> BaselineCache {
        let capacity = capacity.max(1);
        BaselineCache { capacity, entries: BTreeMap::new(), gone: Vec::new(), tick: 0, evicted: 0 }
    }

    /// Inserts or replaces a record; `is_changed` if it differs from the stored one.
    pub(crate) fn put(&mut self, record: &BaselineRecord, is_changed: bool) {
        self.tick += 1;
        let entry = Entry { bytes: record.encode(), used: self.tick, is_changed };
        self.entries.insert(record.workload, entry);
        if self.entries.len() > self.capacity {
            self.evict();
        }
    }

    /// Returns the record of a workload and marks it as used.
    pub(crate) fn get(&mut self, workload: WorkloadId) -> Option<BaselineRecord> {
        self.tick += 1;
        let entry = self.entries.get_mut(&workload)?;
        entry.used = self.tick;
        BaselineRecord::decode(&entry.bytes).ok()
    }

    /// Returns the record of a workload without marking it as used.
    pub(crate) fn peek(&self, workload: WorkloadId) -> Option<BaselineRecord> {
        BaselineRecord::decode(&self.entries.get(&workload)?.bytes).ok()
    }

    /// Returns the workloads whose records changed or were evicted since the last call.
    pub(crate) fn take_changed(&mut self) -> Vec<WorkloadId> {
        let changed = |(id, e): (&WorkloadId, &mut Entry)| std::mem::take(&mut e.is_changed).then_some(*id);
        let mut all: Vec<WorkloadId> = self.entries.iter_mut().filter_map(changed).collect();
        all.append(&mut self.gone);
        all
    }

    /// Returns the number of records evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn evict(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
        if let Some(id) = oldest {
            self.entries.remove(&id);
            self.evicted += 1;
            if self.gone.len() < self.capacity {
                self.gone.push(id);
            }
        }
    }
}
