//! Changes waiting to be written: the producer's side.
//!
//! One batch is written at a time. Changes made meanwhile wait here, and a change replaces an earlier one of its key, so a
//! slow storage costs bounded memory and never blocks the producer.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::{DropCounters, PENDING_BYTES_MAX, RECORD_BYTES_MAX, RECORDS_MAX, Reason, RecordChange};

/// The changes that wait to be written.
pub(crate) struct PendingChanges {
    changes: BTreeMap<String, Option<Vec<u8>>>,
    bytes: usize,
    sender: mpsc::Sender<Vec<RecordChange>>,
    drops: Arc<DropCounters>,
}

impl PendingChanges {
    /// Creates an empty set of changes whose batches are sent to `sender`.
    pub(crate) fn new(sender: mpsc::Sender<Vec<RecordChange>>, drops: Arc<DropCounters>) -> PendingChanges {
        PendingChanges { changes: BTreeMap::new(), bytes: 0, sender, drops }
    }

    /// Accepts a change, which replaces a pending change of the same key. Changes above a bound are dropped and counted.
    pub(crate) fn put(&mut self, change: RecordChange) {
        let bytes = change.bytes.as_ref().map_or(0, Vec::len);
        let before = self.changes.get(&change.key).map(|b| b.as_ref().map_or(0, Vec::len));
        let rest = self.bytes - before.unwrap_or(0);
        let is_full = before.is_none() && self.changes.len() >= RECORDS_MAX;
        if bytes > RECORD_BYTES_MAX {
            return self.drops.add(Reason::TooLarge, 1);
        }
        if is_full || rest + bytes > PENDING_BYTES_MAX {
            return self.drops.add(Reason::Full, 1);
        }
        self.bytes = rest + bytes;
        self.changes.insert(change.key, change.bytes);
    }

    /// Sends all changes as a batch, unless the previous batch is still being written.
    pub(crate) fn flush(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        if let Ok(permit) = self.sender.clone().try_reserve() {
            permit.send(self.take());
        }
    }

    /// Sends all changes as a batch, waiting for the previous batch.
    pub(crate) fn close(mut self) {
        let all = self.take();
        let count = all.len() as u64;
        if count > 0 && self.sender.blocking_send(all).is_err() {
            self.drops.add(Reason::NotWritten, count);
        }
    }

    fn take(&mut self) -> Vec<RecordChange> {
        self.bytes = 0;
        let all = std::mem::take(&mut self.changes).into_iter();
        all.map(|(key, bytes)| RecordChange { key, bytes }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PersistDrops;

    fn changes() -> (PendingChanges, mpsc::Receiver<Vec<RecordChange>>) {
        let (sender, batches) = mpsc::channel(1);
        (PendingChanges::new(sender, Arc::default()), batches)
    }

    fn set(key: &str, bytes: &[u8]) -> RecordChange {
        RecordChange { key: key.to_owned(), bytes: Some(bytes.to_vec()) }
    }

    #[test]
    fn latest_value_waits_for_the_batch_in_progress() {
        let (mut changes, mut batches) = changes();
        changes.put(set("a", b"1"));
        changes.flush();
        for value in [b"2", b"3"] {
            changes.put(set("a", value));
            changes.flush();
        }
        changes.put(RecordChange { key: "b".to_owned(), bytes: None });
        assert_eq!(batches.try_recv(), Ok(vec![set("a", b"1")]));
        changes.flush();
        assert_eq!(
            batches.try_recv(),
            Ok(vec![set("a", b"3"), RecordChange { key: "b".to_owned(), bytes: None }])
        );
    }

    #[test]
    fn changes_above_a_bound_are_counted() {
        let (mut changes, _batches) = changes();
        changes.put(set("large", &vec![0; RECORD_BYTES_MAX + 1]));
        (0..RECORDS_MAX + 3).for_each(|n| changes.put(set(&n.to_string(), b"x")));
        changes.put(set("7", b"y"));
        let want = PersistDrops::default().with(Reason::TooLarge, 1).with(Reason::Full, 3);
        assert_eq!((changes.drops.snapshot(), changes.changes.len()), (want, RECORDS_MAX));
        assert_eq!(changes.changes["7"], Some(b"y".to_vec()));
    }

    #[test]
    fn pending_bytes_are_bounded_and_replaced_values_do_not_count() {
        let (mut changes, _batches) = changes();
        let of = PENDING_BYTES_MAX / RECORD_BYTES_MAX;
        let value = vec![0; RECORD_BYTES_MAX];
        (0..of + 2).for_each(|n| changes.put(set(&n.to_string(), &value)));
        (0..of).for_each(|n| changes.put(set(&n.to_string(), &value)));
        let want = PersistDrops::default().with(Reason::Full, 2);
        assert_eq!((changes.drops.snapshot(), changes.changes.len()), (want, of));
    }
}
