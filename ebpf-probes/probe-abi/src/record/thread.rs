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

/// An event or a stream that a thread asks for until it is done: its way to wait.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Poll {
    /// The event's handle, or the stream's.
    pub handle: u64,
    /// When it was asked for first and not done; 0 where the thread does not wait so.
    pub began_ns: u64,
    /// When it was last asked for.
    pub last_ns: u64,
    /// What the thread had enqueued by then, see [`crate::fold::StreamFold::enqueued_by`].
    pub enqueued: u64,
}

impl Poll {
    /// A thread that asks so seldom does something else in between: PyTorch's watchdog of collectives asks every 100 ms.
    pub const PAUSE_NS: u64 = 10_000_000;

    /// True where the thread, asking for `handle` at `ns` with so much enqueued, goes on waiting for it.
    #[inline(always)]
    pub fn goes_on(&self, handle: u64, ns: u64, enqueued: u64) -> bool {
        self.began_ns != 0
            && self.handle == handle
            && self.enqueued == enqueued
            && ns.wrapping_sub(self.last_ns) <= Poll::PAUSE_NS
    }

    /// It was not done.
    #[inline(always)]
    pub fn not_ready(&mut self, handle: u64, entry_ns: u64, exit_ns: u64, enqueued: u64) {
        if !self.goes_on(handle, entry_ns, enqueued) {
            self.began_ns = entry_ns;
            self.handle = handle;
            self.enqueued = enqueued;
        }
        self.last_ns = exit_ns;
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

    #[test]
    fn a_thread_waits_by_polling_while_it_asks_for_the_same_often_and_enqueues_nothing() {
        let asked = |handle, entry_ns, enqueued| {
            let mut poll = Poll::default();
            assert!(!poll.goes_on(7, 100, 3), "it never asked");
            poll.not_ready(7, 100, 110, 3);
            poll.not_ready(7, 200, 210, 3);
            assert_eq!(poll.began_ns, 100);
            let goes_on = poll.goes_on(handle, entry_ns, enqueued);
            poll.not_ready(handle, entry_ns, entry_ns + 10, enqueued);
            assert_eq!(poll.began_ns, if goes_on { 100 } else { entry_ns });
            goes_on
        };
        assert!(asked(7, 300, 3));
        assert!(!asked(8, 300, 3), "another event");
        assert!(!asked(7, 300, 4), "work in between");
        assert!(asked(7, 210 + Poll::PAUSE_NS, 3) && !asked(7, 211 + Poll::PAUSE_NS, 3));
    }
}
