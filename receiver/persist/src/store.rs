//! PersistedRecords in a storage: restoring them, and the task that writes them.
//!
//! A storage finds values by key and cannot list keys, so records are in numbered slots and each slot contains its record's
//! key. The number of slots is the bound, and no index can disagree with the slots after a crash. When all slots are in use,
//! the record written longest ago is evicted and counted. A failed write is retried until it succeeds or the program stops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use component::storage::{Operation, StorageClient, StorageError};
use event::ClockOffsets;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::slot::{self, Clock};
use super::{DropCounters, RECORDS_MAX, Reason, RecordChange, RestoredState};

/// Time between retries of a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The stored records.
pub(crate) struct Store {
    client: Arc<dyn StorageClient>,
    offsets: fn() -> ClockOffsets,
    boot: [u8; 16],
    slots: BTreeMap<String, UsedSlot>,
    free: BTreeSet<usize>,
    drops: Arc<DropCounters>,
}

/// A slot in use.
#[derive(Clone, Copy, Debug)]
struct UsedSlot {
    slot: usize,
    written_unix_ns: u64,
}

impl Store {
    /// Restores the records of earlier runs. Slots that cannot be read are cleared.
    pub(crate) async fn open(
        client: Arc<dyn StorageClient>,
        offsets: fn() -> ClockOffsets,
        drops: Arc<DropCounters>,
    ) -> Result<(Store, RestoredState), StorageError> {
        let gets = (0..RECORDS_MAX).map(|slot| Operation::Get(name(slot))).collect();
        let found = client.batch(gets).await?;
        let boot = boot_id();
        let mut store = Store { client, offsets, boot, slots: BTreeMap::new(), free: BTreeSet::new(), drops };
        let mut restored = RestoredState { clock: offsets(), ..RestoredState::default() };
        let mut corrupted = Vec::new();
        for (at, bytes) in found.iter().enumerate() {
            let record = bytes.as_ref().and_then(|bytes| slot::decode(bytes, boot));
            match record.filter(|record| !store.slots.contains_key(&record.key)) {
                Some(record) => {
                    let used = UsedSlot { slot: at, written_unix_ns: record.written_unix_ns };
                    store.slots.insert(record.key.clone(), used);
                    restored.records.push(record);
                }
                None => {
                    corrupted.extend(bytes.is_some().then(|| Operation::Delete(name(at))));
                    store.free.insert(at);
                }
            }
        }
        restored.corrupted = corrupted.len() as u64;
        restored.records.sort_by(|a, b| (a.written_unix_ns, &a.key).cmp(&(b.written_unix_ns, &b.key)));
        if !corrupted.is_empty() {
            store.client.batch(corrupted).await?;
        }
        Ok((store, restored))
    }

    /// Writes batches until the channel closes.
    pub(crate) async fn run(
        mut self,
        mut batches: mpsc::Receiver<Vec<RecordChange>>,
        stop: CancellationToken,
    ) {
        while let Some(batch) = batches.recv().await {
            if let Err(error) = self.write(&batch).await {
                tracing::error!(%error, "failed to persist records; retrying");
                self.retry(&batch, &stop).await;
            }
        }
    }

    /// Retries until the write succeeds or the program stops.
    async fn retry(&mut self, batch: &[RecordChange], stop: &CancellationToken) {
        loop {
            let is_over = stop.run_until_cancelled(tokio::time::sleep(RETRY_AFTER)).await.is_none();
            match self.write(batch).await {
                Ok(()) => return tracing::info!("records are persisted again"),
                Err(_) if is_over => {
                    return self.drops.add(Reason::NotWritten, batch.len() as u64);
                }
                Err(_) => {}
            }
        }
    }

    /// Writes a batch atomically.
    async fn write(&mut self, batch: &[RecordChange]) -> Result<(), StorageError> {
        let ClockOffsets { at_ns, to_unix_ns, .. } = (self.offsets)();
        let written_unix_ns = at_ns.saturating_add_signed(to_unix_ns);
        let clock = Clock { boot: self.boot, to_unix_ns, written_unix_ns };
        let operations = batch.iter().filter_map(|change| self.operation(change, clock)).collect();
        self.client.batch(operations).await?;
        for deleted in batch.iter().filter(|change| change.bytes.is_none()) {
            self.free.extend(self.slots.remove(&deleted.key).map(|used| used.slot));
        }
        Ok(())
    }

    /// Returns the storage operation of a change. A newly assigned slot stays assigned if the write fails.
    fn operation(&mut self, change: &RecordChange, clock: Clock) -> Option<Operation> {
        let Some(bytes) = slot::encode(change, clock) else {
            return self.slots.get(&change.key).map(|used| Operation::Delete(name(used.slot)));
        };
        let current = self.slots.get(&change.key).map(|used| used.slot);
        let slot = current.or_else(|| self.free.pop_first()).or_else(|| self.evict_oldest())?;
        let written_unix_ns = clock.written_unix_ns;
        self.slots.insert(change.key.clone(), UsedSlot { slot, written_unix_ns });
        Some(Operation::Set(name(slot), bytes))
    }

    /// Evicts the record written longest ago and returns its slot.
    fn evict_oldest(&mut self) -> Option<usize> {
        let oldest = self.slots.iter().min_by_key(|(_, used)| used.written_unix_ns);
        let key = oldest.map(|(key, _)| key.clone())?;
        self.drops.add(Reason::Full, 1);
        self.slots.remove(&key).map(|used| used.slot)
    }
}

fn name(slot: usize) -> String {
    format!("record-{slot:04}")
}

/// Returns the id of this boot of the machine, or zeros if the kernel does not provide it.
fn boot_id() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or(0).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_id_is_constant_and_not_zero() {
        assert!(boot_id() != [0; 16] || !std::path::Path::new("/proc/sys/kernel/random/boot_id").exists());
        assert_eq!(boot_id(), boot_id());
    }
}
