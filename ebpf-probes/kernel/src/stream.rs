//! A stream with its fold and the launches in its hot slot ([`probe_abi::hot`]).
//!
//! Functions that read the fold's counters absorb the slot first. Functions after which the next launch is more than a
//! sum disarm the slot *afterwards*, since a launch arms it first and then checks the fold. What touches neither is
//! called on the fold itself.

use core::ops::Deref;

use probe_abi::fold::{Snapshot, Stamp, StreamFold};
use probe_abi::hot::HotStream;
use probe_abi::record::{StepRecord, StreamKey};

use crate::maps;

/// A stream that has a fold.
pub struct Stream<'a> {
    key: &'a StreamKey,
    fold: &'static StreamFold,
}

/// Returns the stream, if it has a fold.
#[inline(always)]
pub fn found(key: &StreamKey) -> Option<Stream<'_>> {
    maps::fold(key).map(|fold| Stream { key, fold })
}

impl<'a> Stream<'a> {
    /// Returns the stream of this fold.
    #[inline(always)]
    pub fn of(key: &'a StreamKey, fold: &'static StreamFold) -> Stream<'a> {
        Stream { key, fold }
    }
}

impl Deref for Stream<'_> {
    type Target = StreamFold;

    #[inline(always)]
    fn deref(&self) -> &StreamFold {
        self.fold
    }
}

impl Stream<'_> {
    // Looked up on each use: if stored, the verifier would follow both cases from there on.
    #[inline(always)]
    fn hot(&self) -> Option<&'static HotStream> {
        maps::hot_stream(self.key).filter(|hot| hot.is_of(self.key))
    }

    #[inline(always)]
    fn absorb(&self) {
        if let Some(hot) = self.hot() {
            self.fold.absorb(hot);
        }
    }

    /// Makes the next launch use the fold.
    #[inline(always)]
    pub fn disarm(&self) {
        if let Some(hot) = self.hot() {
            hot.disarm();
        }
    }

    /// Returns true while calls on the stream are captured.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        is_capturing(self.key, self.fold)
    }

    /// Calls [`StreamFold::join_capture`] on this stream.
    #[inline(always)]
    pub fn join_capture(&self, event: &Snapshot) {
        self.fold.join_capture(event);
        self.disarm();
    }

    /// Calls [`StreamFold::snapshot_capture`] on this stream.
    #[inline(always)]
    pub fn snapshot_capture(&self, into: &Snapshot) {
        self.fold.snapshot_capture(self.key, into);
    }

    /// Calls [`StreamFold::snapshot`] on this stream.
    #[inline(always)]
    pub fn snapshot(&self, ns: u64, into: &Snapshot) {
        self.absorb();
        self.fold.snapshot(self.key, ns, into);
        self.disarm();
    }

    /// [`StreamFold::snapshot`] for a device synchronization. Returns false if it ends no step.
    #[inline(always)]
    pub fn begin_close(&self) -> bool {
        self.snapshot(0, &self.fold.pending);
        self.fold.closes(&self.fold.pending)
    }

    /// [`StreamFold::enter`]. Returns false if the wait ends no step.
    #[inline(always)]
    pub fn enter(&self, snapshot: &Snapshot) -> bool {
        self.absorb();
        self.fold.enter(snapshot);
        self.fold.closes(snapshot)
    }

    /// Calls [`StreamFold::has_open_work`] on this stream.
    #[inline(always)]
    pub fn has_open_work(&self) -> bool {
        self.absorb();
        self.fold.has_open_work()
    }

    /// Calls [`StreamFold::is_blocking`] on this stream.
    #[inline(always)]
    pub fn is_blocking(&self) -> bool {
        self.fold.is_blocking(self.key)
    }

    /// Calls [`StreamFold::legacy`] on this stream.
    #[inline(always)]
    pub fn legacy(&self, first: u64) -> StreamKey {
        self.fold.legacy(self.key, first)
    }

    /// Calls [`StreamFold::enqueued_by`] on this stream.
    #[inline(always)]
    pub fn enqueued_by(&self, tid: u32) -> u64 {
        self.absorb();
        self.fold.enqueued_by(tid)
    }

    /// Calls [`StreamFold::begins_iteration`] on this stream.
    #[inline(always)]
    pub fn begins_iteration(&self, tid: u32) -> bool {
        let foreign = self.hot().map_or(0, HotStream::foreign);
        self.fold.may_begin_iteration(foreign) && {
            self.absorb();
            self.fold.begins_iteration(tid)
        }
    }

    /// Calls [`StreamFold::close`] on this stream.
    #[inline(always)]
    pub fn close(&self, snapshot: &Snapshot, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        self.absorb();
        self.fold.close(snapshot, enter, exit, out);
        self.disarm();
    }

    /// Calls [`StreamFold::finish`] on this stream.
    #[inline(always)]
    pub fn finish(&self, snapshot: &Snapshot, exit: &Stamp) {
        self.absorb();
        self.fold.finish(snapshot, exit);
        self.disarm();
    }

    /// Frees the hot slot of a destroyed stream.
    #[inline(always)]
    pub fn release(&self) {
        if let Some(hot) = self.hot() {
            hot.release();
        }
    }
}

/// Returns true while calls on the stream are captured. A stream that joined another's capture is not notified of its
/// end; this checks lazily.
#[inline(always)]
pub fn is_capturing(key: &StreamKey, fold: &StreamFold) -> bool {
    fold.is_capturing() && is_still_capturing(key.pid, fold)
}

#[unsafe(no_mangle)]
#[inline(never)]
fn is_still_capturing(pid: u32, fold: &StreamFold) -> bool {
    let Some(origin) = fold.joined(pid) else { return true };
    let goes_on = maps::fold(&origin).is_some_and(|origin| fold.is_joined_to(origin));
    if !goes_on {
        fold.end_capture();
    }
    goes_on
}
