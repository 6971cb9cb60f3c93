//! A stream as closers see it: its fold, and the launches that wait beside it ([`table::hot`]).
//!
//! Whatever reads the fold's counters absorbs those launches first; whatever gives the next launch more to say than a
//! sum disarms the stream's place *after* it did so, since a launch arms it first and then looks again.

use table::fold::{Snapshot, Stamp, StreamFold};
use table::hot::HotStream;
use table::record::{StepRecord, StreamKey};

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

impl Stream<'_> {
    // Its place is looked for each time: kept, it would be there or not in all that follows, and the verifier would
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

    #[inline(always)]
    fn disarm(&self) {
        if let Some(hot) = self.hot() {
            hot.disarm();
        }
    }

    /// [`StreamFold::is_capturing`].
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        self.fold.is_capturing()
    }

    /// [`StreamFold::set_capturing`].
    #[inline(always)]
    pub fn set_capturing(&self, capturing: bool) {
        self.fold.set_capturing(capturing);
        self.disarm();
    }

    /// [`StreamFold::snapshot`].
    #[inline(always)]
    pub fn snapshot(&self, ns: u64, into: &mut Snapshot) {
        self.absorb();
        self.fold.snapshot(ns, into);
        self.disarm();
    }

    /// [`StreamFold::begin_close`].
    #[inline(always)]
    pub fn begin_close(&self) -> bool {
        self.absorb();
        let closes = self.fold.begin_close();
        self.disarm();
        closes
    }

    /// [`StreamFold::begin_close_at`].
    #[inline(always)]
    pub fn begin_close_at(&self, event: &Snapshot) -> bool {
        self.absorb();
        self.fold.begin_close_at(event)
    }

    /// [`StreamFold::has_pending_work`].
    #[inline(always)]
    pub fn has_pending_work(&self) -> bool {
        self.fold.has_pending_work()
    }

    /// [`StreamFold::has_open_work`].
    #[inline(always)]
    pub fn has_open_work(&self) -> bool {
        self.absorb();
        self.fold.has_open_work()
    }

    /// [`StreamFold::close`].
    #[inline(always)]
    pub fn close(&self, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        self.absorb();
        self.fold.close(enter, exit, out);
        self.disarm();
    }

    /// [`StreamFold::finish`].
    #[inline(always)]
    pub fn finish(&self, exit: &Stamp) {
        self.absorb();
        self.fold.finish(exit);
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
