//! PyTorch profiler (Kineto) traces: the calls of a program, as [`Call`]s and, through [`TraceEvents`], as events.
//!
//! A trace has rows for calls of the host (`cuda_runtime`, `cuda_driver`) and for work of the device, joined by a
//! correlation number. A call takes from its device rows what a probe reads from arguments: stream, grid, bytes,
//! direction. What neither row contains is inferred and counted:
//!
//! - the stream: the last one that the thread enqueued on ([`Stats::inferred_streams`]);
//! - the event of a wait, unless the trace has `cuda_sync` rows ([`Stats::inferred_events`]): see [`crate::fold`].
//!
//! Stream handles are the profiler's stream numbers, except 7, CUPTI's number of the default stream, which is 0. Memory
//! is bounded by [`Limits`]. The caller opens files.

pub mod call;
mod events;
pub mod fold;
mod join;
mod json;
mod number;
pub mod replay;
mod row;
mod streams;
mod symbol;

use std::collections::BTreeMap;
use std::io::Read;

pub use self::call::Call;
pub use self::events::TraceEvents;
use self::join::Collector;
use self::json::{Json, Kind};
use self::row::Row;
use event::{ClockOffsets, ProcessInfo};
use recording::input;

/// Limits of a trace. Above them reading fails, since a part of a trace would give wrong results.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Maximum bytes after decompression.
    pub bytes: u64,
    /// Maximum calls of probed functions, about 300 bytes of memory each while reading.
    pub calls: usize,
    /// Maximum calls with device rows, about 100 bytes of memory each.
    pub works: usize,
    /// Maximum annotations; names are cut at 1 KiB.
    pub annotations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 16 << 30, calls: 2 << 20, works: 2 << 20, annotations: 64 << 10 }
    }
}

/// A time range labelled by the program: `ProfilerStep#3`, `execute_context_1(888)_generation_0(0)`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Annotation {
    /// Text of the label.
    pub name: String,
    /// Process id in the trace.
    pub pid: u32,
    /// Thread id in the trace.
    pub tid: u32,
    /// Start, on the clock of [`Call::entry_ns`].
    pub start_ns: u64,
    /// End, on the same clock.
    pub end_ns: u64,
}

/// A kernel of a launched graph.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TracedKernel {
    /// Identity of its function, as [`Call::identity`].
    pub function: u64,
    /// Threads started; `None` if the trace does not say.
    pub threads: Option<u64>,
}

/// The work of an executable graph, from the device rows of its first launch.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TracedGraph {
    /// Kernels in the order of the rows.
    pub kernels: Vec<TracedKernel>,
    /// Bytes copied and filled.
    pub bytes: u64,
}

/// Counts of a trace and of its interpretation.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Entries of `traceEvents`.
    pub entries: u64,
    /// Entries without a name, a time or a process.
    pub malformed: u64,
    /// Calls by symbol of their probe row.
    pub calls: BTreeMap<&'static str, u64>,
    /// Calls of functions without a probe row by name; above [`Stats::IGNORED`] names, under "".
    pub ignored: BTreeMap<String, u64>,
    /// Entries by category (`cat`); those without one and, above [`Stats::CATEGORIES`] names, of further ones under "".
    pub categories: BTreeMap<String, u64>,
    /// Kernels, copies and fills on the device.
    pub device_rows: u64,
    /// Device rows whose call is not in the trace.
    pub orphan_rows: u64,
    /// Enqueueing calls without device rows.
    pub unmatched_calls: u64,
    /// Calls whose stream is inferred.
    pub inferred_streams: u64,
    /// Waits whose event is inferred.
    pub inferred_events: u64,
}

impl Stats {
    /// Maximum number of names in [`Stats::ignored`].
    pub const IGNORED: usize = 1024;
    /// Maximum number of names in [`Stats::categories`].
    pub const CATEGORIES: usize = 64;

    /// Describes what the trace contains if no call of a GPU library was recognised in it; `None` if one was.
    pub fn unrecognised(&self) -> Option<String> {
        if !self.calls.is_empty() {
            return None;
        }
        let named = |(name, count): (&String, &u64)| match name.as_str() {
            "" => format!("none or others ({count})"),
            name => format!("{name} ({count})"),
        };
        let held: Vec<String> = self.categories.iter().map(named).collect();
        Some(match held.is_empty() {
            true => format!(
                "no call of a GPU library is recognised: the trace has no entries; expected {}",
                row::CALLS
            ),
            false => format!(
                "no call of a GPU library is recognised; categories of the trace: {}; expected {}",
                held.join(", "),
                row::CALLS
            ),
        })
    }
}

/// A complete trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Calls of probed functions in order of entry; with equal entries, the longest first.
    pub calls: Vec<Call>,
    /// Labels of the program in order of their start.
    pub annotations: Vec<Annotation>,
    /// Names of kernels by [`Call::identity`].
    pub functions: BTreeMap<u64, String>,
    /// Launched graphs by [`Call::handle`].
    pub graphs: BTreeMap<u64, TracedGraph>,
    /// The calling processes, sorted by pid.
    pub processes: Vec<ProcessInfo>,
    /// Offset from the clock of the trace to Unix time; `None` if the trace does not contain it.
    pub clock: Option<ClockOffsets>,
    /// Counts of the trace.
    pub stats: Stats,
}

/// An error in reading a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The input cannot be read.
    #[error("cannot read the trace after byte {offset}: {source}")]
    Read {
        /// Decompressed bytes before the error.
        offset: u64,
        /// The error of the input.
        source: std::io::Error,
    },
    /// The trace ends within a value.
    #[error("the trace is truncated at byte {offset}")]
    Truncated {
        /// Offset after decompression.
        offset: u64,
    },
    /// The trace is not valid JSON.
    #[error("not JSON at byte {offset}: expected {expected}")]
    Json {
        /// Offset after decompression.
        offset: u64,
        /// The expected token.
        expected: &'static str,
    },
    /// Objects and arrays are nested too deeply.
    #[error("nested deeper than {limit} levels at byte {offset}")]
    TooDeep {
        /// Offset after decompression.
        offset: u64,
        /// Maximum depth of nested values.
        limit: usize,
    },
    /// The trace has more bytes than [`Limits::bytes`].
    #[error("longer than {limit} bytes after decompression")]
    TooLong {
        /// Limit that was exceeded.
        limit: u64,
    },
    /// The trace has more items than [`Limits`] allows.
    #[error("more than {limit} {what}: trace fewer steps at a time")]
    TooMany {
        /// Name of the limited items.
        what: &'static str,
        /// Limit that was exceeded.
        limit: usize,
    },
    /// The document is not a profiler trace.
    #[error("not a profiler trace: expected an object with \"traceEvents\"")]
    NotATrace,
}

impl Trace {
    /// Reads a trace, plain or gzip. Fails if it is malformed or above the limits.
    pub fn read<'a>(input: impl Read + 'a, limits: &Limits) -> Result<Trace, TraceError> {
        let input = input::plain(input).map_err(|source| TraceError::Read { offset: 0, source })?;
        let mut json = Json::new(input, limits.bytes);
        let mut collector = Collector::new(*limits);
        match json.kind()? {
            Kind::Array => read_entries(&mut json, &mut collector)?,
            Kind::Object => read_document(&mut json, &mut collector)?,
            Kind::Text | Kind::Scalar => return Err(TraceError::NotATrace),
        }
        match json.is_at_end()? {
            true => Ok(collector.finish()),
            false => Err(TraceError::Json { offset: json.offset(), expected: "the end of the trace" }),
        }
    }

    /// Returns the trace as a source of events. The contents of launched graphs are those of their device rows.
    pub fn into_events(self) -> TraceEvents {
        TraceEvents::new(self)
    }

    /// Removes the contents of graphs, as for an agent that was started after their captures.
    pub fn without_captures(self) -> Trace {
        Trace { graphs: BTreeMap::new(), ..self }
    }

    /// Removes the names of kernels, as for an agent that does not find them.
    pub fn without_names(self) -> Trace {
        Trace { functions: BTreeMap::new(), ..self }
    }
}

fn read_document(json: &mut Json<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    json.begin_object()?;
    let (mut first, mut found) = (true, false);
    while let Some(key) = json.next_key(&mut first)? {
        match key {
            b"traceEvents" => {
                found = true;
                read_entries(json, collector)?;
            }
            b"baseTimeNanoseconds" => collector.set_base(number::integer(json.text()?)),
            _ => json.skip()?,
        }
    }
    if found { Ok(()) } else { Err(TraceError::NotATrace) }
}

fn read_entries(json: &mut Json<'_>, collector: &mut Collector) -> Result<(), TraceError> {
    json.begin_array()?;
    let (mut row, mut first) = (Row::default(), true);
    while json.next_element(&mut first)? {
        row.read(json)?;
        collector.take(&row)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
