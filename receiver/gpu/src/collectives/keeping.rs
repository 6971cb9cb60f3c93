//! Flight records across restarts of this program: what is written of whom, and what is taken back.
//!
//! The one idea: a record is a process's, and it is kept as long as the process has ranks. One that an earlier run left
//! is taken back when its process is seen again, so that whatever it brings to light has somebody to be told of. Only
//! who is who comes back; what a rank had under way meanwhile nobody has seen.

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
    found: BTreeMap<ProcessId, FlightRecord>,
}

/// The key of a process's record.
pub(crate) fn key(process: ProcessId) -> String {
    format!("{KIND}/{}-{}", process.pid, process.start_ns)
}

impl Collectives {
    /// Takes what an earlier run knew of a process that is still there.
    pub(crate) fn recall(&mut self, record: FlightRecord) {
        self.keeping.found.insert(record.process, record);
    }

    /// Gives the process of an event what an earlier run knew of it.
    pub(super) fn take_back(&mut self, event: &Event) {
        let Event::Process(info) = event else { return };
        let Some(record) = self.keeping.found.remove(&info.process) else { return };
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
