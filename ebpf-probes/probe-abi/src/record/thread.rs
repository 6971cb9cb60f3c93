//! What the programs know of a thread: its calls under way, and what it waits for.

use super::{ArgsRecord, MEMORY_AT_ENTRY};
use crate::atomic::AtomicU64;
use crate::fold::Snapshot;
use crate::frontier::Frontier;

/// Calls under way on one thread that are remembered: a call within a call within a call.
pub const FRAMES: usize = 4;

/// What is known of a thread.
#[derive(Debug)]
#[repr(C)]
pub struct ThreadFold {
    /// Frames in use.
    pub depth: u64,
    /// The thread's current device plus one; 0 where it was never set.
    pub device: u64,
    /// What it asks again and again.
    pub poll: Poll,
    /// Another stream's snapshot, on its way into `frontier`.
    pub scratch: Snapshot,
    /// The stack pointer of the call that `frontier` is for.
    pub frontier_sp: u64,
    /// How far the wait under way reaches. A wait within it takes its slot: the outer one then has nothing to close.
    pub frontier: Frontier,
    /// Calls under way, outermost first.
    pub frames: [Frame; FRAMES],
}

/// A query that returned.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    /// The event's handle, or the stream's.
    pub handle: u64,
    /// When it was entered.
    pub entry_ns: u64,
    /// When it returned.
    pub exit_ns: u64,
    /// Value of [`enqueued_by`](crate::fold::StreamFold::enqueued_by) for the thread.
    pub enqueued: u64,
}

/// A thread's wait by polling: it queries one event or stream until that is done.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Poll {
    handle: u64,
    /// When it was first queried and not done; 0 where the thread does not poll.
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

/// A call under way. Only its own thread touches it.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Frame {
    /// The row.
    pub cookie: u64,
    /// The stack pointer at entry: tells this call from another of the same row.
    pub sp: u64,
    /// When it began.
    pub entry_ns: u64,
    /// The thread's run-queue wait at entry.
    pub runq_ns: u64,
    /// The row's handle.
    pub handle: u64,
    /// The row's graph.
    pub graph: u64,
    /// The row's bytes.
    pub bytes: u64,
    /// The row's stream.
    pub stream: u64,
    /// 1 where the return closes what [`ThreadFold::frontier`] says, 2 where it closes `slots`.
    pub closing: u64,
    /// BucketCounts of [`ProcessFold::active`] that the return closes, a bit each. Read anew for each, as with `lost`.
    pub slots: AtomicU64,
    /// What the whole process had enqueued at entry since its previous sync_call.
    pub process_enqueued_since_sync: u64,
    /// 1 where a step's record found no room. Here, in a map, since the verifier follows both values of a variable.
    pub lost: AtomicU64,
}

impl Frame {
    /// Value of [`Frame::closing`]: the return ends the steps within [`ThreadFold::frontier`].
    pub const CLOSES_FRONTIER: u64 = 1;
    /// Value of [`Frame::closing`]: the return ends the steps of the streams in [`Frame::slots`].
    pub const CLOSES_SLOTS: u64 = 2;
}

/// A thread that makes calls which are told. Its calls are here, or beside ([`crate::hot::HOT_CALLS`]).
#[derive(Debug)]
#[repr(C)]
pub struct Caller {
    /// What is known of it.
    pub calls: Calls,
    /// [`LongArgsRecord::entry`] of the calls under way.
    pub memory: [[u64; MEMORY_AT_ENTRY / 8]; FRAMES],
}

/// What is known of a thread that makes calls which are told.
#[derive(Debug)]
#[repr(C)]
pub struct Calls {
    /// Its process above its thread id; 0 where nobody's.
    pub owner: AtomicU64,
    /// When its process began, CLOCK_BOOTTIME ns.
    pub start_ns: u64,
    /// Frames in use.
    pub depth: u64,
    /// Addresses put into `outs` since it was empty.
    pub waiting: u64,
    /// Ends of groups since the last of them was.
    pub group_ends: u64,
    /// Where calls will have written what they had not at their return, as inside a group; 0 for none. Full: the oldest
    /// is forgotten.
    pub outs: [u64; OUTS],
    /// Calls under way, outermost first.
    pub frames: [ArgsFrame; FRAMES],
}

/// BucketCounts that a thread's group is still to write; a power of two.
pub const OUTS: usize = 16;
/// Ends of groups, inner ones too, after which nobody looks at such a slot again.
pub const GROUP_ENDS_MAX: u64 = 4;

/// A call under way that will be told. Only its own thread touches it.
#[derive(Debug)]
#[repr(C)]
pub struct ArgsFrame {
    /// The row.
    pub cookie: u64,
    /// The stack pointer at entry: tells this call from another of the same row.
    pub sp: u64,
    /// What will be told, as far as it is known.
    pub record: ArgsRecord,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two queries of one event that is not done, then one that is: when the wait began that it ends.
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
