//! Self-counters of the kernel programs: the outcome of every call that they saw.
//!
//! Once no call is under way, `hits = folded + delivered + sampled_out + dropped{reason}` holds exactly. Hits are
//! counted at the entry by process and row ([`crate::record::ProcessFold::calls`]), outcomes here at the end, so that
//! the two sides do not agree by construction.

use crate::atomic::AtomicU64;

/// Reason why a call was dropped.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(usize)]
pub enum DropReason {
    /// The ring had no space for its record.
    RingFull = 0,
    /// The map of streams was full.
    StreamsFull = 1,
    /// The map of threads was full, so that the return could not be matched.
    ThreadsFull = 2,
    /// The call was nested deeper than a thread's stack of frames.
    TooDeep = 3,
    /// The call never returned: the thread ended, or an exception or `longjmp` left it.
    Abandoned = 4,
    /// The map of processes was full.
    ProcessesFull = 5,
    /// The map of durations was full.
    DurationsFull = 6,
}

impl DropReason {
    /// Every reason, in the order of the numbers.
    pub const ALL: [DropReason; 7] = [
        DropReason::RingFull,
        DropReason::StreamsFull,
        DropReason::ThreadsFull,
        DropReason::TooDeep,
        DropReason::Abandoned,
        DropReason::ProcessesFull,
        DropReason::DurationsFull,
    ];

    /// Returns the attribute value for the reason.
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

/// Counters of one CPU, summed since the programs were loaded.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Counters {
    /// Calls that were folded and got no record.
    pub folded: AtomicU64,
    /// Calls whose records were put into the ring.
    pub delivered: AtomicU64,
    /// Calls recorded with their arguments: each counts as a return and a record, too.
    pub args_records: AtomicU64,
    /// Calls without a record because of sampling.
    pub sampled_out: AtomicU64,
    /// Dropped calls, by [`DropReason`].
    pub dropped: [AtomicU64; DropReason::ALL.len()],
    /// Hits of processes without an entry, because the map of processes was full.
    pub unattributed_hits: AtomicU64,
    /// Driver calls made by the runtime itself. Not hits.
    pub suppressed: AtomicU64,
    /// Calls of processes that are not traced. Not hits.
    pub filtered: AtomicU64,
    /// Returns without an entry: the probe was attached while the call was under way.
    pub unmatched: AtomicU64,
    /// Records put into the ring, without those of `args_records`.
    pub records: AtomicU64,
    /// Runs of the return programs, without those of `args_records`.
    pub returns: AtomicU64,
    /// Event synchronizations whose event was never seen to be recorded.
    pub unknown_events: AtomicU64,
    /// Streams whose step a wait does not end although the work is done, because the lists of open streams and of
    /// awaited streams are bounded.
    pub unclosed_streams: AtomicU64,
    /// Graphs whose contents are unknown because the map of graphs was full.
    pub untracked_graphs: AtomicU64,
    /// Durations not counted because the map of durations was full. The call is counted otherwise.
    pub untimed: AtomicU64,
    /// Trace contexts of waits that could not be read, were invalid, or had no space in the ring.
    pub dropped_contexts: AtomicU64,
}
