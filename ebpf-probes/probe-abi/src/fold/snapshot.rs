//! A snapshot: how far a stream has come, kept with an event or a wait.

use crate::atomic::{AtomicU64, Relaxed};
use crate::fold::COUNTERS;
use crate::record::StreamKey;

/// A stream at one instant: how far an event's record reaches, and a wait.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Snapshot {
    /// [`StreamKey::tid`] of the stream.
    pub tid: AtomicU64,
    /// The stream's handle.
    pub stream: AtomicU64,
    /// When the stream was first used, ns: another one may come back under its handle. [`Snapshot::CAPTURED`] for an event
    /// recorded in a capture.
    pub born_ns: AtomicU64,
    /// When it was taken, ns, of an event; 0 for other waits.
    pub ns: AtomicU64,
    /// The first segment behind it. Of an event recorded in a capture: which of the stream's captures.
    pub epoch: AtomicU64,
    /// Enqueues when the wait for it was entered.
    pub entered: AtomicU64,
    /// The counters.
    pub work: [AtomicU64; COUNTERS],
}

impl Snapshot {
    /// The birth of no stream: the event was recorded in a capture, which `tid`, `stream` and `epoch` tell.
    pub const CAPTURED: u64 = u64::MAX;

    /// True where there is nothing before it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.work[0].load(Relaxed) == 0
    }

    /// True where it is of this stream, or of one that had its handle.
    #[inline(always)]
    pub fn is_of(&self, key: &StreamKey) -> bool {
        self.stream.load(Relaxed) == key.stream && self.tid.load(Relaxed) == u64::from(key.tid)
    }

    /// The stream, of this process.
    #[inline(always)]
    pub fn key(&self, pid: u32) -> StreamKey {
        StreamKey { pid, tid: self.tid.load(Relaxed) as u32, stream: self.stream.load(Relaxed) }
    }

    /// Makes it one before which nothing is.
    #[inline(always)]
    pub fn clear(&self, key: &StreamKey) {
        self.tid.store(u64::from(key.tid), Relaxed);
        self.stream.store(key.stream, Relaxed);
        self.born_ns.store(0, Relaxed);
        self.work[0].store(0, Relaxed);
    }

    /// Makes it the same as `other`.
    #[inline(always)]
    pub fn copy(&self, other: &Snapshot) {
        let to = [&self.tid, &self.stream, &self.born_ns, &self.ns, &self.epoch, &self.entered];
        let from = [&other.tid, &other.stream, &other.born_ns, &other.ns, &other.epoch, &other.entered];
        for (to, from) in to.into_iter().zip(from) {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (to, from) in self.work.iter().zip(&other.work) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}
