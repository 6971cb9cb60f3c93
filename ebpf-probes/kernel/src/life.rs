//! Ends of threads and processes: removes their state, so that pids can be reused.

use probe_abi::atomic::Relaxed;

use probe_abi::counters::DropReason;
use probe_abi::record::{FRAMES, NOT_SEEN, RecordKind};

use crate::context;
use crate::emit;
use crate::maps::{self, CALLERS};
use crate::process;
use crate::task::{Task, exit_status, is_last_thread, process_start_ns};

/// Handles the exec of a process. It is recorded for any process, since the program may load a library. A process that
/// was excluded is traced until user space has decided on its new program.
#[inline(always)]
pub fn exec() {
    let task = Task::current();
    remove_thread(&task);
    context::free(&task);
    process::clear_exclusion(task.pid);
    emit::process(RecordKind::ProcessExec, &task, process_start_ns(), NOT_SEEN);
}

/// Handles the end of a thread and, with the last one, of its process. User space reads the process's last counters,
/// then removes them.
#[inline(always)]
pub fn exit() {
    let task = Task::current();
    remove_thread(&task);
    let Some(known) = process::find(&task) else {
        if process::is_excluded(task.pid) && is_last_thread() {
            process::clear_exclusion(task.pid);
        }
        return;
    };
    if is_last_thread() {
        context::free(&task);
        emit::process(RecordKind::ProcessExit, &task, known.start_ns.load(Relaxed), exit_status());
    }
}

/// Removes the thread's state and counts its calls under way as abandoned.
#[inline(always)]
fn remove_thread(task: &Task) {
    process::clear_device(task.tid);
    if let Some(thread) = maps::known_thread(task.pid, task.tid) {
        count_abandoned(thread.depth);
        thread.owner.store(0, Relaxed);
    }
    if let Some(caller) = CALLERS.get_ptr(&task.tid) {
        // SAFETY: only the thread itself changes its entry, and it runs this program now.
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
