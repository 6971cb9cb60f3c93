//! The streams of one process: what is pending on them, what waits for what, and what a closer covers.
//!
//! The one idea: a closer covers what was enqueued on its stream before an instant, and what that stream had by then
//! been told to wait for. PyTorch never waits for its NCCL stream: the compute stream waits for an event of it
//! (`cudaStreamWaitEvent`), and the host waits for the compute stream. So a stream keeps, beside its pending
//! operations, the positions of other streams that it waits for, and closing follows them.
//!
//! Positions are instants: an operation lies before an event if the call that enqueued it began before the call
//! that recorded the event. Capture spreads the same way, from stream to event to stream.

use std::collections::{BTreeMap, VecDeque};

use probe_abi::record::StreamKey;

use crate::member::Member;
use crate::op::Op;
use crate::slab::Key;

/// Streams that a stream waits for and has not been closed for since. Full: the oldest is forgotten.
const EDGES_MAX: usize = 16;

/// An operation that nobody has waited for yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) member: Key<Member>,
    pub(crate) op: Op,
    /// [`crate::finding::Completed::message`].
    pub(crate) message: Option<u64>,
}

/// This stream waits for what was enqueued on another one before an instant.
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

/// A position of a stream, kept by an event.
#[derive(Clone, Copy, Debug)]
struct Mark {
    stream: StreamKey,
    at_ns: u64,
    capture: Option<u64>,
}

/// An event: its last two records, since one may be recorded again while somebody waits for it.
#[derive(Clone, Copy, Debug)]
struct Recorded {
    last: Mark,
    before: Option<Mark>,
}

/// What was forgotten to stay within bounds.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Forgotten {
    pub(crate) streams: u64,
    pub(crate) events: u64,
    pub(crate) edges: u64,
}

/// Bounds.
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
    /// Streams to be closed up to an instant; empty between calls.
    todo: Vec<(StreamKey, u64)>,
    pub(crate) forgotten: Forgotten,
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
            forgotten: Forgotten::default(),
        }
    }

    /// True where what is enqueued on the stream goes into a graph.
    pub(crate) fn is_capturing(&self, stream: StreamKey) -> bool {
        self.streams.get(&stream).is_some_and(|s| s.capture.is_some())
    }

    /// An operation was enqueued. What is no longer followed to make room goes to `lost`.
    pub(crate) fn push(&mut self, stream: StreamKey, pending: Pending, lost: &mut Vec<Pending>) {
        let max = self.bounds.pending.max(1);
        let queue = &mut self.stream(stream, lost).pending;
        if queue.len() >= max {
            lost.extend(queue.pop_front());
        }
        queue.push_back(pending);
    }

    /// Takes what a closer of the stream covers that waited for what was enqueued before `before_ns`.
    pub(crate) fn close(&mut self, stream: StreamKey, before_ns: u64, into: &mut Vec<Pending>) {
        let mut todo = std::mem::take(&mut self.todo);
        todo.push((stream, before_ns));
        while let Some((stream, before_ns)) = todo.pop() {
            let Some(of) = self.streams.get_mut(&stream) else { continue };
            take_before(&mut of.pending, before_ns, into);
            // An edge is followed once and gone, so this ends.
            while let Some(at) = of.edges.iter().position(|e| e.since_ns < before_ns) {
                todo.extend(of.edges.remove(at).map(|e| (e.on, e.until_ns)));
            }
        }
        self.todo = todo;
    }

    /// The same for a wait for an event that began at `entry_ns`. False where its record was not seen.
    pub(crate) fn close_event(&mut self, event: u64, entry_ns: u64, into: &mut Vec<Pending>) -> bool {
        let Some(mark) = self.mark(event, entry_ns) else { return false };
        self.close(mark.stream, mark.at_ns, into);
        true
    }

    /// The same for all streams.
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
            self.forget_event();
        }
        self.events.insert(event, Recorded { last, before });
    }

    /// The stream waits for the event from here on. What had to be forgotten for it goes to `lost`.
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
        self.forgotten.edges += u64::from(is_full);
    }

    pub(crate) fn begin_capture(&mut self, stream: StreamKey, lost: &mut Vec<Pending>) {
        self.captures += 1;
        let capture = Some(self.captures);
        self.stream(stream, lost).capture = capture;
    }

    /// The capture that the stream is part of ends, for all its streams and events.
    pub(crate) fn end_capture(&mut self, stream: StreamKey) {
        let Some(capture) = self.streams.get(&stream).and_then(|s| s.capture) else { return };
        for stream in self.streams.values_mut().filter(|s| s.capture == Some(capture)) {
            stream.capture = None;
        }
        self.events.retain(|_, event| event.last.capture != Some(capture));
    }

    /// The stream is gone. What was pending on it goes to `lost`.
    pub(crate) fn destroy(&mut self, stream: StreamKey, lost: &mut Vec<Pending>) {
        lost.extend(self.streams.remove(&stream).into_iter().flat_map(|s| s.pending));
    }

    pub(crate) fn destroy_event(&mut self, event: u64) {
        self.events.remove(&event);
    }

    /// True where something enqueued before is still pending.
    pub(crate) fn has_before(&self, before_ns: u64) -> bool {
        self.streams.values().any(|s| s.pending.front().is_some_and(|p| p.op.enqueued_ns < before_ns))
    }

    /// Takes what was enqueued before `before_ns` and is still pending.
    pub(crate) fn expire(&mut self, before_ns: u64, into: &mut Vec<Pending>) {
        for stream in self.streams.values_mut() {
            while stream.pending.front().is_some_and(|p| p.op.enqueued_ns < before_ns) {
                into.extend(stream.pending.pop_front());
            }
        }
    }

    /// Takes what is pending of one rank.
    pub(crate) fn remove_of(&mut self, member: Key<Member>, into: &mut Vec<Pending>) {
        for stream in self.streams.values_mut() {
            let (gone, kept): (VecDeque<Pending>, VecDeque<Pending>) =
                std::mem::take(&mut stream.pending).into_iter().partition(|p| p.member == member);
            stream.pending = kept;
            into.extend(gone);
        }
    }

    /// A rank's sequence numbers are others: `shift` further on.
    pub(crate) fn renumber(&mut self, member: Key<Member>, shift: u64) {
        let pending = self.streams.values_mut().flat_map(|s| &mut s.pending);
        pending.filter(|p| p.member == member).for_each(|p| p.op.seq = p.op.seq.wrapping_add(shift));
    }

    /// What is pending, stream by stream.
    pub(crate) fn pending(&self) -> impl Iterator<Item = &Pending> {
        self.streams.values().flat_map(|s| &s.pending)
    }

    fn stream(&mut self, key: StreamKey, lost: &mut Vec<Pending>) -> &mut Stream {
        self.tick += 1;
        if !self.streams.contains_key(&key) && self.streams.len() >= self.bounds.streams.max(1) {
            let unused = self.streams.iter().min_by_key(|(_, s)| s.used).map(|(key, _)| *key);
            self.forgotten.streams += 1;
            unused.into_iter().for_each(|key| self.destroy(key, lost));
        }
        let stream = self.streams.entry(key).or_default();
        stream.used = self.tick;
        stream
    }

    /// The event's record that a call begun at `entry_ns` meant.
    fn mark(&self, event: u64, entry_ns: u64) -> Option<Mark> {
        let recorded = self.events.get(&event)?;
        let is_before = |mark: &Mark| mark.at_ns <= entry_ns;
        Some(recorded.last).filter(is_before).or(recorded.before.filter(is_before))
    }

    fn forget_event(&mut self) {
        let oldest = self.events.iter().min_by_key(|(_, e)| e.last.at_ns).map(|(event, _)| *event);
        self.forgotten.events += u64::from(oldest.is_some_and(|event| self.events.remove(&event).is_some()));
    }
}

/// Takes the operations enqueued before an instant. Nearly always these are all or a head of the queue; two threads
/// on one stream may be out of order.
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
