//! What graphs and executable graphs hold: the map that the kernel keeps, and the calls that change it
//! ([`probe_abi::graph`]).

use std::collections::BTreeMap;

use probe_abi::fold::StreamFold;
use probe_abi::graph::{Contents, GraphKey};
use probe_abi::record::StreamKey;

use super::Folder;
use crate::call::Call;

/// Graphs by process and handle. Full: a graph is not kept, which is counted, and launches of it are unknown.
#[derive(Debug)]
pub(super) struct Graphs {
    bound: usize,
    held: BTreeMap<GraphKey, Box<Contents>>,
    pub(super) unkept: u64,
}

impl Graphs {
    pub(super) fn new(bound: usize) -> Graphs {
        Graphs { bound, held: BTreeMap::new(), unkept: 0 }
    }

    /// What is known of it.
    pub(super) fn held(&self, key: &GraphKey) -> Option<&Contents> {
        self.held.get(key).map(|contents| &**contents)
    }

    fn keep(&mut self, key: GraphKey, contents: &Contents) {
        if self.held.len() >= self.bound && !self.held.contains_key(&key) {
            self.unkept += 1;
            return;
        }
        self.held.entry(key).or_default().copy(contents);
    }

    /// The executable graph is what the graph is now.
    fn follow(&mut self, exec: GraphKey, graph: GraphKey) {
        let contents = Contents::default();
        match self.held(&graph) {
            Some(known) => contents.copy(known),
            None => return drop(self.held.remove(&exec)),
        }
        self.keep(exec, &contents);
    }

    /// The process is gone.
    pub(super) fn forget_process(&mut self, pid: u32) {
        self.held.retain(|key, _| key.pid != pid);
    }
}

pub(super) fn graph_key(pid: u32, handle: u64) -> GraphKey {
    GraphKey { pid, what: GraphKey::GRAPH, handle }
}

pub(super) fn exec_key(pid: u32, handle: u64) -> GraphKey {
    GraphKey { pid, what: GraphKey::EXEC, handle }
}

impl Folder {
    /// The stream whose capture is under way on `key`'s.
    pub(super) fn capturing<'a>(&'a self, key: &StreamKey, fold: &'a StreamFold) -> Option<&'a StreamFold> {
        match fold.joined(key.pid) {
            Some(origin) => self.streams.get(&origin).map(|stream| &stream.fold),
            None => Some(fold),
        }
    }

    /// A capture begins, of a new graph or of one that is there.
    pub(super) fn begin_capture(&mut self, call: &Call) {
        let key = self.stream_key(call);
        if self.streams.len() >= self.bounds.streams && !self.streams.contains_key(&key) {
            return;
        }
        let collectives = self.collectives(key.pid);
        let fold = &self.streams.entry(key).or_default().fold;
        let into = self.graphs.held(&graph_key(key.pid, call.graph)).filter(|_| call.graph != 0);
        fold.begin_capture(call.tid, collectives, into);
        if call.graph != 0 && into.is_none() {
            fold.forget_captured();
        }
    }

    /// The capture that began on the stream ends, and gave this graph.
    pub(super) fn end_capture(&mut self, key: &StreamKey, graph: u64) {
        let collectives = self.collectives(key.pid);
        let graph = graph_key(key.pid, graph);
        let captured = self.streams.get(key).and_then(|stream| stream.fold.captured(collectives));
        let Some(captured) = captured else { return drop(self.graphs.held.remove(&graph)) };
        if self.graphs.held(&graph).is_some_and(|before| !before.is_known()) {
            captured.forget();
        }
        self.graphs.keep(graph, captured);
    }

    /// The executable graph is what the call's graph is now.
    pub(super) fn follow_graph(&mut self, call: &Call, exec: u64) {
        let pid = call.process.pid;
        self.graphs.follow(exec_key(pid, exec), graph_key(pid, call.graph));
    }

    /// A graph, or an executable graph, is gone.
    pub(super) fn forget_graph(&mut self, call: &Call) {
        let pid = call.process.pid;
        let key = call.handle.map_or(graph_key(pid, call.graph), |exec| exec_key(pid, exec));
        self.graphs.held.remove(&key);
    }

    /// More is added to the graph than is seen.
    pub(super) fn change_graph(&mut self, call: &Call) {
        let (key, unknown) = (graph_key(call.process.pid, call.graph), Contents::default());
        unknown.forget();
        self.graphs.keep(key, &unknown);
    }

    fn collectives(&self, pid: u32) -> u64 {
        self.processes.get(&pid).map_or(0, super::Process::collectives)
    }
}

#[cfg(test)]
mod tests;
