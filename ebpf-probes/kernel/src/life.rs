//! Threads and processes come and go: what they leave behind is settled here, so that pids can be used again.

use probe_abi::atomic::Relaxed;

use probe_abi::counters::DropReason;
use probe_abi::record::{FRAMES, NOT_SEEN, RecordKind};

use crate::context;
use crate::emit;
use crate::maps::{self, CALLERS, THREADS};
use crate::process;
use crate::task::{Task, exit_status, is_last_thread, process_start_ns};

/// A process runs another program: everybody may want to know, since the program may bring a library.
#[inline(always)]
pub fn exec() {
    let task = Task::current();
    forget_thread(&task);
    context::forget(&task);
    emit::process(RecordKind::ProcessExec, &task, process_start_ns(), NOT_SEEN);
}

/// A thread ends; with the last one, its process. User space reads the process's last figures, then deletes them.
#[inline(always)]
pub fn exit() {
    let task = Task::current();
    forget_thread(&task);
    let Some(known) = process::find(&task) else { return };
    if is_last_thread() {
        context::forget(&task);
        emit::process(RecordKind::ProcessExit, &task, known.start_ns.load(Relaxed), exit_status());
    }
}

/// Calls that were under way will never return.
#[inline(always)]
fn forget_thread(task: &Task) {
    process::forget_device(task.tid);
    if let Some(thread) = THREADS.get_ptr(&task.tid) {
        // SAFETY: only the thread itself changes its entry, and it runs this program now.
        count_abandoned(unsafe { (*thread).depth });
        let _ = THREADS.remove(&task.tid);
    }
    if let Some(caller) = CALLERS.get_ptr(&task.tid) {
        // SAFETY: as above.
        count_abandoned(unsafe { (*caller).calls.depth });
        if let Some(calls) = maps::hot_calls(task.pid, task.tid) {
            count_abandoned(calls.depth);
            calls.owner.store(0, Relaxed);
        }
        let _ = CALLERS.remove(&task.tid);
    }
}

#[inline(always)]
fn count_abandoned(depth: u64) {
    if depth > 0
        && depth <= FRAMES as u64
        && let Some(counters) = maps::counters()
    {
        counters.dropped[DropReason::Abandoned as usize].fetch_add(depth, Relaxed);
    }
}
