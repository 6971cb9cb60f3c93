//! What leaves the kernel, and what its maps hold: plain structs of one layout on both sides.
//!
//! Times are CLOCK_MONOTONIC nanoseconds. A record keeps entry and duration apart; its exit is their sum.

mod key;
mod process;
mod thread;

use crate::fold::COUNTERS;

pub use key::{EventKey, OperationFold, OperationKey, StreamKey};
pub use process::{ACTIVE, ActiveStream, ProcessFold, RANGES, RuntimeCode, Settings};
pub use thread::{ArgsFrame, Caller, Calls, FRAMES, Frame, GROUP_ENDS_MAX, OUTS, Poll, Query, ThreadFold};

/// Rows a process can count: above every id in [`crate::PROBES`].
pub const ROWS: usize = 256;
/// A share of run-queue wait that could not be measured.
pub const NOT_SEEN: u64 = u64::MAX;

/// Which struct a record is. Never reuse a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum RecordKind {
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
    /// A [`ArgsRecord`].
    Args = 6,
    /// A [`LongArgsRecord`].
    LongArgs = 7,
    /// A [`crate::context::ContextRecord`].
    Context = 8,
}

/// What every record begins with.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Header {
    /// A [`RecordKind`].
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
    /// When its sync_call was entered, more was enqueued behind it.
    pub const AHEAD: u32 = 4;
    /// The sync_call is a query: the thread waited by asking again and again.
    pub const POLLED: u32 = 8;
    /// A call that the folds hold, told all the same ([`crate::detail`]).
    pub const DETAIL: u32 = 16;
    /// Where [`super::Header::weight`] stands, up to the last bit.
    pub const WEIGHT_AT: u32 = 8;
}

/// One step's worth of work on one stream: what was enqueued, and the wait that closed it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct StepRecord {
    /// `entry_ns` and `duration_ns` are those of the sync_call.
    pub header: Header,
    /// The stream's handle; 0 the default stream.
    pub stream: u64,
    /// Steps closed on this stream before this one.
    pub sequence: u64,
    /// When the stream's previous sync_call returned; 0 if there was none.
    pub previous_exit_ns: u64,
    /// When the first of this work was enqueued.
    pub first_ns: u64,
    /// When the event was recorded that the sync_call waited for; 0 for other closers.
    pub recorded_ns: u64,
    /// Time the thread was runnable and waited for a CPU, from the previous sync_call to `first_ns`, or [`NOT_SEEN`].
    pub runq_gap_ns: u64,
    /// The same from `first_ns` to the sync_call's entry.
    pub runq_enqueue_ns: u64,
    /// The same within the sync_call.
    pub runq_wait_ns: u64,
    /// Calls that enqueued work on this stream between its previous sync_call's return and this sync_call's entry.
    pub enqueued_since_sync: u64,
    /// The same for the whole process, since its previous sync_call on any stream.
    pub process_enqueued_since_sync: u64,
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

/// One call told whole, of a row whose action is [`crate::Action::RecordArgs`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct ArgsRecord {
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
    /// These, where they are 4 or 8 and the record is not a [`LongArgsRecord`].
    pub out: u64,
    /// Of a row that is counted: calls with its handle that the library took on before this one, which it did too
    /// ([`crate::ordinal`]). Else [`NOT_SEEN`].
    pub ordinal: u64,
}

/// The same with the memory behind the arguments.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct LongArgsRecord {
    /// What the short record has; `out` is 0.
    pub record: ArgsRecord,
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
    /// Of one that ended: how, as wait(2) gives it; [`NOT_SEEN`] where it is not known.
    pub status: u64,
}

const _: () = {
    assert!(size_of::<Header>() == 40);
    assert!(size_of::<StepRecord>() == 40 + 80 + 8 + 8 * COUNTERS);
    assert!(size_of::<CallRecord>() == 72);
    assert!(size_of::<ProcessRecord>() == 64);
    assert!(size_of::<ArgsRecord>() == 136);
    assert!(size_of::<LongArgsRecord>() == 136 + MEMORY_AT_ENTRY + MEMORY_AT_EXIT);
};
