//! The index of a stored queue: the numbers of its requests, written in one batch with the requests.
//!
//! ```text
//!   dispatched   unread
//!  ┌─┴──┐      ┌──┴────┐
//!  3  5  6      7  8  9         read = 7, write = 10
//! ```
//! A request has one number until it is done. Requests that were dispatched and not done when the process ends
//! are sent again by the next process, before those that were never dispatched.

use std::collections::{BTreeSet, VecDeque};

use prost::Message;

/// The storage key of the index, the same as the Collector's.
pub(crate) const KEY: &str = "qmv0";

/// Returns the storage key of a request.
pub(crate) fn key(number: u64) -> String {
    number.to_string()
}

/// The numbers of a queue's requests, and their total size.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Index {
    read: u64,
    write: u64,
    dispatched: BTreeSet<u64>,
    /// Numbers dispatched by an earlier process and not yet by this one.
    to_repeat: VecDeque<u64>,
    pub(crate) items: u64,
    pub(crate) bytes: u64,
}

/// The stored form of an index. `runs` are pairs of a first dispatched number and a count.
#[derive(Clone, Message, PartialEq)]
struct Stored {
    #[prost(uint64, tag = "1")]
    read: u64,
    #[prost(uint64, tag = "2")]
    write: u64,
    #[prost(uint64, repeated, tag = "3")]
    runs: Vec<u64>,
    #[prost(uint64, tag = "4")]
    items: u64,
    #[prost(uint64, tag = "5")]
    bytes: u64,
}

/// Dispatched numbers in a stored index, at most: more than any queue ever sends at once.
const DISPATCHED_MAX: u64 = 1 << 24;

impl Index {
    /// Decodes an index; returns `None` if it is inconsistent.
    pub(crate) fn restore(bytes: &[u8]) -> Option<Self> {
        let stored = Stored::decode(bytes).ok()?;
        let mut dispatched = BTreeSet::new();
        let mut count = 0u64;
        for run in stored.runs.chunks(2) {
            let &[begin, length] = run else { return None };
            let end = begin.checked_add(length).filter(|end| *end <= stored.read)?;
            count = count.checked_add(length).filter(|count| *count <= DISPATCHED_MAX)?;
            dispatched.extend(begin..end);
        }
        (stored.read <= stored.write).then(|| Index {
            read: stored.read,
            write: stored.write,
            to_repeat: dispatched.iter().copied().collect(),
            dispatched,
            items: stored.items,
            bytes: stored.bytes,
        })
    }

    /// Encodes the index.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut runs: Vec<u64> = Vec::new();
        for &number in &self.dispatched {
            match runs.as_mut_slice() {
                [.., begin, length] if *begin + *length == number => *length += 1,
                _ => runs.extend([number, 1]),
            }
        }
        let Index { read, write, items, bytes, .. } = *self;
        Stored { read, write, runs, items, bytes }.encode_to_vec()
    }

    /// Returns the number of requests in the queue.
    pub(crate) fn requests(&self) -> u64 {
        self.write - self.read + self.dispatched.len() as u64
    }

    /// Adds a request and returns its number.
    pub(crate) fn add(&mut self, items: u64, bytes: u64) -> u64 {
        self.items += items;
        self.bytes += bytes;
        self.write += 1;
        self.write - 1
    }

    /// Takes back the last `count` numbers, whose requests were not stored.
    pub(crate) fn undo_add(&mut self, count: u64, items: u64, bytes: u64) {
        self.write -= count;
        self.items -= items;
        self.bytes -= bytes;
    }

    /// Returns the number of requests that are not dispatched.
    pub(crate) fn undispatched(&self) -> usize {
        usize::try_from(self.write - self.read).unwrap_or(usize::MAX).saturating_add(self.to_repeat.len())
    }

    /// Marks the next request as dispatched and returns its number.
    pub(crate) fn dispatch(&mut self) -> Option<u64> {
        if let Some(number) = self.to_repeat.pop_front() {
            return Some(number);
        }
        (self.read < self.write).then(|| {
            self.read += 1;
            self.dispatched.insert(self.read - 1);
            self.read - 1
        })
    }

    /// Takes back a dispatch: the request becomes the next one again.
    pub(crate) fn undo_dispatch(&mut self, number: u64) {
        self.to_repeat.push_front(number);
    }

    /// Removes a dispatched request that is done.
    pub(crate) fn done(&mut self, number: u64, items: u64, bytes: u64) {
        self.dispatched.remove(&number);
        self.items = self.items.saturating_sub(items);
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.requests() == 0 {
            // The sizes of unreadable requests are unknown, so the totals may be too large.
            (self.items, self.bytes) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_dispatches_come_first_after_a_restart() {
        let mut index = Index::default();
        for _ in 0..10 {
            index.add(1, 10);
        }
        let numbers: Vec<u64> = std::iter::from_fn(|| index.dispatch()).take(7).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
        for done in [0, 1, 2, 4] {
            index.done(done, 1, 10);
        }
        assert_eq!((index.requests(), index.undispatched()), (6, 3));
        let mut restored = Index::restore(&index.encode()).unwrap();
        assert_eq!((restored.requests(), restored.items, restored.bytes), (6, 6, 60));
        assert_eq!(std::iter::from_fn(|| restored.dispatch()).collect::<Vec<_>>(), [3, 5, 6, 7, 8, 9]);
    }

    #[test]
    fn an_inconsistent_index_is_rejected() {
        let bytes = |stored: Stored| stored.encode_to_vec();
        let good = Stored { read: 5, write: 7, runs: vec![3, 2], items: 1, bytes: 1 };
        assert!(Index::restore(&bytes(good.clone())).is_some());
        for bad in [
            Stored { read: 8, ..good.clone() },
            Stored { runs: vec![3], ..good.clone() },
            Stored { runs: vec![3, 9], ..good.clone() },
            Stored { runs: vec![u64::MAX, 2], ..good.clone() },
            Stored { read: u64::MAX, write: u64::MAX, runs: vec![0, u64::MAX], ..good },
        ] {
            assert_eq!(Index::restore(&bytes(bad.clone())), None, "{bad:?}");
        }
        assert_eq!(Index::restore(b"\xff\xff"), None);
    }
}
