//! State of a process: hits and durations by row, and its streams with open work.

use std::collections::BTreeMap;

use probe_abi::graph::OPERATIONS;
use probe_abi::histogram::Durations;
use probe_abi::record::{ACTIVE, StreamKey};

use event::{Event, OperationTotal, ProcessId};

use super::functions::Functions;

#[derive(Debug)]
pub(super) struct Process {
    pub(super) id: ProcessId,
    /// Calls that enqueued work.
    pub(super) enqueues: u64,
    /// Calls that had enqueued work at the last sync call's return.
    pub(super) seen: u64,
    /// The process has a stream that waits for its legacy default stream and vice versa.
    pub(super) has_blocking: bool,
    /// Device that a thread of the process chose first.
    pub(super) device: Option<u64>,
    /// Functions launched, by identity.
    pub(super) functions: Functions,
    active: Vec<StreamKey>,
    operations: BTreeMap<u16, Operation>,
}

/// Counters of one row.
#[derive(Debug, Default)]
struct Operation {
    calls: u64,
    durations: Option<Box<Durations>>,
    reported: bool,
}

impl Process {
    pub(super) fn new(id: ProcessId) -> Process {
        Process {
            id,
            enqueues: 0,
            seen: 0,
            has_blocking: false,
            device: None,
            functions: Functions::default(),
            active: Vec::new(),
            operations: BTreeMap::new(),
        }
    }

    pub(super) fn hit(&mut self, row: u16) {
        let operation = self.operations.entry(row).or_default();
        operation.calls += 1;
        operation.reported = false;
    }

    /// Counts a return. A row without durations gets them if `has_room`.
    pub(super) fn time(&mut self, row: u16, duration_ns: u64, failed: bool, has_room: bool) -> Timed {
        let operation = self.operations.entry(row).or_default();
        operation.reported = false;
        let is_new = operation.durations.is_none();
        if is_new && !has_room {
            return Timed::NoRoom;
        }
        operation.durations.get_or_insert_default().add(duration_ns, failed);
        if is_new { Timed::First } else { Timed::Again }
    }

    /// Returns the number of collectives, sends and receives.
    pub(super) fn collectives(&self) -> u64 {
        OPERATIONS.iter().filter_map(|row| self.operations.get(row)).map(|operation| operation.calls).sum()
    }

    /// Returns the number of rows with durations.
    pub(super) fn timed(&self) -> usize {
        self.operations.values().filter(|o| o.durations.is_some()).count()
    }

    /// Adds a stream with open work, for the next device synchronization; idle ones are evicted. Returns false if
    /// there are too many.
    pub(super) fn add_active(&mut self, stream: StreamKey, is_idle: impl Fn(&StreamKey) -> bool) -> bool {
        if self.active.contains(&stream) {
            return true;
        }
        if self.active.len() >= ACTIVE
            && let Some(at) = self.active.iter().position(is_idle)
        {
            self.active.remove(at);
        }
        if self.active.len() >= ACTIVE {
            return false;
        }
        self.active.push(stream);
        true
    }

    /// Returns the streams with open work.
    pub(super) fn active(&self) -> &[StreamKey] {
        &self.active
    }

    pub(super) fn remove_stream(&mut self, stream: &StreamKey) {
        self.active.retain(|s| s != stream);
    }

    /// Appends the totals that changed since the last time.
    pub(super) fn totals(&mut self, at_ns: u64, out: &mut Vec<Event>) {
        for (row, operation) in &mut self.operations {
            if !std::mem::replace(&mut operation.reported, true) {
                out.push(Event::Operation(Box::new(operation.total(at_ns, self.id, *row))));
            }
        }
    }
}

/// Outcome of a duration.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Timed {
    First,
    Again,
    NoRoom,
}

impl Operation {
    fn total(&self, at_ns: u64, process: ProcessId, row: u16) -> OperationTotal {
        let mut total =
            OperationTotal { at_ns, process, row, calls: self.calls, ..OperationTotal::default() };
        if let Some(durations) = &self.durations {
            total.add(durations);
        }
        total
    }
}
