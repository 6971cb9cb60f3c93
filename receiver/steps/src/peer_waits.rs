//! Peer waits: intervals in which a process waited for ranks of its job that had not arrived at a collective.
//!
//! The collective analysis, which sees all ranks, records the intervals before the step record of the wait arrives. A step
//! takes the intervals within it.

use std::collections::VecDeque;

/// Intervals remembered for each process, more than a training iteration has waits. When full, the oldest is evicted, and
/// its step shows a shorter peer wait.
const INTERVALS_MAX: usize = 256;

/// The peer waits of one process: start and end of each, in nanoseconds, ordered by end.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerWaits {
    intervals: VecDeque<(u64, u64)>,
}

impl PeerWaits {
    /// Records an interval; one that overlaps the latest extends it.
    pub(crate) fn record(&mut self, from_ns: u64, to_ns: u64) {
        if let Some(last) = self.intervals.back_mut().filter(|last| from_ns <= last.1 && to_ns >= last.0) {
            *last = (last.0.min(from_ns), last.1.max(to_ns));
            return;
        }
        if self.intervals.len() >= INTERVALS_MAX {
            self.intervals.pop_front();
        }
        self.intervals.push_back((from_ns, to_ns));
    }

    /// Returns the time waited for peers between two instants, in nanoseconds; `None` if the process never did.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let overlap = |(from, to): &(u64, u64)| (*to).min(to_ns).saturating_sub((*from).max(from_ns));
        let near = self.intervals.iter().rev().take_while(|(_, to)| *to >= from_ns);
        (!self.intervals.is_empty()).then(|| near.map(overlap).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_waits_within_the_step_count() {
        let mut waits = PeerWaits::default();
        assert_eq!(waits.within(0, 100), None);
        [(10, 20), (30, 50), (90, 95)].into_iter().for_each(|(from, to)| waits.record(from, to));
        assert_eq!(waits.within(0, 100), Some(35));
        assert_eq!(waits.within(15, 40), Some(15));
        assert_eq!(waits.within(51, 89), Some(0));
    }

    #[test]
    fn overlapping_waits_count_once() {
        let mut waits = PeerWaits::default();
        [(10, 20), (10, 30), (10, 25)].into_iter().for_each(|(from, to)| waits.record(from, to));
        assert_eq!(waits.within(0, 100), Some(20));
    }

    #[test]
    fn the_oldest_waits_are_evicted_beyond_the_bound() {
        let mut waits = PeerWaits::default();
        (0..10_000).for_each(|n| waits.record(n * 10, n * 10 + 5));
        assert_eq!(waits.within(0, u64::MAX), Some(5 * INTERVALS_MAX as u64));
    }
}
