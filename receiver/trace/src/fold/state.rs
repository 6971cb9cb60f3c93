//! State of streams, threads and recorded events. Their owner bounds each kind.

use std::collections::BTreeMap;

use probe_abi::fold::{Snapshot, StreamFold};
use probe_abi::frontier::Frontier;
use probe_abi::record::Poll;

/// A stream's fold, and its snapshot at the latest record of an event.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) fold: StreamFold,
    pub(super) latest: Option<Box<Snapshot>>,
}

/// State of a thread.
#[derive(Debug)]
pub(super) struct Thread {
    /// Timed calls under way.
    pub(super) depth: usize,
    /// Current device; -1 if it was never set.
    pub(super) device: i32,
    /// Handle of its default streams.
    pub(super) default_stream: u64,
    /// Return of its latest runtime call: the runtime makes driver calls until then.
    pub(super) runtime_until_ns: u64,
    /// Wait by polling.
    pub(super) poll: Poll,
}

impl Default for Thread {
    fn default() -> Self {
        Thread { depth: 0, device: -1, default_stream: 0, runtime_until_ns: 0, poll: Poll::default() }
    }
}

/// Recorded events by process and handle. Full: the oldest is evicted.
#[derive(Debug)]
pub(super) struct Recorded {
    bound: usize,
    taken: u64,
    by_event: BTreeMap<(u32, u64), (u64, Box<Frontier>)>,
    by_age: BTreeMap<u64, (u32, u64)>,
}

impl Recorded {
    pub(super) fn new(bound: usize) -> Recorded {
        Recorded { bound, taken: 0, by_event: BTreeMap::new(), by_age: BTreeMap::new() }
    }

    pub(super) fn get(&self, pid: u32, event: u64) -> Option<&Frontier> {
        self.by_event.get(&(pid, event)).map(|(_, frontier)| &**frontier)
    }

    pub(super) fn insert(&mut self, pid: u32, event: u64, frontier: Frontier) {
        self.remove(pid, event);
        while self.by_event.len() >= self.bound.max(1) {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.by_event.remove(&oldest);
        }
        self.taken += 1;
        self.by_age.insert(self.taken, (pid, event));
        self.by_event.insert((pid, event), (self.taken, Box::new(frontier)));
    }

    pub(super) fn remove(&mut self, pid: u32, event: u64) {
        if let Some((age, _)) = self.by_event.remove(&(pid, event)) {
            self.by_age.remove(&age);
        }
    }

    pub(super) fn remove_process(&mut self, pid: u32) {
        self.by_event.retain(|key, _| key.0 != pid);
        self.by_age.retain(|_, key| key.0 != pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_event_recorded_first_is_evicted() {
        let mut recorded = Recorded::new(2);
        for event in [1, 2, 1, 3] {
            recorded.insert(7, event, Frontier::default());
        }
        let stored: Vec<_> = (1..=3).filter(|e| recorded.get(7, *e).is_some()).collect();
        assert_eq!(stored, [1, 3]);
        assert_eq!(recorded.by_age.len(), 2);
    }
}
