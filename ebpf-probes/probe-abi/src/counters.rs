//! Self-counters of the kernel programs: the outcome of every call that they saw.
//!
//! Once no call is under way, `hits = folded + delivered + sampled_out + dropped{reason}` holds exactly. Hits are
//! counted at the entry by process and row ([`crate::record::ProcessFold::calls`]), outcomes here at the end, so that
//! the two sides do not agree by construction.
//!
//! A new counter is a row of [`DropReason`] or [`SelfCounter`]: maps, events, recordings and metrics follow the tables.

use crate::atomic::AtomicU64;

/// Declares an enum of counters. Each row has the attribute value that it is exported as.
macro_rules! counters {
    ($(#[$enum_doc:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$enum_doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        #[repr(usize)]
        pub enum $name {
            $($(#[$doc])* $variant,)*
        }

        impl $name {
            /// Every row, in the order of the numbers.
            pub const ALL: [$name; [$($value),*].len()] = [$($name::$variant),*];

            /// Returns the attribute value of the row.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $value,)*
                }
            }
        }
    };
}

counters! {
    /// Reason why a call was dropped. The order is that of recordings: append only.
    DropReason {
        /// The ring had no space for its record.
        RingFull = "ring_full",
        /// The map of streams was full.
        StreamsFull = "streams_full",
        /// The map of threads was full, so that the return could not be matched.
        ThreadsFull = "threads_full",
        /// The call was nested deeper than a thread's stack of frames.
        TooDeep = "too_deep",
        /// The call never returned: the thread ended, or an exception or `longjmp` left it. Or user space excluded the
        /// process during the call.
        Abandoned = "abandoned",
        /// The map of processes was full.
        ProcessesFull = "processes_full",
        /// The map of durations was full.
        DurationsFull = "durations_full",
    }
}

counters! {
    /// Counter of calls that are not hits, or of an anomaly. The order is that of recordings: append only.
    SelfCounter {
        /// Driver calls made by the runtime itself. Not hits.
        Suppressed = "suppressed",
        /// Calls of processes that are not traced. Not hits.
        Filtered = "filtered",
        /// Returns without an entry: the probe was attached while the call was under way.
        UnmatchedReturn = "unmatched_return",
        /// Event synchronizations whose event was never seen to be recorded.
        UnknownEvent = "unknown_event",
        /// Streams whose step a wait does not end although the work is done, because the lists of open streams and of
        /// awaited streams are bounded.
        UnclosedStream = "unclosed_stream",
        /// Durations not counted because the map of durations was full. The call is counted otherwise.
        Untimed = "untimed",
        /// Graphs whose contents are unknown because the map of graphs was full.
        GraphMapFull = "graph_map_full",
        /// Trace contexts of waits that could not be read, were invalid, or had no space in the ring.
        TraceContextUnreadable = "trace_context_unreadable",
        /// Launches of functions that have no ordinal ([`crate::function`]), because their process has too many or their
        /// slots are other functions'. The launch is counted otherwise.
        UnlistedFunction = "unlisted_function",
    }
}

impl SelfCounter {
    /// Returns true if it counts calls that are not hits; all other rows are anomalies.
    pub const fn is_ignored(self) -> bool {
        matches!(self, SelfCounter::Suppressed | SelfCounter::Filtered)
    }
}

/// Counters of one CPU, summed since the programs were loaded.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Counters {
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
    /// Records put into the ring, without those of `args_records`.
    pub records: AtomicU64,
    /// Runs of the return programs, without those of `args_records` and `sampled_out`.
    pub returns: AtomicU64,
    /// The other counters, by [`SelfCounter`].
    pub other: [AtomicU64; SelfCounter::ALL.len()],
}
