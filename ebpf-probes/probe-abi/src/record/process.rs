//! Settings of the programs, and their state of a process.

use super::ROWS;
use crate::atomic::{AtomicU64, Relaxed};
use crate::thread_counter::THREAD_COUNTERS;

/// Settings that user space writes before the programs are attached; `detail` also later.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Settings {
    /// 1 to trace every process from its first hit on; 0 to trace only those in the filter.
    pub trace_all: u64,
    /// Word of the [`crate::detail::Detail`] for processes without one of their own.
    pub detail: u64,
    /// Offsets of [`ThreadCounter`](crate::thread_counter::ThreadCounter)s in `task_struct`, from BTF; 0 where unknown.
    pub counters_at: [u64; THREAD_COUNTERS],
    /// Offset of `group_leader` in `task_struct`.
    pub group_leader_at: u64,
    /// Offset of `start_boottime` in `task_struct`.
    pub start_boottime_at: u64,
    /// Offset of `signal` in `task_struct`.
    pub signal_at: u64,
    /// Offset of `live` in `signal_struct`.
    pub live_at: u64,
    /// Offset of `exit_code` in `task_struct`.
    pub exit_code_at: u64,
    /// Offset of the thread pointer in `task_struct`.
    pub thread_pointer_at: u64,
}

/// Number of streams with open work stored per process, for the next device synchronization.
pub const ACTIVE: usize = 16;
/// Number of address ranges of a process's runtime library.
pub const RANGES: usize = 4;

/// Address ranges of a process's runtime library: first address and end, zeroes for none. Written by user space.
pub type RuntimeCode = [[u64; 2]; RANGES];

/// State of a process.
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct ProcessFold {
    /// Start of the process, CLOCK_BOOTTIME ns.
    pub start_ns: AtomicU64,
    /// Calls that were folded and got no record, without `launches` and those in [`crate::counters::Counters`].
    pub folded: AtomicU64,
    /// Folded launches whose return is not probed.
    pub launches: AtomicU64,
    /// Calls that enqueued work, without `launches`.
    pub enqueues: AtomicU64,
    /// Calls that had enqueued work at the last sync call's return.
    pub seen: AtomicU64,
    /// 1 after the first call recorded with arguments: calls that order streams then get records.
    pub uses_collectives: AtomicU64,
    /// 1 after the first use of a stream that waits for its legacy default stream and vice versa.
    pub blocking: AtomicU64,
    /// Device, plus one, that a thread of the process chose first; 0 if none did.
    pub device: AtomicU64,
    /// Functions that have an ordinal ([`crate::function`]).
    pub functions: AtomicU64,
    /// Streams with open work, for a device synchronization.
    pub active: [ActiveStream; ACTIVE],
    /// Hits by row.
    pub calls: [AtomicU64; ROWS],
}

impl ProcessFold {
    /// Returns the number of calls that enqueued work.
    #[inline(always)]
    pub fn enqueued(&self) -> u64 {
        self.launches.load(Relaxed).wrapping_add(self.enqueues.load(Relaxed))
    }
}

/// Slot in the list of streams with open work.
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct ActiveStream {
    /// 1 if the slot is in use.
    pub taken: AtomicU64,
    /// Value of [`StreamKey::tid`].
    pub tid: AtomicU64,
    /// Value of [`StreamKey::stream`].
    pub stream: AtomicU64,
}
