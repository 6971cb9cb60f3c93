//! Contents of graphs and executable graphs, and the calls that change them ([`probe_abi::graph`]).

use std::collections::BTreeMap;

use probe_abi::fold::StreamFold;
use probe_abi::graph::{Contents, GraphKey};
use probe_abi::record::StreamKey;

use super::Folder;
use crate::call::Call;

/// Graphs by process and handle. Full: the graph is untracked, which is counted, and its launches are unknown.
#[derive(Debug)]
pub(super) struct Graphs {
    bound: usize,
    by_key: BTreeMap<GraphKey, Box<Contents>>,
    pub(super) unkept: u64,
}

impl Graphs {
    pub(super) fn new(bound: usize) -> Graphs {
        Graphs { bound, by_key: BTreeMap::new(), unkept: 0 }
    }

    /// Returns the contents of a graph, if it is tracked.
    pub(super) fn get(&self, key: &GraphKey) -> Option<&Contents> {
        self.by_key.get(key).map(|contents| &**contents)
    }

    pub(super) fn store(&mut self, key: GraphKey, contents: &Contents) {
        if self.by_key.len() >= self.bound && !self.by_key.contains_key(&key) {
            self.unkept += 1;
            return;
        }
        self.by_key.entry(key).or_default().copy(contents);
    }

    /// Gives the executable graph the contents of the graph.
    fn follow(&mut self, exec: GraphKey, graph: GraphKey) {
        let contents = Contents::default();
        match self.get(&graph) {
            Some(known) => contents.copy(known),
            None => return drop(self.by_key.remove(&exec)),
        }
        self.store(exec, &contents);
    }

    /// Removes the graphs of a process.
    pub(super) fn remove_process(&mut self, pid: u32) {
        self.by_key.retain(|key, _| key.pid != pid);
    }
}

pub(super) fn graph_key(pid: u32, handle: u64) -> GraphKey {
    GraphKey { pid, what: GraphKey::GRAPH, handle }
}

pub(super) fn exec_key(pid: u32, handle: u64) -> GraphKey {
    GraphKey { pid, what: GraphKey::EXEC, handle }
}

impl Folder {
    /// Returns the fold on which the capture of this stream began.
    pub(super) fn capturing<'a>(&'a self, key: &StreamKey, fold: &'a StreamFold) -> Option<&'a StreamFold> {
        match fold.joined(key.pid) {
            Some(origin) => self.streams.get(&origin).map(|stream| &stream.fold),
            None => Some(fold),
        }
    }

    /// Begins a capture, of a new graph or one that it continues.
    pub(super) fn begin_capture(&mut self, call: &Call) {
        let key = self.stream_key(call);
        if self.streams.len() >= self.bounds.streams && !self.streams.contains_key(&key) {
            return;
        }
        let collectives = self.collectives(key.pid);
        let fold = &self.streams.entry(key).or_default().fold;
        let into = self.graphs.get(&graph_key(key.pid, call.graph)).filter(|_| call.graph != 0);
        fold.begin_capture(call.tid, collectives, into);
        if call.graph != 0 && into.is_none() {
            fold.set_captured_unknown();
        }
    }

    /// Ends the capture that began on the stream and stores its contents with the graph.
    pub(super) fn end_capture(&mut self, key: &StreamKey, graph: u64) {
        let collectives = self.collectives(key.pid);
        let graph = graph_key(key.pid, graph);
        let captured = self.streams.get(key).and_then(|stream| stream.fold.captured(collectives));
        let Some(captured) = captured else { return drop(self.graphs.by_key.remove(&graph)) };
        if self.graphs.get(&graph).is_some_and(|before| !before.is_known()) {
            captured.set_unknown();
        }
        self.graphs.store(graph, captured);
    }

    /// Gives the executable graph the contents of the call's graph.
    pub(super) fn follow_graph(&mut self, call: &Call, exec: u64) {
        let pid = call.process.pid;
        self.graphs.follow(exec_key(pid, exec), graph_key(pid, call.graph));
    }

    /// Removes a graph or executable graph.
    pub(super) fn remove_graph(&mut self, call: &Call) {
        let pid = call.process.pid;
        let key = call.handle.map_or(graph_key(pid, call.graph), |exec| exec_key(pid, exec));
        self.graphs.by_key.remove(&key);
    }

    /// Marks the contents of the graph as unknown.
    pub(super) fn change_graph(&mut self, call: &Call) {
        let (key, unknown) = (graph_key(call.process.pid, call.graph), Contents::default());
        unknown.set_unknown();
        self.graphs.store(key, &unknown);
    }

    fn collectives(&self, pid: u32) -> u64 {
        self.processes.get(&pid).map_or(0, super::Process::collectives)
    }
}

#[cfg(test)]
mod tests;
