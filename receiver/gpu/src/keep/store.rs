//! Records in a storage: the task that writes them, and the reading of what an earlier run left.
//!
//! The one idea: a storage finds by key and lists nothing, so records stand in numbered slots, and which slot is whose
//! is written in the slot itself. The number of slots is the bound; nothing has to agree with an index after a crash.
//! When all are taken, the record written longest ago makes room for a new one, counted.
//! A storage that fails is asked again until it takes the batch, or the program stops.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use component::storage::{Operation, StorageClient, StorageError};
use event::ClockOffsets;
use semconv::value::WarptapPersistenceDropReason;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::slot::{self, Clock};
use super::{Change, Left, Losses, RECORDS_MAX};

/// How long to wait before a storage that failed is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// The records that are stored.
pub(crate) struct Store {
    client: Arc<dyn StorageClient>,
    boot: [u8; 16],
    slots: BTreeMap<String, Taken>,
    free: BTreeSet<usize>,
    losses: Arc<Losses>,
}

/// A slot that is taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    slot: usize,
    written_unix_ns: u64,
}

impl Store {
    /// Reads what an earlier run left. Slots that cannot be read are emptied.
    pub(crate) async fn open(
        client: Arc<dyn StorageClient>,
        losses: Arc<Losses>,
    ) -> Result<(Store, Left), StorageError> {
        let gets = (0..RECORDS_MAX).map(|slot| Operation::Get(name(slot))).collect();
        let found = client.batch(gets).await?;
        let boot = super::machine::boot();
        let mut store = Store { client, boot, slots: BTreeMap::new(), free: BTreeSet::new(), losses };
        let mut left = Left { clock: capture::offsets(), ..Left::default() };
        let mut spoilt = Vec::new();
        for (at, bytes) in found.iter().enumerate() {
            let kept = bytes.as_ref().and_then(|bytes| slot::decode(bytes, boot));
            match kept.filter(|kept| !store.slots.contains_key(&kept.key)) {
                Some(kept) => {
                    let taken = Taken { slot: at, written_unix_ns: kept.written_unix_ns };
                    store.slots.insert(kept.key.clone(), taken);
                    left.records.push(kept);
                }
                None => {
                    spoilt.extend(bytes.is_some().then(|| Operation::Delete(name(at))));
                    store.free.insert(at);
                }
            }
        }
        left.damaged = spoilt.len() as u64;
        left.records.sort_by(|a, b| (a.written_unix_ns, &a.key).cmp(&(b.written_unix_ns, &b.key)));
        if !spoilt.is_empty() {
            store.client.batch(spoilt).await?;
        }
        Ok((store, left))
    }

    /// Writes batches until there are no more.
    pub(crate) async fn run(mut self, mut batches: mpsc::Receiver<Vec<Change>>, stop: CancellationToken) {
        while let Some(batch) = batches.recv().await {
            if let Err(error) = self.write(&batch).await {
                tracing::error!(%error, "records that are to outlive this program cannot be stored");
                self.insist(&batch, &stop).await;
            }
        }
    }

    /// Tries again until it works or the program stops.
    async fn insist(&mut self, batch: &[Change], stop: &CancellationToken) {
        loop {
            let is_over = stop.run_until_cancelled(tokio::time::sleep(AGAIN_AFTER)).await.is_none();
            match self.write(batch).await {
                Ok(()) => return tracing::info!("records that are to outlive this program are stored again"),
                Err(_) if is_over => {
                    return self.losses.add(WarptapPersistenceDropReason::NotWritten, batch.len() as u64);
                }
                Err(_) => {}
            }
        }
    }

    /// All of a batch, or nothing.
    async fn write(&mut self, batch: &[Change]) -> Result<(), StorageError> {
        let ClockOffsets { at_ns, to_unix_ns, .. } = capture::offsets();
        let written_unix_ns = at_ns.saturating_add_signed(to_unix_ns);
        let clock = Clock { boot: self.boot, to_unix_ns, written_unix_ns };
        let steps = batch.iter().filter_map(|change| self.step(change, clock)).collect();
        self.client.batch(steps).await?;
        for gone in batch.iter().filter(|change| change.bytes.is_none()) {
            self.free.extend(self.slots.remove(&gone.key).map(|taken| taken.slot));
        }
        Ok(())
    }

    /// What a change asks of the storage. A slot that is given stays given, should the storage fail.
    fn step(&mut self, change: &Change, clock: Clock) -> Option<Operation> {
        let Some(bytes) = slot::encode(change, clock) else {
            return self.slots.get(&change.key).map(|taken| Operation::Delete(name(taken.slot)));
        };
        let own = self.slots.get(&change.key).map(|taken| taken.slot);
        let slot = own.or_else(|| self.free.pop_first()).or_else(|| self.make_room())?;
        let written_unix_ns = clock.written_unix_ns;
        self.slots.insert(change.key.clone(), Taken { slot, written_unix_ns });
        Some(Operation::Set(name(slot), bytes))
    }

    /// The slot of the record written longest ago.
    fn make_room(&mut self) -> Option<usize> {
        let oldest = self.slots.iter().min_by_key(|(_, taken)| taken.written_unix_ns);
        let key = oldest.map(|(key, _)| key.clone())?;
        self.losses.add(WarptapPersistenceDropReason::Full, 1);
        self.slots.remove(&key).map(|taken| taken.slot)
    }
}

fn name(slot: usize) -> String {
    format!("record-{slot:04}")
}
