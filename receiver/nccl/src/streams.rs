//! The streams of one process: pending operations, waits between streams, and coverage by sync calls.
//!
//! A sync call covers operations enqueued on its stream before an instant, and those of streams that this stream waited
//! for by then. PyTorch never waits for its NCCL stream: the compute stream waits for an event (`cudaStreamWaitEvent`),
//! and the host waits for the compute stream. So a stream stores its pending operations and edges to positions of other
//! streams; completion follows these edges.
//!
//! Positions are instants: an operation is before an event if the call that enqueued it began before the call that
//! recorded the event. Capture propagates in the same manner, from stream to event to stream.

use std::collections::{BTreeMap, VecDeque};

use probe_abi::record::StreamKey;

use crate::op::Op;
use crate::registry::MemberKey;

/// Maximum number of edges of a stream to streams that it waits for; the oldest is evicted.
const EDGES_MAX: usize = 16;

/// An operation that no call has waited for yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) member: MemberKey,
    pub(crate) op: Op,
    /// Value of [`crate::finding::Completed::message`].
    pub(crate) message: Option<u64>,
    /// Value of [`crate::observe::Arguments::is_unarmed`].
    pub(crate) is_unarmed: bool,
}

/// An edge: this stream waits for work enqueued on another stream before an instant.
#[derive(Clone, Copy, Debug)]
struct Edge {
    on: StreamKey,
    until_ns: u64,
    since_ns: u64,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    pending: VecDeque<Pending>,
    edges: VecDeque<Edge>,
    /// The capture that this stream is part of.
    capture: Option<u64>,
    used: u64,
}

/// A position of a stream, stored by an event.
#[derive(Clone, Copy, Debug)]
struct Mark {
    stream: StreamKey,
    at_ns: u64,
    capture: Option<u64>,
}

/// An event with its last two records, since it may be recorded again during a wait.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    last: Mark,
    before: Option<Mark>,
}

/// Numbers of evicted items.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Evicted {
    pub(crate) streams: u64,
    pub(crate) events: u64,
    pub(crate) edges: u64,
}

/// Bounds of the streams and events of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) streams: usize,
    pub(crate) pending: usize,
    pub(crate) events: usize,
}

/// The streams and events of a process.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    bounds: Bounds,
    streams: BTreeMap<StreamKey, Stream>,
    events: BTreeMap<u64, Recorded>,
    captures: u64,
    tick: u64,
    /// Streams to complete up to an instant; empty between calls.
    todo: Vec<(StreamKey, u64)>,
    pub(crate) evicted: Evicted,
}

impl Streams {
    pub(crate) fn new(bounds: Bounds) -> Streams {
        Streams {
            bounds,
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            captures: 0,
            tick: 0,
            todo: Vec::new(),
            evicted: Evicted::default(),
        }
    }

    /// Returns true if work enqueued on the stream is captured into a graph.
    pub(crate) fn is_capturing(&self, stream: StreamKey) -> bool {
        self.streams.get(&stream).is_some_and(|s| s.capture.is_some())
    }

    /// Adds an enqueued operation. Dropped operations are appended to `lost`.
    pub(crate) fn push(&mut self, stream: StreamKey, pending: Pending, lost: &mut Vec<Pending>) {
        let max = self.bounds.pending.max(1);
        let queue = &mut self.stream(stream, lost).pending;
        if queue.len() >= max {
            lost.extend(queue.pop_front());
        }
        queue.push_back(pending);
    }

    /// Takes the operations covered by a sync call of the stream that waited for work enqueued before `before_ns`.
    pub(crate) fn close(&mut self, stream: StreamKey, before_ns: u64, into: &mut Vec<Pending>) {
        let mut todo = std::mem::take(&mut self.todo);
        todo.push((stream, before_ns));
        while let Some((stream, before_ns)) = todo.pop() {
            let Some(of) = self.streams.get_mut(&stream) else { continue };
            take_before(&mut of.pending, before_ns, into);
            // Each edge is removed when followed, so the loop ends.
            while let Some(at) = of.edges.iter().position(|e| e.since_ns < before_ns) {
                todo.extend(of.edges.remove(at).map(|e| (e.on, e.until_ns)));
            }
        }
        self.todo = todo;
    }

    /// Takes the operations covered by a wait for an event that began at `entry_ns`. Returns false if its record was
    /// not seen.
    pub(crate) fn close_event(&mut self, event: u64, entry_ns: u64, into: &mut Vec<Pending>) -> bool {
        let Some(mark) = self.mark(event, entry_ns) else { return false };
        self.close(mark.stream, mark.at_ns, into);
        true
    }

    /// Takes the operations of all streams enqueued before `before_ns`.
    pub(crate) fn close_all(&mut self, before_ns: u64, into: &mut Vec<Pending>) {
        for stream in self.streams.values_mut() {
            take_before(&mut stream.pending, before_ns, into);
            stream.edges.retain(|e| e.since_ns >= before_ns);
        }
    }

    pub(crate) fn record(&mut self, event: u64, stream: StreamKey, entry_ns: u64) {
        let capture = self.streams.get(&stream).and_then(|s| s.capture);
        let last = Mark { stream, at_ns: entry_ns, capture };
        let before = self.events.get(&event).map(|e| e.last);
        if before.is_none() && self.events.len() >= self.bounds.events.max(1) {
            self.evict_event();
        }
        self.events.insert(event, Recorded { last, before });
    }

    /// Records that the stream waits for the event. Dropped operations are appended to `lost`.
    pub(crate) fn wait_event(
        &mut self,
        stream: StreamKey,
        event: u64,
        entry_ns: u64,
        lost: &mut Vec<Pending>,
    ) {
        let Some(mark) = self.mark(event, entry_ns) else { return };
        if mark.stream == stream {
            return;
        }
        let edge = Edge { on: mark.stream, until_ns: mark.at_ns, since_ns: entry_ns };
        let of = self.stream(stream, lost);
        if mark.capture.is_some() {
            of.capture = mark.capture;
            return;
        }
        let is_full = of.edges.len() >= EDGES_MAX;
        if is_full {
            of.edges.pop_front();
        }
        of.edges.push_back(edge);
        self.evicted.edges += u64::from(is_full);
    }

    pub(crate) fn begin_capture(&mut self, stream: StreamKey, lost: &mut Vec<Pending>) {
        self.captures += 1;
        let capture = Some(self.captures);
        self.stream(stream, lost).capture = capture;
    }

    /// Ends the capture that the stream is part of, for all its streams and events.
    pub(crate) fn end_capture(&mut self, stream: StreamKey) {
        let Some(capture) = self.streams.get(&stream).and_then(|s| s.capture) else { return };
        for stream in self.streams.values_mut().filter(|s| s.capture == Some(capture)) {
            stream.capture = None;
        }
        self.events.retain(|_, event| event.last.capture != Some(capture));
    }

    /// Removes a stream. Its pending operations are appended to `lost`.
    pub(crate) fn destroy(&mut self, stream: StreamKey, lost: &mut Vec<Pending>) {
        lost.extend(self.streams.remove(&stream).into_iter().flat_map(|s| s.pending));
    }

    pub(crate) fn destroy_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// Returns true if an operation enqueued before this instant is pending.
    pub(crate) fn has_before(&self, before_ns: u64) -> bool {
        self.streams.values().any(|s| s.pending.front().is_some_and(|p| p.op.enqueued_ns < before_ns))
    }

    /// Takes the pending operations enqueued before `before_ns`.
    pub(crate) fn expire(&mut self, before_ns: u64, into: &mut Vec<Pending>) {
        for stream in self.streams.values_mut() {
            while stream.pending.front().is_some_and(|p| p.op.enqueued_ns < before_ns) {
                into.extend(stream.pending.pop_front());
            }
        }
    }

    /// Takes the pending operations of one rank.
    pub(crate) fn remove_of(&mut self, member: MemberKey, into: &mut Vec<Pending>) {
        for stream in self.streams.values_mut() {
            let (gone, kept): (VecDeque<Pending>, VecDeque<Pending>) =
                std::mem::take(&mut stream.pending).into_iter().partition(|p| p.member == member);
            stream.pending = kept;
            into.extend(gone);
        }
    }

    /// Shifts a rank's sequence numbers by `shift`.
    pub(crate) fn renumber(&mut self, member: MemberKey, shift: u64) {
        let pending = self.streams.values_mut().flat_map(|s| &mut s.pending);
        pending.filter(|p| p.member == member).for_each(|p| p.op.seq = p.op.seq.wrapping_add(shift));
    }

    /// Returns the pending operations, stream by stream.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.streams.values().flat_map(|s| &s.pending)
    }

    fn stream(&mut self, key: StreamKey, lost: &mut Vec<Pending>) -> &mut Stream {
        self.tick += 1;
        if !self.streams.contains_key(&key) && self.streams.len() >= self.bounds.streams.max(1) {
            let unused = self.streams.iter().min_by_key(|(_, s)| s.used).map(|(key, _)| *key);
            self.evicted.streams += 1;
            unused.into_iter().for_each(|key| self.destroy(key, lost));
        }
        let stream = self.streams.entry(key).or_default();
        stream.used = self.tick;
        stream
    }

    /// Returns the event's record that a call with entry at `entry_ns` refers to.
    fn mark(&self, event: u64, entry_ns: u64) -> Option<Mark> {
        let recorded = self.events.get(&event)?;
        let is_before = |mark: &Mark| mark.at_ns <= entry_ns;
        Some(recorded.last).filter(is_before).or(recorded.before.filter(is_before))
    }

    fn evict_event(&mut self) {
        let oldest = self.events.iter().min_by_key(|(_, e)| e.last.at_ns).map(|(event, _)| *event);
        self.evicted.events += u64::from(oldest.is_some_and(|event| self.events.remove(&event).is_some()));
    }
}

/// Takes the operations enqueued before an instant. Usually these are all or the head of the queue; calls of two
/// threads on one stream may be out of order.
fn take_before(queue: &mut VecDeque<Pending>, before_ns: u64, into: &mut Vec<Pending>) {
    let is_before = |p: &Pending| p.op.arrival_ns < before_ns;
    while queue.front().is_some_and(is_before) {
        into.extend(queue.pop_front());
    }
    if queue.iter().any(is_before) {
        let (more, kept): (VecDeque<Pending>, _) = std::mem::take(queue).into_iter().partition(is_before);
        *queue = kept;
        into.extend(more);
    }
}
