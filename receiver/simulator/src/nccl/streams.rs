//! What a stream has to wait for: the collectives enqueued on it that nobody has waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::board::Entry;
use super::comm::comms;

/// One thing to wait for.
#[derive(Clone, Copy)]
pub enum Pending {
    /// The n-th collective of a communicator.
    Work {
        /// Where its ranks meet.
        entry: &'static Entry,
        /// The communicator.
        key: u64,
        /// n.
        number: u64,
    },
    /// The n-th message from a rank to this one.
    Message {
        /// Where its ranks meet.
        entry: &'static Entry,
        /// The communicator.
        key: u64,
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// n.
        number: u64,
    },
}

impl Pending {
    fn wait(&self) {
        match *self {
            Pending::Work { entry, key, number } => entry.work.wait(number, || comms().is_aborted(key)),
            Pending::Message { entry, key, from, to, number } => {
                entry.wait_sent(from, to, number, || comms().is_aborted(key))
            }
        };
    }
}

/// The streams of this process.
#[derive(Default)]
pub struct Streams {
    pending: BTreeMap<u64, Vec<Pending>>,
    /// What stood before an event when it was recorded.
    events: BTreeMap<u64, Vec<Pending>>,
    capturing: BTreeSet<u64>,
    /// Messages received, by communicator, sender and receiver.
    pub received: BTreeMap<(u64, usize, usize), u64>,
}

static STREAMS: Mutex<Streams> = Mutex::new(Streams {
    pending: BTreeMap::new(),
    events: BTreeMap::new(),
    capturing: BTreeSet::new(),
    received: BTreeMap::new(),
});

/// This process's streams.
pub fn streams() -> MutexGuard<'static, Streams> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    /// Something more to wait for.
    pub fn push(&mut self, stream: u64, pending: Pending) {
        self.pending.entry(stream).or_default().push(pending);
    }

    /// What is enqueued on the stream is captured into a graph from here on, or is not.
    pub fn set_capturing(&mut self, stream: u64, on: bool) {
        if on {
            self.capturing.insert(stream)
        } else {
            self.capturing.remove(&stream)
        };
    }

    /// See [`Streams::set_capturing`].
    pub fn is_capturing(&self, stream: u64) -> bool {
        self.capturing.contains(&stream)
    }

    /// The event covers what stands before it now.
    pub fn record(&mut self, event: u64, stream: u64) {
        let before = self.pending.get(&stream).cloned().unwrap_or_default();
        self.events.insert(event, before);
    }
}

/// Waits for all of a stream's work.
pub fn wait_for_stream(stream: u64) {
    let pending = streams().pending.remove(&stream).unwrap_or_default();
    pending.iter().for_each(Pending::wait);
}

/// Waits for what stood before an event.
pub fn wait_for_event(event: u64) {
    let before = streams().events.get(&event).cloned().unwrap_or_default();
    before.iter().for_each(Pending::wait);
}
