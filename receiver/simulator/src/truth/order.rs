//! Which work of which streams a wait covers: the rules of CUDA, in the words of its manual.
//!
//! The one idea: what a stream does is a list, of work and of waits for events, and an event is a place in a list. A wait
//! of the host covers all that stands before its place, and before the places that it comes to by waits, however
//! many. Nothing is summed up beforehand, as the code under test does; the lists are walked at every wait.
//!
//! Blocking streams and the legacy default stream wait for each other by themselves (CUDA programming guide, "Implicit
//! synchronization"): whatever is done on the one waits for all that was done on the others before.

use std::collections::{BTreeMap, VecDeque};

use super::graphs::{Capture, Holdings};
use super::{Label, StreamTruth};
use crate::oracle::{StepLine, Work};

/// Waits of a stream that are remembered.
const WAITS_MAX: usize = 4_096;

/// A stream: its place in the script, and the thread whose default stream it is, 0 for others.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct StreamId {
    /// In the script's list; 0 for default streams.
    pub place: usize,
    /// The thread.
    pub tid: u32,
    /// The device, of a default stream; 0 of others.
    pub device: u64,
}

impl StreamId {
    /// The legacy default stream of the first device.
    pub const LEGACY: StreamId = StreamId { place: 0, tid: 0, device: 0 };

    fn is_legacy(&self) -> bool {
        self.place == 0 && self.tid == 0
    }
}

/// A place in a stream's list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Instant {
    stream: StreamId,
    /// Which of the streams that had this name.
    life: u64,
    /// Segments before it.
    until: u64,
    /// Waits before it.
    waits: u64,
}

/// What an event stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// It was recorded at this instant.
    Recorded(Instant),
    /// It was recorded in a capture: the stream that it began on, and which of its captures.
    Captured(StreamId, u64),
}

#[derive(Debug, Default)]
struct Stream {
    work: StreamTruth,
    life: u64,
    waits: VecDeque<Instant>,
    /// Waits that are forgotten, since all that they lead to is closed.
    forgotten: u64,
    captures: u64,
    capture: Option<(StreamId, u64)>,
    /// Of the last capture that began on this stream.
    captured: Capture,
    device: u64,
    is_blocking: bool,
    is_polled: bool,
}

/// All streams of a process.
#[derive(Debug, Default)]
pub struct Truth {
    streams: BTreeMap<StreamId, Stream>,
    steps: u64,
    /// The device that a thread chose before others.
    first_device: Option<u64>,
    /// What graphs hold.
    pub graphs: Holdings,
}

impl Truth {
    /// A `step` begins.
    pub fn label(&mut self, phase: &str) -> Label {
        self.steps += 1;
        Label { step: self.steps - 1, phase: phase.to_string(), fault: String::new() }
    }

    /// The step gets a fault.
    pub fn fault(&mut self, step: u64, fault: &str) {
        self.streams.values_mut().for_each(|s| s.work.fault(step, fault));
    }

    /// A stream is made; what the one before it under this name had open, nobody can wait for.
    pub fn create(&mut self, id: StreamId, device: u64, is_blocking: bool) {
        let life = self.streams.get(&id).map_or(0, |s| s.life + 1);
        self.streams.insert(id, Stream { life, device, is_blocking, ..Stream::default() });
    }

    /// The stream is destroyed.
    pub fn forget(&mut self, id: StreamId) {
        let stream = self.stream(id);
        stream.work.forget();
        stream.waits.clear();
        stream.life += 1;
    }

    /// A thread chooses a device.
    pub fn choose(&mut self, device: u64) {
        self.first_device.get_or_insert(device);
    }

    /// By what a default stream is told: the thread it belongs to above, below 0 for the device that was chosen first, and
    /// 0x1000 with the number of any other.
    pub fn number(&self, id: &StreamId) -> u64 {
        let is_first = self.first_device.is_none_or(|first| first == id.device);
        u64::from(id.tid) << 32 | if is_first { 0 } else { 0x1000 | id.device }
    }

    /// Work was enqueued; captured, it is none.
    pub fn enqueue(&mut self, id: StreamId, work: &Work, label: Option<&Label>, entry_ns: u64, tid: u32) {
        match self.capture(id) {
            Some((origin, _)) => self.stream(origin).captured.add(work, tid),
            None => {
                self.join(id);
                self.stream(id).work.enqueue(work, label, entry_ns, tid);
            }
        }
    }

    /// An event is recorded.
    pub fn record(&mut self, id: StreamId) -> Event {
        match self.capture(id) {
            Some((origin, capture)) => Event::Captured(origin, capture),
            None => Event::Recorded(self.now(id)),
        }
    }

    /// The stream waits for an event.
    pub fn wait(&mut self, id: StreamId, event: &Event) {
        match *event {
            Event::Captured(origin, capture) if id != origin => {
                self.stream(id).capture = Some((origin, capture));
            }
            Event::Captured(..) => {}
            Event::Recorded(_) if self.capture(id).is_some() => {}
            Event::Recorded(instant) => self.push_wait(id, instant),
        }
    }

    /// The thread begins a capture.
    pub fn begin_capture(&mut self, id: StreamId, tid: u32) {
        let stream = self.stream(id);
        stream.captured = Capture::begin(tid);
        stream.captures += 1;
        stream.capture = Some((id, stream.captures));
    }

    /// The capture that began on the stream ends and gives this graph.
    pub fn end_capture(&mut self, id: StreamId, graph: u64) {
        let stream = self.stream(id);
        stream.capture = None;
        let holds = stream.captured.end();
        self.graphs.keep(graph, holds);
    }

    /// All that the stream was given so far.
    pub fn now(&mut self, id: StreamId) -> Instant {
        self.join(id);
        self.end(id)
    }

    /// The same of every stream of a device.
    pub fn now_of_device(&mut self, device: u64) -> Vec<Instant> {
        let all: Vec<StreamId> =
            self.streams.iter().filter(|(_, s)| s.device == device).map(|(id, _)| *id).collect();
        all.into_iter().map(|id| self.now(id)).collect()
    }

    /// True where the stream's last step was ended by a thread that polled.
    pub fn is_polled(&self, instant: &Instant) -> bool {
        self.streams.get(&instant.stream).is_some_and(|s| s.is_polled)
    }

    /// The host waited for these instants: the steps that this ends, by stream.
    pub fn close(&mut self, instants: &[Instant], is_poll: bool) -> Vec<(StreamId, StepLine)> {
        let mut reached: BTreeMap<StreamId, (u64, u64)> = BTreeMap::new();
        instants.iter().for_each(|instant| self.reach(*instant, &mut reached));
        let mut steps = Vec::new();
        for (id, (until, waits)) in reached {
            let stream = self.stream(id);
            let gone = waits.saturating_sub(stream.forgotten).min(stream.waits.len() as u64);
            stream.waits.drain(..gone as usize);
            stream.forgotten += gone;
            if let Some(step) = stream.work.close(until) {
                stream.is_polled = is_poll;
                steps.push((id, step));
            }
        }
        steps
    }

    fn reach(&self, instant: Instant, reached: &mut BTreeMap<StreamId, (u64, u64)>) {
        let Some(stream) = self.streams.get(&instant.stream).filter(|s| s.life == instant.life) else {
            return;
        };
        let (until, seen) = reached.entry(instant.stream).or_default();
        *until = instant.until.max(*until);
        let from = (*seen).max(stream.forgotten);
        *seen = instant.waits.max(*seen);
        for at in from..instant.waits {
            if let Some(wait) = stream.waits.get((at - stream.forgotten) as usize) {
                self.reach(*wait, reached);
            }
        }
    }

    fn stream(&mut self, id: StreamId) -> &mut Stream {
        let is_own_default = id.tid != 0;
        let new = || Stream { is_blocking: is_own_default, device: id.device, ..Stream::default() };
        self.streams.entry(id).or_insert_with(new)
    }

    /// The capture that the stream is in, if that goes on.
    fn capture(&mut self, id: StreamId) -> Option<(StreamId, u64)> {
        let (origin, capture) = self.stream(id).capture?;
        let goes_on = self.stream(origin).capture == Some((origin, capture));
        if !goes_on {
            self.stream(id).capture = None;
        }
        goes_on.then_some((origin, capture))
    }

    fn end(&mut self, id: StreamId) -> Instant {
        let stream = self.stream(id);
        let waits = stream.forgotten + stream.waits.len() as u64;
        Instant { stream: id, life: stream.life, until: stream.work.record(), waits }
    }

    fn push_wait(&mut self, id: StreamId, instant: Instant) {
        let stream = self.stream(id);
        if instant.stream == id || stream.waits.back() == Some(&instant) {
            return;
        }
        if stream.waits.len() >= WAITS_MAX {
            stream.waits.pop_front();
            stream.forgotten += 1;
        }
        // What is enqueued from here on waits, what is there does not.
        stream.work.record();
        stream.waits.push_back(instant);
    }

    /// Blocking streams and the legacy default stream wait for each other.
    fn join(&mut self, id: StreamId) {
        let Stream { is_blocking, device, .. } = *self.stream(id);
        let of_device = self.streams.iter().filter(|(other, s)| s.device == device && **other != id);
        let waits = |(other, s): &(&StreamId, &Stream)| match id.is_legacy() {
            true => s.is_blocking,
            false => is_blocking && other.is_legacy(),
        };
        let others: Vec<StreamId> = of_device.filter(waits).map(|(other, _)| *other).collect();
        for other in others {
            let instant = self.end(other);
            self.push_wait(id, instant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAIN: StreamId = StreamId { place: 1, tid: 0, device: 0 };
    const SIDE: StreamId = StreamId { place: 2, tid: 0, device: 0 };
    const THIRD: StreamId = StreamId { place: 3, tid: 0, device: 0 };

    fn launch(truth: &mut Truth, id: StreamId) {
        truth.enqueue(id, &Work { enqueues: 1, ..Work::default() }, None, 10, 1);
    }

    fn closed(truth: &mut Truth, instants: &[Instant]) -> Vec<(usize, u64)> {
        truth.close(instants, false).iter().map(|(id, s)| (id.place, s.work.enqueues)).collect()
    }

    #[test]
    fn a_wait_covers_what_its_stream_waited_for_and_what_that_did() {
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
    fn an_event_recorded_before_its_stream_waited_covers_its_stream_alone() {
        let mut truth = Truth::default();
        launch(&mut truth, MAIN);
        let main = truth.record(MAIN);
        launch(&mut truth, SIDE);
        let Event::Recorded(before) = truth.record(SIDE) else { panic!("no capture") };
        truth.wait(SIDE, &main);
        assert_eq!(closed(&mut truth, &[before]), [(2, 1)]);
        let now = truth.now(SIDE);
        assert_eq!(closed(&mut truth, &[now]), [(1, 1)]);
    }

    #[test]
    fn the_legacy_default_stream_and_blocking_streams_wait_for_each_other() {
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
    fn a_device_has_streams_of_its_own() {
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
    fn what_is_captured_is_no_work_on_any_stream_that_was_drawn_in() {
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
    fn a_stream_made_under_the_name_of_another_is_not_that_one() {
        let mut truth = Truth::default();
        launch(&mut truth, MAIN);
        let Event::Recorded(event) = truth.record(MAIN) else { panic!("no capture") };
        truth.forget(MAIN);
        truth.create(MAIN, 0, false);
        launch(&mut truth, MAIN);
        assert_eq!(closed(&mut truth, &[event]), []);
    }
}
