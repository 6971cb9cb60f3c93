//! Flight records: what was outstanding, and what came just before, of one process, as bytes that survive us.
//!
//! The one idea: a record is small, whole and checked, so that whoever keeps it can replace it often and read it
//! after anything: a process killed in mid-collective, and the agent as well. One record a process; keeping them,
//! and telling whose process is still there, is left to the caller. A record holds the communicators' handles as
//! they are, which are addresses: it is for this machine, and not to be sent away.
//!
//! [`recording::persisted`] says how the bytes stand around the fields, `fields.rs` which those are.

mod fields;

use event::ProcessId;
use recording::persisted::{Format, RecordError};

use crate::identity::Who;
use crate::observe::StepNote;
use crate::op::Op;

/// The format: `WTFR`, its version.
pub const FORMAT: Format = Format { name: "flight record", magic: *b"WTFR", version: 1 };

/// What is kept of a process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlightRecord {
    /// Whose.
    pub process: ProcessId,
    /// When it was made, CLOCK_MONOTONIC ns: comparable with the times in it, until the machine is started anew.
    pub at_ns: u64,
    /// Its ranks.
    pub ranks: Vec<RankRecord>,
    /// Its last steps, oldest first.
    pub steps: Vec<StepNote>,
}

/// What is kept of a rank.
#[derive(Clone, Debug, PartialEq)]
pub struct RankRecord {
    /// Who.
    pub who: Who,
    /// Its communicator's handle.
    pub handle: u64,
    /// Collectives it has come to.
    pub next_seq: u64,
    /// That number is the one of every node.
    pub is_exact: bool,
    /// When it last enqueued a collective; 0 never.
    pub enqueued_ns: u64,
    /// Operations that nobody had waited for...
    pub outstanding_count: u64,
    /// ... and the first few of them, oldest first.
    pub outstanding: Vec<Op>,
    /// Its last operations, oldest first.
    pub recent: Vec<Op>,
}

impl FlightRecord {
    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        FORMAT.encode(self)
    }

    /// The record of bytes that somebody kept.
    pub fn decode(bytes: &[u8]) -> Result<FlightRecord, RecordError> {
        FORMAT.decode(bytes)
    }
}
