//! Flight records persisted across restarts of this program.
//!
//! A process has a record while it has ranks. A record of an earlier run is restored when its process is observed again,
//! so that findings have a process to be reported for. Only identities are restored, because operations made meanwhile were
//! not observed. A hanging process is not observed again; its record waits until the process ends.

use std::collections::{BTreeMap, BTreeSet};

use event::{Event, ProcessId};
use nccl::FlightRecord;
use persist::RecordChange;

use super::Collectives;

/// The key prefix of flight records.
pub(crate) const KIND: &str = "nccl";

/// Processes with persisted records, and restored records of processes not observed yet. Bounded as the engine and the
/// storage are.
#[derive(Clone, Debug, Default)]
pub(super) struct PersistedFlights {
    written: BTreeSet<ProcessId>,
    found: BTreeMap<ProcessId, Found>,
}

/// A restored record.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) record: FlightRecord,
    /// Offset from the times in the record to ns since 1970.
    pub(crate) to_unix_ns: i64,
}

/// Returns the key of a process's record.
pub(crate) fn key(process: ProcessId) -> String {
    format!("{KIND}/{}-{}", process.pid, process.start_ns)
}

impl Collectives {
    /// Stores a restored record until its process is observed.
    pub(crate) fn restore(&mut self, found: Found) {
        self.persisted.found.insert(found.record.process, found);
    }

    /// Removes and returns restored records of processes that ended before they were observed.
    pub(crate) fn take_ended(&mut self, is_alive: &dyn Fn(ProcessId) -> bool) -> Vec<Found> {
        let found = &mut self.persisted.found;
        found.extract_if(.., |process, _| !is_alive(*process)).map(|(_, found)| found).collect()
    }

    /// Restores the record of a process that is observed for the first time.
    pub(super) fn restore_process(&mut self, event: &Event) {
        let Event::Process(info) = event else { return };
        let Some(Found { record, .. }) = self.persisted.found.remove(&info.process) else { return };
        self.persisted.written.insert(info.process);
        self.engine.restore(&record, &mut self.findings);
    }

    /// Calls `out` with the record changes since the last call.
    pub(crate) fn changes(&mut self, out: &mut dyn FnMut(RecordChange)) {
        for process in self.engine.take_changed() {
            let Some(record) = self.engine.flight_record(process) else { continue };
            self.persisted.written.insert(process);
            out(RecordChange { key: key(process), bytes: Some(record.encode()) });
        }
        let live: BTreeSet<ProcessId> = self.engine.ranks().map(|rank| rank.who.process).collect();
        self.persisted.written.retain(|process| {
            let is_live = live.contains(process);
            if !is_live {
                out(RecordChange { key: key(*process), bytes: None });
            }
            is_live
        });
    }
}
