//! The current task: who it is, how long it has waited for a CPU, when its process began.
//!
//! Field offsets come from the running kernel's BTF through [`probe_abi::record::Settings`]; where one is missing the
//! fact is not known, and says so.

use aya_ebpf::helpers::{
    bpf_get_current_pid_tgid, bpf_get_current_task, bpf_ktime_get_ns, bpf_probe_read_kernel,
};
use probe_abi::fold::Stamp;
use probe_abi::record::{NOT_SEEN, Settings};

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
    /// The thread that runs now.
    #[inline(always)]
    pub fn current() -> Task {
        let both = bpf_get_current_pid_tgid();
        Task { pid: (both >> 32) as u32, tid: both as u32 }
    }

    /// This instant on this thread.
    #[inline(always)]
    pub fn stamp(&self) -> Stamp {
        Stamp { ns: now_ns(), runq_ns: runq_ns(), tid: self.tid }
    }
}

/// CLOCK_MONOTONIC.
#[inline(always)]
pub fn now_ns() -> u64 {
    // SAFETY: the helper has no precondition.
    unsafe { bpf_ktime_get_ns() }
}

/// What user space decided.
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

/// How long the current thread has waited for a CPU in its life.
#[inline(always)]
pub fn runq_ns() -> u64 {
    let Some(s) = settings() else { return NOT_SEEN };
    read_kernel(current(), s.run_delay_at).unwrap_or(NOT_SEEN)
}

/// The current thread's pointer to its own memory, as the kernel keeps it; 0 where it is not known.
#[inline(always)]
pub fn thread_pointer() -> u64 {
    let Some(s) = settings() else { return 0 };
    read_kernel(current(), s.thread_pointer_at).unwrap_or(0)
}

/// When the current process began, CLOCK_BOOTTIME ns; 0 where it is not known.
#[inline(always)]
pub fn process_start_ns() -> u64 {
    let Some(s) = settings() else { return 0 };
    let leader = read_kernel::<u64>(current(), s.group_leader_at).unwrap_or(0);
    read_kernel(leader, s.start_boottime_at).unwrap_or(0)
}

/// How the current thread ends, as wait(2) will tell it: of a process's last thread how the process does.
///
/// The kernel sets it before it comes to the tracepoint (`do_exit` in kernel/exit.c).
#[inline(always)]
pub fn exit_status() -> u64 {
    let Some(s) = settings() else { return NOT_SEEN };
    read_kernel::<u32>(current(), s.exit_code_at).map_or(NOT_SEEN, u64::from)
}

/// True where the current thread is the last of its process to end.
#[inline(always)]
pub fn is_last_thread() -> bool {
    let Some(s) = settings() else { return false };
    let signal = read_kernel::<u64>(current(), s.signal_at).unwrap_or(0);
    read_kernel::<i32>(signal, s.live_at) == Some(0)
}
