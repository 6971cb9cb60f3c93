//! Captures, and the contents of graphs ([`probe_abi::graph`]). All of it is out of line and rare, except for the
//! look-up of a graph launch.

use probe_abi::atomic::{AtomicU64, Relaxed};
use probe_abi::counters::SelfCounter;
use probe_abi::fold::{Enqueue, StreamFold};
use probe_abi::graph::{Contents, GraphKey, OPERATIONS};
use probe_abi::record::{ProcessFold, ROWS, StreamKey};

use crate::maps::{self, GRAPHS};
use crate::process;

/// Returns the contents of a graph or executable graph, if it is tracked.
#[inline(always)]
fn contents_of(pid: u32, what: u32, handle: u64) -> Option<&'static Contents> {
    // SAFETY: map values live until they are deleted, and under RCU until this program run ends.
    GRAPHS.get_ptr(&GraphKey { pid, what, handle }).map(|contents| unsafe { &*contents })
}

/// Returns the contents of an executable graph, if it is tracked.
#[inline(always)]
pub fn exec(pid: u32, handle: u64) -> Option<&'static Contents> {
    contents_of(pid, GraphKey::EXEC, handle)
}

/// Counts the launch of an executable graph on a stream that is not captured.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn launch_graph(pid: u32, tid: u32, exec: u64, fold: &StreamFold) {
    let call = Enqueue { identity: exec, ..Enqueue::default() };
    fold.launch_graph(tid, &call, contents_of(pid, GraphKey::EXEC, exec));
}

/// Returns the fold on which the capture of this stream began.
#[inline(always)]
pub fn capturing(key: &StreamKey, fold: &'static StreamFold) -> Option<&'static StreamFold> {
    match fold.joined(key.pid) {
        Some(origin) => maps::fold(&origin),
        None => Some(fold),
    }
}

/// Adds the launch of an executable graph to a capture.
#[inline(always)]
pub fn capture_launch(pid: u32, exec: u64, capturing: &StreamFold) {
    capturing.capture_graph(contents_of(pid, GraphKey::EXEC, exec));
}

/// Begins a capture; `graph` is the one that it continues, 0 for a new one.
#[inline(always)]
pub fn begin(process: &ProcessFold, key: &StreamKey, tid: u32, graph: u64) {
    let Some(fold) = maps::stream(key) else { return };
    let into = if graph == 0 { None } else { contents_of(key.pid, GraphKey::GRAPH, graph) };
    fold.begin_capture(tid, collectives(process, key.pid), into);
    if graph != 0 && into.is_none() {
        fold.set_captured_unknown();
    }
}

/// Ends the capture that began on the stream and stores its contents with the graph.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn end_graph(process: &ProcessFold, key: &StreamKey, graph: u64) {
    let into = GraphKey { pid: key.pid, what: GraphKey::GRAPH, handle: graph };
    let captured = maps::fold(key).and_then(|fold| fold.captured(collectives(process, key.pid)));
    let Some(captured) = captured else { return remove(&into) };
    // Something was added to the graph meanwhile that was not captured.
    if contents_of(key.pid, GraphKey::GRAPH, graph).is_some_and(|before| !before.is_known()) {
        captured.set_unknown();
    }
    store(&into, captured);
}

/// Gives the executable graph the contents of the graph.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn follow_graph(pid: u32, exec: u64, graph: u64) {
    let key = GraphKey { pid, what: GraphKey::EXEC, handle: exec };
    match contents_of(pid, GraphKey::GRAPH, graph) {
        Some(contents) => store(&key, contents),
        None => remove(&key),
    }
}

/// Removes an executable graph, or a graph if `exec` is 0.
#[inline(always)]
pub fn destroy(pid: u32, exec: u64, graph: u64) {
    let (what, handle) = if exec != 0 { (GraphKey::EXEC, exec) } else { (GraphKey::GRAPH, graph) };
    remove(&GraphKey { pid, what, handle });
}

#[inline(always)]
fn remove(key: &GraphKey) {
    let _ = GRAPHS.remove(key);
}

/// Marks the contents of the graph as unknown.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn change_graph(pid: u32, graph: u64) {
    match contents_of(pid, GraphKey::GRAPH, graph) {
        Some(contents) => contents.set_unknown(),
        None => {
            let unknown = Contents { unknown: AtomicU64::new(1), ..Contents::default() };
            store(&GraphKey { pid, what: GraphKey::GRAPH, handle: graph }, &unknown);
        }
    }
}

/// Stores contents. If the map is full, the graph is untracked, which is counted.
#[inline(always)]
fn store(key: &GraphKey, contents: &Contents) {
    if GRAPHS.insert(key, contents, 0).is_err() {
        maps::count(SelfCounter::GraphMapFull);
    }
}

/// Returns the number of collectives that the process called so far.
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
