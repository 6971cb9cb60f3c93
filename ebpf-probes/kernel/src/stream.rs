//! A stream as closers see it: its fold, and the launches that wait beside it ([`probe_abi::hot`]).
//!
//! Whatever reads the fold's counters absorbs those launches first; whatever gives the next launch more to say than a
//! sum disarms the stream's slot *after* it did so, since a launch arms it first and then looks again.

use core::ops::Deref;

use probe_abi::fold::{Snapshot, Stamp, StreamFold};
use probe_abi::hot::HotStream;
use probe_abi::record::{StepRecord, StreamKey};

use crate::maps;

/// A stream that is known.
pub struct Stream<'a> {
    key: &'a StreamKey,
    fold: &'static StreamFold,
}

/// The stream, where it is known.
#[inline(always)]
pub fn found(key: &StreamKey) -> Option<Stream<'_>> {
    maps::fold(key).map(|fold| Stream { key, fold })
}

impl Deref for Stream<'_> {
    type Target = StreamFold;

    #[inline(always)]
    fn deref(&self) -> &StreamFold {
        self.fold
    }
}

impl Stream<'_> {
    // Its slot is looked for each time: kept, it would be there or not in all that follows, and the verifier would
    // follow both.
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

    /// The next launch asks the fold.
    #[inline(always)]
    pub fn disarm(&self) {
        if let Some(hot) = self.hot() {
            hot.disarm();
        }
    }

    /// True while what is enqueued is captured.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        is_capturing(self.key, self.fold)
    }

    /// [`StreamFold::join_capture`].
    #[inline(always)]
    pub fn join_capture(&self, event: &Snapshot) {
        self.fold.join_capture(event);
        self.disarm();
    }

    /// [`StreamFold::snapshot_capture`].
    #[inline(always)]
    pub fn snapshot_capture(&self, into: &Snapshot) {
        self.fold.snapshot_capture(self.key, into);
    }

    /// [`StreamFold::snapshot`].
    #[inline(always)]
    pub fn snapshot(&self, ns: u64, into: &Snapshot) {
        self.absorb();
        self.fold.snapshot(self.key, ns, into);
        self.disarm();
    }

    /// [`StreamFold::snapshot`] for a wait for the whole device; false where there is nothing to close.
    #[inline(always)]
    pub fn begin_close(&self) -> bool {
        self.snapshot(0, &self.fold.pending);
        self.fold.closes(&self.fold.pending)
    }

    /// [`StreamFold::enter`]; false where the wait has nothing to close.
    #[inline(always)]
    pub fn enter(&self, snapshot: &Snapshot) -> bool {
        self.absorb();
        self.fold.enter(snapshot);
        self.fold.closes(snapshot)
    }

    /// [`StreamFold::has_open_work`].
    #[inline(always)]
    pub fn has_open_work(&self) -> bool {
        self.absorb();
        self.fold.has_open_work()
    }

    /// [`StreamFold::is_blocking`].
    #[inline(always)]
    pub fn is_blocking(&self) -> bool {
        self.fold.is_blocking(self.key)
    }

    /// [`StreamFold::legacy`].
    #[inline(always)]
    pub fn legacy(&self, first: u64) -> StreamKey {
        self.fold.legacy(self.key, first)
    }

    /// [`StreamFold::enqueued_by`].
    #[inline(always)]
    pub fn enqueued_by(&self, tid: u32) -> u64 {
        self.absorb();
        self.fold.enqueued_by(tid)
    }

    /// [`StreamFold::close`].
    #[inline(always)]
    pub fn close(&self, snapshot: &Snapshot, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        self.absorb();
        self.fold.close(snapshot, enter, exit, out);
        self.disarm();
    }

    /// [`StreamFold::finish`].
    #[inline(always)]
    pub fn finish(&self, snapshot: &Snapshot, exit: &Stamp) {
        self.absorb();
        self.fold.finish(snapshot, exit);
        self.disarm();
    }

    /// The stream is gone.
    #[inline(always)]
    pub fn release(&self) {
        if let Some(hot) = self.hot() {
            hot.release();
        }
    }
}

/// True while what is enqueued on the stream is captured. A stream that was drawn into the capture of another is not
/// told of its end: it looks.
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
