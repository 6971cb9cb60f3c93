//! What graphs hold, told from the script's side: all that was enqueued between the beginning of a capture and its end.
//!
//! The one idea: a graph is what was captured, as one [`Graphs`]; executable graphs are copies of it, made by
//! instantiation and by update. `None` for a graph that holds something of which nothing is known.

use std::collections::BTreeMap;

use crate::oracle::{Graphs, Work};

/// A capture under way, and what it has come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Capture {
    tid: u32,
    holds: Option<Graphs>,
}

impl Capture {
    /// The thread begins one.
    pub fn begin(tid: u32) -> Capture {
        Capture { tid, holds: Some(Graphs { known: 1, ..Graphs::default() }) }
    }

    /// The thread enqueues into it.
    pub fn add(&mut self, work: &Work, tid: u32) {
        let Some(holds) = self.holds.as_mut().filter(|_| work.graphs.known == work.graph_launches) else {
            self.holds = None;
            return;
        };
        holds.kernels += work.launches + work.graphs.kernels;
        holds.threads = holds.threads.wrapping_add(work.threads).wrapping_add(work.graphs.threads);
        holds.foreign += work.graphs.foreign + if tid == self.tid { 0 } else { work.launches };
        let bytes = work.bytes.iter().fold(work.filled, |sum, bytes| sum.wrapping_add(*bytes));
        holds.bytes = holds.bytes.wrapping_add(bytes).wrapping_add(work.graphs.bytes);
    }

    /// It ended.
    pub fn end(self) -> Option<Graphs> {
        self.holds
    }
}

/// Graphs and executable graphs by their handles.
#[derive(Debug, Default)]
pub struct Holdings {
    graphs: BTreeMap<u64, Graphs>,
    execs: BTreeMap<u64, Graphs>,
}

impl Holdings {
    /// A capture gave this graph.
    pub fn keep(&mut self, graph: u64, holds: Option<Graphs>) {
        put(&mut self.graphs, graph, holds);
    }

    /// The executable graph is what the graph is.
    pub fn instantiate(&mut self, exec: u64, graph: u64) {
        put(&mut self.execs, exec, self.graphs.get(&graph).copied());
    }

    /// The graph is gone.
    pub fn end(&mut self, graph: u64) {
        self.graphs.remove(&graph);
    }

    /// The executable graph is gone.
    pub fn end_exec(&mut self, exec: u64) {
        self.execs.remove(&exec);
    }

    /// What a launch of the executable graph runs.
    pub fn launched(&self, exec: u64) -> Graphs {
        self.execs.get(&exec).copied().unwrap_or_default()
    }
}

fn put(all: &mut BTreeMap<u64, Graphs>, handle: u64, holds: Option<Graphs>) {
    match holds {
        Some(holds) => drop(all.insert(handle, holds)),
        None => drop(all.remove(&handle)),
    }
}
