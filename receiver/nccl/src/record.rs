//! Flight records: outstanding and recent operations of one process, as bytes that survive the agent.
//!
//! A record is small, complete and checksummed, so it can be replaced often and read after the process was killed
//! within a collective, and the agent as well. There is one record per process; the caller stores it and checks that
//! the process still exists. A record contains communicator handles, which are addresses: it is for this machine only.
//!
//! [`recording::persisted`] defines the envelope of the bytes, `fields.rs` the fields.

mod fields;

use event::ProcessId;
use recording::persisted::{Format, RecordError};

use crate::identity::RankIdentity;
use crate::observe::StepNote;
use crate::op::Op;

/// Format of flight records: magic `WTFR` and version.
pub const FORMAT: Format = Format { name: "flight record", magic: *b"WTFR", version: 1 };

/// The stored state of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlightRecord {
    /// Process that the record describes.
    pub process: ProcessId,
    /// Creation time, CLOCK_MONOTONIC ns; comparable with the other times until the machine reboots.
    pub at_ns: u64,
    /// Ranks of the process.
    pub ranks: Vec<RankRecord>,
    /// Its last steps, oldest first.
    pub steps: Vec<StepNote>,
}

/// The stored state of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankRecord {
    /// Identity of the rank.
    pub who: RankIdentity,
    /// Its communicator's handle.
    pub handle: u64,
    /// Number of collectives that it reached.
    pub next_seq: u64,
    /// The sequence number is that of every node.
    pub is_exact: bool,
    /// Time of its last enqueued collective, ns; 0 if none.
    pub enqueued_ns: u64,
    /// Number of operations that no call had waited for.
    pub outstanding_count: u64,
    /// The first outstanding operations, oldest first.
    pub outstanding: Vec<Op>,
    /// Its last operations, oldest first.
    pub recent: Vec<Op>,
}

impl FlightRecord {
    /// Encodes the record.
    pub fn encode(&self) -> Vec<u8> {
        FORMAT.encode(self)
    }

    /// Decodes a stored record.
    pub fn decode(bytes: &[u8]) -> Result<FlightRecord, RecordError> {
        FORMAT.decode(bytes)
    }
}
