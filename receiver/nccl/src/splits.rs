//! What becomes of a split: the children's ranks, reckoned from what every rank of the parent passed.
//!
//! The one idea: NCCL orders the ranks of one color by key, then by their rank in the parent. Who sees all of them
//! can do the same; who sees only some says nothing. Splits that stay incomplete, as they do where ranks are on
//! other nodes, are a bounded few.

use std::collections::VecDeque;

use crate::member::Member;
use crate::slab::Key;

/// Splits of one communicator that are remembered. Full: the oldest is forgotten.
const SPLITS_MAX: usize = 16;
/// `NCCL_SPLIT_NOCOLOR` and whatever else makes no child.
const NO_COLOR_BELOW: i32 = 0;

/// One rank's part in a split.
#[derive(Clone, Copy, Debug)]
struct Part {
    parent_rank: u32,
    color: i32,
    key: i32,
    child: Option<Key<Member>>,
}

/// Rank and number of ranks in a child.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Reckoned {
    pub(crate) rank: u32,
    pub(crate) nranks: u32,
}

#[derive(Clone, Debug)]
struct Split {
    ordinal: i32,
    parts: Vec<Part>,
}

/// The splits of a communicator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Splits(VecDeque<Split>);

impl Splits {
    /// A rank of the parent passed this to its `ordinal`th split.
    pub(crate) fn add(&mut self, ordinal: i32, parent_rank: u32, color: i32, key: i32) {
        let at = self.0.iter().position(|s| s.ordinal == ordinal).unwrap_or_else(|| {
            if self.0.len() >= SPLITS_MAX {
                self.0.pop_front();
            }
            self.0.push_back(Split { ordinal, parts: Vec::new() });
            self.0.len() - 1
        });
        let parts = &mut self.0[at].parts;
        parts.retain(|p| p.parent_rank != parent_rank);
        parts.push(Part { parent_rank, color, key, child: None });
    }

    /// The child that came of it.
    pub(crate) fn set_child(&mut self, ordinal: i32, parent_rank: u32, child: Key<Member>) {
        let split = self.0.iter_mut().find(|s| s.ordinal == ordinal);
        let part = split.and_then(|s| s.parts.iter_mut().find(|p| p.parent_rank == parent_rank));
        part.into_iter().for_each(|p| p.child = Some(child));
    }

    /// The children whose ranks are known now that all `nranks` have passed theirs.
    pub(crate) fn reckon(&self, ordinal: i32, nranks: u32) -> Vec<(Key<Member>, Reckoned)> {
        let Some(split) = self.0.iter().find(|s| s.ordinal == ordinal) else { return Vec::new() };
        if split.parts.len() != nranks as usize {
            return Vec::new();
        }
        split.parts.iter().filter_map(|part| Some((part.child?, split.place(part)?))).collect()
    }
}

impl Split {
    fn place(&self, part: &Part) -> Option<Reckoned> {
        if part.color < NO_COLOR_BELOW {
            return None;
        }
        let order = |p: &Part| (p.key, p.parent_rank);
        let same = || self.parts.iter().filter(|p| p.color == part.color);
        let before = same().filter(|p| order(p) < order(part)).count();
        Some(Reckoned { rank: before as u32, nranks: same().count() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slab::Slab;

    /// Children's keys without members: the places are all that counts here.
    fn keys(count: usize) -> Vec<Key<Member>> {
        let mut slab: Slab<()> = Slab::new();
        (0..count).map(|_| slab.insert(|_| ()).cast()).collect()
    }

    #[test]
    fn ranks_of_a_color_are_ordered_by_key_then_by_their_rank_in_the_parent() {
        let children = keys(4);
        let mut splits = Splits::default();
        // Color and key of parent ranks 0 to 3.
        for (rank, (color, key)) in [(0, 5), (1, 0), (0, 1), (0, 5)].into_iter().enumerate() {
            assert_eq!(splits.reckon(1, 4), [], "not all have passed theirs yet");
            splits.add(1, rank as u32, color, key);
            splits.set_child(1, rank as u32, children[rank]);
        }
        let ranks: Vec<(u32, u32)> = splits.reckon(1, 4).iter().map(|(_, r)| (r.rank, r.nranks)).collect();
        assert_eq!(ranks, [(1, 3), (0, 1), (0, 3), (2, 3)]);
    }

    #[test]
    fn who_passes_no_color_gets_no_child_and_is_waited_for_all_the_same() {
        let children = keys(2);
        let mut splits = Splits::default();
        splits.add(1, 0, 3, 0);
        splits.set_child(1, 0, children[0]);
        assert_eq!(splits.reckon(1, 2), []);
        splits.add(1, 1, -1, 0);
        assert_eq!(splits.reckon(1, 2), [(children[0], Reckoned { rank: 0, nranks: 1 })]);
    }

    #[test]
    fn splits_that_stay_incomplete_are_a_bounded_few() {
        let mut splits = Splits::default();
        (0..10_000).for_each(|ordinal| splits.add(ordinal, 0, 0, 0));
        assert_eq!(splits.0.len(), SPLITS_MAX);
    }
}
