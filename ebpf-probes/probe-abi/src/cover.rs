//! What a wait covers: the stream that it waits for, and the streams that this one waited for.
//!
//! The one idea: a vector clock. A stream keeps a [`Cut`] of each stream that it waited for, the latest of each; an
//! event's record takes them along, and so does every stream that waits for the event. A wait of the host then ends the
//! step of all of them. So the copy of a result on a stream of its own stands for the computation before it.
//!
//! At most [`WAITED`] other streams. More: the one waited for longest ago is forgotten, since it is most likely closed.

use crate::atomic::Relaxed;
use crate::fold::Cut;
use crate::record::StreamKey;

/// Other streams that a stream is known to wait for.
pub const WAITED: usize = 3;

/// The streams that one waited for, an empty cut in a free place.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Waited(pub [Cut; WAITED]);

/// How far a wait reaches.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cover {
    /// The stream itself.
    pub own: Cut,
    /// What it waited for.
    pub waited: Waited,
}

/// Where a cut goes among those that are kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// It says nothing new.
    Nowhere,
    /// A place that was free, or held an earlier cut of the same stream.
    Own(usize),
    /// The place of a stream that is forgotten for it.
    Taken(usize),
}

impl Waited {
    /// Where a cut of a stream that `waiter` waits for goes.
    #[inline(always)]
    pub fn place(&self, waiter: &StreamKey, cut: &Cut) -> Place {
        if cut.is_empty() || cut.is_of(waiter) {
            return Place::Nowhere;
        }
        let key = cut.key(waiter.pid);
        let (mut free, mut oldest) = (WAITED, 0);
        for (at, kept) in self.0.iter().enumerate() {
            if kept.is_empty() {
                free = at;
            } else if kept.is_of(&key) {
                return if is_later(cut, kept) { Place::Own(at) } else { Place::Nowhere };
            }
        }
        if free < WAITED {
            return Place::Own(free);
        }
        for (at, kept) in self.0.iter().enumerate() {
            if taken_ns(kept) < taken_ns(&self.0[oldest]) {
                oldest = at;
            }
        }
        Place::Taken(oldest)
    }

    /// Adds a cut of a stream that `waiter` waits for; true where another was forgotten for it.
    pub fn add(&self, waiter: &StreamKey, cut: &Cut) -> bool {
        let place = self.place(waiter, cut);
        if let Place::Own(at) | Place::Taken(at) = place {
            self.0[at].copy(cut);
        }
        matches!(place, Place::Taken(_))
    }

    /// Makes it the same as `other`.
    #[inline(always)]
    pub fn copy(&self, other: &Waited) {
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
        for cut in &self.0 {
            cut.work[0].store(0, Relaxed);
        }
    }
}

/// True where `cut` reaches further than `kept`, of the same stream or of one that had its handle.
#[inline(always)]
fn is_later(cut: &Cut, kept: &Cut) -> bool {
    let (born_ns, before_ns) = (cut.born_ns.load(Relaxed), kept.born_ns.load(Relaxed));
    match born_ns == before_ns {
        true => cut.work[0].load(Relaxed) > kept.work[0].load(Relaxed),
        false => born_ns > before_ns,
    }
}

#[inline(always)]
fn taken_ns(cut: &Cut) -> u64 {
    cut.ns.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAITER: StreamKey = StreamKey { pid: 5, tid: 0, stream: 1_000 };

    fn cut(stream: u64, born_ns: u64, work: u64) -> Cut {
        let cut = Cut::default();
        cut.stream.store(stream, Relaxed);
        cut.born_ns.store(born_ns, Relaxed);
        cut.ns.store(100 * work, Relaxed);
        cut.work[0].store(work, Relaxed);
        cut
    }

    fn kept(waited: &Waited) -> [(u64, u64); WAITED] {
        let mut kept = [(0, 0); WAITED];
        for (kept, cut) in kept.iter_mut().zip(&waited.0) {
            if !cut.is_empty() {
                *kept = (cut.stream.load(Relaxed), cut.work[0].load(Relaxed));
            }
        }
        kept.sort_unstable();
        kept
    }

    #[test]
    fn of_each_stream_the_latest_cut_is_kept() {
        let waited = Waited::default();
        for (stream, work) in [(7, 3), (8, 4), (7, 2), (7, 9)] {
            assert!(!waited.add(&WAITER, &cut(stream, 1, work)));
        }
        assert_eq!(kept(&waited), [(0, 0), (7, 9), (8, 4)]);
    }

    #[test]
    fn the_stream_waited_for_longest_ago_makes_room() {
        let waited = Waited::default();
        let forgotten: [bool; 4] =
            [(7, 3), (8, 2), (9, 5), (6, 7)].map(|(stream, work)| waited.add(&WAITER, &cut(stream, 1, work)));
        assert_eq!(forgotten, [false, false, false, true]);
        assert_eq!(kept(&waited), [(6, 7), (7, 3), (9, 5)]);
    }

    #[test]
    fn a_stream_that_came_back_under_a_handle_replaces_the_one_that_had_it() {
        let waited = Waited::default();
        for (born_ns, work) in [(1, 50), (2, 1), (1, 60)] {
            waited.add(&WAITER, &cut(7, born_ns, work));
        }
        assert_eq!(kept(&waited)[WAITED - 1], (7, 1));
    }

    #[test]
    fn itself_and_what_is_empty_are_nothing_to_wait_for() {
        let waited = Waited::default();
        waited.add(&WAITER, &cut(1_000, 1, 4));
        waited.add(&WAITER, &cut(7, 1, 0));
        assert_eq!(kept(&waited), [(0, 0); WAITED]);
    }

    #[test]
    fn a_copy_holds_the_same_and_no_more() {
        let (waited, other) = (Waited::default(), Waited::default());
        waited.add(&WAITER, &cut(7, 1, 3));
        other.add(&WAITER, &cut(8, 1, 3));
        other.add(&WAITER, &cut(9, 1, 3));
        other.copy(&waited);
        assert_eq!(kept(&other), kept(&waited));
        other.clear();
        assert_eq!(kept(&other), [(0, 0); WAITED]);
    }
}
