//! The kernel programs' account of themselves: what became of every call they saw.
//!
//! The promise: `hits = folded + delivered + sampled_out + dropped{reason}`, exactly, once no call is under way.
//! Hits are counted at the entry by process and row ([`crate::record::ProcessFold::calls`]); what became of them
//! is counted here at the end, so that the two sides cannot agree by construction.

use crate::atomic::AtomicU64;

/// Why a call left no trace in the figures.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(usize)]
pub enum DropReason {
    /// The ring had no room for its record.
    RingFull = 0,
    /// The map of streams had no room.
    StreamsFull = 1,
    /// The map of threads had no room: its return could not be awaited.
    ThreadsFull = 2,
    /// More calls within calls than a thread's stack of them holds.
    TooDeep = 3,
    /// It never returned: the thread ended, or an exception or `longjmp` left it.
    Abandoned = 4,
    /// The map of processes had no room.
    ProcessesFull = 5,
    /// The map of durations had no room.
    DurationsFull = 6,
}

impl DropReason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [DropReason; 7] = [
        DropReason::RingFull,
        DropReason::StreamsFull,
        DropReason::ThreadsFull,
        DropReason::TooDeep,
        DropReason::Abandoned,
        DropReason::ProcessesFull,
        DropReason::DurationsFull,
    ];

    /// The reason as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            DropReason::RingFull => "ring_full",
            DropReason::StreamsFull => "streams_full",
            DropReason::ThreadsFull => "threads_full",
            DropReason::TooDeep => "too_deep",
            DropReason::Abandoned => "abandoned",
            DropReason::ProcessesFull => "processes_full",
            DropReason::DurationsFull => "durations_full",
        }
    }
}

/// One CPU's counters. All are sums since the programs were loaded.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Counters {
    /// Calls that live on in the folds alone.
    pub folded: AtomicU64,
    /// Calls whose record, or records, went to the ring.
    pub delivered: AtomicU64,
    /// The same of calls that were told: each of them is a return and a record, too.
    pub args_records: AtomicU64,
    /// Calls whose record was left out on purpose by sampling.
    pub sampled_out: AtomicU64,
    /// Calls lost, by [`DropReason`].
    pub dropped: [AtomicU64; DropReason::ALL.len()],
    /// Hits that no process entry could count, because there was no room for one.
    pub unattributed_hits: AtomicU64,
    /// Driver calls that the runtime made itself: seen, not hits.
    pub suppressed: AtomicU64,
    /// Calls of processes that are not traced: seen, not hits.
    pub filtered: AtomicU64,
    /// Returns without an entry: the probe came while the call was under way.
    pub unmatched: AtomicU64,
    /// Other records put into the ring.
    pub records: AtomicU64,
    /// Other runs of the return programs.
    pub returns: AtomicU64,
    /// Event synchronisations whose event's record was not seen.
    pub unknown_events: AtomicU64,
    /// Streams with work that a wait covers and that it will not close: of a process, and of the streams that one waited
    /// for, a bounded number is remembered.
    pub unclosed_streams: AtomicU64,
    /// Graphs of which what they hold was not kept, because the map of them was full: launches of them are unknown.
    pub untracked_graphs: AtomicU64,
    /// Durations not counted because the map of them was full, beside a call counted otherwise.
    pub untimed: AtomicU64,
    /// Waits whose thread publishes a trace context that could not be read, made no sense or found no room.
    pub dropped_contexts: AtomicU64,
}
