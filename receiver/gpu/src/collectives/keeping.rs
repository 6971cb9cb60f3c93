//! Flight records across restarts of this program: what is written of whom, and what is taken back.
//!
//! The one idea: a record is a process's, and it is kept as long as the process has ranks. One that an earlier run left
//! is taken back when its process is seen again, so that whatever it brings to light has somebody to be told of. Only
//! who is who comes back; what a rank had under way meanwhile nobody has seen. A process that hangs is not seen again:
//! its record waits until it is gone.

use std::collections::{BTreeMap, BTreeSet};

use event::{Event, ProcessId};
use nccl::FlightRecord;

use super::Collectives;
use crate::keep::Change;

/// What keys of flight records begin with.
pub(crate) const KIND: &str = "nccl";

/// Whose records are written, and what was found of whom. Bounded as the engine and the storage are.
#[derive(Clone, Debug, Default)]
pub(super) struct Keeping {
    written: BTreeSet<ProcessId>,
    found: BTreeMap<ProcessId, Found>,
}

/// A record that an earlier run left.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) record: FlightRecord,
    /// What gives ns since 1970 of its times.
    pub(crate) to_unix_ns: i64,
}

/// The key of a process's record.
pub(crate) fn key(process: ProcessId) -> String {
    format!("{KIND}/{}-{}", process.pid, process.start_ns)
}

impl Collectives {
    /// Takes what an earlier run knew of a process that is still there.
    pub(crate) fn recall(&mut self, found: Found) {
        self.keeping.found.insert(found.record.process, found);
    }

    /// What an earlier run knew of processes that were still there, have not been seen again, and now are gone.
    pub(crate) fn take_gone(&mut self, lives: &dyn Fn(ProcessId) -> bool) -> Vec<Found> {
        let found = &mut self.keeping.found;
        found.extract_if(.., |process, _| !lives(*process)).map(|(_, found)| found).collect()
    }

    /// Gives the process of an event what an earlier run knew of it.
    pub(super) fn take_back(&mut self, event: &Event) {
        let Event::Process(info) = event else { return };
        let Some(Found { record, .. }) = self.keeping.found.remove(&info.process) else { return };
        self.keeping.written.insert(info.process);
        let findings = &mut self.findings;
        self.engine.restore(&record, &mut |finding| findings.push(finding));
    }

    /// The records that changed since this was last asked.
    pub(crate) fn changes(&mut self, out: &mut dyn FnMut(Change)) {
        for process in self.engine.take_changed() {
            let Some(record) = self.engine.flight_record(process) else { continue };
            self.keeping.written.insert(process);
            out(Change { key: key(process), bytes: Some(record.encode()) });
        }
        let live: BTreeSet<ProcessId> = self.engine.ranks().map(|rank| rank.who.process).collect();
        self.keeping.written.retain(|process| {
            let lives = live.contains(process);
            if !lives {
                out(Change { key: key(*process), bytes: None });
            }
            lives
        });
    }
}
