//! Contents of graphs, so that the launch of a graph counts the work in it.
//!
//! A graph has the contents of its capture; an executable graph has those of the graph that it was instantiated from
//! or last updated with. Calls that create, change and destroy graphs are rare and maintain a map of [`Contents`]; a
//! launch adds the contents to its stream's counters. The contents are unknown if some of them were not seen, because
//! the agent started later or the program added nodes itself; a launch of such a graph counts as unknown, never as
//! empty.

use crate::atomic::{AtomicU64, Relaxed};
use crate::fold::Enqueue;
use crate::function::{SIGNATURE, one, word};
use crate::probes::PROBES;

/// Capacity of the map of graphs. An engine that captures in pieces has thousands.
pub const GRAPHS: u32 = 65_536;

/// Contents of a graph.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Contents {
    /// Kernels.
    pub kernels: AtomicU64,
    /// Threads started by the kernels.
    pub threads: AtomicU64,
    /// Kernels captured by another thread than the one that began the capture, as in a training loop's backward pass.
    pub foreign: AtomicU64,
    /// Bytes copied or filled.
    pub bytes: AtomicU64,
    /// Collectives, sends and receives that the process called during the capture.
    pub collectives: AtomicU64,
    /// Not 0 if some of the contents were not seen.
    pub unknown: AtomicU64,
    /// Kernels by function ([`crate::function`]).
    pub signature: [AtomicU64; SIGNATURE],
}

impl Contents {
    #[inline(always)]
    fn counts(&self) -> [&AtomicU64; 6] {
        [&self.kernels, &self.threads, &self.foreign, &self.bytes, &self.collectives, &self.unknown]
    }

    /// Calls `change` with each field and the same one of `other`.
    #[inline(always)]
    fn with(&self, other: &Contents, change: impl Fn(&AtomicU64, u64)) {
        for (to, from) in self.counts().into_iter().zip(other.counts()) {
            change(to, from.load(Relaxed));
        }
        for (to, from) in self.signature.iter().zip(&other.signature) {
            change(to, from.load(Relaxed));
        }
    }

    /// Returns true if all contents were seen.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.unknown.load(Relaxed) == 0
    }

    /// Removes all contents.
    #[inline(always)]
    pub fn clear(&self) {
        self.counts().into_iter().for_each(|count| count.store(0, Relaxed));
        self.signature.iter().for_each(|lanes| lanes.store(0, Relaxed));
    }

    /// Marks the contents as unknown.
    #[inline(always)]
    pub fn set_unknown(&self) {
        self.unknown.store(1, Relaxed);
    }

    /// Replaces the values by those of `other`.
    #[inline(always)]
    pub fn copy(&self, other: &Contents) {
        self.with(other, |to, value| to.store(value, Relaxed));
    }

    /// Adds a kernel, captured by the thread that began the capture or by another.
    #[inline(always)]
    pub fn launch(&self, is_foreign: bool, call: &Enqueue) {
        self.kernels.fetch_add(1, Relaxed);
        self.threads.fetch_add(call.threads, Relaxed);
        self.foreign.fetch_add(u64::from(is_foreign), Relaxed);
        self.signature[word(call.lane)].fetch_add(one(call.lane), Relaxed);
    }

    /// Adds a copy or a fill.
    #[inline(always)]
    pub fn move_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Adds the contents of a graph that is launched within this one; `None` if they are unknown.
    #[inline(always)]
    pub fn embed(&self, child: Option<&Contents>) {
        let Some(child) = child else { return self.set_unknown() };
        self.with(child, |to, value| {
            to.fetch_add(value, Relaxed);
        });
    }
}

/// Key of the map of graphs.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(C)]
pub struct GraphKey {
    /// Process id.
    pub pid: u32,
    /// [`GraphKey::GRAPH`] or [`GraphKey::EXEC`].
    pub what: u32,
    /// Handle of the graph.
    pub handle: u64,
}

impl GraphKey {
    /// Value of `what` for a graph.
    pub const GRAPH: u32 = 0;
    /// Value of `what` for an executable graph.
    pub const EXEC: u32 = 1;
}

const fn count_operations() -> usize {
    let (mut count, mut at) = (0, 0);
    while at < PROBES.len() {
        count += PROBES[at].wiring.args.is_operation() as usize;
        at += 1;
    }
    count
}

/// Rows that move data between ranks. A capture counts their calls in the whole process, since only user space knows
/// their streams.
pub const OPERATIONS: [u16; count_operations()] = {
    let (mut ids, mut count, mut at) = ([0; count_operations()], 0, 0);
    while at < PROBES.len() {
        if PROBES[at].wiring.args.is_operation() {
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
        contents.counts().map(|count| count.load(Relaxed))
    }

    fn kernel(threads: u64) -> Enqueue {
        Enqueue { threads, ..Enqueue::default() }
    }

    #[test]
    fn contents_count_captured_work_by_thread() {
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
    fn embedded_graphs_are_added_and_unknown_ones_make_unknown() {
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
