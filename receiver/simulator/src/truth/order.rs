//! The work of all streams that a sync call covers, by the rules of CUDA's programming guide.
//!
//! A stream is a list of work and of waits for events, and an event is a position in a list. A sync call covers everything
//! before its position, and before the positions that it reaches by waits. The lists are walked at every sync call; the
//! agent maintains a frontier instead.
//!
//! Blocking streams and the legacy default stream wait for each other (CUDA programming guide, "Implicit
//! synchronization"): a call on one waits for all earlier work on the others.

use std::collections::{BTreeMap, VecDeque};

use super::graphs::{GraphCapture, GraphContents};
use super::{StepLabel, StreamTruth};
use crate::oracle::{EnqueuedWork, StepLine};

/// Waits stored per stream; the oldest is dropped when one more is added.
const WAITS_MAX: usize = 4_096;

/// A stream of a script, or a default stream of a thread or device.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct StreamId {
    /// Index in the script; 0 for default streams.
    pub index: usize,
    /// Thread of a per-thread default stream; 0 for others.
    pub tid: u32,
    /// Device of a default stream; 0 for others.
    pub device: u64,
}

impl StreamId {
    /// The legacy default stream of the first device.
    pub const LEGACY: StreamId = StreamId { index: 0, tid: 0, device: 0 };

    fn is_legacy(&self) -> bool {
        self.index == 0 && self.tid == 0
    }
}

/// A position in a stream's list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamPosition {
    stream: StreamId,
    /// Generation of the stream, since names are reused.
    generation: u64,
    /// Number of segments before it.
    until: u64,
    /// Number of waits before it.
    waits: u64,
}

/// The record of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RecordedEvent {
    /// Recorded at a position.
    Recorded(StreamPosition),
    /// Recorded in a capture: the stream that the capture began on, and its number.
    Captured(StreamId, u64),
}

#[derive(Debug, Default)]
struct Stream {
    work: StreamTruth,
    generation: u64,
    waits: VecDeque<StreamPosition>,
    /// Number of waits dropped or ended.
    ended_waits: u64,
    captures: u64,
    capture: Option<(StreamId, u64)>,
    /// The last capture that began on this stream.
    captured: GraphCapture,
    device: u64,
    is_blocking: bool,
    is_polled: bool,
}

/// The expected order of all streams of a process.
#[derive(Debug, Default)]
pub struct Truth {
    streams: BTreeMap<StreamId, Stream>,
    steps: u64,
    /// The device that was set first.
    first_device: Option<u64>,
    /// Contents of graphs.
    pub graphs: GraphContents,
}

impl Truth {
    /// Returns the label of a new step.
    pub fn label(&mut self, phase: &str) -> StepLabel {
        self.steps += 1;
        StepLabel { step: self.steps - 1, phase: phase.to_string(), fault: String::new() }
    }

    /// Adds a fault to a step.
    pub fn fault(&mut self, step: u64, fault: &str) {
        self.streams.values_mut().for_each(|s| s.work.fault(step, fault));
    }

    /// Creates a stream; open work of an earlier one of this name is dropped.
    pub fn create(&mut self, id: StreamId, device: u64, is_blocking: bool) {
        let generation = self.streams.get(&id).map_or(0, |s| s.generation + 1);
        self.streams.insert(id, Stream { generation, device, is_blocking, ..Stream::default() });
    }

    /// Destroys a stream.
    pub fn destroy(&mut self, id: StreamId) {
        let stream = self.stream(id);
        stream.work.destroy();
        stream.waits.clear();
        stream.generation += 1;
    }

    /// Sets the device of a thread.
    pub fn choose(&mut self, device: u64) {
        self.first_device.get_or_insert(device);
    }

    /// Returns the external handle of a default stream: its thread in the upper half; in the lower half 0 for the device
    /// that was set first, and 0x1000 with the number of the device for others.
    pub fn number(&self, id: &StreamId) -> u64 {
        let is_first = self.first_device.is_none_or(|first| first == id.device);
        u64::from(id.tid) << 32 | if is_first { 0 } else { 0x1000 | id.device }
    }

    /// Adds work to a stream, or to the capture in progress.
    pub fn enqueue(
        &mut self,
        id: StreamId,
        work: &EnqueuedWork,
        label: Option<&StepLabel>,
        entry_ns: u64,
        tid: u32,
    ) {
        match self.capture(id) {
            Some((origin, _)) => self.stream(origin).captured.add(work, tid),
            None => {
                self.synchronize(id);
                self.stream(id).work.enqueue(work, label, entry_ns, tid);
            }
        }
    }

    /// Records an event.
    pub fn record(&mut self, id: StreamId) -> RecordedEvent {
        match self.capture(id) {
            Some((origin, capture)) => RecordedEvent::Captured(origin, capture),
            None => RecordedEvent::Recorded(self.now(id)),
        }
    }

    /// Makes a stream wait for an event.
    pub fn wait(&mut self, id: StreamId, event: &RecordedEvent) {
        match *event {
            RecordedEvent::Captured(origin, capture) if id != origin => {
                self.stream(id).capture = Some((origin, capture));
            }
            RecordedEvent::Captured(..) => {}
            RecordedEvent::Recorded(_) if self.capture(id).is_some() => {}
            RecordedEvent::Recorded(position) => self.push_wait(id, position),
        }
    }

    /// Begins a capture by a thread.
    pub fn begin_capture(&mut self, id: StreamId, tid: u32) {
        let stream = self.stream(id);
        stream.captured = GraphCapture::begin(tid);
        stream.captures += 1;
        stream.capture = Some((id, stream.captures));
    }

    /// Ends the capture that began on a stream and stores the graph.
    pub fn end_capture(&mut self, id: StreamId, graph: u64) {
        let stream = self.stream(id);
        stream.capture = None;
        let holds = stream.captured.end();
        self.graphs.store(graph, holds);
    }

    /// Returns the current position of a stream.
    pub fn now(&mut self, id: StreamId) -> StreamPosition {
        self.synchronize(id);
        self.end(id)
    }

    /// Returns the current position of every stream of a device.
    pub fn now_of_device(&mut self, device: u64) -> Vec<StreamPosition> {
        let all: Vec<StreamId> =
            self.streams.iter().filter(|(_, s)| s.device == device).map(|(id, _)| *id).collect();
        all.into_iter().map(|id| self.now(id)).collect()
    }

    /// Returns true if a query ended the last step of the stream.
    pub fn is_polled(&self, position: &StreamPosition) -> bool {
        self.streams.get(&position.stream).is_some_and(|s| s.is_polled)
    }

    /// Ends the steps that a sync call of these positions covers, and returns them by stream.
    pub fn close(&mut self, positions: &[StreamPosition], is_poll: bool) -> Vec<(StreamId, StepLine)> {
        let mut reached: BTreeMap<StreamId, (u64, u64)> = BTreeMap::new();
        positions.iter().for_each(|position| self.reach(*position, &mut reached));
        let mut steps = Vec::new();
        for (id, (until, waits)) in reached {
            let stream = self.stream(id);
            let gone = waits.saturating_sub(stream.ended_waits).min(stream.waits.len() as u64);
            stream.waits.drain(..gone as usize);
            stream.ended_waits += gone;
            if let Some(step) = stream.work.close(until) {
                stream.is_polled = is_poll;
                steps.push((id, step));
            }
        }
        steps
    }

    fn reach(&self, position: StreamPosition, reached: &mut BTreeMap<StreamId, (u64, u64)>) {
        let Some(stream) = self.streams.get(&position.stream).filter(|s| s.generation == position.generation)
        else {
            return;
        };
        let (until, seen) = reached.entry(position.stream).or_default();
        *until = position.until.max(*until);
        let from = (*seen).max(stream.ended_waits);
        *seen = position.waits.max(*seen);
        for at in from..position.waits {
            if let Some(wait) = stream.waits.get((at - stream.ended_waits) as usize) {
                self.reach(*wait, reached);
            }
        }
    }

    fn stream(&mut self, id: StreamId) -> &mut Stream {
        let is_own_default = id.tid != 0;
        let new = || Stream { is_blocking: is_own_default, device: id.device, ..Stream::default() };
        self.streams.entry(id).or_insert_with(new)
    }

    /// Returns the capture in progress that the stream is part of.
    fn capture(&mut self, id: StreamId) -> Option<(StreamId, u64)> {
        let (origin, capture) = self.stream(id).capture?;
        let continues = self.stream(origin).capture == Some((origin, capture));
        if !continues {
            self.stream(id).capture = None;
        }
        continues.then_some((origin, capture))
    }

    fn end(&mut self, id: StreamId) -> StreamPosition {
        let stream = self.stream(id);
        let waits = stream.ended_waits + stream.waits.len() as u64;
        StreamPosition { stream: id, generation: stream.generation, until: stream.work.record(), waits }
    }

    fn push_wait(&mut self, id: StreamId, position: StreamPosition) {
        let stream = self.stream(id);
        if position.stream == id || stream.waits.back() == Some(&position) {
            return;
        }
        if stream.waits.len() >= WAITS_MAX {
            stream.waits.pop_front();
            stream.ended_waits += 1;
        }
        // Later work waits, earlier work does not.
        stream.work.record();
        stream.waits.push_back(position);
    }

    /// Adds the waits between blocking streams and the legacy default stream.
    fn synchronize(&mut self, id: StreamId) {
        let Stream { is_blocking, device, .. } = *self.stream(id);
        let of_device = self.streams.iter().filter(|(other, s)| s.device == device && **other != id);
        let waits = |(other, s): &(&StreamId, &Stream)| match id.is_legacy() {
            true => s.is_blocking,
            false => is_blocking && other.is_legacy(),
        };
        let others: Vec<StreamId> = of_device.filter(waits).map(|(other, _)| *other).collect();
        for other in others {
            let position = self.end(other);
            self.push_wait(id, position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: StreamId = StreamId { index: 1, tid: 0, device: 0 };
    const SIDE: StreamId = StreamId { index: 2, tid: 0, device: 0 };
    const THIRD: StreamId = StreamId { index: 3, tid: 0, device: 0 };

    fn launch(truth: &mut Truth, id: StreamId) {
        truth.enqueue(id, &EnqueuedWork { enqueues: 1, ..EnqueuedWork::default() }, None, 10, 1);
    }

    fn closed(truth: &mut Truth, positions: &[StreamPosition]) -> Vec<(usize, u64)> {
        truth.close(positions, false).iter().map(|(id, s)| (id.index, s.work.enqueues)).collect()
    }

    #[test]
    fn wait_covers_streams_waited_for_transitively() {
        let mut truth = Truth::default();
        launch(&mut truth, MAIN);
        let first = truth.record(MAIN);
        launch(&mut truth, MAIN);
        truth.wait(SIDE, &first);
        let second = truth.record(SIDE);
        truth.wait(THIRD, &second);
        launch(&mut truth, THIRD);
        let now = truth.now(THIRD);
        assert_eq!(closed(&mut truth, &[now]), [(1, 1), (3, 1)]);
        let now = truth.now(MAIN);
        assert_eq!(closed(&mut truth, &[now]), [(1, 1)]);
    }

    #[test]
    fn event_recorded_before_a_wait_covers_only_its_stream() {
        let mut truth = Truth::default();
        launch(&mut truth, MAIN);
        let main = truth.record(MAIN);
        launch(&mut truth, SIDE);
        let RecordedEvent::Recorded(before) = truth.record(SIDE) else { panic!("no capture") };
        truth.wait(SIDE, &main);
        assert_eq!(closed(&mut truth, &[before]), [(2, 1)]);
        let now = truth.now(SIDE);
        assert_eq!(closed(&mut truth, &[now]), [(1, 1)]);
    }

    #[test]
    fn legacy_default_stream_and_blocking_streams_wait_for_each_other() {
        let mut truth = Truth::default();
        truth.create(MAIN, 0, true);
        truth.create(SIDE, 0, false);
        [MAIN, SIDE, StreamId::LEGACY].into_iter().for_each(|id| launch(&mut truth, id));
        launch(&mut truth, MAIN);
        let legacy = truth.now(StreamId::LEGACY);
        assert_eq!(closed(&mut truth, &[legacy]), [(0, 1), (1, 2)]);
        launch(&mut truth, StreamId::LEGACY);
        let main = truth.now(MAIN);
        assert_eq!(closed(&mut truth, &[main]), [(0, 1)]);
    }

    #[test]
    fn device_sync_covers_only_streams_of_the_device() {
        let mut truth = Truth::default();
        truth.create(MAIN, 0, false);
        truth.create(SIDE, 1, false);
        [MAIN, SIDE].into_iter().for_each(|id| launch(&mut truth, id));
        for (device, expected) in [(1, (2, 1)), (0, (1, 1))] {
            let now = truth.now_of_device(device);
            assert_eq!(closed(&mut truth, &now), [expected]);
        }
    }

    #[test]
    fn captured_work_is_not_counted_on_any_stream() {
        let mut truth = Truth::default();
        truth.begin_capture(MAIN, 1);
        let fork = truth.record(MAIN);
        truth.wait(SIDE, &fork);
        launch(&mut truth, SIDE);
        truth.end_capture(MAIN, 0xabc);
        launch(&mut truth, SIDE);
        let now = truth.now(SIDE);
        assert_eq!(closed(&mut truth, &[now]), [(2, 1)]);
    }

    #[test]
    fn stream_recreated_under_a_name_is_another_stream() {
        let mut truth = Truth::default();
        launch(&mut truth, MAIN);
        let RecordedEvent::Recorded(event) = truth.record(MAIN) else { panic!("no capture") };
        truth.destroy(MAIN);
        truth.create(MAIN, 0, false);
        launch(&mut truth, MAIN);
        assert_eq!(closed(&mut truth, &[event]), []);
    }
}
