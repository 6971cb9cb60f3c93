//! Graphs: what is captured, and what each of them holds ([`probe_abi::graph`]).
//!
//! All of it out of line and rare, but for the look-up that a graph launch makes.

use probe_abi::atomic::{AtomicU64, Relaxed};
use probe_abi::fold::{Enqueue, StreamFold};
use probe_abi::graph::{Contents, GraphKey, OPERATIONS};
use probe_abi::record::{ProcessFold, ROWS, StreamKey};

use crate::maps::{self, GRAPHS};
use crate::process;

/// What is known of a graph or an executable graph.
#[inline(always)]
fn held(pid: u32, what: u32, handle: u64) -> Option<&'static Contents> {
    // SAFETY: map values live until they are deleted, and under RCU until this program run ends.
    GRAPHS.get_ptr(&GraphKey { pid, what, handle }).map(|contents| unsafe { &*contents })
}

/// The executable graph is launched on a stream that is not captured.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn launch_graph(pid: u32, tid: u32, exec: u64, fold: &StreamFold) {
    let call = Enqueue { threads: 0, identity: exec, bytes: 0 };
    fold.launch_graph(tid, &call, held(pid, GraphKey::EXEC, exec));
}

/// The stream whose capture is under way on `key`'s.
#[inline(always)]
pub fn capturing(key: &StreamKey, fold: &'static StreamFold) -> Option<&'static StreamFold> {
    match fold.joined(key.pid) {
        Some(origin) => maps::fold(&origin),
        None => Some(fold),
    }
}

/// The executable graph is launched on a stream that is captured.
#[inline(always)]
pub fn capture_launch(pid: u32, exec: u64, capturing: &StreamFold) {
    capturing.capture_graph(held(pid, GraphKey::EXEC, exec));
}

/// A capture begins, of a new graph or of one that is there, which is 0 for none.
#[inline(always)]
pub fn begin(process: &ProcessFold, key: &StreamKey, tid: u32, graph: u64) {
    let Some(fold) = maps::stream(key) else { return };
    let into = if graph == 0 { None } else { held(key.pid, GraphKey::GRAPH, graph) };
    fold.begin_capture(tid, collectives(process, key.pid), into);
    if graph != 0 && into.is_none() {
        fold.forget_captured();
    }
}

/// The capture that began on the stream ends, and gave this graph.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn end_graph(process: &ProcessFold, key: &StreamKey, graph: u64) {
    let into = GraphKey { pid: key.pid, what: GraphKey::GRAPH, handle: graph };
    let captured = maps::fold(key).and_then(|fold| fold.captured(collectives(process, key.pid)));
    let Some(captured) = captured else { return remove(&into) };
    // Something was added to it meanwhile that is no capture's.
    if held(key.pid, GraphKey::GRAPH, graph).is_some_and(|before| !before.is_known()) {
        captured.forget();
    }
    keep(&into, captured);
}

/// The executable graph is what the graph is now.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn follow_graph(pid: u32, exec: u64, graph: u64) {
    let key = GraphKey { pid, what: GraphKey::EXEC, handle: exec };
    match held(pid, GraphKey::GRAPH, graph) {
        Some(contents) => keep(&key, contents),
        None => remove(&key),
    }
}

/// A graph, or an executable graph, is gone.
#[inline(always)]
pub fn forget(pid: u32, exec: u64, graph: u64) {
    let (what, handle) = if exec != 0 { (GraphKey::EXEC, exec) } else { (GraphKey::GRAPH, graph) };
    remove(&GraphKey { pid, what, handle });
}

#[inline(always)]
fn remove(key: &GraphKey) {
    let _ = GRAPHS.remove(key);
}

/// More is added to the graph than is seen.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn change_graph(pid: u32, graph: u64) {
    match held(pid, GraphKey::GRAPH, graph) {
        Some(contents) => contents.forget(),
        None => {
            let unknown = Contents { unknown: AtomicU64::new(1), ..Contents::default() };
            keep(&GraphKey { pid, what: GraphKey::GRAPH, handle: graph }, &unknown);
        }
    }
}

/// Full: it stays unknown.
#[inline(always)]
fn keep(key: &GraphKey, contents: &Contents) {
    if GRAPHS.insert(key, contents, 0).is_err()
        && let Some(counters) = maps::counters()
    {
        counters.untracked_graphs.fetch_add(1, Relaxed);
    }
}

/// Collectives that the process called so far.
#[inline(always)]
fn collectives(process: &ProcessFold, pid: u32) -> u64 {
    let mut all = 0u64;
    for row in OPERATIONS {
        all = all.wrapping_add(process.calls[row as usize & (ROWS - 1)].load(Relaxed));
    }
    if let Some(hot) = process::hot(pid) {
        for row in OPERATIONS {
            all = all.wrapping_add(hot.calls[row as usize & (ROWS - 1)].load(Relaxed));
        }
    }
    all
}
