//! Frontiers: what a wait covers, that is the awaited stream and the streams that it waited for.
//!
//! A frontier is a bounded vector clock. A stream stores the latest [`Snapshot`] of each stream that it waited for; an
//! event's record copies them, and so does every stream that waits for the event. A wait of the host then ends the
//! steps of all of them. Waiting for a result's copy, made on a stream of its own, thus ends the step of the
//! computation.
//!
//! At most [`WAITED`] other streams are stored. If there are more, the snapshot taken first is evicted, since its step
//! is most likely closed.

use crate::atomic::Relaxed;
use crate::fold::Snapshot;
use crate::record::StreamKey;

/// Number of other streams in a frontier.
pub const WAITED: usize = 3;

/// Snapshots of streams that one waited for; an empty snapshot in a free slot.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct WaitedStreams(pub [Snapshot; WAITED]);

/// Latest positions of the streams that a wait covers.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Frontier {
    /// Snapshot of the stream itself.
    pub own: Snapshot,
    /// Snapshots of the streams that it waited for.
    pub waited: WaitedStreams,
}

/// Where a snapshot is stored in a frontier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// Nowhere: a later one is stored already.
    Redundant,
    /// In a free slot, or in place of an earlier snapshot of the same stream.
    Slot(usize),
    /// In the slot of another stream, which is evicted.
    Evict(usize),
}

impl WaitedStreams {
    /// Returns where to store the snapshot of a stream that `waiter` waits for.
    #[inline(always)]
    pub fn slot(&self, waiter: &StreamKey, snapshot: &Snapshot) -> Placement {
        if snapshot.is_empty() || snapshot.is_of(waiter) {
            return Placement::Redundant;
        }
        let key = snapshot.key(waiter.pid);
        let (mut free, mut oldest) = (WAITED, 0);
        for (at, stored) in self.0.iter().enumerate() {
            if stored.is_empty() {
                free = at;
            } else if stored.is_of(&key) {
                return if is_later(snapshot, stored) { Placement::Slot(at) } else { Placement::Redundant };
            }
        }
        if free < WAITED {
            return Placement::Slot(free);
        }
        for (at, stored) in self.0.iter().enumerate() {
            if taken_ns(stored) < taken_ns(&self.0[oldest]) {
                oldest = at;
            }
        }
        Placement::Evict(oldest)
    }

    /// Adds the snapshot of a stream that `waiter` waits for. Returns true if another was evicted.
    pub fn add(&self, waiter: &StreamKey, snapshot: &Snapshot) -> bool {
        let slot = self.slot(waiter, snapshot);
        if let Placement::Slot(at) | Placement::Evict(at) = slot {
            self.0[at].copy(snapshot);
        }
        matches!(slot, Placement::Evict(_))
    }

    /// Replaces the values by those of `other`.
    #[inline(always)]
    pub fn copy(&self, other: &WaitedStreams) {
        for (to, from) in self.0.iter().zip(&other.0) {
            to.work[0].store(0, Relaxed);
            if !from.is_empty() {
                to.copy(from);
            }
        }
    }

    /// Removes all snapshots.
    #[inline(always)]
    pub fn clear(&self) {
        for snapshot in &self.0 {
            snapshot.work[0].store(0, Relaxed);
        }
    }
}

/// Returns true if `snapshot` is later than `stored`, of the same stream or of an earlier one with its handle.
#[inline(always)]
fn is_later(snapshot: &Snapshot, stored: &Snapshot) -> bool {
    let (born_ns, before_ns) = (snapshot.born_ns.load(Relaxed), stored.born_ns.load(Relaxed));
    match born_ns == before_ns {
        true => snapshot.work[0].load(Relaxed) > stored.work[0].load(Relaxed),
        false => born_ns > before_ns,
    }
}

#[inline(always)]
fn taken_ns(snapshot: &Snapshot) -> u64 {
    snapshot.ns.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITER: StreamKey = StreamKey { pid: 5, tid: 0, stream: 1_000 };

    fn snapshot(stream: u64, born_ns: u64, work: u64) -> Snapshot {
        let snapshot = Snapshot::default();
        snapshot.stream.store(stream, Relaxed);
        snapshot.born_ns.store(born_ns, Relaxed);
        snapshot.ns.store(100 * work, Relaxed);
        snapshot.work[0].store(work, Relaxed);
        snapshot
    }

    fn stored(waited: &WaitedStreams) -> [(u64, u64); WAITED] {
        let mut stored = [(0, 0); WAITED];
        for (stored, snapshot) in stored.iter_mut().zip(&waited.0) {
            if !snapshot.is_empty() {
                *stored = (snapshot.stream.load(Relaxed), snapshot.work[0].load(Relaxed));
            }
        }
        stored.sort_unstable();
        stored
    }

    #[test]
    fn the_latest_snapshot_of_each_stream_is_stored() {
        let waited = WaitedStreams::default();
        for (stream, work) in [(7, 3), (8, 4), (7, 2), (7, 9)] {
            assert!(!waited.add(&WAITER, &snapshot(stream, 1, work)));
        }
        assert_eq!(stored(&waited), [(0, 0), (7, 9), (8, 4)]);
    }

    #[test]
    fn the_stream_waited_for_first_is_evicted() {
        let waited = WaitedStreams::default();
        let evicted: [bool; 4] = [(7, 3), (8, 2), (9, 5), (6, 7)]
            .map(|(stream, work)| waited.add(&WAITER, &snapshot(stream, 1, work)));
        assert_eq!(evicted, [false, false, false, true]);
        assert_eq!(stored(&waited), [(6, 7), (7, 3), (9, 5)]);
    }

    #[test]
    fn a_new_stream_with_a_handle_replaces_the_old_one() {
        let waited = WaitedStreams::default();
        for (born_ns, work) in [(1, 50), (2, 1), (1, 60)] {
            waited.add(&WAITER, &snapshot(7, born_ns, work));
        }
        assert_eq!(stored(&waited)[WAITED - 1], (7, 1));
    }

    #[test]
    fn own_and_empty_snapshots_are_not_stored() {
        let waited = WaitedStreams::default();
        waited.add(&WAITER, &snapshot(1_000, 1, 4));
        waited.add(&WAITER, &snapshot(7, 1, 0));
        assert_eq!(stored(&waited), [(0, 0); WAITED]);
    }

    #[test]
    fn copies_are_equal() {
        let (waited, other) = (WaitedStreams::default(), WaitedStreams::default());
        waited.add(&WAITER, &snapshot(7, 1, 3));
        other.add(&WAITER, &snapshot(8, 1, 3));
        other.add(&WAITER, &snapshot(9, 1, 3));
        other.copy(&waited);
        assert_eq!(stored(&other), stored(&waited));
        other.clear();
        assert_eq!(stored(&other), [(0, 0); WAITED]);
    }
}
