//! Flight records: what was outstanding, and what came just before, of one process, as bytes that survive us.
//!
//! The one idea: a record is small, whole and checked, so that whoever keeps it can replace it often and read it
//! after anything: a process killed in mid-collective, and the agent as well. One record a process; keeping them,
//! and telling whose process is still there, is left to the caller. A record holds the communicators' handles as
//! they are, which are addresses: it is for this machine, and not to be sent away.
//!
//! ```text
//!  0         4         6         10                    10 + length   14 + length
//!  +---------+---------+---------+---------------------+-------------+
//!  | magic 4 | version | length  | fields              | CRC-32      |
//!  | WTFR    | u16     | u32     | `length` bytes      | u32         |
//!  +---------+---------+---------+---------------------+-------------+
//!  \_________________ covered by the checksum _________/
//! ```
//!
//! Little endian; a list is a u16 count and its items. Fields in the order of `fields.rs`, which reader and writer
//! share: append, never insert, and give a reader of the older version the version it refuses.

mod fields;

use event::ProcessId;

use self::fields::Field;
use crate::identity::Who;
use crate::observe::StepNote;
use crate::op::Op;

/// The first bytes of a record.
pub const MAGIC: [u8; 4] = *b"WTFR";
/// The format's version. A reader refuses others.
pub const VERSION: u16 = 1;
/// Longer lists are cut.
pub const LIST_MAX: usize = 1024;
/// Bytes before the fields.
const HEAD: usize = 10;

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

/// Why bytes are no record.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RecordError {
    /// They begin with something else.
    #[error("not a flight record: it begins with {0:02x?}, expected {MAGIC:02x?}")]
    NotARecord(Vec<u8>),
    /// They are of another version.
    #[error("a flight record of version {0}, expected {VERSION}")]
    Version(u16),
    /// There are too few or too many.
    #[error("a flight record of {found} bytes, expected {expected}")]
    Length {
        /// Bytes there are.
        found: usize,
        /// Bytes it says.
        expected: usize,
    },
    /// They changed since they were written.
    #[error("a damaged flight record: checksum {found:08x}, expected {expected:08x}")]
    Checksum {
        /// Of the bytes there are.
        found: u32,
        /// Of the bytes that were written.
        expected: u32,
    },
    /// They are whole and make no sense.
    #[error("a flight record whose fields make no sense")]
    Malformed,
}

impl FlightRecord {
    /// The record as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        self.put(&mut fields);
        let mut bytes = Vec::with_capacity(HEAD + fields.len() + 4);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((fields.len() as u32).to_le_bytes());
        bytes.extend(fields);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// The record of bytes that somebody kept.
    pub fn decode(bytes: &[u8]) -> Result<FlightRecord, RecordError> {
        let mut fields = checked(bytes)?;
        let record = FlightRecord::take(&mut fields).ok_or(RecordError::Malformed)?;
        if fields.is_empty() { Ok(record) } else { Err(RecordError::Malformed) }
    }
}

/// The fields, if the bytes around them are right.
fn checked(bytes: &[u8]) -> Result<&[u8], RecordError> {
    let mut rest = bytes;
    let magic = <[u8; 4]>::take(&mut rest).filter(|magic| *magic == MAGIC);
    magic.ok_or_else(|| RecordError::NotARecord(bytes[..bytes.len().min(MAGIC.len())].to_vec()))?;
    let short = || RecordError::Length { found: bytes.len(), expected: HEAD + 4 };
    let version = u16::take(&mut rest).ok_or_else(short)?;
    if version != VERSION {
        return Err(RecordError::Version(version));
    }
    let length = u32::take(&mut rest).ok_or_else(short)? as usize;
    if rest.len() != length.saturating_add(4) {
        return Err(RecordError::Length {
            found: bytes.len(),
            expected: HEAD.saturating_add(length).saturating_add(4),
        });
    }
    let (covered, mut checksum) = bytes.split_at(HEAD + length);
    let expected = u32::take(&mut checksum).unwrap_or_default();
    let found = crc32fast::hash(covered);
    if found != expected {
        return Err(RecordError::Checksum { found, expected });
    }
    Ok(&covered[HEAD..])
}
