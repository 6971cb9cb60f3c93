//! What happened to a store, for the collector's own telemetry.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counts of one store.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) commits: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) refused_full: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) set_aside: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) stored_bytes: AtomicU64,
    pub(crate) file_bytes: AtomicU64,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CountsSnapshot {
    /// Transactions that were committed; each may hold many batches.
    pub commits: u64,
    /// Batches that were done.
    pub batches: u64,
    /// Batches that were refused, since there was no room.
    pub refused_full: u64,
    /// Batches that failed for any other reason.
    pub failed: u64,
    /// Files that could not be read and were renamed.
    pub set_aside: u64,
    /// How often the file was compacted.
    pub compactions: u64,
    /// Bytes of keys and values held.
    pub stored_bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
}

impl Counts {
    /// The counts now.
    pub fn snapshot(&self) -> CountsSnapshot {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CountsSnapshot {
            commits: of(&self.commits),
            batches: of(&self.batches),
            refused_full: of(&self.refused_full),
            failed: of(&self.failed),
            set_aside: of(&self.set_aside),
            compactions: of(&self.compactions),
            stored_bytes: of(&self.stored_bytes),
            file_bytes: of(&self.file_bytes),
        }
    }
}

/// Adds one.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
