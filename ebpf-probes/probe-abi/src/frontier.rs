//! What a wait covers: the stream that it waits for, and the streams that this one waited for.
//!
//! The one idea: a vector clock. A stream keeps a [`Snapshot`] of each stream that it waited for, the latest of each; an
//! event's record takes them along, and so does every stream that waits for the event. A wait of the host then ends the
//! step of all of them. So the copy of a result on a stream of its own stands for the computation before it.
//!
//! At most [`WAITED`] other streams. More: the one waited for longest ago is forgotten, since it is most likely closed.

use crate::atomic::Relaxed;
use crate::fold::Snapshot;
use crate::record::StreamKey;

/// Other streams that a stream is known to wait for.
pub const WAITED: usize = 3;

/// The streams that one waited for, an empty snapshot in a free slot.
#[derive(Debug, Default)]
#[repr(C)]
pub struct WaitedStreams(pub [Snapshot; WAITED]);

/// How far a wait reaches.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Frontier {
    /// The stream itself.
    pub own: Snapshot,
    /// What it waited for.
    pub waited: WaitedStreams,
}

/// Where a snapshot goes among those that are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Placement {
    /// It says nothing new.
    Redundant,
    /// A slot that was free, or held an earlier snapshot of the same stream.
    Slot(usize),
    /// The slot of a stream that is forgotten for it.
    Evict(usize),
}

impl WaitedStreams {
    /// Where a snapshot of a stream that `waiter` waits for goes.
    #[inline(always)]
    pub fn slot(&self, waiter: &StreamKey, snapshot: &Snapshot) -> Placement {
        if snapshot.is_empty() || snapshot.is_of(waiter) {
            return Placement::Redundant;
        }
        let key = snapshot.key(waiter.pid);
        let (mut free, mut oldest) = (WAITED, 0);
        for (at, kept) in self.0.iter().enumerate() {
            if kept.is_empty() {
                free = at;
            } else if kept.is_of(&key) {
                return if is_later(snapshot, kept) { Placement::Slot(at) } else { Placement::Redundant };
            }
        }
        if free < WAITED {
            return Placement::Slot(free);
        }
        for (at, kept) in self.0.iter().enumerate() {
            if taken_ns(kept) < taken_ns(&self.0[oldest]) {
                oldest = at;
            }
        }
        Placement::Evict(oldest)
    }

    /// Adds a snapshot of a stream that `waiter` waits for; true where another was forgotten for it.
    pub fn add(&self, waiter: &StreamKey, snapshot: &Snapshot) -> bool {
        let slot = self.slot(waiter, snapshot);
        if let Placement::Slot(at) | Placement::Evict(at) = slot {
            self.0[at].copy(snapshot);
        }
        matches!(slot, Placement::Evict(_))
    }

    /// Makes it the same as `other`.
    #[inline(always)]
    pub fn copy(&self, other: &WaitedStreams) {
        for (to, from) in self.0.iter().zip(&other.0) {
            to.work[0].store(0, Relaxed);
            if !from.is_empty() {
                to.copy(from);
            }
        }
    }

    /// Forgets all.
    #[inline(always)]
    pub fn clear(&self) {
        for snapshot in &self.0 {
            snapshot.work[0].store(0, Relaxed);
        }
    }
}

/// True where `snapshot` reaches further than `kept`, of the same stream or of one that had its handle.
#[inline(always)]
fn is_later(snapshot: &Snapshot, kept: &Snapshot) -> bool {
    let (born_ns, before_ns) = (snapshot.born_ns.load(Relaxed), kept.born_ns.load(Relaxed));
    match born_ns == before_ns {
        true => snapshot.work[0].load(Relaxed) > kept.work[0].load(Relaxed),
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

    fn kept(waited: &WaitedStreams) -> [(u64, u64); WAITED] {
        let mut kept = [(0, 0); WAITED];
        for (kept, snapshot) in kept.iter_mut().zip(&waited.0) {
            if !snapshot.is_empty() {
                *kept = (snapshot.stream.load(Relaxed), snapshot.work[0].load(Relaxed));
            }
        }
        kept.sort_unstable();
        kept
    }

    #[test]
    fn of_each_stream_the_latest_snapshot_is_kept() {
        let waited = WaitedStreams::default();
        for (stream, work) in [(7, 3), (8, 4), (7, 2), (7, 9)] {
            assert!(!waited.add(&WAITER, &snapshot(stream, 1, work)));
        }
        assert_eq!(kept(&waited), [(0, 0), (7, 9), (8, 4)]);
    }

    #[test]
    fn the_stream_waited_for_longest_ago_makes_room() {
        let waited = WaitedStreams::default();
        let forgotten: [bool; 4] = [(7, 3), (8, 2), (9, 5), (6, 7)]
            .map(|(stream, work)| waited.add(&WAITER, &snapshot(stream, 1, work)));
        assert_eq!(forgotten, [false, false, false, true]);
        assert_eq!(kept(&waited), [(6, 7), (7, 3), (9, 5)]);
    }

    #[test]
    fn a_stream_that_came_back_under_a_handle_replaces_the_one_that_had_it() {
        let waited = WaitedStreams::default();
        for (born_ns, work) in [(1, 50), (2, 1), (1, 60)] {
            waited.add(&WAITER, &snapshot(7, born_ns, work));
        }
        assert_eq!(kept(&waited)[WAITED - 1], (7, 1));
    }

    #[test]
    fn itself_and_what_is_empty_are_nothing_to_wait_for() {
        let waited = WaitedStreams::default();
        waited.add(&WAITER, &snapshot(1_000, 1, 4));
        waited.add(&WAITER, &snapshot(7, 1, 0));
        assert_eq!(kept(&waited), [(0, 0); WAITED]);
    }

    #[test]
    fn a_copy_holds_the_same_and_no_more() {
        let (waited, other) = (WaitedStreams::default(), WaitedStreams::default());
        waited.add(&WAITER, &snapshot(7, 1, 3));
        other.add(&WAITER, &snapshot(8, 1, 3));
        other.add(&WAITER, &snapshot(9, 1, 3));
        other.copy(&waited);
        assert_eq!(kept(&other), kept(&waited));
        other.clear();
        assert_eq!(kept(&other), [(0, 0); WAITED]);
    }
}
