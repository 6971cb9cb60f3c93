//! Snapshots of a stream's counters, stored with events and waits.

use crate::atomic::{AtomicU64, Relaxed};
use crate::fold::Work;
use crate::record::StreamKey;

/// Counters of a stream at one instant, as an event or a wait covers them.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Snapshot {
    /// [`StreamKey::tid`] of the stream.
    pub tid: AtomicU64,
    /// The stream's handle.
    pub stream: AtomicU64,
    /// Time of the stream's first use, ns, which identifies it among streams with its handle. [`Snapshot::CAPTURED`]
    /// for an event recorded in a capture.
    pub born_ns: AtomicU64,
    /// Time of the snapshot, ns, for an event; 0 for other waits.
    pub ns: AtomicU64,
    /// First segment after the snapshot. For an event recorded in a capture: the number of that capture.
    pub epoch: AtomicU64,
    /// Enqueues at the entry of the wait.
    pub entered: AtomicU64,
    /// Work of the stream at that time.
    pub work: Work,
}

impl Snapshot {
    /// Value of `born_ns` for an event recorded in a capture, which `tid`, `stream` and `epoch` identify.
    pub const CAPTURED: u64 = u64::MAX;

    /// Returns true if no work precedes the snapshot.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.work[0].load(Relaxed) == 0
    }

    /// Returns true if the snapshot is of this stream, or of an earlier one with its handle.
    #[inline(always)]
    pub fn is_of(&self, key: &StreamKey) -> bool {
        self.stream.load(Relaxed) == key.stream && self.tid.load(Relaxed) == u64::from(key.tid)
    }

    /// Returns the key of the stream, which belongs to process `pid`.
    #[inline(always)]
    pub fn key(&self, pid: u32) -> StreamKey {
        StreamKey { pid, tid: self.tid.load(Relaxed) as u32, stream: self.stream.load(Relaxed) }
    }

    /// Resets the snapshot to one without preceding work.
    #[inline(always)]
    pub fn clear(&self, key: &StreamKey) {
        self.tid.store(u64::from(key.tid), Relaxed);
        self.stream.store(key.stream, Relaxed);
        self.born_ns.store(0, Relaxed);
        self.work[0].store(0, Relaxed);
    }

    /// Replaces the values by those of `other`.
    #[inline(always)]
    pub fn copy(&self, other: &Snapshot) {
        let to = [&self.tid, &self.stream, &self.born_ns, &self.ns, &self.epoch, &self.entered];
        let from = [&other.tid, &other.stream, &other.born_ns, &other.ns, &other.epoch, &other.entered];
        for (to, from) in to.into_iter().zip(from) {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (to, from) in self.work.iter().zip(other.work.iter()) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}
