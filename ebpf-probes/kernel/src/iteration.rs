//! Ends of training iterations without a sync call ([`probe_abi::fold`]): a call that begins the next iteration ends the
//! step of its stream before it is folded itself.

use probe_abi::atomic::Relaxed;
use probe_abi::fold::{Snapshot, StreamFold};
use probe_abi::record::StreamKey;
use probe_abi::{Action, Cookie};

use crate::emit;
use crate::graph;
use crate::maps;
use crate::process;
use crate::stream::{Stream, found};
use crate::task::Task;

/// Ends the step of the stream if the call, with this handle, begins the next iteration. The stream is not captured.
#[inline(always)]
pub fn mark(cookie: Cookie, task: &Task, key: &StreamKey, fold: &'static StreamFold, handle: u64) {
    let is_next = Stream::of(key, fold).begins_iteration(task.tid)
        || cookie.is(Action::GraphLaunch) && fold.begins_captured_iteration(|| graph::exec(task.pid, handle));
    if is_next {
        end(cookie, key, task.tid);
    }
}

/// Does as [`mark`] for a call that enqueues no work: the record of an event, or the wait for one. The stream may have no
/// fold, or be captured.
#[inline(always)]
pub fn mark_order(cookie: Cookie, task: &Task, key: &StreamKey) {
    if let Some(stream) = found(key)
        && stream.begins_iteration(task.tid)
        && !stream.is_capturing()
    {
        end(cookie, key, task.tid);
    }
}

/// Ends the step of the stream at the entry of the call.
#[unsafe(no_mangle)]
#[inline(never)]
fn end(cookie: Cookie, key: &StreamKey, tid: u32) -> u32 {
    let task = Task { pid: key.pid, tid };
    let (Some(stream), Some(thread)) = (found(key), maps::thread(task.pid, tid)) else { return 0 };
    let snapshot: &Snapshot = &thread.scratch;
    stream.snapshot(0, snapshot);
    if stream.closes(snapshot) {
        let Some(process) = process::find(&task) else { return 0 };
        let enqueued = process::enqueued(process, task.pid).wrapping_sub(process.seen.load(Relaxed));
        emit::iteration(&task, cookie.id(), key, &stream, snapshot, enqueued);
    }
    0
}
