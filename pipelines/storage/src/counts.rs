//! What happened to a store, for the collector's own telemetry.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use component::metrics;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};
use semconv::own_metric;

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
    /// Returns the current counts.
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

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A metric and the value that it reads.
type Row<M> = (M, fn(&CountsSnapshot) -> u64);

/// The exported counters. The Collector's `file_storage` has no metrics of its own.
const COUNTERS: [Row<semconv::Counter>; 4] = [
    (own_metric::OTELCOL_FILE_STORAGE_BATCHES, |counts| counts.batches),
    (own_metric::OTELCOL_FILE_STORAGE_COMPACTIONS, |counts| counts.compactions),
    (own_metric::OTELCOL_FILE_STORAGE_FAILED_BATCHES, |counts| counts.failed + counts.refused_full),
    (own_metric::OTELCOL_FILE_STORAGE_SET_ASIDE_FILES, |counts| counts.set_aside),
];

/// The exported gauges.
const GAUGES: [Row<semconv::Gauge>; 2] = [
    (own_metric::OTELCOL_FILE_STORAGE_FILE_BYTES, |counts| counts.file_bytes),
    (own_metric::OTELCOL_FILE_STORAGE_STORED_BYTES, |counts| counts.stored_bytes),
];

/// Exports the counts of a file while it is open.
pub(crate) fn export(counts: &Arc<Counts>, meter: &Meter, file: &str) {
    let observe = |read: fn(&CountsSnapshot) -> u64| {
        let counts: Weak<Counts> = Arc::downgrade(counts);
        let attributes = [KeyValue::new("file", file.to_owned())];
        move |to: &dyn AsyncInstrument<u64>| {
            counts.upgrade().into_iter().for_each(|counts| to.observe(read(&counts.snapshot()), &attributes));
        }
    };
    for (metric, read) in COUNTERS {
        let _ = metrics::u64_observable_counter(meter, metric).with_callback(observe(read)).build();
    }
    for (metric, read) in GAUGES {
        let _ = metrics::u64_observable_gauge(meter, metric).with_callback(observe(read)).build();
    }
}
