//! Graphs: what was captured into each, so that a launch of one tells what it runs.
//!
//! The one idea: a graph holds what its capture saw; an executable graph holds what the graph did that it was made of, or
//! last updated with. Calls that make, change and end graphs are rare, so they keep a map of [`Contents`], and a launch
//! adds what it finds there to its stream's counters. A graph of which some was not seen (the agent came later, or a
//! program put it together node by node) is unknown, and so is a launch of it: never nothing.

use crate::atomic::{AtomicU64, Relaxed};
use crate::fold::Enqueue;
use crate::probes::PROBES;

/// Graphs and executable graphs of which it is kept what they hold: an engine that captures in pieces has thousands.
pub const GRAPHS: u32 = 65_536;

/// What a graph holds.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Contents {
    /// Kernels.
    pub kernels: AtomicU64,
    /// Threads that they start.
    pub threads: AtomicU64,
    /// Kernels by another thread than the one that began the capture: a training loop's backward pass.
    pub foreign: AtomicU64,
    /// Bytes copied or filled.
    pub bytes: AtomicU64,
    /// Collectives, sends and receives that the process called meanwhile.
    pub collectives: AtomicU64,
    /// Not 0 where some of it was not seen.
    pub unknown: AtomicU64,
}

impl Contents {
    #[inline(always)]
    fn fields(&self) -> [&AtomicU64; 6] {
        [&self.kernels, &self.threads, &self.foreign, &self.bytes, &self.collectives, &self.unknown]
    }

    /// True where all of it was seen.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.unknown.load(Relaxed) == 0
    }

    /// It holds nothing.
    #[inline(always)]
    pub fn clear(&self) {
        self.fields().into_iter().for_each(|field| field.store(0, Relaxed));
    }

    /// More than was seen is in it.
    #[inline(always)]
    pub fn forget(&self) {
        self.unknown.store(1, Relaxed);
    }

    /// Makes it the same as `other`.
    #[inline(always)]
    pub fn copy(&self, other: &Contents) {
        for (to, from) in self.fields().into_iter().zip(other.fields()) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }

    /// A kernel, by the thread that began the capture or by another.
    #[inline(always)]
    pub fn launch(&self, is_foreign: bool, call: &Enqueue) {
        self.kernels.fetch_add(1, Relaxed);
        self.threads.fetch_add(call.threads, Relaxed);
        self.foreign.fetch_add(u64::from(is_foreign), Relaxed);
    }

    /// A copy or a fill.
    #[inline(always)]
    pub fn move_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// A launch of another graph, which is part of this one from here on; `None` where that is unknown.
    #[inline(always)]
    pub fn embed(&self, child: Option<&Contents>) {
        let Some(child) = child else { return self.forget() };
        for (to, from) in self.fields().into_iter().zip(child.fields()) {
            to.fetch_add(from.load(Relaxed), Relaxed);
        }
    }
}

/// A key of the map of graphs.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(C)]
pub struct GraphKey {
    /// Process id.
    pub pid: u32,
    /// [`GraphKey::GRAPH`] or [`GraphKey::EXEC`].
    pub what: u32,
    /// Its handle.
    pub handle: u64,
}

impl GraphKey {
    /// A graph as it was captured.
    pub const GRAPH: u32 = 0;
    /// An executable graph.
    pub const EXEC: u32 = 1;
}

const fn count_operations() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < PROBES.len() {
        count += PROBES[at].wiring.args.is_operation as usize;
        at += 1;
    }
    count
}

/// Rows that move data between ranks. Who captures a graph counts their calls: what stream they are for only user space
/// knows.
pub const OPERATIONS: [u16; count_operations()] = {
    let (mut ids, mut count, mut at) = ([0; count_operations()], 0, 0);
    while at < PROBES.len() {
        if PROBES[at].wiring.args.is_operation {
            ids[count] = PROBES[at].id;
            count += 1;
        }
        at += 1;
    }
    ids
};

const _: () = assert!(size_of::<GraphKey>() == 16);

#[cfg(test)]
mod tests {
    use super::*;

    fn held(contents: &Contents) -> [u64; 6] {
        contents.fields().map(|field| field.load(Relaxed))
    }

    fn kernel(threads: u64) -> Enqueue {
        Enqueue { threads, ..Enqueue::default() }
    }

    #[test]
    fn a_graph_holds_what_was_captured_and_whose_it_was() {
        let graph = Contents::default();
        graph.launch(false, &kernel(100));
        graph.launch(true, &kernel(50));
        graph.move_bytes(7);
        assert_eq!(held(&graph), [2, 150, 1, 7, 0, 0]);
        let exec = Contents::default();
        exec.copy(&graph);
        assert_eq!(held(&exec), held(&graph));
        exec.clear();
        assert_eq!(held(&exec), [0; 6]);
    }

    #[test]
    fn a_graph_within_a_graph_is_part_of_it_and_an_unknown_one_makes_it_unknown() {
        let (child, parent) = (Contents::default(), Contents::default());
        child.launch(false, &kernel(10));
        parent.launch(false, &kernel(1));
        parent.embed(Some(&child));
        assert_eq!((held(&parent), parent.is_known()), ([2, 11, 0, 0, 0, 0], true));
        parent.embed(None);
        assert!(!parent.is_known());
        let grandparent = Contents::default();
        grandparent.embed(Some(&parent));
        assert!(!grandparent.is_known());
    }

    #[test]
    fn operations_are_the_rows_that_move_data() {
        let symbols = OPERATIONS.map(|id| crate::row(id).unwrap().symbol);
        assert_eq!((symbols[0], symbols[OPERATIONS.len() - 1]), ("ncclAllReduce", "ncclAllToAll"));
        assert!(!symbols.contains(&"ncclGroupStart"));
    }
}
