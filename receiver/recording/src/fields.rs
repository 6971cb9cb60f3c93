//! The fields of everything in a recording, in their order there: append, never insert.

use event::{
    Account, CallArgs, ClockOffsets, Clocks, Device, ExitStatus, FunctionRecord, FunctionTotal, GpuFunction,
    LauncherEnv, OperationTotal, Overhead, ProcessId, ProcessInfo, ThrottleReason, ThrottleTime,
    TraceContext, UnderWay,
};
use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::function::Signature;
use probe_abi::record::{CallRecord, CountParts, Header, StepRecord};

use crate::codec::{ByteString, CountedWords, Encoder, Encoding, Field, Later, LaterOrNone, Wide};
use crate::{Architecture, Info, fields};

probe_abi::record_fields!(fields);

fields! {
    Info { architecture, agent_version, clock, rows }
    ClockOffsets { at_ns, to_unix_ns, to_boottime_ns }
    ProcessId { pid, start_ns }
    ProcessInfo {
        process, at_ns, executable, executable_path, command, container_id, attributes, observed, gaps,
        since_unix_ns as Unrecorded, unobserved_ns as Later
    }
    CallArgs {
        header, result, device, arguments as CountedWords, entry as ByteString, exit as ByteString, ordinal as LaterOrNone
    }
    TraceContext { header, trace_id, span_id, trace_flags as Wide }
    UnderWay { at_ns, process, tid, row, entry_ns }
    LauncherEnv { process, at_ns, variables }
    Device { at_ns, index, id, pci, processes }
    Clocks { from_ns, to_ns, device, throttled }
    ThrottleTime { reason, ns, is_counted as Wide }
    OperationTotal {
        at_ns, process, row, calls, returned, errors, sum_ns, max_ns, zero_count, buckets, unobserved as Later
    }
    Overhead { at_ns, process, share, attached }
    GpuFunction { process, at_ns, ordinal, symbol, module, offset }
    FunctionRecord { header, address, stream, launches, ordinal, shared_bytes, grid, block }
    FunctionTotal { at_ns, process, ordinal, launches }
}

/// A field that is 0 in every recording: recordings are made without pins, so that nothing is counted from before.
struct Unrecorded;

impl Encoding<u64> for Unrecorded {
    fn put(_: &u64, _: &mut Encoder) {}

    fn take(_: &mut &[u8]) -> Option<u64> {
        Some(0)
    }
}

/// Last fields that an earlier version did not write: unknown counts where the bytes end before them.
struct LaterParts;

impl<const N: usize> Encoding<[CountParts; N]> for LaterParts {
    fn put(value: &[CountParts; N], out: &mut Encoder) {
        value.put(out);
    }

    fn take(from: &mut &[u8]) -> Option<[CountParts; N]> {
        if from.is_empty() { Some([CountParts::UNKNOWN; N]) } else { Field::take(from) }
    }
}

/// The signature of the launched functions, which earlier versions did not write.
struct LaterSignature;

impl Encoding<Signature> for LaterSignature {
    fn put(value: &Signature, out: &mut Encoder) {
        CountedWords::put(&value.0, out);
    }

    fn take(from: &mut &[u8]) -> Option<Signature> {
        if from.is_empty() { Some(Signature::default()) } else { CountedWords::take(from).map(Signature) }
    }
}

/// Number of self-counters before `records` in an account. The others are last, and earlier versions wrote fewer.
const FIRST_COUNTERS: usize = 6;

impl Field for Account {
    fn put(&self, out: &mut Encoder) {
        let (first, later) = self.other.split_at(FIRST_COUNTERS);
        [self.at_ns, self.hits, self.folded, self.delivered, self.sampled_out].put(out);
        CountedWords::put(&self.dropped, out);
        first.iter().for_each(|count| count.put(out));
        [self.records, self.received, self.runs, self.run_cost_ns, self.libraries, self.functions].put(out);
        later.iter().for_each(|count| count.put(out));
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        let [at_ns, hits, folded, delivered, sampled_out] = Field::take(from)?;
        let dropped = CountedWords::take(from)?;
        let first: [u64; FIRST_COUNTERS] = Field::take(from)?;
        let [records, received, runs, run_cost_ns, libraries, functions] = Field::take(from)?;
        let mut other = [0; SelfCounter::ALL.len()];
        let (known, later) = other.split_at_mut(FIRST_COUNTERS);
        known.copy_from_slice(&first);
        for count in later {
            *count = Later::take(from)?;
        }
        Some(Account {
            at_ns,
            hits,
            folded,
            delivered,
            sampled_out,
            dropped,
            other,
            records,
            received,
            runs,
            run_cost_ns,
            libraries,
            functions,
            // As `Unrecorded`.
            since_unix_ns: 0,
        })
    }
}

/// The number that wait(2) gives. Only as a last field, which version 1.2 did not write.
impl Field for ExitStatus {
    fn put(&self, out: &mut Encoder) {
        self.wait().put(out);
    }

    fn take(from: &mut &[u8]) -> Option<Self> {
        if from.is_empty() {
            return Some(ExitStatus::Unknown);
        }
        u32::take(from).map(ExitStatus::of_wait)
    }
}

/// Architectures by their number.
const ARCHITECTURES: [Architecture; 3] = [Architecture::Unknown, Architecture::X86_64, Architecture::Aarch64];

/// Reasons of throttling by their number.
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

/// Implements [`Field`] for enums by a table of their values, a u16 index into it, and what an unknown one is read as.
macro_rules! enums {
    ($($name:ident in $values:expr, else $unknown:expr;)*) => {$(
        impl Field for $name {
            fn put(&self, out: &mut Encoder) {
                $values.iter().position(|value| value == self).map_or(u16::MAX, |at| at as u16).put(out);
            }

            fn take(from: &mut &[u8]) -> Option<Self> {
                $values.get(usize::from(u16::take(from)?)).copied().or($unknown)
            }
        }
    )*};
}

enums! {
    Architecture in ARCHITECTURES, else Some(Architecture::Unknown);
    DropReason in DropReason::ALL, else None;
    ThrottleReason in THROTTLE_REASONS, else Some(ThrottleReason::Hw);
}
