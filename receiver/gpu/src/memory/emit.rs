//! Log records about memory: failed allocations and leaks.

use event::CallRecord;
use instrumentation::{Records, Sink, instant, take_records};
use opentelemetry::logs::{AnyValue, Severity};
use probe_abi::Probe;
use semconv::value::GpuMemoryLeakState;
use semconv::{attribute, event as event_name};

use super::{Leak, Memory, Piece};
use crate::clock::Clock;
use crate::collectives::attributes::{log, number};
use crate::errors::error_type;
use crate::points::seconds;
use crate::traced::Traced;

/// One mebibyte.
const MIB: f64 = 1_048_576.0;

/// Logs a failed allocation and the memory that the process holds; returns false if the limit suppresses the record.
pub(crate) fn failed(
    traced: &mut Traced,
    row: &'static Probe,
    call: &CallRecord,
    records: &Records,
    clock: &Clock,
    sink: Sink<'_>,
) -> bool {
    let Some(error) = error_type(row, call.result) else { return true };
    let at_ns = call.header.entry_ns.saturating_add(call.header.duration_ns);
    if !traced.memory.failures.take(at_ns) {
        return false;
    }
    let mut rows = state(&traced.memory, at_ns);
    rows.extend([
        (attribute::ERROR_TYPE, AnyValue::from(error)),
        (attribute::GPU_API_VENDOR, traced.vendor().as_str().into()),
        (attribute::GPU_CUDA_OPERATION_NAME, row.symbol.into()),
        (attribute::GPU_MEMORY_REQUESTED, number(call.bytes)),
    ]);
    let body = format!(
        "{} of {:.1} MiB failed with {error}: the process holds {:.1} MiB in {} allocations",
        row.symbol,
        call.bytes as f64 / MIB,
        traced.memory.live_bytes() as f64 / MIB,
        traced.memory.live_count()
    );
    let (at, name) = (instant(clock.unix(at_ns)), event_name::GPU_MEMORY_ALLOCATION_FAILED);
    log(records, at, None, name, Severity::Error, body, rows);
    take_records(traced.resource(), records, sink);
    true
}

/// Logs that a leak is suspected, or no longer suspected.
pub(crate) fn leak(traced: &Traced, leak: &Leak, records: &Records, clock: &Clock, sink: Sink<'_>) {
    let (state, severity) = match leak.is_suspected {
        true => (GpuMemoryLeakState::Suspected, Severity::Warn),
        false => (GpuMemoryLeakState::Recovered, Severity::Info),
    };
    let lasted_ns = leak.at_ns.saturating_sub(leak.since_ns);
    let rows = [
        (attribute::GPU_MEMORY_LEAK_DURATION, AnyValue::from(seconds(lasted_ns))),
        (attribute::GPU_MEMORY_LEAK_GROWTH, number(leak.growth_bytes)),
        (attribute::GPU_MEMORY_LEAK_MINIMUM, number(leak.least_bytes)),
        (attribute::GPU_MEMORY_LEAK_SIZE_GROWTH, number(leak.class.growth_bytes)),
        (attribute::GPU_MEMORY_LEAK_SIZE_MIN, number(leak.class.from_bytes)),
        (attribute::GPU_MEMORY_LEAK_STATE, state.as_str().into()),
    ];
    let (at, name) = (instant(clock.unix(leak.at_ns)), event_name::GPU_MEMORY_LEAK);
    log(records, at, None, name, severity, leak_text(leak, lasted_ns), rows);
    take_records(traced.resource(), records, sink);
}

fn leak_text(leak: &Leak, lasted_ns: u64) -> String {
    let grown = leak.growth_bytes as f64 / MIB;
    match leak.is_suspected {
        true => format!(
            "allocated memory grew by {grown:.1} MiB in {:.0} min and never fell: {:.1} MiB of it in \
             allocations of {} to {} bytes",
            seconds(lasted_ns) / 60.0,
            leak.class.growth_bytes as f64 / MIB,
            leak.class.from_bytes,
            leak.class.from_bytes.saturating_mul(2) - 1,
        ),
        false => format!("growth of {grown:.1} MiB stopped, or half of it was freed"),
    }
}

/// Returns attributes of allocated and recently freed memory.
fn state(memory: &Memory, now_ns: u64) -> Vec<(&'static str, AnyValue)> {
    let freed = memory.freed();
    let mut rows = vec![
        (attribute::GPU_MEMORY_COUNT, number(memory.live_count())),
        (attribute::GPU_MEMORY_COVERAGE, memory.coverage().as_str().into()),
        (attribute::GPU_MEMORY_LIVE, number(memory.live_bytes())),
    ];
    rows.extend(memory.largest().map(|bytes| (attribute::GPU_MEMORY_LARGEST, number(bytes))));
    if !freed.is_empty() {
        rows.push((attribute::GPU_MEMORY_FREED_AGES, list(ages(freed, now_ns))));
        rows.push((attribute::GPU_MEMORY_FREED_SIZES, list(sizes(freed))));
    }
    rows
}

/// Returns the ages of pieces in seconds.
pub(crate) fn ages(pieces: &[Piece], now_ns: u64) -> Vec<f64> {
    pieces.iter().map(|piece| seconds(now_ns.saturating_sub(piece.at_ns))).collect()
}

/// Returns the sizes of pieces in bytes.
pub(crate) fn sizes(pieces: &[Piece]) -> Vec<i64> {
    pieces.iter().map(|piece| i64::try_from(piece.bytes).unwrap_or(i64::MAX)).collect()
}

fn list<T: Into<AnyValue>>(values: Vec<T>) -> AnyValue {
    AnyValue::ListAny(Box::new(values.into_iter().map(Into::into).collect()))
}
