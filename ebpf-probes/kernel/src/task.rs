//! The current task: ids, counters and start of its process.
//!
//! Field offsets come from the running kernel's BTF through [`probe_abi::record::Settings`]; a value without an offset
//! is reported as not known.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use probe_abi::fold::Stamp;
use probe_abi::record::{NOT_SEEN, Settings};
use probe_abi::thread_counter::{ThreadCounts, UNKNOWN_COUNTS};

use crate::maps::SETTINGS;

/// The current thread.
#[derive(Clone, Copy)]
pub struct Task {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
}

impl Task {
    /// Returns the current thread.
    #[inline(always)]
    pub fn current() -> Task {
        let both = bpf_get_current_pid_tgid();
        Task { pid: (both >> 32) as u32, tid: both as u32 }
    }

    /// Returns this instant on this thread.
    #[inline(always)]
    pub fn stamp(&self) -> Stamp {
        Stamp { ns: now_ns(), counts: counts(), tid: self.tid }
    }
}

/// Returns CLOCK_MONOTONIC, ns.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: the helper has no precondition.
    unsafe { bpf_ktime_get_ns() }
}

/// Returns the settings.
#[inline(always)]
pub fn settings() -> Option<&'static Settings> {
    SETTINGS.get(0)
}

#[inline(always)]
fn read_kernel<T>(base: u64, offset: u64) -> Option<T> {
    if base == 0 || offset == 0 {
        return None;
    }
    // SAFETY: the helper checks the address itself and fails where it cannot be read.
    unsafe { bpf_probe_read_kernel((base + offset) as *const T) }.ok()
}

#[inline(always)]
fn current() -> u64 {
    // SAFETY: the helper has no precondition.
    unsafe { bpf_get_current_task() }
}

/// Returns the counters of the current thread.
#[inline(always)]
pub fn counts() -> ThreadCounts {
    let Some(s) = settings() else { return UNKNOWN_COUNTS };
    let task = current();
    s.counters_at.map(|at| read_kernel(task, at).unwrap_or(NOT_SEEN))
}

/// Returns the current thread's thread pointer; 0 if not known.
#[inline(always)]
pub fn thread_pointer() -> u64 {
    let Some(s) = settings() else { return 0 };
    read_kernel(current(), s.thread_pointer_at).unwrap_or(0)
}

/// Returns the start of the current process, CLOCK_BOOTTIME ns; 0 if not known.
#[inline(always)]
pub fn process_start_ns() -> u64 {
    let Some(s) = settings() else { return 0 };
    let leader = read_kernel::<u64>(current(), s.group_leader_at).unwrap_or(0);
    read_kernel(leader, s.start_boottime_at).unwrap_or(0)
}

/// Returns the exit status of the ending thread, as of wait(2); that of the last thread is the process's. The kernel
/// sets it before the tracepoint (`do_exit` in kernel/exit.c).
#[inline(always)]
pub fn exit_status() -> u64 {
    let Some(s) = settings() else { return NOT_SEEN };
    read_kernel::<u32>(current(), s.exit_code_at).map_or(NOT_SEEN, u64::from)
}

/// Returns true if the current thread is the last of its process to end.
#[inline(always)]
pub fn is_last_thread() -> bool {
    let Some(s) = settings() else { return false };
    let signal = read_kernel::<u64>(current(), s.signal_at).unwrap_or(0);
    read_kernel::<i32>(signal, s.live_at) == Some(0)
}
