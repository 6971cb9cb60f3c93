//! Fields as bytes: one list of fields per struct, from which both directions come.
//!
//! Little endian, no padding. Texts and lists carry their length and are bounded.

use probe_abi::counters::DropReason;
use probe_abi::fold::COUNTERS;
use probe_abi::record::{ARGUMENTS, CallRecord, Header, StepRecord};

use super::{Architecture, Info, LIST_MAX, TEXT_MAX};
use event::{
    Account, CallArgs, ClockOffsets, Clocks, Device, ExitStatus, LauncherEnv, OperationTotal, ProcessId,
    ProcessInfo, ThrottleReason, ThrottleTime, TraceContext, UnderWay,
};

/// Bytes being written.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
    /// Texts and lists that were too long.
    pub(super) cut: u64,
}

/// Something that can be written and read back. `take` gives `None` where the bytes end too early or mean nothing.
pub(super) trait Field: Sized {
    fn put(&self, out: &mut Out);
    fn take(from: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn put(&self, out: &mut Out) {
                out.bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let (first, rest) = from.split_first_chunk()?;
                *from = rest;
                Some(<$number>::from_le_bytes(*first))
            }
        }
    )*};
}

numbers!(u16, u32, u64, i32, i64);

/// Ids as they are written elsewhere: most significant byte first.
impl<const N: usize> Field for [u8; N] {
    fn put(&self, out: &mut Out) {
        out.bytes.extend_from_slice(self);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (first, rest) = from.split_first_chunk()?;
        *from = rest;
        Some(*first)
    }
}

macro_rules! structs {
    ($($name:ident { $($field:ident),* $(; $later:ident)* })*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Out) {
                $(self.$field.put(out);)*
                $(self.$later.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                Some($name { $($field: Field::take(from)?,)* $($later: later(from)?,)* })
            }
        }
    )*};
}

/// A field that a writer of an earlier version ended before.
fn later<T: Field + Default>(from: &mut &[u8]) -> Option<T> {
    if from.is_empty() { Some(T::default()) } else { T::take(from) }
}

// The order of the fields is the format: append, never insert. Behind a semicolon stands what version 1.0 did not have.
structs! {
    Info { architecture, agent_version, clock, rows }
    ClockOffsets { at_ns, to_unix_ns, to_boottime_ns }
    ProcessId { pid, start_ns }
    ProcessInfo {
        process, at_ns, executable, executable_path, command, container_id, attributes, visible, blind
    }
    Header { kind, row, flags, pid, tid, process_start_ns, entry_ns, duration_ns }
    StepRecord {
        header, stream, sequence, previous_exit_ns, first_ns, recorded_ns, runq_gap_ns, runq_enqueue_ns, runq_wait_ns,
        enqueued_since_sync, process_enqueued_since_sync, first_tid, device, work
    }
    CallRecord { header, result, device, handle, bytes, stream }
    CallArgs { header, result, device, arguments, entry, exit, ordinal }
    UnderWay { at_ns, process, tid, row, entry_ns }
    LauncherEnv { process, at_ns, variables }
    Device { at_ns, index, id, pci, processes }
    Clocks { from_ns, to_ns, device, throttled }
    ThrottleTime { reason, ns, is_counted }
    OperationTotal { at_ns, process, row, calls, returned, errors, sum_ns, max_ns, zero_count, buckets }
    Account {
        at_ns, hits, folded, delivered, sampled_out, dropped, suppressed, filtered, unmatched, unknown_events,
        unclosed_streams, untimed, records, received, runs, run_cost_ns, libraries, functions;
        untracked_graphs; dropped_contexts
    }
}

impl Field for TraceContext {
    fn put(&self, out: &mut Out) {
        self.header.put(out);
        self.trace_id.put(out);
        self.span_id.put(out);
        u16::from(self.trace_flags).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let (header, trace_id, span_id) = (Field::take(from)?, Field::take(from)?, Field::take(from)?);
        Some(TraceContext { header, trace_id, span_id, trace_flags: u16::take(from)? as u8 })
    }
}

impl Field for String {
    fn put(&self, out: &mut Out) {
        let text = &self[..self.floor_char_boundary(TEXT_MAX)];
        out.cut += u64::from(text.len() < self.len());
        (text.len() as u16).put(out);
        out.bytes.extend_from_slice(text.as_bytes());
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = usize::from(u16::take(from)?);
        let (text, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Out) {
        let items = &self[..self.len().min(LIST_MAX)];
        out.cut += u64::from(items.len() < self.len());
        (items.len() as u16).put(out);
        items.iter().for_each(|item| item.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let count = u16::take(from)?;
        (0..count).map(|_| T::take(from)).collect()
    }
}

/// Memory as it was: a length in bytes, at most [`TEXT_MAX`], and the bytes.
impl Field for Vec<u8> {
    fn put(&self, out: &mut Out) {
        let bytes = &self[..self.len().min(TEXT_MAX)];
        out.cut += u64::from(bytes.len() < self.len());
        (bytes.len() as u16).put(out);
        out.bytes.extend_from_slice(bytes);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let length = usize::from(u16::take(from)?);
        let (bytes, rest) = from.split_at_checked(length)?;
        *from = rest;
        Some(bytes.to_vec())
    }
}

/// A number that may be missing, all ones for none. Only as a struct's last field: a writer of an earlier version ended
/// before it.
impl Field for Option<u64> {
    fn put(&self, out: &mut Out) {
        self.unwrap_or(u64::MAX).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if from.is_empty() {
            return Some(None);
        }
        Some(Some(u64::take(from)?).filter(|n| *n != u64::MAX))
    }
}

/// As wait(2) has it. Only as the last field: a writer of an earlier version ended before it.
impl Field for ExitStatus {
    fn put(&self, out: &mut Out) {
        self.wait().put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if from.is_empty() {
            return Some(ExitStatus::Unknown);
        }
        u32::take(from).map(ExitStatus::of_wait)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, out: &mut Out) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some((A::take(from)?, B::take(from)?))
    }
}

/// A list on paper: places that the writer had and we lack are dropped, those that it lacked are 0.
macro_rules! counters {
    ($($length:expr),*) => {$(
        impl Field for [u64; $length] {
            fn put(&self, out: &mut Out) {
                ($length as u16).put(out);
                self.iter().for_each(|value| value.put(out));
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                let mut all = [0; $length];
                for at in 0..usize::from(u16::take(from)?) {
                    let value = u64::take(from)?;
                    if let Some(place) = all.get_mut(at) {
                        *place = value;
                    }
                }
                Some(all)
            }
        }
    )*};
}

counters!(COUNTERS, DropReason::ALL.len(), ARGUMENTS);

impl Field for Architecture {
    fn put(&self, out: &mut Out) {
        (*self as u16).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(match u16::take(from)? {
            1 => Architecture::X86_64,
            2 => Architecture::Aarch64,
            _ => Architecture::Unknown,
        })
    }
}

/// Reasons of throttling by their number in recordings: append, never insert.
const THROTTLE_REASONS: [ThrottleReason; ThrottleReason::ALL.len()] = [
    ThrottleReason::ApplicationsClocks,
    ThrottleReason::DisplayClock,
    ThrottleReason::Hw,
    ThrottleReason::HwPowerBrake,
    ThrottleReason::HwSlowdown,
    ThrottleReason::HwThermal,
    ThrottleReason::SwPowerCap,
    ThrottleReason::SwThermal,
    ThrottleReason::SyncBoost,
    ThrottleReason::MemoryThermal,
    ThrottleReason::VrThermal,
];

impl Field for ThrottleReason {
    fn put(&self, out: &mut Out) {
        let number = THROTTLE_REASONS.iter().position(|reason| reason == self);
        number.map_or(u16::MAX, |number| number as u16).put(out);
    }

    /// A reason that only a later version knows is read as [`ThrottleReason::Hw`].
    fn take(from: &mut &[u8]) -> Option<Self> {
        let number = usize::from(u16::take(from)?);
        Some(THROTTLE_REASONS.get(number).copied().unwrap_or(ThrottleReason::Hw))
    }
}

impl Field for bool {
    fn put(&self, out: &mut Out) {
        u16::from(*self).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        Some(u16::take(from)? != 0)
    }
}

impl Field for DropReason {
    fn put(&self, out: &mut Out) {
        (*self as u16).put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        DropReason::ALL.get(usize::from(u16::take(from)?)).copied()
    }
}
