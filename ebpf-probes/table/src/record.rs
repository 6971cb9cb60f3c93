//! What leaves the kernel, and what its maps hold: plain structs of one layout on both sides.
//!
//! Times are CLOCK_MONOTONIC nanoseconds. A record keeps entry and duration apart; its exit is their sum.

use crate::atomic::{AtomicU64, Relaxed};

use crate::cover::Cover;
use crate::fold::{COUNTERS, Cut};
use crate::histogram::Durations;

/// Rows a process can count: above every id in [`crate::PROBES`].
pub const ROWS: usize = 256;
/// A share of run-queue wait that could not be measured.
pub const NOT_SEEN: u64 = u64::MAX;

/// Which struct a record is. Never reuse a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Kind {
    /// A [`StepRecord`].
    Step = 1,
    /// A [`CallRecord`].
    Call = 2,
    /// A [`ProcessRecord`]: the first hit of a process.
    ProcessSeen = 3,
    /// A [`ProcessRecord`]: a process runs another program from here on.
    ProcessExec = 4,
    /// A [`ProcessRecord`]: the last thread of a process ended.
    ProcessExit = 5,
    /// A [`ToldRecord`].
    Told = 6,
    /// A [`LongRecord`].
    ToldAtLength = 7,
}

/// What every record begins with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Header {
    /// A [`Kind`].
    pub kind: u16,
    /// The row that caused it; 0 for none.
    pub row: u16,
    /// Bits of [`flag`].
    pub flags: u32,
    /// Process id, in the initial pid namespace.
    pub pid: u32,
    /// Thread id of the caller.
    pub tid: u32,
    /// When the process began, CLOCK_BOOTTIME ns; with `pid` the process's identity. 0 where not known.
    pub process_start_ns: u64,
    /// When the call began.
    pub entry_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// The step was closed by nothing but the end of its stream, process or recording.
    pub const UNFINISHED: u32 = 1;
    /// The step's first enqueue was further back than is remembered: `first_ns` is the oldest known.
    pub const FIRST_UNKNOWN: u32 = 2;
    /// When its closer was entered, more was enqueued behind it.
    pub const AHEAD: u32 = 4;
    /// The closer is a query: the thread waited by asking again and again.
    pub const POLLED: u32 = 8;
    /// A call that the folds hold, told all the same ([`crate::detail`]).
    pub const DETAIL: u32 = 16;
    /// Where the number stands, in five bits, whose power of two is [`super::Header::weight`].
    pub const WEIGHT_AT: u32 = 8;
}

/// One step's worth of work on one stream: what was enqueued, and the wait that closed it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct StepRecord {
    /// `entry_ns` and `duration_ns` are those of the closer.
    pub header: Header,
    /// The stream's handle; 0 the default stream.
    pub stream: u64,
    /// Steps closed on this stream before this one.
    pub sequence: u64,
    /// When the stream's previous closer returned; 0 if there was none.
    pub previous_exit_ns: u64,
    /// When the first of this work was enqueued.
    pub first_ns: u64,
    /// When the event was recorded that the closer waited for; 0 for other closers.
    pub recorded_ns: u64,
    /// Time the thread was runnable and waited for a CPU, from the previous closer to `first_ns`, or [`NOT_SEEN`].
    pub runq_gap_ns: u64,
    /// The same from `first_ns` to the closer's entry.
    pub runq_enqueue_ns: u64,
    /// The same within the closer.
    pub runq_wait_ns: u64,
    /// Calls that enqueued work on this stream between its previous closer's return and this closer's entry.
    pub fresh: u64,
    /// The same for the whole process, since its previous closer on any stream.
    pub process_fresh: u64,
    /// The thread that enqueued first.
    pub first_tid: u32,
    /// The caller's current device, by its number in the process; -1 where it was never set.
    pub device: i32,
    /// The work, by [`crate::fold::Counter`].
    pub work: [u64; COUNTERS],
}

/// One call worth a record of its own: an allocation, a free, an error, an object's beginning or end.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct CallRecord {
    /// `entry_ns` and `duration_ns` are those of the call.
    pub header: Header,
    /// What it returned: 0 or the library's error number.
    pub result: u32,
    /// The caller's current device; -1 where it was never set.
    pub device: i32,
    /// The row's handle: an address, or the address written where the row's handle points.
    pub handle: u64,
    /// The row's bytes.
    pub bytes: u64,
    /// The row's stream.
    pub stream: u64,
}

/// Arguments of a call that are told.
pub const ARGUMENTS: usize = 8;
/// The most bytes that are read when a function is entered.
pub const MEMORY_AT_ENTRY: usize = 256;
/// The most bytes that are read when it returns.
pub const MEMORY_AT_EXIT: usize = 512;

/// One call told whole, of a row whose action is [`crate::Action::Tell`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct ToldRecord {
    /// `entry_ns` and `duration_ns` are those of the call.
    pub header: Header,
    /// What it returned: 0 or the library's error number.
    pub result: u32,
    /// The caller's current device; -1 where it was never set, or the call moves data.
    pub device: i32,
    /// Its C arguments in order, as whole registers: of an `int` the low half counts. Those it does not have are 0.
    pub arguments: [u64; ARGUMENTS],
    /// Bytes read when it was entered; 0 where nothing was to be read or could be.
    pub entry_bytes: u32,
    /// Bytes read when it returned, likewise.
    pub exit_bytes: u32,
    /// These, where they are 4 or 8 and the record is not a [`LongRecord`].
    pub out: u64,
    /// Of a row that is counted: calls with its handle that the library took on before this one, which it did too
    /// ([`crate::ordinal`]). Else [`NOT_SEEN`].
    pub ordinal: u64,
}

/// The same with the memory behind the arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct LongRecord {
    /// What the short record has; `out` is 0.
    pub told: ToldRecord,
    /// What was read when it was entered.
    pub entry: [u64; MEMORY_AT_ENTRY / 8],
    /// What was read when it returned.
    pub exit: [u64; MEMORY_AT_EXIT / 8],
}

/// A process began to be seen, ran another program, or ended, at `entry_ns`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct ProcessRecord {
    /// `duration_ns` is 0.
    pub header: Header,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
}

/// A key of the map of streams.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(C)]
pub struct StreamKey {
    /// Process id.
    pub pid: u32,
    /// 0, or the thread whose default stream it is.
    pub tid: u32,
    /// The stream's handle.
    pub stream: u64,
}

impl StreamKey {
    /// The stream that a call with the handle `stream` means. 1 and 2 are `cudaStreamLegacy` and
    /// `cudaStreamPerThread` (driver_types.h); a twin takes 0 for the thread's own.
    #[inline(always)]
    pub fn of(pid: u32, tid: u32, stream: u64, is_twin: bool) -> StreamKey {
        let mut key = StreamKey { pid, tid: 0, stream };
        key.settle(tid, is_twin);
        key
    }

    /// The legacy default stream of this process.
    #[inline(always)]
    pub fn legacy(pid: u32) -> StreamKey {
        StreamKey { pid, tid: 0, stream: 0 }
    }

    /// True for a legacy default stream.
    #[inline(always)]
    pub fn is_legacy(&self) -> bool {
        self.stream == 0 && self.tid == 0
    }

    /// True for a thread's own default stream.
    #[inline(always)]
    pub fn is_own_default(&self) -> bool {
        self.stream == 0 && self.tid != 0
    }

    /// Makes a key of one that holds the pid and a call's handle: what [`StreamKey::of`] gives, in place.
    #[inline(always)]
    pub fn settle(&mut self, tid: u32, is_twin: bool) {
        if self.stream <= 2 {
            let own = self.stream == 2 || (self.stream == 0 && is_twin);
            self.tid = if own { tid } else { 0 };
            self.stream = 0;
        }
    }
}

/// A key of the map of events.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct EventKey {
    /// Process id.
    pub pid: u32,
    /// Always 0: the kernel compares keys byte by byte.
    pub pad: u32,
    /// The event's handle.
    pub event: u64,
}

/// A key of the map of durations.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct OperationKey {
    /// Process id.
    pub pid: u32,
    /// The row's id.
    pub row: u32,
}

/// The value of the map of durations.
pub type OperationFold = Durations;

/// Streams with open work that a process remembers for its next device synchronisation.
pub const ACTIVE: usize = 16;
/// Stretches of code in which a return address means "the runtime called".
pub const RANGES: usize = 4;

/// Where a process's runtime library lies: first and one-past-last addresses; zeroes for none. Told by user space.
pub type RuntimeCode = [[u64; 2]; RANGES];

/// What is known of a process.
#[derive(Debug)]
#[repr(C)]
pub struct ProcessFold {
    /// When it began, CLOCK_BOOTTIME ns.
    pub start_ns: AtomicU64,
    /// Other hits that live on in the folds alone; the rest is in [`crate::counters::Counters`].
    pub folded: AtomicU64,
    /// Launches that are not timed and were folded.
    pub launches: AtomicU64,
    /// Other calls that enqueued work.
    pub enqueues: AtomicU64,
    /// The same at the last closer's return.
    pub seen: AtomicU64,
    /// 1 once it has made a call that is told: then what orders its streams is reported too.
    pub tells: AtomicU64,
    /// 1 once it has a stream that waits for its legacy default stream, and that for it.
    pub blocking: AtomicU64,
    /// Streams with open work, for a device synchronisation; entry 0 of a free place.
    pub active: [ActiveStream; ACTIVE],
    /// Hits by row.
    pub calls: [AtomicU64; ROWS],
}

impl ProcessFold {
    /// Calls that enqueued work.
    #[inline(always)]
    pub fn enqueued(&self) -> u64 {
        self.launches.load(Relaxed).wrapping_add(self.enqueues.load(Relaxed))
    }
}

/// A place in the list of streams with open work.
#[derive(Debug)]
#[repr(C)]
pub struct ActiveStream {
    /// 1 where this place is taken.
    pub taken: AtomicU64,
    /// [`StreamKey::tid`].
    pub tid: AtomicU64,
    /// [`StreamKey::stream`].
    pub stream: AtomicU64,
}

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
    /// Another stream's cut, on its way into `cover`.
    pub scratch: Cut,
    /// The stack pointer of the call that `cover` is for.
    pub covering: u64,
    /// How far the wait under way reaches. A wait within it takes its place: the outer one then has nothing to close.
    pub cover: Cover,
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
    /// The row's bytes.
    pub bytes: u64,
    /// The row's stream.
    pub stream: u64,
    /// 1 where the return closes what [`ThreadFold::cover`] says, 2 where it closes `places`.
    pub closing: u64,
    /// Places of [`ProcessFold::active`] that the return closes, a bit each. Read anew for each, as with `lost`.
    pub places: AtomicU64,
    /// What the whole process had enqueued at entry since its previous closer.
    pub process_fresh: u64,
    /// 1 where a step's record found no room. Here, in a map, since the verifier follows both values of a variable.
    pub lost: AtomicU64,
}

/// A thread that makes calls which are told. Its calls are here, or beside ([`crate::hot::HOT_CALLS`]).
#[derive(Debug)]
#[repr(C)]
pub struct Caller {
    /// What is known of it.
    pub calls: Calls,
    /// [`LongRecord::entry`] of the calls under way.
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
    pub looks: u64,
    /// Where calls will have written what they had not at their return, as inside a group; 0 for none. Full: the oldest
    /// is forgotten.
    pub outs: [u64; OUTS],
    /// Calls under way, outermost first.
    pub frames: [ToldFrame; FRAMES],
}

/// Places that a thread's group is still to write; a power of two.
pub const OUTS: usize = 16;
/// Ends of groups, inner ones too, after which nobody looks at such a place again.
pub const LOOKS: u64 = 4;

/// A call under way that will be told. Only its own thread touches it.
#[derive(Debug)]
#[repr(C)]
pub struct ToldFrame {
    /// The row.
    pub cookie: u64,
    /// The stack pointer at entry: tells this call from another of the same row.
    pub sp: u64,
    /// What will be told, as far as it is known.
    pub told: ToldRecord,
}

/// What user space tells the programs, before they are attached; the detail also later.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Settings {
    /// 1: a process nobody named is traced from its first hit on; 0: only those named.
    pub trace_all: u64,
    /// The [`crate::detail::Detail`] of processes that have none of their own.
    pub detail: u64,
    /// Offset of `sched_info.run_delay` in `task_struct`, from BTF; 0 where unknown.
    pub run_delay_at: u64,
    /// Offset of `group_leader` in `task_struct`.
    pub group_leader_at: u64,
    /// Offset of `start_boottime` in `task_struct`.
    pub start_boottime_at: u64,
    /// Offset of `signal` in `task_struct`.
    pub signal_at: u64,
    /// Offset of `live` in `signal_struct`.
    pub live_at: u64,
}

const _: () = {
    assert!(size_of::<Header>() == 40);
    assert!(size_of::<StepRecord>() == 40 + 80 + 8 + 8 * COUNTERS);
    assert!(size_of::<CallRecord>() == 72);
    assert!(size_of::<ProcessRecord>() == 56);
    assert!(size_of::<ToldRecord>() == 136);
    assert!(size_of::<LongRecord>() == 136 + MEMORY_AT_ENTRY + MEMORY_AT_EXIT);
    assert!(size_of::<StreamKey>() == 16);
};

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

    #[test]
    fn a_handle_means_the_stream_that_the_header_says() {
        // The handle, whether the call is a twin; then the thread and the handle of the stream it means.
        let cases = [
            (0, false, 0, 0),
            (0, true, 9, 0),
            (1, false, 0, 0),
            (1, true, 0, 0),
            (2, false, 9, 0),
            (2, true, 9, 0),
            (77, false, 0, 77),
            (77, true, 0, 77),
        ];
        for (handle, is_twin, tid, stream) in cases {
            let expected = StreamKey { pid: 5, tid, stream };
            let mut key = StreamKey { pid: 5, tid: 0, stream: handle };
            key.settle(9, is_twin);
            assert_eq!(
                (key, StreamKey::of(5, 9, handle, is_twin)),
                (expected, expected),
                "{handle} {is_twin}"
            );
        }
    }
}
