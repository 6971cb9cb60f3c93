//! How far a wait reaches: cuts taken, kept with events, handed from stream to stream ([`probe_abi::cover`]).

use std::sync::atomic::Ordering::Relaxed;

use probe_abi::cover::{Cover, Place};
use probe_abi::fold::{Cut, StreamFold};
use probe_abi::record::StreamKey;

use super::Folder;
use crate::call::Call;

impl Folder {
    /// How far the stream has come, and what it waited for; `ns` as for [`StreamFold::cut`].
    pub(super) fn take_cover(&self, key: &StreamKey, ns: u64) -> Cover {
        let cover = Cover::default();
        match self.streams.get(key) {
            Some(stream) if self.is_capturing(key, &stream.fold) => {
                stream.fold.cut_capture(key, &cover.own);
                return cover;
            }
            Some(stream) => {
                stream.fold.cut(key, ns, &cover.own);
                cover.waited.copy(&stream.fold.waited);
            }
            None => cover.own.clear(key),
        }
        self.waits_for_by_itself(key).iter().for_each(|other| self.add_cut(key, other, ns, &cover));
        cover
    }

    /// The legacy default stream waits for blocking streams, and they for it.
    fn waits_for_by_itself(&self, key: &StreamKey) -> Vec<StreamKey> {
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

    fn add_cut(&self, key: &StreamKey, other: &StreamKey, ns: u64, cover: &Cover) {
        if let Some(stream) = self.streams.get(other).filter(|stream| stream.fold.has_open_work()) {
            let cut = Cut::default();
            stream.fold.cut(other, ns, &cut);
            cover.waited.add(key, &cut);
        }
    }

    /// True while what is enqueued on the stream is captured. A stream that was drawn into the capture of another is
    /// not told of its end: it looks.
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
        let cover = self.take_cover(&key, call.entry_ns);
        if let Some(stream) = self.streams.get_mut(&key)
            && !stream.fold.is_capturing()
        {
            let latest = Cut::default();
            latest.copy(&cover.own);
            stream.latest = Some(Box::new(latest));
        }
        if let Some(event) = call.handle {
            self.recorded.insert(key.pid, event, cover);
        }
    }

    /// The event is gone. Before the call: behind it another thread may have made an event at the same address.
    pub(super) fn forget_event(&mut self, call: &Call) {
        if let Some(event) = call.handle {
            self.recorded.remove(call.process.pid, event);
        }
    }

    /// The stream waits for the event.
    pub(super) fn wait_for_event(&mut self, call: &Call) {
        let key = self.stream_key(call);
        let Some(event) = call.handle.and_then(|event| self.recorded.get(key.pid, event)) else { return };
        if self.streams.len() >= self.bounds.streams && !self.streams.contains_key(&key) {
            self.account.unclosed_streams += 1;
            return;
        }
        let waiter = self.streams.entry(key).or_default();
        if event.own.born_ns.load(Relaxed) == Cut::CAPTURED {
            return waiter.fold.join_capture(&event.own);
        }
        for cut in std::iter::once(&event.own).chain(&event.waited.0) {
            self.account.unclosed_streams += u64::from(self.forgets_open_work(&key, cut));
            self.streams[&key].fold.waited.add(&key, cut);
        }
    }

    /// True where, to keep that the stream waits as far as `cut`, a stream with open work has to be forgotten.
    fn forgets_open_work(&self, waiter: &StreamKey, cut: &Cut) -> bool {
        let waited = &self.streams[waiter].fold.waited;
        let Place::Taken(at) = waited.place(waiter, cut) else { return false };
        let kept = &waited.0[at];
        self.streams.get(&kept.key(waiter.pid)).is_some_and(|stream| stream.fold.closes(kept))
    }

    /// What a wait for all of the stream closes.
    pub(super) fn enter_stream(&self, key: &StreamKey) -> Vec<Cut> {
        self.enter_cover(key.pid, &self.take_cover(key, 0))
    }

    /// What a wait that reaches so far closes, the stream that is waited for first.
    pub(super) fn enter_cover(&self, pid: u32, cover: &Cover) -> Vec<Cut> {
        let cuts = std::iter::once(&cover.own).chain(&cover.waited.0);
        cuts.filter_map(|cut| self.enter_cut(pid, cut)).collect()
    }

    /// What a wait that reaches so far closes of one stream.
    pub(super) fn enter_cut(&self, pid: u32, cut: &Cut) -> Option<Cut> {
        let stream = self.streams.get(&cut.key(pid)).filter(|stream| stream.fold.closes(cut))?;
        let entered = Cut::default();
        entered.copy(cut);
        stream.fold.enter(&entered);
        Some(entered)
    }
}
