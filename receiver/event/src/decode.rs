//! Decoding of ring records: the bytes that the kernel programs wrote, as the values of this crate.
//!
//! A record is read as the struct of [`probe_abi::record`] that the programs filled, native endian, since object and
//! agent run on one machine. Any bytes of the right length are a record; lengths within it are bounded by the struct.

use probe_abi::context::ContextRecord;
use probe_abi::function::FunctionRecord;
use probe_abi::record::{
    ArgsRecord, CallRecord, Header, LongArgsRecord, NOT_SEEN, ProcessRecord, RecordKind, StepRecord,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::{CallArgs, ExitStatus, TraceContext};

/// The first hit, the exec or the end of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessChange {
    /// One of the `Process...` kinds.
    pub kind: RecordKind,
    /// Identity of the process; `entry_ns` is the time of the change.
    pub header: Header,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
    /// Exit status, for a process that ended.
    pub status: ExitStatus,
}

/// A decoded ring record.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are steps, and a box would be an allocation for each")]
pub enum Record {
    /// The end of a step.
    Step(StepRecord),
    /// A call without its arguments.
    Call(CallRecord),
    /// A change of a process.
    Process(ProcessChange),
    /// A call with its arguments.
    CallArgs(CallArgs),
    /// The trace context of a thread that ended a step.
    Context(TraceContext),
    /// A sampled launch.
    Function(FunctionRecord),
}

/// Bytes that are not a record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// No [`RecordKind`] has this number.
    #[error("record of kind {0}: expected 1 to 9")]
    Kind(u16),
    /// The kind's struct has another size.
    #[error("record of kind {kind} is {bytes} bytes long: expected {expected}")]
    Length {
        /// Number of the kind in the record.
        kind: u16,
        /// Length of the record.
        bytes: usize,
        /// Size of the kind's struct.
        expected: usize,
    },
}

/// Decodes one record.
///
/// # Errors
///
/// Fails if the kind is unknown, or if the length is not that of the kind's struct.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let kind = bytes.first_chunk().map_or(0, |b| u16::from_ne_bytes(*b));
    Ok(match kind {
        1 => Record::Step(read(kind, bytes)?),
        2 => Record::Call(read(kind, bytes)?),
        3 => process(RecordKind::ProcessSeen, read(kind, bytes)?),
        4 => process(RecordKind::ProcessExec, read(kind, bytes)?),
        5 => process(RecordKind::ProcessExit, read(kind, bytes)?),
        6 => {
            let record: ArgsRecord = read(kind, bytes)?;
            call_args(&record, &[], record.out.as_bytes())
        }
        7 => {
            let long: LongArgsRecord = read(kind, bytes)?;
            call_args(&long.record, long.entry.as_bytes(), long.exit.as_bytes())
        }
        8 => context(&read(kind, bytes)?),
        9 => Record::Function(read(kind, bytes)?),
        _ => return Err(DecodeError::Kind(kind)),
    })
}

fn read<T: FromBytes>(kind: u16, bytes: &[u8]) -> Result<T, DecodeError> {
    let length = DecodeError::Length { kind, bytes: bytes.len(), expected: size_of::<T>() };
    T::read_from_bytes(bytes).map_err(|_| length)
}

/// Decodes the call arguments; `entry` and `exit` are the memory in the record.
fn call_args(record: &ArgsRecord, entry: &[u8], exit: &[u8]) -> Record {
    let part = |memory: &[u8], bytes: u32| memory[..memory.len().min(bytes as usize)].to_vec();
    Record::CallArgs(CallArgs {
        header: record.header,
        result: record.result,
        device: record.device,
        arguments: record.arguments,
        entry: part(entry, record.entry_bytes),
        exit: part(exit, record.exit_bytes),
        ordinal: Some(record.ordinal).filter(|n| *n != NOT_SEEN),
    })
}

fn context(record: &ContextRecord) -> Record {
    Record::Context(TraceContext {
        header: record.header,
        trace_id: zerocopy::transmute!(record.trace_id),
        span_id: zerocopy::transmute!(record.span_id),
        // Flags are eight bits wide.
        trace_flags: record.trace_flags as u8,
    })
}

fn process(kind: RecordKind, record: ProcessRecord) -> Record {
    let status = u32::try_from(record.status).map_or(ExitStatus::Unknown, ExitStatus::of_wait);
    Record::Process(ProcessChange { kind, header: record.header, comm: record.comm, status })
}

#[cfg(test)]
mod tests {
    use probe_abi::fold::COUNTERS;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_are_where_the_structs_have_them() {
        // A record whose every 32-bit word holds its own number.
        let words = |n: usize, kind: u16| -> Vec<u8> {
            let mut bytes: Vec<u8> = (0..n as u32).flat_map(u32::to_ne_bytes).collect();
            bytes[..2].copy_from_slice(&kind.to_ne_bytes());
            bytes
        };
        let Ok(Record::Step(s)) = decode(&words(size_of::<StepRecord>() / 4, 1)) else { panic!("no step") };
        assert_eq!((s.header.pid, s.header.tid), (2, 3));
        assert_eq!(s.first_tid as usize, std::mem::offset_of!(StepRecord, first_tid) / 4);
        let last = std::mem::offset_of!(StepRecord, work) / 4 + 2 * (COUNTERS - 1);
        assert_eq!(s.work[COUNTERS - 1] as u32 as usize, last);
        let Ok(Record::Call(c)) = decode(&words(size_of::<CallRecord>() / 4, 2)) else { panic!("no call") };
        assert_eq!(c.stream as u32 as usize, std::mem::offset_of!(CallRecord, stream) / 4);
        let mut record = words(size_of::<ArgsRecord>() / 4, 6);
        record[std::mem::offset_of!(ArgsRecord, exit_bytes)..][..4].copy_from_slice(&4u32.to_ne_bytes());
        let Ok(Record::CallArgs(t)) = decode(&record) else { panic!("not a call record") };
        assert_eq!(t.arguments[7] as u32 as usize, std::mem::offset_of!(ArgsRecord, arguments) / 4 + 14);
        let out = std::mem::offset_of!(ArgsRecord, out) as u32 / 4;
        assert_eq!((t.entry, t.exit), (Vec::new(), out.to_ne_bytes().to_vec()));
        assert_eq!(t.ordinal.map(|n| n as u32), Some(out + 2));
        let mut process = words(size_of::<ProcessRecord>() / 4, 5);
        process[std::mem::offset_of!(ProcessRecord, status)..].copy_from_slice(&(3u64 << 8).to_ne_bytes());
        let Ok(Record::Process(p)) = decode(&process) else { panic!("no process") };
        assert_eq!(p.status, ExitStatus::Exited(3));
        let context = words(size_of::<ContextRecord>() / 4, 8);
        let Ok(Record::Context(c)) = decode(&context) else { panic!("no context") };
        assert_eq!(
            (c.trace_id, c.span_id),
            (context[40..56].try_into().unwrap(), context[56..64].try_into().unwrap())
        );
        let Ok(Record::Function(f)) = decode(&words(size_of::<FunctionRecord>() / 4, 9)) else {
            panic!("no function")
        };
        assert_eq!(f.block[2] as usize, std::mem::offset_of!(FunctionRecord, block) / 4 + 2);
        assert_eq!(usize::from(c.trace_flags), std::mem::offset_of!(ContextRecord, trace_flags) / 4);
    }

    #[test]
    fn memory_has_the_length_that_was_read() {
        let mut bytes = vec![7u8; size_of::<LongArgsRecord>()];
        bytes[..2].copy_from_slice(&7u16.to_ne_bytes());
        let at = std::mem::offset_of!(ArgsRecord, entry_bytes);
        for (claimed, entry, exit) in [([0, 0], 0, 0), ([128, 8], 128, 8), ([u32::MAX, 513], 256, 512)] {
            for (place, claim) in claimed.iter().enumerate() {
                bytes[at + 4 * place..][..4].copy_from_slice(&claim.to_ne_bytes());
            }
            let Ok(Record::CallArgs(t)) = decode(&bytes) else { panic!("not a call record") };
            assert_eq!((t.entry.len(), t.exit.len()), (entry, exit));
        }
    }

    #[test]
    fn invalid_records_are_refused() {
        assert_eq!(decode(b""), Err(DecodeError::Kind(0)));
        assert_eq!(decode(&[9; 40]), Err(DecodeError::Kind(0x0909)));
        let mut short = vec![0u8; 71];
        short[..2].copy_from_slice(&2u16.to_ne_bytes());
        assert_eq!(decode(&short), Err(DecodeError::Length { kind: 2, bytes: 71, expected: 72 }));
    }

    #[test]
    fn a_record_of_any_other_length_is_refused() {
        for kind in 1u16..=8 {
            let lengths = (2..=1024).filter(|n| {
                let mut bytes = vec![0xff; *n];
                bytes[..2].copy_from_slice(&kind.to_ne_bytes());
                decode(&bytes).is_ok()
            });
            assert_eq!(lengths.count(), 1, "kind {kind}");
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(kind in 0u16..10, mut bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
            let _ = decode(&bytes);
            if let Some(first) = bytes.first_chunk_mut::<2>() {
                *first = kind.to_ne_bytes();
            }
            let _ = decode(&bytes);
        }
    }
}
