//! Captures: what is enqueued belongs to a graph, and is no work of a step.
//!
//! A stream is captured by a call of its own, or drawn into the capture of another by waiting for an event that was
//! recorded there. It is not told of the end of that: it keeps whose capture it was, and which, and looks. What is
//! captured is added up on the stream whose capture it is.

use crate::atomic::Relaxed;
use crate::fold::{Counter, Enqueue, Snapshot, StreamFold};
use crate::graph::Contents;
use crate::record::StreamKey;

impl StreamFold {
    /// True while calls are captured into a graph: they are not work, [`StreamFold::capture`] counts them. Where
    /// another stream's capture is told by [`StreamFold::joined`], that must be under way still.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        self.capturing.load(Relaxed) != 0
    }

    /// The thread begins a capture. The process called collectives so often until now; `into` is what the graph holds
    /// that it goes on with, none for a new one.
    #[inline(always)]
    pub fn begin_capture(&self, tid: u32, collectives: u64, into: Option<&Contents>) {
        match into {
            Some(graph) => self.captured.copy(graph),
            None => self.captured.clear(),
        }
        self.captured.collectives.fetch_add(0u64.wrapping_sub(collectives), Relaxed);
        self.capturer.store(u64::from(tid), Relaxed);
        self.captures.fetch_add(1, Relaxed);
        self.capturing.store(1, Relaxed);
    }

    /// A capture ended, this stream's or the one it was drawn into.
    #[inline(always)]
    pub fn end_capture(&self) {
        self.capturing.store(0, Relaxed);
    }

    /// The stream waits for an event that was recorded in a capture: what is enqueued belongs to that capture.
    #[inline(always)]
    pub fn join_capture(&self, event: &Snapshot) {
        if self.capturing.load(Relaxed) != 1 {
            for (to, from) in self.joined.iter().zip([&event.tid, &event.stream, &event.epoch]) {
                to.store(from.load(Relaxed), Relaxed);
            }
            self.capturing.store(2, Relaxed);
        }
    }

    /// The stream, of this process, whose capture this one was drawn into.
    #[inline(always)]
    pub fn joined(&self, pid: u32) -> Option<StreamKey> {
        let [tid, stream, _] = &self.joined;
        let key = StreamKey { pid, tid: tid.load(Relaxed) as u32, stream: stream.load(Relaxed) };
        if self.capturing.load(Relaxed) == 2 { Some(key) } else { None }
    }

    /// True where the capture that this stream was drawn into is `origin`'s and goes on.
    #[inline(always)]
    pub fn is_joined_to(&self, origin: &StreamFold) -> bool {
        origin.capturing.load(Relaxed) == 1 && origin.captures.load(Relaxed) == self.joined[2].load(Relaxed)
    }

    /// An event is recorded while the stream, which `key` names, is captured: it draws those that wait for it in.
    #[inline(always)]
    pub fn snapshot_capture(&self, key: &StreamKey, into: &Snapshot) {
        into.clear(key);
        into.born_ns.store(Snapshot::CAPTURED, Relaxed);
        into.epoch.store(self.captures.load(Relaxed), Relaxed);
        if self.capturing.load(Relaxed) == 2 {
            for (to, from) in [&into.tid, &into.stream, &into.epoch].into_iter().zip(&self.joined) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
    }

    /// What the capture holds that ends now and began on this stream; `None` where its beginning was not seen. The
    /// process called collectives so often until now.
    #[inline(always)]
    pub fn captured(&self, collectives: u64) -> Option<&Contents> {
        if self.capturing.load(Relaxed) != 1 {
            return None;
        }
        self.captured.collectives.fetch_add(collectives, Relaxed);
        Some(&self.captured)
    }

    /// A graph is captured, begun on this stream, to which more is added than is seen.
    #[inline(always)]
    pub fn forget_captured(&self) {
        self.captured.forget();
    }

    /// A kernel is captured by the thread, on this stream or on one that was drawn into its capture.
    #[inline(always)]
    pub fn capture_launch(&self, tid: u32, call: &Enqueue) {
        self.captured.launch(self.capturer.load(Relaxed) != u64::from(tid), call);
    }

    /// The same of a copy or fill.
    #[inline(always)]
    pub fn capture_bytes(&self, bytes: u64) {
        self.captured.move_bytes(bytes);
    }

    /// The same of a launch of a graph, which holds this; `None` where that is not known.
    #[inline(always)]
    pub fn capture_graph(&self, graph: Option<&Contents>) {
        self.captured.embed(graph);
    }

    /// Counts a call that is captured instead of enqueued.
    #[inline(always)]
    pub fn capture(&self) {
        self.add(Counter::Captured, 1);
    }
}
