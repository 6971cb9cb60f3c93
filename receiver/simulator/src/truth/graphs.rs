//! The expected contents of graphs: the work enqueued between the beginning and the end of each capture.
//!
//! Executable graphs are copies of a graph's contents, made by instantiation and update. The contents are `None` if they
//! include a graph with unknown contents.

use std::collections::BTreeMap;

use crate::oracle::{EnqueuedWork, Graphs};

/// A capture in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct GraphCapture {
    tid: u32,
    contents: Option<Graphs>,
}

impl GraphCapture {
    /// Begins a capture by a thread.
    pub fn begin(tid: u32) -> GraphCapture {
        GraphCapture { tid, contents: Some(Graphs { known: 1, ..Graphs::default() }) }
    }

    /// Adds work that a thread enqueued.
    pub fn add(&mut self, work: &EnqueuedWork, tid: u32) {
        let Some(contents) = self.contents.as_mut().filter(|_| work.graphs.known == work.graph_launches)
        else {
            self.contents = None;
            return;
        };
        contents.kernels += work.launches + work.graphs.kernels;
        contents.threads = contents.threads.wrapping_add(work.threads).wrapping_add(work.graphs.threads);
        contents.foreign += work.graphs.foreign + if tid == self.tid { 0 } else { work.launches };
        let bytes = work.bytes.iter().fold(work.filled, |sum, bytes| sum.wrapping_add(*bytes));
        contents.bytes = contents.bytes.wrapping_add(bytes).wrapping_add(work.graphs.bytes);
    }

    /// Ends the capture and returns its contents.
    pub fn end(self) -> Option<Graphs> {
        self.contents
    }
}

/// The contents of graphs and executable graphs by handle.
#[derive(Debug, Default)]
pub struct GraphContents {
    graphs: BTreeMap<u64, Graphs>,
    execs: BTreeMap<u64, Graphs>,
}

impl GraphContents {
    /// Stores the contents of a captured graph.
    pub fn store(&mut self, graph: u64, contents: Option<Graphs>) {
        put(&mut self.graphs, graph, contents);
    }

    /// Copies the contents of a graph to an executable graph.
    pub fn instantiate(&mut self, exec: u64, graph: u64) {
        put(&mut self.execs, exec, self.graphs.get(&graph).copied());
    }

    /// Removes a graph.
    pub fn remove(&mut self, graph: u64) {
        self.graphs.remove(&graph);
    }

    /// Removes an executable graph.
    pub fn remove_exec(&mut self, exec: u64) {
        self.execs.remove(&exec);
    }

    /// Returns the contents of an executable graph.
    pub fn launched(&self, exec: u64) -> Graphs {
        self.execs.get(&exec).copied().unwrap_or_default()
    }
}

fn put(all: &mut BTreeMap<u64, Graphs>, handle: u64, contents: Option<Graphs>) {
    match contents {
        Some(contents) => drop(all.insert(handle, contents)),
        None => drop(all.remove(&handle)),
    }
}
