//! What outlives us of a workload: its baselines as bytes, under a name that survives restarts.
//!
//! The one idea: a record is what [`crate::Engine::baseline_record`] gives and [`crate::Engine::restore`] takes, and
//! the name it is kept under is [`WorkloadId`]. Where it is kept is others'; how the bytes stand around the fields
//! is said in [`recording::persisted`]. What [`Format::decode`] refuses is a typed error: start fresh, and say so.
//!
//! Fingerprints of kernels and graphs are made of addresses, so they mean nothing in another process: what is
//! learnt by fingerprint is restored to the process that it was learnt of, and to no other.

use event::ProcessId;
use recording::fields;
use recording::persisted::{Format, RecordError};

use crate::baseline::Level;
use crate::habit::Habit;
use crate::identity::WorkloadId;
use crate::phase::Phase;

/// The format: `WTBL`, its version.
pub const FORMAT: Format = Format { name: "baseline record", magic: *b"WTBL", version: 1 };

/// The baselines of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaselineRecord {
    /// Whose: the key to keep it under.
    pub workload: WorkloadId,
    /// The process that it was learnt of.
    pub process: ProcessId,
    pub(crate) habits: Vec<Habit>,
}

fields! {
    BaselineRecord { workload, process, habits }
    WorkloadId { 0 }
}

impl BaselineRecord {
    /// The record as bytes: 1 to 2 KiB for each phase.
    pub fn encode(&self) -> Vec<u8> {
        FORMAT.encode(self)
    }

    /// The record of bytes that somebody kept.
    pub fn decode(bytes: &[u8]) -> Result<BaselineRecord, RecordError> {
        FORMAT.decode(bytes)
    }

    /// What it says is usual, by phase; with baselines by fingerprint a phase comes up more than once.
    pub fn levels(&self) -> impl Iterator<Item = (Phase, Level)> + '_ {
        self.habits.iter().filter_map(Habit::level)
    }

    /// Without what makes no sense in `process`.
    pub(crate) fn for_process(mut self, process: ProcessId) -> BaselineRecord {
        if self.process != process {
            self.habits.retain_mut(Habit::forget_process);
        }
        self
    }
}
