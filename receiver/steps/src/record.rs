//! The stored baselines of one workload: bytes under a key that survives restarts.
//!
//! [`crate::Engine::baseline_record`] makes a record, [`crate::Engine::restore`] applies it, and its key is the
//! [`WorkloadId`]. The caller stores the bytes; their framing is that of [`recording::persisted`]. Bytes that
//! [`BaselineRecord::decode`] refuses give a typed error, and the workload starts without baselines.
//!
//! Fingerprints of kernels and graphs are made of addresses, which mean nothing in another process: baselines by
//! fingerprint are restored only to the process they were learnt from.

use event::ProcessId;
use recording::fields;
use recording::persisted::{Format, RecordError};

use crate::baseline::BaselineLevel;
use crate::identity::WorkloadId;
use crate::phase::Phase;
use crate::profile::PhaseProfile;

/// The record format: magic bytes `WTBL`, version 1.
pub const FORMAT: Format = Format { name: "baseline record", magic: *b"WTBL", version: 1 };

/// The baselines of one workload.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BaselineRecord {
    /// The workload, which is the key in the store.
    pub workload: WorkloadId,
    /// The process that the baselines were learnt from.
    pub process: ProcessId,
    pub(crate) profiles: Vec<PhaseProfile>,
}

fields! {
    BaselineRecord { workload, process, profiles }
    WorkloadId { 0 }
}

impl BaselineRecord {
    /// Encodes the record: 1 to 2 KiB for each phase.
    pub fn encode(&self) -> Vec<u8> {
        FORMAT.encode(self)
    }

    /// Decodes a record; damaged bytes, other formats and impossible values are errors.
    pub fn decode(bytes: &[u8]) -> Result<BaselineRecord, RecordError> {
        FORMAT.decode(bytes)
    }

    /// Returns the baseline levels by phase; with baselines by fingerprint a phase occurs more than once.
    pub fn levels(&self) -> impl Iterator<Item = (Phase, BaselineLevel)> + '_ {
        self.profiles.iter().filter_map(PhaseProfile::level)
    }

    /// Removes everything that is only valid in the process it was learnt from, unless that is `process`.
    pub(crate) fn for_process(mut self, process: ProcessId) -> BaselineRecord {
        if self.process != process {
            self.profiles.retain_mut(PhaseProfile::make_portable);
        }
        self
    }
}
