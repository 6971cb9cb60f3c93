//! What happened to a store, for the collector's own telemetry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

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

/// A metric's name, what it reads, and whether it only grows.
type Row = (&'static str, fn(&CountsSnapshot) -> u64, bool);

/// What is exported, by name; the Collector's `file_storage` has no metrics whose names could be taken.
const ROWS: [Row; 6] = [
    ("otelcol_file_storage_batches", |counts| counts.batches, true),
    ("otelcol_file_storage_compactions", |counts| counts.compactions, true),
    ("otelcol_file_storage_failed_batches", |counts| counts.failed + counts.refused_full, true),
    ("otelcol_file_storage_file_bytes", |counts| counts.file_bytes, false),
    ("otelcol_file_storage_set_aside_files", |counts| counts.set_aside, true),
    ("otelcol_file_storage_stored_bytes", |counts| counts.stored_bytes, false),
];

/// Has the counts of a file exported as long as it is open.
#[expect(
    clippy::disallowed_methods,
    reason = "names beside the Collector's: our registry does not define them"
)]
pub(crate) fn export(counts: &Arc<Counts>, meter: &Meter, file: &str) {
    for (name, read, only_grows) in ROWS {
        let (counts, file): (Weak<Counts>, _) =
            (Arc::downgrade(counts), KeyValue::new("file", file.to_owned()));
        let value = move || counts.upgrade().map(|counts| read(&counts.snapshot()));
        let whose = [file];
        let observe = move |to: &dyn AsyncInstrument<u64>| {
            value().into_iter().for_each(|value| to.observe(value, &whose));
        };
        if only_grows {
            let _ = meter.u64_observable_counter(name).with_callback(observe).build();
        } else {
            let _ = meter.u64_observable_gauge(name).with_callback(observe).build();
        }
    }
}
