//! Frontiers: snapshots taken, stored with events and passed from stream to stream ([`probe_abi::frontier`]).

use std::sync::atomic::Ordering::Relaxed;

use probe_abi::counters::SelfCounter;
use probe_abi::fold::{Snapshot, StreamFold};
use probe_abi::frontier::{Frontier, Placement};
use probe_abi::record::StreamKey;

use super::Folder;
use crate::call::Call;

impl Folder {
    /// Returns the frontier of the stream; `ns` as for [`StreamFold::snapshot`].
    pub(super) fn take_frontier(&self, key: &StreamKey, ns: u64) -> Frontier {
        let frontier = Frontier::default();
        match self.streams.get(key) {
            Some(stream) if self.is_capturing(key, &stream.fold) => {
                stream.fold.snapshot_capture(key, &frontier.own);
                return frontier;
            }
            Some(stream) => {
                stream.fold.snapshot(key, ns, &frontier.own);
                frontier.waited.copy(&stream.fold.waited);
            }
            None => frontier.own.clear(key),
        }
        self.implicit_waits(key).iter().for_each(|other| self.add_snapshot(key, other, ns, &frontier));
        frontier
    }

    /// Returns the streams that this one waits for implicitly: blocking streams and their legacy default stream wait
    /// for each other.
    fn implicit_waits(&self, key: &StreamKey) -> Vec<StreamKey> {
        let is_blocking = |key: &StreamKey| match self.streams.get(key) {
            Some(stream) => stream.fold.is_blocking(key),
            None => key.is_own_default(),
        };
        let Some(process) = self.processes.get(&key.pid).filter(|process| process.has_blocking) else {
            return Vec::new();
        };
        let first = process.device.map_or(0, |device| device + 1);
        let legacy = |key: &StreamKey| {
            self.streams.get(key).map_or(key.legacy(), |stream| stream.fold.legacy(key, first))
        };
        match key.is_legacy() {
            true => {
                let waits = |other: &&StreamKey| is_blocking(other) && legacy(other) == *key;
                process.active().iter().filter(waits).copied().collect()
            }
            false if is_blocking(key) => vec![legacy(key)],
            false => Vec::new(),
        }
    }

    fn add_snapshot(&self, key: &StreamKey, other: &StreamKey, ns: u64, frontier: &Frontier) {
        if let Some(stream) = self.streams.get(other).filter(|stream| stream.fold.has_open_work()) {
            let snapshot = Snapshot::default();
            stream.fold.snapshot(other, ns, &snapshot);
            frontier.waited.add(key, &snapshot);
        }
    }

    /// Returns true while calls on the stream are captured. A stream that joined another's capture is not notified of
    /// its end; this checks lazily.
    pub(super) fn is_capturing(&self, key: &StreamKey, fold: &StreamFold) -> bool {
        let Some(origin) = fold.joined(key.pid) else { return fold.is_capturing() };
        let goes_on = self.streams.get(&origin).is_some_and(|origin| fold.is_joined_to(&origin.fold));
        if !goes_on {
            fold.end_capture();
        }
        goes_on
    }

    pub(super) fn record_event(&mut self, call: &Call) {
        let key = self.stream_key(call);
        let frontier = self.take_frontier(&key, call.entry_ns);
        if let Some(stream) = self.streams.get_mut(&key)
            && !stream.fold.is_capturing()
        {
            let latest = Snapshot::default();
            latest.copy(&frontier.own);
            stream.latest = Some(Box::new(latest));
        }
        if let Some(event) = call.handle {
            self.recorded.insert(key.pid, event, frontier);
        }
    }

    /// Removes the event.
    pub(super) fn remove_event(&mut self, call: &Call) {
        if let Some(event) = call.handle {
            self.recorded.remove(call.process.pid, event);
        }
    }

    /// Makes the stream wait for the event.
    pub(super) fn wait_for_event(&mut self, call: &Call) {
        let key = self.stream_key(call);
        let Some(event) = call.handle.and_then(|event| self.recorded.get(key.pid, event)) else { return };
        if self.streams.len() >= self.bounds.streams && !self.streams.contains_key(&key) {
            self.account[SelfCounter::UnclosedStream] += 1;
            return;
        }
        let waiter = self.streams.entry(key).or_default();
        if event.own.born_ns.load(Relaxed) == Snapshot::CAPTURED {
            return waiter.fold.join_capture(&event.own);
        }
        for snapshot in std::iter::once(&event.own).chain(&event.waited.0) {
            self.account[SelfCounter::UnclosedStream] += u64::from(self.evicts_open_work(&key, snapshot));
            self.streams[&key].fold.waited.add(&key, snapshot);
        }
    }

    /// Returns true if adding `snapshot` to what the stream waited for evicts a stream with open work.
    fn evicts_open_work(&self, waiter: &StreamKey, snapshot: &Snapshot) -> bool {
        let waited = &self.streams[waiter].fold.waited;
        let Placement::Evict(at) = waited.slot(waiter, snapshot) else { return false };
        let stored = &waited.0[at];
        self.streams.get(&stored.key(waiter.pid)).is_some_and(|stream| stream.fold.closes(stored))
    }

    /// Returns what a wait for the stream closes.
    pub(super) fn enter_stream(&self, key: &StreamKey) -> Vec<Snapshot> {
        self.enter_frontier(key.pid, &self.take_frontier(key, 0))
    }

    /// Returns what a wait for the frontier closes, the awaited stream first.
    pub(super) fn enter_frontier(&self, pid: u32, frontier: &Frontier) -> Vec<Snapshot> {
        let snapshots = std::iter::once(&frontier.own).chain(&frontier.waited.0);
        snapshots.filter_map(|snapshot| self.enter_snapshot(pid, snapshot)).collect()
    }

    /// Returns what a wait for the snapshot closes.
    pub(super) fn enter_snapshot(&self, pid: u32, snapshot: &Snapshot) -> Option<Snapshot> {
        let stream = self.streams.get(&snapshot.key(pid)).filter(|stream| stream.fold.closes(snapshot))?;
        let entered = Snapshot::default();
        entered.copy(snapshot);
        stream.fold.enter(&entered);
        Some(entered)
    }
}
