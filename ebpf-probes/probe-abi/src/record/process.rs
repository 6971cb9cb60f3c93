//! What user space tells the programs, and what they know of a process.

use super::ROWS;
use crate::atomic::{AtomicU64, Relaxed};

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
    /// Offset of `exit_code` in `task_struct`.
    pub exit_code_at: u64,
    /// Offset of the thread pointer in `task_struct`.
    pub thread_pointer_at: u64,
}

/// Streams with open work that a process remembers for its next device synchronisation.
pub const ACTIVE: usize = 16;
/// Stretches of code in which a return address means "the runtime called".
pub const RANGES: usize = 4;

/// Where a process's runtime library lies: first and one-past-last addresses; zeroes for none. ArgsSpec by user space.
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
    /// The same at the last sync_call's return.
    pub seen: AtomicU64,
    /// 1 once it has made a call that is told: then what orders its streams is reported too.
    pub uses_collectives: AtomicU64,
    /// 1 once it has a stream that waits for its legacy default stream, and that for it.
    pub blocking: AtomicU64,
    /// The device that a thread of it chose before others, plus one; 0 where none did.
    pub device: AtomicU64,
    /// Streams with open work, for a device synchronisation; entry 0 of a free slot.
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

/// A slot in the list of streams with open work.
#[derive(Debug)]
#[repr(C)]
pub struct ActiveStream {
    /// 1 where this slot is taken.
    pub taken: AtomicU64,
    /// [`StreamKey::tid`].
    pub tid: AtomicU64,
    /// [`StreamKey::stream`].
    pub stream: AtomicU64,
}
