//! State of a thread: its calls under way, and its waits.

use super::{ArgsRecord, MEMORY_AT_ENTRY};
use crate::atomic::AtomicU64;
use crate::fold::Snapshot;
use crate::frontier::Frontier;
use crate::thread_counter::ThreadCounts;

/// Number of frames per thread: a call within a call within a call.
pub const FRAMES: usize = 4;

/// State of a thread that makes timed calls, in one of the slots of [`crate::hot::THREADS`].
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct ThreadFold {
    /// Process id in the upper half, thread id in the lower; 0 if the slot is free.
    pub owner: AtomicU64,
    /// Number of frames in use.
    pub depth: u64,
    /// Current device of the thread, plus one; 0 if it was never set.
    pub device: u64,
    /// Wait by polling.
    pub poll: Poll,
    /// Snapshot of another stream, before it is added to `frontier`.
    pub scratch: Snapshot,
    /// Stack pointer of the call that `frontier` belongs to.
    pub frontier_sp: u64,
    /// Frontier of the wait under way. A wait within it replaces it; the outer one then ends no step.
    pub frontier: Frontier,
    /// Frames of the calls under way, outermost first.
    pub frames: [Frame; FRAMES],
}

/// A query that returned.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// Handle of the event, or of the stream.
    pub handle: u64,
    /// Time of the entry.
    pub entry_ns: u64,
    /// Time of the return.
    pub exit_ns: u64,
    /// Value of [`enqueued_by`](crate::fold::StreamFold::enqueued_by) for the thread.
    pub enqueued: u64,
}

/// A thread's wait by polling: it queries one event or stream until that is done.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Poll {
    handle: u64,
    /// Time of the first query, which was not done; 0 if the thread does not poll.
    pub began_ns: u64,
    last_ns: u64,
    enqueued: u64,
}

impl Poll {
    /// Longest time between two queries of one wait. PyTorch's watchdog of collectives queries every 100 ms and does
    /// not wait.
    pub const PAUSE_NS: u64 = 10_000_000;

    #[inline(always)]
    fn continues(&self, query: &Query) -> bool {
        self.began_ns != 0
            && self.handle == query.handle
            && self.enqueued == query.enqueued
            && query.entry_ns.wrapping_sub(self.last_ns) <= Poll::PAUSE_NS
    }

    /// Takes the answer of a query. Returns when the wait began that it ends; `None` where it ends none: the work is not
    /// done, or this is a single query of a stream whose steps do not end by polling (`is_polled`), as memory pools make
    /// them.
    #[inline(always)]
    pub fn answer(&mut self, query: &Query, is_done: bool, is_polled: bool) -> Option<u64> {
        let continues = self.continues(query);
        let began_ns = if continues { self.began_ns } else { query.entry_ns };
        if is_done {
            self.began_ns = 0;
            return if continues || is_polled { Some(began_ns) } else { None };
        }
        (self.handle, self.began_ns) = (query.handle, began_ns);
        (self.last_ns, self.enqueued) = (query.exit_ns, query.enqueued);
        None
    }
}

/// Frame of a timed call under way. Only its own thread accesses it.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Frame {
    /// Cookie of the call.
    pub cookie: u64,
    /// Stack pointer at entry, which distinguishes calls of one row.
    pub sp: u64,
    /// Time of the entry.
    pub entry_ns: u64,
    /// Counters of the thread at entry.
    pub counts: ThreadCounts,
    /// Value of the row's handle.
    pub handle: u64,
    /// Value of the row's graph.
    pub graph: u64,
    /// Value of the row's bytes.
    pub bytes: u64,
    /// Value of the row's stream.
    pub stream: u64,
    /// Which steps the return ends: 0 for none, [`Frame::CLOSES_FRONTIER`] or [`Frame::CLOSES_SLOTS`].
    pub closing: u64,
    /// Slots of [`ProcessFold::active`](super::ProcessFold::active) whose steps the return ends, a bit each; 1 if the
    /// return has ended a step within the frontier. Atomic, so that each access reads memory.
    pub slots: AtomicU64,
    /// Calls of the process that enqueued work from its previous sync call to the entry.
    pub process_enqueued_since_sync: u64,
    /// 1 if the ring had no space for the record of a step. In the map, since the verifier follows both values of a
    /// variable.
    pub lost: AtomicU64,
}

impl Frame {
    /// Value of [`Frame::closing`]: the return ends the steps within [`ThreadFold::frontier`].
    pub const CLOSES_FRONTIER: u64 = 1;
    /// Value of [`Frame::closing`]: the return ends the steps of the streams in [`Frame::slots`].
    pub const CLOSES_SLOTS: u64 = 2;
}

/// State of a thread that makes calls recorded with arguments. `calls` is in use only if the thread has none of the
/// slots of [`crate::hot::HOT_CALLS`].
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Caller {
    /// Calls of the thread.
    pub calls: Calls,
    /// Memory read at the entry of each call under way.
    pub memory: [[u64; MEMORY_AT_ENTRY / 8]; FRAMES],
}

/// Calls of a thread that are recorded with arguments.
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Calls {
    /// Process id in the upper half, thread id in the lower; 0 if free.
    pub owner: AtomicU64,
    /// Start of the process, CLOCK_BOOTTIME ns.
    pub start_ns: u64,
    /// Number of frames in use.
    pub depth: u64,
    /// Number of addresses added to `outs` since it was empty.
    pub waiting: u64,
    /// Number of group ends since the last address was added.
    pub group_ends: u64,
    /// Addresses of handles that calls have not written at their return, as within a group; 0 for none. Full: the
    /// oldest is evicted.
    pub outs: [u64; OUTS],
    /// Frames of the calls under way, outermost first.
    pub frames: [ArgsFrame; FRAMES],
}

/// Capacity of [`Calls::outs`]; a power of two.
pub const OUTS: usize = 16;
/// Number of group ends, inner ones included, after which addresses that are still unwritten are evicted.
pub const GROUP_ENDS_MAX: u64 = 4;

/// Frame of a call recorded with arguments. Only its own thread accesses it.
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct ArgsFrame {
    /// Cookie of the call.
    pub cookie: u64,
    /// Stack pointer at entry, which distinguishes calls of one row.
    pub sp: u64,
    /// Record of the call, filled as far as it is known.
    pub record: ArgsRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes two queries of event 7 that are not done, then one that is, and returns its answer.
    fn polled(handle: u64, entry_ns: u64, enqueued: u64, is_polled: bool) -> Option<u64> {
        let (mut poll, query) =
            (Poll::default(), Query { handle: 7, entry_ns: 100, exit_ns: 110, enqueued: 3 });
        assert_eq!(poll.answer(&query, false, false), None);
        assert_eq!(poll.answer(&Query { entry_ns: 200, exit_ns: 210, ..query }, false, false), None);
        let last = Query { handle, entry_ns, exit_ns: entry_ns + 10, enqueued };
        let began_ns = poll.answer(&last, true, is_polled);
        assert_eq!(poll.answer(&last, true, false), None, "the wait is over");
        began_ns
    }

    #[test]
    fn queries_of_one_event_without_work_between_are_one_wait() {
        assert_eq!(polled(7, 300, 3, false), Some(100));
        assert_eq!(polled(8, 300, 3, false), None, "another event");
        assert_eq!(polled(7, 300, 4, false), None, "work in between");
        assert_eq!(polled(7, 210 + Poll::PAUSE_NS, 3, false), Some(100));
        assert_eq!(polled(7, 211 + Poll::PAUSE_NS, 3, false), None, "too long a pause");
    }

    #[test]
    fn single_queries_end_steps_of_polled_streams_only() {
        assert_eq!(polled(8, 300, 3, true), Some(300));
        assert_eq!(polled(8, 300, 3, false), None);
    }
}
