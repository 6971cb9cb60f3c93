//! The collectives and messages enqueued on each stream that were not waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::board::Entry;
use super::comm::comms;

/// A collective or message to wait for.
#[derive(Clone, Copy)]
pub enum Pending {
    /// The n-th collective of a communicator.
    Work {
        /// Shared state of the communicator.
        entry: &'static Entry,
        /// Key of the communicator.
        key: u64,
        /// Number n.
        number: u64,
    },
    /// The n-th message from a rank to this one.
    Message {
        /// Shared state of the communicator.
        entry: &'static Entry,
        /// Key of the communicator.
        key: u64,
        /// Sending rank.
        from: usize,
        /// Receiving rank.
        to: usize,
        /// Number n.
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
    /// Pending work that each event covers.
    events: BTreeMap<u64, Vec<Pending>>,
    capturing: BTreeSet<u64>,
    /// Number of messages received, by communicator, sender and receiver.
    pub received: BTreeMap<(u64, usize, usize), u64>,
}

static STREAMS: Mutex<Streams> = Mutex::new(Streams {
    pending: BTreeMap::new(),
    events: BTreeMap::new(),
    capturing: BTreeSet::new(),
    received: BTreeMap::new(),
});

/// Locks the streams of this process.
pub fn streams() -> MutexGuard<'static, Streams> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Streams {
    /// Adds pending work to a stream.
    pub fn push(&mut self, stream: u64, pending: Pending) {
        self.pending.entry(stream).or_default().push(pending);
    }

    /// Sets whether the stream is being captured.
    pub fn set_capturing(&mut self, stream: u64, on: bool) {
        if on {
            self.capturing.insert(stream)
        } else {
            self.capturing.remove(&stream)
        };
    }

    /// Returns whether the stream is being captured.
    pub fn is_capturing(&self, stream: u64) -> bool {
        self.capturing.contains(&stream)
    }

    /// Records an event that covers the pending work of a stream.
    pub fn record(&mut self, event: u64, stream: u64) {
        let before = self.pending.get(&stream).cloned().unwrap_or_default();
        self.events.insert(event, before);
    }
}

/// Waits for the pending work of a stream.
pub fn wait_for_stream(stream: u64) {
    let pending = streams().pending.remove(&stream).unwrap_or_default();
    pending.iter().for_each(Pending::wait);
}

/// Waits for the work that an event covers.
pub fn wait_for_event(event: u64) {
    let before = streams().events.get(&event).cloned().unwrap_or_default();
    before.iter().for_each(Pending::wait);
}
