//! Instants, on a thread and stored in a map.

use crate::atomic::{AtomicU64, Relaxed};
use crate::record::NOT_SEEN;

/// An instant on a thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC, ns.
    pub ns: u64,
    /// Time that the thread has waited for a CPU since it began, ns; [`NOT_SEEN`] if not known.
    pub runq_ns: u64,
    /// The thread.
    pub tid: u32,
}

/// An instant stored in a map.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Mark {
    pub(super) ns: AtomicU64,
    pub(super) runq_ns: AtomicU64,
    pub(super) tid: AtomicU64,
}

impl Mark {
    #[inline(always)]
    pub(super) fn set(&self, stamp: &Stamp) {
        self.runq_ns.store(stamp.runq_ns, Relaxed);
        self.tid.store(u64::from(stamp.tid), Relaxed);
        self.ns.store(stamp.ns, Relaxed);
    }

    #[inline(always)]
    pub(super) fn copy(&self, other: &Mark) {
        self.runq_ns.store(other.runq_ns.load(Relaxed), Relaxed);
        self.tid.store(other.tid.load(Relaxed), Relaxed);
        self.ns.store(other.ns.load(Relaxed), Relaxed);
    }

    #[inline(always)]
    pub(super) fn clear(&self) {
        self.ns.store(0, Relaxed);
    }

    /// Returns the run-queue wait since this mark, if the same thread made both; else [`NOT_SEEN`].
    #[inline(always)]
    pub(super) fn runq_until(&self, later: &Stamp) -> u64 {
        let before = self.runq_ns.load(Relaxed);
        let same = self.ns.load(Relaxed) != 0 && self.tid.load(Relaxed) == u64::from(later.tid);
        match same && before != NOT_SEEN && later.runq_ns >= before && later.runq_ns != NOT_SEEN {
            true => later.runq_ns - before,
            false => NOT_SEEN,
        }
    }
}
