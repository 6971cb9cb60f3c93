//! Captures: calls that add to a graph instead of enqueuing work.
//!
//! A stream is captured by a call of its own, or joins the capture of another by waiting for an event that was
//! recorded in it. A joined stream is not notified of the end of the capture; it stores which capture it joined and
//! checks lazily. Contents are added up on the stream on which the capture began.

use crate::atomic::Relaxed;
use crate::fold::{Counter, Enqueue, Snapshot, StreamFold};
use crate::graph::Contents;
use crate::record::StreamKey;

impl StreamFold {
    /// Returns true while calls are captured. They are not work; [`StreamFold::capture`] counts them. If the stream
    /// joined another's capture ([`StreamFold::joined`]), the caller checks that it is still under way.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        self.capturing.load(Relaxed) != 0
    }

    /// Begins a capture by the thread. `collectives` is the number that the process called so far; `into` has the
    /// contents of the graph that the capture continues, `None` for a new one.
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

    /// Ends the stream's capture, its own or one that it joined.
    #[inline(always)]
    pub fn end_capture(&self) {
        self.capturing.store(0, Relaxed);
    }

    /// Joins the capture in which the event was recorded.
    #[inline(always)]
    pub fn join_capture(&self, event: &Snapshot) {
        if self.capturing.load(Relaxed) != 1 {
            for (to, from) in self.joined.iter().zip([&event.tid, &event.stream, &event.epoch]) {
                to.store(from.load(Relaxed), Relaxed);
            }
            self.capturing.store(2, Relaxed);
        }
    }

    /// Returns the stream, of process `pid`, whose capture this one joined.
    #[inline(always)]
    pub fn joined(&self, pid: u32) -> Option<StreamKey> {
        let [tid, stream, _] = &self.joined;
        let key = StreamKey { pid, tid: tid.load(Relaxed) as u32, stream: stream.load(Relaxed) };
        if self.capturing.load(Relaxed) == 2 { Some(key) } else { None }
    }

    /// Returns true if this stream joined a capture of `origin` that is still under way.
    #[inline(always)]
    pub fn is_joined_to(&self, origin: &StreamFold) -> bool {
        origin.capturing.load(Relaxed) == 1 && origin.captures.load(Relaxed) == self.joined[2].load(Relaxed)
    }

    /// Takes a snapshot for an event recorded during a capture; streams that wait for the event join the capture.
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

    /// Returns the contents of the capture that ends now and began on this stream; `None` if its begin was not seen.
    /// `collectives` is the number that the process called so far.
    #[inline(always)]
    pub fn captured(&self, collectives: u64) -> Option<&Contents> {
        if self.capturing.load(Relaxed) != 1 {
            return None;
        }
        self.captured.collectives.fetch_add(collectives, Relaxed);
        Some(&self.captured)
    }

    /// Marks the captured contents as unknown.
    #[inline(always)]
    pub fn set_captured_unknown(&self) {
        self.captured.set_unknown();
    }

    /// Adds a kernel captured by the thread, on this stream or on one that joined.
    #[inline(always)]
    pub fn capture_launch(&self, tid: u32, call: &Enqueue) {
        self.captured.launch(self.capturer.load(Relaxed) != u64::from(tid), call);
    }

    /// Adds a captured copy or fill.
    #[inline(always)]
    pub fn capture_bytes(&self, bytes: u64) {
        self.captured.move_bytes(bytes);
    }

    /// Adds a captured launch of a graph with these contents; `None` if they are not known.
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
