//! Records that leave the kernel, and the values of its maps: plain structs with the same layout on both sides.
//!
//! Times are CLOCK_MONOTONIC nanoseconds. A record has entry and duration; the sum is its exit.

mod key;
mod process;
mod thread;

use crate::fold::COUNTERS;
use crate::function::{SIGNATURE, Signature};
use crate::thread_counter::{THREAD_COUNTERS, ThreadCounter};

pub use key::{EventKey, OperationFold, OperationKey, StreamKey};
pub use process::{ACTIVE, ActiveStream, ProcessFold, RANGES, RuntimeCode, Settings};
pub use thread::{ArgsFrame, Caller, Calls, FRAMES, Frame, GROUP_ENDS_MAX, OUTS, Poll, Query, ThreadFold};

/// Number of rows that a process can count; above every id in [`crate::PROBES`].
pub const ROWS: usize = 512;
/// Value of numbers that could not be measured.
pub const NOT_SEEN: u64 = u64::MAX;

/// Struct of a record. Never reuse a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum RecordKind {
    /// Record with the layout of [`StepRecord`].
    Step = 1,
    /// Record with the layout of [`CallRecord`].
    Call = 2,
    /// A [`ProcessRecord`]: the first hit of a process.
    ProcessSeen = 3,
    /// A [`ProcessRecord`]: a process executes another program.
    ProcessExec = 4,
    /// A [`ProcessRecord`]: the last thread of a process ended.
    ProcessExit = 5,
    /// Record with the layout of [`ArgsRecord`].
    Args = 6,
    /// Record with the layout of [`LongArgsRecord`].
    LongArgs = 7,
    /// Record with the layout of [`crate::context::ContextRecord`].
    Context = 8,
    /// Record with the layout of [`crate::function::FunctionRecord`].
    Function = 9,
}

/// Declares the records that a recording stores field by field: the structs, and `record_fields!` with their fields in
/// order. A field with `as Encoding` is stored by that encoding of the recording's.
macro_rules! records {
    ($d:tt $($(#[$doc:meta])* pub struct $name:ident {
        $($(#[$field_doc:meta])* pub $field:ident: $type:ty $(as $encoding:ident)?,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
            #[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
            #[repr(C)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }
        )*

        /// Calls a macro with the fields of each record: `callback! { Name { field, field as Encoding } }`.
        #[macro_export]
        macro_rules! record_fields {
            ($d callback:ident) => {
                $d callback! { $($name { $($field $(as $encoding)?),* })* }
            };
        }
    };
}

records! {
    $
    /// First fields of every record.
    pub struct Header {
        /// Number of a [`RecordKind`].
        pub kind: u16,
        /// Id of the row that caused the record; 0 for none.
        pub row: u16,
        /// Bits of [`flag`].
        pub flags: u32,
        /// Process id, in the initial pid namespace.
        pub pid: u32,
        /// Thread id of the caller.
        pub tid: u32,
        /// Start of the process, CLOCK_BOOTTIME ns, which with `pid` identifies it. 0 if not known.
        pub process_start_ns: u64,
        /// Time of the entry.
        pub entry_ns: u64,
        /// Duration of the call.
        pub duration_ns: u64,
    }

    /// Increase of a thread's counter in each part of a step; [`NOT_SEEN`] if not known, or if the parts are of several
    /// threads.
    pub struct CountParts {
        /// From the previous sync call's return to the first enqueue.
        pub gap: u64,
        /// From the first enqueue to the sync call's entry.
        pub enqueue: u64,
        /// Within the sync call.
        pub wait: u64,
    }

    /// Work of one step on one stream, and the wait that ended it.
    pub struct StepRecord {
        /// `entry_ns` and `duration_ns` are those of the sync call.
        pub header: Header,
        /// Handle of the stream; 0 for the default stream.
        pub stream: u64,
        /// Number of earlier steps of this stream.
        pub sequence: u64,
        /// Return of the stream's previous sync call; 0 if there was none.
        pub previous_exit_ns: u64,
        /// Time of the first enqueue.
        pub first_ns: u64,
        /// Time at which the awaited event was recorded; 0 for other sync calls.
        pub recorded_ns: u64,
        /// Increase of [`ThreadCounter::RunQueue`], which is first in every version of recordings.
        pub run_queue: CountParts,
        /// Calls that enqueued work on this stream between its previous sync call's return and this one's entry.
        pub enqueued_since_sync: u64,
        /// Calls of the process that enqueued work on any stream between its previous sync call's return and this one's
        /// entry.
        pub process_enqueued_since_sync: u64,
        /// Thread that enqueued first.
        pub first_tid: u32,
        /// Current device of the caller, by its number in the process; -1 if it was never set.
        pub device: i32,
        /// Work, indexed by [`crate::fold::Counter`].
        pub work: [u64; COUNTERS] as CountedWords,
        /// Increases of the other thread counters, indexed by [`ThreadCounter`] less one.
        pub other: [CountParts; THREAD_COUNTERS - 1] as LaterParts,
        /// Launched functions.
        pub signature: Signature as LaterSignature,
    }

    /// A call with a record of its own: an allocation, a free, an error, the creation or end of an object, or a sampled
    /// call.
    pub struct CallRecord {
        /// `entry_ns` and `duration_ns` are those of the call.
        pub header: Header,
        /// Result: 0 or the library's error number.
        pub result: u32,
        /// Current device of the caller; -1 if it was never set.
        pub device: i32,
        /// Value of the row's handle, or the value written where it points.
        pub handle: u64,
        /// Value of the row's bytes.
        pub bytes: u64,
        /// Value of the row's stream.
        pub stream: u64,
    }
}

impl CountParts {
    /// No part is known.
    pub const UNKNOWN: CountParts = CountParts { gap: NOT_SEEN, enqueue: NOT_SEEN, wait: NOT_SEEN };
}

impl StepRecord {
    /// Returns the increase of a thread counter.
    #[inline(always)]
    pub fn increase(&self, counter: ThreadCounter) -> &CountParts {
        match (counter as usize).checked_sub(1) {
            None => &self.run_queue,
            Some(at) => &self.other[at],
        }
    }

    /// Sets the increase of a thread counter.
    #[inline(always)]
    pub fn set_increase(&mut self, counter: ThreadCounter, parts: CountParts) {
        match (counter as usize).checked_sub(1) {
            None => self.run_queue = parts,
            Some(at) => self.other[at] = parts,
        }
    }
}

/// Bits of [`Header::flags`].
pub mod flag {
    /// No sync call ended the step, but the end of its stream, process or recording.
    pub const UNFINISHED: u32 = 1;
    /// The step's first enqueue is older than the stored segments: `first_ns` is the oldest known one.
    pub const FIRST_UNKNOWN: u32 = 2;
    /// More work was enqueued before the sync call was entered.
    pub const AHEAD: u32 = 4;
    /// The sync call is a query: the thread waited by polling.
    pub const POLLED: u32 = 8;
    /// A sampled call, which the folds contain, too ([`crate::detail`]).
    pub const DETAIL: u32 = 16;
    /// The call, or work of the step, may have begun before all libraries of its process were probed, so that its
    /// times and counts are incomplete. Set in user space.
    pub const UNARMED: u32 = 32;
    /// The process may have made calls before its libraries were probed: allocations from before are unknown. Set in user
    /// space, for calls with a record of their own.
    pub const LATE: u32 = 64;
    /// No sync call ended the step, but a call that began the next training iteration ([`crate::fold::PART_MIN`]).
    pub const ITERATION: u32 = 128;
    /// Lowest bit of [`super::Header::weight`], which extends to the last bit.
    pub const WEIGHT_AT: u32 = 8;
}

/// Number of recorded call arguments.
pub const ARGUMENTS: usize = 8;
/// Largest number of bytes read at the entry.
pub const MEMORY_AT_ENTRY: usize = 256;
/// Largest number of bytes read at the return.
pub const MEMORY_AT_EXIT: usize = 512;

/// Call arguments of a row whose action is [`crate::Action::RecordArgs`].
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct ArgsRecord {
    /// `entry_ns` and `duration_ns` are those of the call.
    pub header: Header,
    /// Result: 0 or the library's error number.
    pub result: u32,
    /// Current device of the caller; -1 if it was never set or the call moves data.
    pub device: i32,
    /// C arguments in order, as whole registers: of an `int` the lower half is valid. 0 for missing ones.
    pub arguments: [u64; ARGUMENTS],
    /// Number of bytes read at the entry; 0 for none, or if they were unreadable.
    pub entry_bytes: u32,
    /// Number of bytes read at the return; 0 for none, or if they were unreadable.
    pub exit_bytes: u32,
    /// Memory read at the return, if 4 or 8 bytes and the record is not a [`LongArgsRecord`].
    pub out: u64,
    /// Number of earlier calls with the same handle that the library accepted ([`crate::ordinal`]). [`NOT_SEEN`] for
    /// rows that are not counted and for refused calls.
    pub ordinal: u64,
}

/// Call arguments with the memory that they point to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct LongArgsRecord {
    /// The fields of the short record; `out` is 0.
    pub record: ArgsRecord,
    /// Memory read at the entry.
    pub entry: [u64; MEMORY_AT_ENTRY / 8],
    /// Memory read at the return.
    pub exit: [u64; MEMORY_AT_EXIT / 8],
}

/// First hit, exec or end of a process, at `entry_ns`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable))]
#[repr(C)]
pub struct ProcessRecord {
    /// `duration_ns` is 0.
    pub header: Header,
    /// The thread's name, NUL-padded.
    pub comm: [u8; 16],
    /// Exit status as of wait(2), for a process that ended; [`NOT_SEEN`] if not known.
    pub status: u64,
}

const _: () = {
    assert!(size_of::<Header>() == 40);
    assert!(size_of::<StepRecord>() == 40 + 80 + 8 + 8 * (COUNTERS + SIGNATURE) + 24 * (THREAD_COUNTERS - 1));
    assert!(size_of::<CallRecord>() == 72);
    assert!(size_of::<ProcessRecord>() == 64);
    assert!(size_of::<ArgsRecord>() == 136);
    assert!(size_of::<LongArgsRecord>() == 136 + MEMORY_AT_ENTRY + MEMORY_AT_EXIT);
};
