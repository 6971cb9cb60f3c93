//! Ring records: the bytes that the kernel programs wrote, back into the structs they were.
//!
//! The layout is `repr(C)` of [`probe_abi::record`], native endian: object and agent run on one machine. Bytes are read
//! field by field, so nothing about them is trusted; about ten nanoseconds a record.

use probe_abi::context::ContextRecord;
use probe_abi::fold::COUNTERS;
use probe_abi::record::{
    ArgsRecord, CallRecord, Header, LongArgsRecord, MEMORY_AT_ENTRY, MEMORY_AT_EXIT, NOT_SEEN, ProcessRecord,
    RecordKind, StepRecord,
};

use crate::{CallArgs, ExitStatus, TraceContext};

/// A process began to be seen, ran another program, or ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ProcessChange {
    /// Which of the three: a `Process...` kind.
    pub kind: RecordKind,
    /// Who, and when: `entry_ns`.
    pub header: Header,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
    /// How it ended, where it did.
    pub status: ExitStatus,
}

/// One record.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A step.
    Step(StepRecord),
    /// A call.
    Call(CallRecord),
    /// A process's beginning, exec or end.
    Process(ProcessChange),
    /// A call told whole.
    CallArgs(CallArgs),
    /// The trace that a step's thread worked for.
    Context(TraceContext),
}

/// Why bytes are no record.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DecodeError {
    /// The number names no [`RecordKind`].
    #[error("record of kind {0}: expected 1 to 8")]
    Kind(u16),
    /// There are fewer or more bytes than the kind has.
    #[error("record of kind {kind} is {bytes} bytes long: expected {expected}")]
    Length {
        /// The kind.
        kind: u16,
        /// What is there.
        bytes: usize,
        /// What its struct takes.
        expected: usize,
    },
}

/// Reads one record.
#[inline]
pub fn decode(bytes: &[u8]) -> Result<Record, DecodeError> {
    let kind = bytes.first_chunk::<2>().map_or(0, |b| u16::from_ne_bytes(*b));
    let (expected, parse): (usize, fn(&mut Fields<'_>) -> Record) = match kind {
        1 => (size_of::<StepRecord>(), step),
        2 => (size_of::<CallRecord>(), call),
        3 => (size_of::<ProcessRecord>(), |f| process(f, RecordKind::ProcessSeen)),
        4 => (size_of::<ProcessRecord>(), |f| process(f, RecordKind::ProcessExec)),
        5 => (size_of::<ProcessRecord>(), |f| process(f, RecordKind::ProcessExit)),
        6 => (size_of::<ArgsRecord>(), |f| Record::CallArgs(told(f))),
        7 => (size_of::<LongArgsRecord>(), told_at_length),
        8 => (size_of::<ContextRecord>(), context),
        _ => return Err(DecodeError::Kind(kind)),
    };
    if bytes.len() != expected {
        return Err(DecodeError::Length { kind, bytes: bytes.len(), expected });
    }
    Ok(parse(&mut Fields(bytes)))
}

/// The fields not read yet. The length was checked: what is missing reads as 0.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let Some((first, rest)) = self.0.split_first_chunk::<N>() else { return [0; N] };
        self.0 = rest;
        *first
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn i32(&mut self) -> i32 {
        i32::from_ne_bytes(self.take())
    }

    /// The first `bytes` of a place of `N`.
    fn part<const N: usize>(&mut self, bytes: usize) -> Vec<u8> {
        let place: [u8; N] = self.take();
        place[..bytes.min(N)].to_vec()
    }

    fn u64(&mut self) -> u64 {
        u64::from_ne_bytes(self.take())
    }

    // Struct literals below list fields in the order of `probe_abi::record`, and Rust evaluates them in that order.
    fn header(&mut self) -> Header {
        Header {
            kind: self.u16(),
            row: self.u16(),
            flags: self.u32(),
            pid: self.u32(),
            tid: self.u32(),
            process_start_ns: self.u64(),
            entry_ns: self.u64(),
            duration_ns: self.u64(),
        }
    }
}

fn step(f: &mut Fields<'_>) -> Record {
    Record::Step(StepRecord {
        header: f.header(),
        stream: f.u64(),
        sequence: f.u64(),
        previous_exit_ns: f.u64(),
        first_ns: f.u64(),
        recorded_ns: f.u64(),
        runq_gap_ns: f.u64(),
        runq_enqueue_ns: f.u64(),
        runq_wait_ns: f.u64(),
        enqueued_since_sync: f.u64(),
        process_enqueued_since_sync: f.u64(),
        first_tid: f.u32(),
        device: f.i32(),
        work: std::array::from_fn::<u64, COUNTERS, _>(|_| f.u64()),
    })
}

fn call(f: &mut Fields<'_>) -> Record {
    Record::Call(CallRecord {
        header: f.header(),
        result: f.u32(),
        device: f.i32(),
        handle: f.u64(),
        bytes: f.u64(),
        stream: f.u64(),
    })
}

fn told(f: &mut Fields<'_>) -> CallArgs {
    let (mut told, _, exit_bytes) = told_head(f);
    told.exit = f.part::<8>(exit_bytes);
    told.ordinal = ordinal(f);
    told
}

fn told_at_length(f: &mut Fields<'_>) -> Record {
    let (mut told, entry_bytes, exit_bytes) = told_head(f);
    let _out = f.u64();
    told.ordinal = ordinal(f);
    told.entry = f.part::<MEMORY_AT_ENTRY>(entry_bytes);
    told.exit = f.part::<MEMORY_AT_EXIT>(exit_bytes);
    Record::CallArgs(told)
}

fn ordinal(f: &mut Fields<'_>) -> Option<u64> {
    Some(f.u64()).filter(|n| *n != NOT_SEEN)
}

/// The fields before `out`, and how many bytes of memory follow.
fn told_head(f: &mut Fields<'_>) -> (CallArgs, usize, usize) {
    let told = CallArgs {
        header: f.header(),
        result: f.u32(),
        device: f.i32(),
        arguments: std::array::from_fn(|_| f.u64()),
        entry: Vec::new(),
        exit: Vec::new(),
        ordinal: None,
    };
    (told, f.u32() as usize, f.u32() as usize)
}

fn context(f: &mut Fields<'_>) -> Record {
    // Flags are eight bits wide.
    let (header, trace_id, span_id) = (f.header(), f.take(), f.take());
    Record::Context(TraceContext { header, trace_id, span_id, trace_flags: f.u32() as u8 })
}

fn process(f: &mut Fields<'_>, kind: RecordKind) -> Record {
    let (header, comm, status) = (f.header(), f.take(), u32::try_from(f.u64()));
    let status = status.map_or(ExitStatus::Unknown, ExitStatus::of_wait);
    Record::Process(ProcessChange { kind, header, comm, status })
}

#[cfg(test)]
mod tests {
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
        let mut told = words(size_of::<ArgsRecord>() / 4, 6);
        told[std::mem::offset_of!(ArgsRecord, exit_bytes)..][..4].copy_from_slice(&4u32.to_ne_bytes());
        let Ok(Record::CallArgs(t)) = decode(&told) else { panic!("not told") };
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
        assert_eq!(usize::from(c.trace_flags), std::mem::offset_of!(ContextRecord, trace_flags) / 4);
    }

    #[test]
    fn memory_is_as_long_as_it_was_read_and_never_longer_than_its_place() {
        let mut bytes = vec![7u8; size_of::<LongArgsRecord>()];
        bytes[..2].copy_from_slice(&7u16.to_ne_bytes());
        let at = std::mem::offset_of!(ArgsRecord, entry_bytes);
        for (claimed, entry, exit) in [([0, 0], 0, 0), ([128, 8], 128, 8), ([u32::MAX, 513], 256, 512)] {
            for (place, claim) in claimed.iter().enumerate() {
                bytes[at + 4 * place..][..4].copy_from_slice(&claim.to_ne_bytes());
            }
            let Ok(Record::CallArgs(t)) = decode(&bytes) else { panic!("not told") };
            assert_eq!((t.entry.len(), t.exit.len()), (entry, exit));
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
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
