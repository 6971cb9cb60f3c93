//! PyTorch profiler (Kineto) traces: what a program called, as [`Call`]s and, through [`TraceEvents`], as events.
//!
//! The one idea: a trace holds the host's calls (`cuda_runtime`, `cuda_driver`) and, joined to them by their
//! correlation, what ran on the device. A call takes from the device's side what a probe would have read from its
//! arguments: stream, grid, bytes, direction. What neither side tells is settled by rules that are counted:
//!
//! - a stream: the one that the same thread enqueued on last ([`Stats::guessed_streams`]);
//! - which event is waited for: see [`crate::fold`]. With `cuda_sync` rows in the trace it is told.
//!
//! Stream handles are the profiler's stream numbers, but 7, CUPTI's number of the default stream, is 0. Memory is
//! bounded by [`Limits`]; opening files, and showing progress, is left to the caller.

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

/// How much of a trace is taken. Beyond it reading fails: a part of a trace would give wrong figures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    /// Bytes, after decompression.
    pub bytes: u64,
    /// Calls of probed functions, some 300 bytes of memory each while reading.
    pub calls: usize,
    /// Calls that have something on the device's side, some 100 bytes each.
    pub works: usize,
    /// Annotations; of each name, 1 KiB is kept.
    pub annotations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes: 16 << 30, calls: 2 << 20, works: 2 << 20, annotations: 64 << 10 }
    }
}

/// A stretch of time that the program labelled itself: `ProfilerStep#3`, `execute_context_1(888)_generation_0(0)`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Annotation {
    /// The label.
    pub name: String,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When it began, on the clock of [`Call::entry_ns`].
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
}

/// What was found in a trace, and what was made of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Stats {
    /// Entries of `traceEvents`.
    pub entries: u64,
    /// Entries without what they need: a name, a time, a process.
    pub malformed: u64,
    /// Calls by the row's symbol.
    pub calls: BTreeMap<&'static str, u64>,
    /// Calls of functions that no row names, by name; beyond [`Stats::IGNORED`] names, under "".
    pub ignored: BTreeMap<String, u64>,
    /// Kernels, copies and fills that ran.
    pub device_rows: u64,
    /// Those of them whose call is not in the trace.
    pub orphan_rows: u64,
    /// Calls that enqueue work and have nothing on the device's side.
    pub unmatched_calls: u64,
    /// Calls whose stream nothing told.
    pub guessed_streams: u64,
    /// Waits for an event that nothing told.
    pub untold_events: u64,
}

impl Stats {
    /// Names that are counted one by one.
    pub const IGNORED: usize = 1024;
}

/// A trace, read to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Calls of probed functions in order of entry; of those entered at once, the longest first.
    pub calls: Vec<Call>,
    /// The program's own labels, in order of their beginning.
    pub annotations: Vec<Annotation>,
    /// The processes that called, sorted by pid.
    pub processes: Vec<ProcessInfo>,
    /// From the trace's clock to the time since 1970; `None` where the trace does not tell.
    pub clock: Option<ClockOffsets>,
    /// What was found and what was made of it.
    pub stats: Stats,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The bytes cannot be had.
    #[error("cannot read the trace behind byte {offset}: {source}")]
    Read {
        /// Decompressed bytes before it.
        offset: u64,
        /// Why.
        source: std::io::Error,
    },
    /// It ends within a value.
    #[error("the trace ends in the middle, at byte {offset}")]
    Truncated {
        /// Where, after decompression.
        offset: u64,
    },
    /// It is not JSON.
    #[error("not JSON at byte {offset}: expected {expected}")]
    Json {
        /// Where, after decompression.
        offset: u64,
        /// What would have been right.
        expected: &'static str,
    },
    /// Objects and arrays within each other without end.
    #[error("nested deeper than {limit} levels at byte {offset}")]
    TooDeep {
        /// Where, after decompression.
        offset: u64,
        /// The most that is followed.
        limit: usize,
    },
    /// More bytes than [`Limits::bytes`].
    #[error("longer than {limit} bytes after decompression")]
    TooLong {
        /// The limit.
        limit: u64,
    },
    /// More of something than [`Limits`] allows.
    #[error("more than {limit} {what}: trace fewer steps at a time")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// JSON, but of something else.
    #[error("not a profiler trace: expected an object with \"traceEvents\"")]
    NotATrace,
}

impl Trace {
    /// Reads a trace, plain or gzip.
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

    /// The trace as a source of events.
    pub fn into_events(self) -> TraceEvents {
        TraceEvents::new(self)
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
