//! Changes on their way to the storage: the reading thread's side.
//!
//! The one idea: one batch is under way at a time; what changes meanwhile waits here, the latest value of a key in
//! place of the ones before. So a storage that is slow costs memory within bounds, and never holds up the thread.

use std::collections::BTreeMap;
use std::sync::Arc;

use semconv::value::WarptapPersistenceDropReason;
use tokio::sync::mpsc;

use super::{Change, Losses, RECORD_BYTES_MAX, RECORDS_MAX, WAITING_BYTES_MAX};

/// What waits to be written.
pub(crate) struct Changes {
    waiting: BTreeMap<String, Option<Vec<u8>>>,
    bytes: usize,
    sender: mpsc::Sender<Vec<Change>>,
    losses: Arc<Losses>,
}

impl Changes {
    /// Changes that go to whoever holds the other end.
    pub(crate) fn new(sender: mpsc::Sender<Vec<Change>>, losses: Arc<Losses>) -> Changes {
        Changes { waiting: BTreeMap::new(), bytes: 0, sender, losses }
    }

    /// Takes a change in; it replaces an earlier one of its key.
    pub(crate) fn put(&mut self, change: Change) {
        let bytes = change.bytes.as_ref().map_or(0, Vec::len);
        let before = self.waiting.get(&change.key).map(|b| b.as_ref().map_or(0, Vec::len));
        let rest = self.bytes - before.unwrap_or(0);
        let is_full = before.is_none() && self.waiting.len() >= RECORDS_MAX;
        if bytes > RECORD_BYTES_MAX {
            return self.losses.add(WarptapPersistenceDropReason::TooLarge, 1);
        }
        if is_full || rest + bytes > WAITING_BYTES_MAX {
            return self.losses.add(WarptapPersistenceDropReason::Full, 1);
        }
        self.bytes = rest + bytes;
        self.waiting.insert(change.key, change.bytes);
    }

    /// Sends what waits, unless a batch is under way already.
    pub(crate) fn flush(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        if let Ok(place) = self.sender.clone().try_reserve() {
            place.send(self.take());
        }
    }

    /// Sends what waits, however long that takes.
    pub(crate) fn close(mut self) {
        let all = self.take();
        let count = all.len() as u64;
        if count > 0 && self.sender.blocking_send(all).is_err() {
            self.losses.add(WarptapPersistenceDropReason::NotWritten, count);
        }
    }

    fn take(&mut self) -> Vec<Change> {
        self.bytes = 0;
        let all = std::mem::take(&mut self.waiting).into_iter();
        all.map(|(key, bytes)| Change { key, bytes }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keep::Unkept;

    fn changes() -> (Changes, mpsc::Receiver<Vec<Change>>) {
        let (sender, batches) = mpsc::channel(1);
        (Changes::new(sender, Arc::default()), batches)
    }

    fn set(key: &str, bytes: &[u8]) -> Change {
        Change { key: key.to_owned(), bytes: Some(bytes.to_vec()) }
    }

    #[test]
    fn while_a_batch_is_under_way_the_latest_value_of_a_key_waits() {
        let (mut changes, mut batches) = changes();
        changes.put(set("a", b"1"));
        changes.flush();
        for value in [b"2", b"3"] {
            changes.put(set("a", value));
            changes.flush();
        }
        changes.put(Change { key: "b".to_owned(), bytes: None });
        assert_eq!(batches.try_recv(), Ok(vec![set("a", b"1")]));
        changes.flush();
        assert_eq!(batches.try_recv(), Ok(vec![set("a", b"3"), Change { key: "b".to_owned(), bytes: None }]));
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_rest_waits() {
        let (mut changes, _batches) = changes();
        changes.put(set("large", &vec![0; RECORD_BYTES_MAX + 1]));
        (0..RECORDS_MAX + 3).for_each(|n| changes.put(set(&n.to_string(), b"x")));
        changes.put(set("7", b"y"));
        let want = Unkept::default()
            .with(WarptapPersistenceDropReason::TooLarge, 1)
            .with(WarptapPersistenceDropReason::Full, 3);
        assert_eq!((changes.losses.unkept(), changes.waiting.len()), (want, RECORDS_MAX));
        assert_eq!(changes.waiting["7"], Some(b"y".to_vec()));
    }

    #[test]
    fn bytes_on_their_way_are_bounded_and_a_value_that_is_replaced_gives_its_room_back() {
        let (mut changes, _batches) = changes();
        let of = WAITING_BYTES_MAX / RECORD_BYTES_MAX;
        let value = vec![0; RECORD_BYTES_MAX];
        (0..of + 2).for_each(|n| changes.put(set(&n.to_string(), &value)));
        (0..of).for_each(|n| changes.put(set(&n.to_string(), &value)));
        let want = Unkept::default().with(WarptapPersistenceDropReason::Full, 2);
        assert_eq!((changes.losses.unkept(), changes.waiting.len()), (want, of));
    }
}
