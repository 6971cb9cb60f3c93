//! Instants, on a thread and stored in a map.

use crate::atomic::{AtomicU64, Relaxed};
use crate::record::NOT_SEEN;
use crate::thread_counter::{THREAD_COUNTERS, ThreadCounter, ThreadCounts, UNKNOWN_COUNTS};

/// An instant on a thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC, ns.
    pub ns: u64,
    /// Counters of the thread.
    pub counts: ThreadCounts,
    /// The thread.
    pub tid: u32,
}

impl Stamp {
    /// Returns an instant whose counters are not known.
    pub const fn uncounted(ns: u64, tid: u32) -> Stamp {
        Stamp { ns, counts: UNKNOWN_COUNTS, tid }
    }
}

/// An instant stored in a map.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Mark {
    pub(super) ns: AtomicU64,
    pub(super) counts: [AtomicU64; THREAD_COUNTERS],
    pub(super) tid: AtomicU64,
}

impl Mark {
    #[inline(always)]
    pub(super) fn set(&self, stamp: &Stamp) {
        for (to, from) in self.counts.iter().zip(stamp.counts) {
            to.store(from, Relaxed);
        }
        self.tid.store(u64::from(stamp.tid), Relaxed);
        self.ns.store(stamp.ns, Relaxed);
    }

    #[inline(always)]
    pub(super) fn copy(&self, other: &Mark) {
        for (to, from) in self.counts.iter().zip(&other.counts) {
            to.store(from.load(Relaxed), Relaxed);
        }
        self.tid.store(other.tid.load(Relaxed), Relaxed);
        self.ns.store(other.ns.load(Relaxed), Relaxed);
    }

    #[inline(always)]
    pub(super) fn clear(&self) {
        self.ns.store(0, Relaxed);
    }

    /// Returns the increase of a counter from this mark to a later value on thread `tid`; [`NOT_SEEN`] for another
    /// thread's.
    #[inline(always)]
    pub(super) fn increase(&self, counter: ThreadCounter, later: u64, tid: u32) -> u64 {
        let before = self.counts[counter as usize].load(Relaxed);
        let same = self.ns.load(Relaxed) != 0 && self.tid.load(Relaxed) == u64::from(tid);
        match same && before != NOT_SEEN && later >= before && later != NOT_SEEN {
            true => later - before,
            false => NOT_SEEN,
        }
    }
}
