//! Small records that survive a restart of the program.
//!
//! A producer names records by keys and reports changes ([`RecordChange`]); it knows no file. A task writes the latest
//! value of each key to the storage that the configuration names. The next run restores all records before its first
//! event ([`RestoredState`]).
//!
//! ```text
//!  producer --- changes, every second --> PendingChanges --- one batch at a time --> Store: slots of a component::storage
//!     ^                                   latest of a key                               |
//!     `------------------------- RestoredState: all records of earlier runs -----------'
//! ```
//!
//! Bounds: [`RECORDS_MAX`] records of [`RECORD_BYTES_MAX`] each and [`PENDING_BYTES_MAX`] waiting to be written. PersistedRecords
//! above a bound are counted by reason ([`PersistDrops`]) and retried with their next change.

mod pending;
mod slot;
mod store;

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use component::storage::Namespace;
use component::{ComponentId, Host, Running, StartResult};
use event::ClockOffsets;
use semconv::value::WarptapPersistenceDropReason as Reason;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use pending::PendingChanges;
use store::Store;

/// The maximum number of records. When reached, the record written longest ago is evicted.
const RECORDS_MAX: usize = 2048;
/// The maximum size of a record in bytes. Larger records are dropped.
const RECORD_BYTES_MAX: usize = 256 << 10;
/// The maximum number of bytes waiting to be written. When reached, further changes are dropped.
const PENDING_BYTES_MAX: usize = 16 << 20;

/// A new value of a record, or its deletion.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RecordChange {
    /// The record's key; the part before the first `/` is the type of record.
    pub key: String,
    /// The new value; `None` deletes the record.
    pub bytes: Option<Vec<u8>>,
}

/// A record stored by an earlier run.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StoredRecord {
    /// The record's key.
    pub key: String,
    /// The record's value.
    pub bytes: Vec<u8>,
    /// Whether it was written since the machine booted, so that its CLOCK_MONOTONIC times are comparable with ours.
    pub is_this_boot: bool,
    /// Offset from its CLOCK_MONOTONIC times to ns since 1970, at the time of writing.
    pub to_unix_ns: i64,
    /// Time of writing in ns since 1970.
    pub written_unix_ns: u64,
}

/// Everything restored from earlier runs.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct RestoredState {
    /// The records, oldest first.
    pub records: Vec<StoredRecord>,
    /// Number of stored records that could not be read.
    pub corrupted: u64,
    /// The offsets of the clocks at the time of restoring.
    pub clock: ClockOffsets,
}

/// Numbers of records that were not persisted, by reason.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PersistDrops([u64; Reason::ALL.len()]);

impl PersistDrops {
    /// Returns the number of records dropped for a reason.
    pub fn of(&self, reason: Reason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns the numbers with `count` more records dropped for `reason`.
    #[must_use]
    pub fn with(mut self, reason: Reason, count: u64) -> PersistDrops {
        self.0[reason as usize] = self.0[reason as usize].saturating_add(count);
        self
    }
}

/// Counters of dropped records, shared by the producer's thread and the writing task.
#[derive(Debug, Default)]
struct DropCounters([AtomicU64; Reason::ALL.len()]);

impl DropCounters {
    fn add(&self, reason: Reason, count: u64) {
        self.0[reason as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn snapshot(&self) -> PersistDrops {
        PersistDrops(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

/// The component that persists records and the storage extension that it uses.
#[derive(Clone, Debug)]
pub struct Target {
    /// Id of the receiver.
    pub receiver: ComponentId,
    /// The storage extension.
    pub storage: ComponentId,
}

/// The producer's handle: the restored state, and the changes to be written.
pub struct PersistedRecords {
    restored: RestoredState,
    pending: PendingChanges,
    drops: Arc<DropCounters>,
}

/// Restores the records of earlier runs and returns the task that writes changes. `offsets` reads the clocks. Without a
/// target nothing is restored or written.
pub async fn open(
    target: Option<Target>,
    host: &Host,
    offsets: fn() -> ClockOffsets,
    stop: &CancellationToken,
) -> StartResult<(Option<PersistedRecords>, Running)> {
    let Some(Target { receiver, storage }) = target else { return Ok((None, Box::pin(ready(())))) };
    let namespace = Namespace { kind: "receiver", id: receiver, name: "records".to_owned() };
    let client = host.storage(&storage)?.open(namespace).await?;
    let drops = Arc::<DropCounters>::default();
    let (store, restored) = Store::open(client, offsets, Arc::clone(&drops)).await?;
    let (sender, batches) = mpsc::channel(1);
    let pending = PendingChanges::new(sender, Arc::clone(&drops));
    let running = Box::pin(store.run(batches, stop.clone()));
    Ok((Some(PersistedRecords { restored, pending, drops }), running))
}

impl PersistedRecords {
    /// Returns the state restored from earlier runs; empty when called again.
    pub fn take_restored(&mut self) -> RestoredState {
        std::mem::take(&mut self.restored)
    }

    /// Accepts a change, which replaces a pending change of the same key.
    pub fn put(&mut self, change: RecordChange) {
        self.pending.put(change);
    }

    /// Sends the pending changes to the writing task unless it is still writing a batch.
    pub fn flush(&mut self) {
        self.pending.flush();
    }

    /// Returns the numbers of dropped records.
    pub fn drops(&self) -> PersistDrops {
        self.drops.snapshot()
    }

    /// Sends the pending changes and waits until the writing task accepts them.
    pub fn close(self) {
        self.pending.close();
    }
}

#[cfg(test)]
mod tests;
