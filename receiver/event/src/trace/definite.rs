//! Calls that somebody can make: a trace does not tell which events its calls mean, so events are invented.
//!
//! The one idea: a wait for an untold event ends, on every stream, what was enqueued before its latest record (see
//! [`crate::fold`]). One real wait names one event; so it becomes one wait for each stream that it ends, all at the
//! same instant, and the last of them, on the stream that its thread enqueued on last, takes the time. Folded, the
//! calls give the steps that the trace gives.

use std::collections::{BTreeMap, BTreeSet};

use table::Action;
use table::record::StreamKey;

use crate::call::{Call, enqueues};

/// Handles of invented events are this and more: above any correlation, below any pointer's sign.
const EVENTS: u64 = 0x4000_0000_0000;

/// The calls with every event named; a few waits and records more than there were, but no other difference.
pub fn definite(calls: &[Call]) -> Vec<Call> {
    let mut names = Names::default();
    let records = |c: &&Call| c.probe().is_some_and(|p| p.action == Action::EventRecord);
    names.recording = calls.iter().filter(records).map(Call::stream_key).collect();
    let mut out = Vec::with_capacity(calls.len());
    for call in calls {
        names.take(call, &mut out);
    }
    out
}

/// What is known of the streams so far.
#[derive(Default)]
struct Names {
    streams: BTreeMap<StreamKey, Stream>,
    /// Streams that events are recorded on, sooner or later.
    recording: BTreeSet<StreamKey>,
    /// The stream that a thread enqueued on last.
    last: BTreeMap<(u32, u32), StreamKey>,
    events: u64,
}

#[derive(Default)]
struct Stream {
    enqueued: u64,
    waited: u64,
    /// The event recorded last, and what was enqueued before it.
    latest: Option<(u64, u64)>,
    /// The event that is invented for this stream.
    event: Option<u64>,
}

impl Stream {
    /// True where a wait for an untold event ends something here.
    fn is_ended(&self, records: bool) -> bool {
        let awaited = if records { self.latest.map_or(0, |(_, enqueued)| enqueued) } else { self.enqueued };
        awaited > self.waited
    }
}

impl Names {
    fn take(&mut self, call: &Call, out: &mut Vec<Call>) {
        let Some(probe) = call.probe() else { return out.push(*call) };
        let key = call.stream_key();
        match probe.action {
            Action::EventRecord => out.push(self.record(call)),
            Action::EventSync if call.handle.is_none() => return self.wait(call, out),
            Action::StreamSync | Action::StreamDestroy => {
                self.streams.entry(key).and_modify(|s| s.waited = s.enqueued);
                out.push(*call);
            }
            Action::DeviceSync => {
                let streams = self.streams.iter_mut().filter(|(k, _)| k.pid == key.pid);
                streams.for_each(|(_, s)| s.waited = s.enqueued);
                out.push(*call);
            }
            _ => out.push(*call),
        }
        if enqueues(probe.action) {
            self.streams.entry(key).or_default().enqueued += 1;
            self.last.insert((key.pid, call.tid), key);
        }
    }

    /// The record with its event, which is the stream's from here on.
    fn record(&mut self, call: &Call) -> Call {
        let stream = self.streams.entry(call.stream_key()).or_default();
        let event = call.handle.unwrap_or_else(|| {
            *stream.event.get_or_insert_with(|| {
                self.events += 1;
                EVENTS + self.events
            })
        });
        stream.latest = Some((event, stream.enqueued));
        Call { handle: Some(event), ..*call }
    }

    fn wait(&mut self, call: &Call, out: &mut Vec<Call>) {
        let mut ended = self.ended(call.process.pid);
        // The thread's own stream comes last.
        let own = self.last.get(&(call.process.pid, call.tid)).copied();
        ended.sort_by_key(|key| Some(*key) == own);
        let Some(last) = ended.pop() else {
            return out.push(Call { handle: Some(self.any_event(call.process.pid)), ..*call });
        };
        for key in ended {
            self.wait_for(key, &Call { duration_ns: 0, ..*call }, out);
        }
        self.wait_for(last, call, out);
    }

    fn ended(&self, pid: u32) -> Vec<StreamKey> {
        let ended = |(key, stream): (&StreamKey, &Stream)| {
            (key.pid == pid && stream.is_ended(self.recording.contains(key))).then_some(*key)
        };
        self.streams.iter().filter_map(ended).collect()
    }

    /// Waits for a stream's latest event; where the program records none, it is recorded first.
    fn wait_for(&mut self, key: StreamKey, call: &Call, out: &mut Vec<Call>) {
        if !self.recording.contains(&key) {
            let record = Call { row: record_of(call.row), stream: key.stream, duration_ns: 0, ..*call };
            let record =
                Call { tid: if key.tid == 0 { call.tid } else { key.tid }, is_twin: key.tid != 0, ..record };
            out.push(self.record(&record));
        }
        if let Some(stream) = self.streams.get_mut(&key)
            && let Some((event, enqueued)) = stream.latest
        {
            stream.waited = enqueued;
            out.push(Call { handle: Some(event), ..*call });
        }
    }

    /// An event of the process, for a wait that ends nothing; where it has none, one that was never recorded.
    fn any_event(&self, pid: u32) -> u64 {
        let known = self.streams.iter().filter(|(key, _)| key.pid == pid);
        known.filter_map(|(_, s)| s.latest).map(|(event, _)| event).next().unwrap_or(EVENTS)
    }
}

/// The row that records an event in the library whose row waits for one.
fn record_of(wait: u16) -> u16 {
    let library = table::row(wait).map(|p| p.library);
    let records = |p: &&table::Probe| p.action == Action::EventRecord && Some(p.library) == library;
    table::PROBES.iter().find(records).map_or(wait, |p| p.id)
}
