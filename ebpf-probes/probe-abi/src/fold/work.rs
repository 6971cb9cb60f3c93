//! Counters of enqueued work, by kind of call and by thread.

use crate::Direction;
use crate::atomic::Relaxed;
use crate::fold::{COUNTERS, Counter, Enqueue, Stamp, StreamFold, mix};
use crate::graph::Contents;
use crate::hot::HotStream;

impl StreamFold {
    /// Returns true if the open segment has no work: [`StreamFold::begin`] must precede the next enqueue.
    #[inline(always)]
    pub fn is_segment_empty(&self) -> bool {
        self.open_segment().ns.load(Relaxed) == 0
    }

    /// Begins the open segment with its first enqueue.
    #[inline(always)]
    pub fn begin(&self, now: &Stamp) {
        self.open_segment().set(now);
        if self.born_ns.load(Relaxed) == 0 {
            self.born_ns.store(now.ns, Relaxed);
        }
        if self.oldest.ns.load(Relaxed) == 0 {
            self.oldest.set(now);
        }
    }

    #[inline(always)]
    fn note_thread(&self, tid: u32) {
        if self.own_thread() != u64::from(tid) {
            self.add(Counter::Foreign, 1);
        }
    }

    /// Returns the thread whose work is not foreign.
    #[inline(always)]
    pub fn own_thread(&self) -> u64 {
        // Not the open segment's thread: after an event recorded by the second thread, its work would not be foreign.
        match self.exit.tid.load(Relaxed) {
            0 => self.oldest.tid.load(Relaxed),
            tid => tid,
        }
    }

    /// Returns a number that stays the same while the thread enqueues nothing. Other threads may increase it if
    /// neither is the stream's own.
    #[inline(always)]
    pub fn enqueued_by(&self, tid: u32) -> u64 {
        let foreign = self.work[Counter::Foreign as usize].load(Relaxed);
        match self.own_thread() == u64::from(tid) {
            true => self.enqueues().wrapping_sub(foreign),
            false => foreign,
        }
    }

    /// Adds and resets the launches counted in the stream's slot.
    #[inline(always)]
    pub fn absorb(&self, hot: &HotStream) {
        if hot.launches.load(Relaxed) == 0 {
            return;
        }
        self.add(Counter::Foreign, hot.foreign.swap(0, Relaxed));
        self.add(Counter::Threads, hot.threads.swap(0, Relaxed));
        self.add(Counter::Functions, hot.functions.swap(0, Relaxed));
        self.absorb_signature(hot);
        self.add(Counter::Launches, hot.launches.swap(0, Relaxed));
    }

    #[inline(always)]
    fn absorb_signature(&self, hot: &HotStream) {
        for (to, from) in self.work[COUNTERS..].iter().zip(&hot.signature) {
            if from.load(Relaxed) != 0 {
                to.fetch_add(from.swap(0, Relaxed), Relaxed);
            }
        }
    }

    /// Counts a kernel launch.
    #[inline(always)]
    pub fn launch(&self, tid: u32, call: &Enqueue) {
        self.note_thread(tid);
        self.add(Counter::Launches, 1);
        self.add(Counter::Threads, call.threads);
        self.add(Counter::Functions, mix(call.identity));
        self.add_function(call.lane);
    }

    /// Counts a launch of a graph with these contents; `None` if they are not known.
    #[inline(always)]
    pub fn launch_graph(&self, tid: u32, call: &Enqueue, graph: Option<&Contents>) {
        self.note_thread(tid);
        self.add(Counter::GraphLaunches, 1);
        self.add(Counter::Graphs, mix(call.identity));
        let Some(graph) = graph else { return };
        // Functions that were seen in a graph are in it, even if some of its contents were not seen.
        self.add_signature(&graph.signature);
        if !graph.is_known() {
            return;
        }
        self.add(Counter::GraphsKnown, 1);
        self.add(Counter::GraphKernels, graph.kernels.load(Relaxed));
        self.add(Counter::GraphThreads, graph.threads.load(Relaxed));
        self.add_some(Counter::GraphForeign, graph.foreign.load(Relaxed));
        self.add_some(Counter::GraphBytes, graph.bytes.load(Relaxed));
        self.add_some(Counter::GraphCollectives, graph.collectives.load(Relaxed));
    }

    /// Counts a copy.
    #[inline(always)]
    pub fn copy(&self, tid: u32, direction: Direction, call: &Enqueue) {
        self.note_thread(tid);
        self.add(Counter::Copies, 1);
        match direction {
            Direction::HostToDevice => self.add(Counter::BytesToDevice, call.bytes),
            Direction::DeviceToHost => self.add(Counter::BytesFromDevice, call.bytes),
            Direction::DeviceToDevice => self.add(Counter::BytesOnDevice, call.bytes),
            Direction::HostToHost | Direction::Unknown => self.add(Counter::BytesElsewhere, call.bytes),
        }
    }

    /// Counts a fill.
    #[inline(always)]
    pub fn fill(&self, tid: u32, call: &Enqueue) {
        self.note_thread(tid);
        self.add(Counter::Enqueues, 1);
        self.add(Counter::BytesFilled, call.bytes);
    }
}
