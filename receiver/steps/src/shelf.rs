//! Baselines of workloads whose processes are not there: ended, or not started yet.
//!
//! The one idea: a server that is started anew finds what it was like before, whether the agent saw the end of the
//! old process or was itself started in between. Kept as bytes, which take half the memory. Full: the record unused
//! longest makes room, counted.

use std::collections::BTreeMap;

use crate::identity::WorkloadId;
use crate::record::BaselineRecord;

#[derive(Clone, Debug)]
struct Entry {
    bytes: Vec<u8>,
    used: u64,
    is_changed: bool,
}

/// Records by workload.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    most: usize,
    entries: BTreeMap<WorkloadId, Entry>,
    /// Forgotten since changes were last taken; as many as there may be records.
    gone: Vec<WorkloadId>,
    tick: u64,
    evicted: u64,
}

impl Shelf {
    /// An empty shelf for `most` records; 0 counts as 1.
    pub(crate) fn new(most: usize) -> Shelf {
        Shelf { most: most.max(1), entries: BTreeMap::new(), gone: Vec::new(), tick: 0, evicted: 0 }
    }

    /// Puts a record where an older one was; `is_changed` where whoever keeps records has not seen it.
    pub(crate) fn put(&mut self, record: &BaselineRecord, is_changed: bool) {
        self.tick += 1;
        let entry = Entry { bytes: record.encode(), used: self.tick, is_changed };
        self.entries.insert(record.workload, entry);
        if self.entries.len() > self.most {
            self.evict();
        }
    }

    /// The record of a workload.
    pub(crate) fn get(&mut self, workload: WorkloadId) -> Option<BaselineRecord> {
        self.tick += 1;
        let entry = self.entries.get_mut(&workload)?;
        entry.used = self.tick;
        BaselineRecord::decode(&entry.bytes).ok()
    }

    /// The same, without using it.
    pub(crate) fn peek(&self, workload: WorkloadId) -> Option<BaselineRecord> {
        BaselineRecord::decode(&self.entries.get(&workload)?.bytes).ok()
    }

    /// Workloads whose records changed or were forgotten since this was last asked.
    pub(crate) fn take_changed(&mut self) -> Vec<WorkloadId> {
        let changed = |(id, e): (&WorkloadId, &mut Entry)| std::mem::take(&mut e.is_changed).then_some(*id);
        let mut all: Vec<WorkloadId> = self.entries.iter_mut().filter_map(changed).collect();
        all.append(&mut self.gone);
        all
    }

    /// Records forgotten to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.entries.values().map(|e| size_of::<(WorkloadId, Entry)>() + e.bytes.capacity()).sum()
    }

    fn evict(&mut self) {
        let unused = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(id, _)| *id);
        if let Some(id) = unused {
            self.entries.remove(&id);
            self.evicted += 1;
            if self.gone.len() < self.most {
                self.gone.push(id);
            }
        }
    }
}
