//! Splits: the children's ranks, inferred from the arguments of every rank of the parent.
//!
//! NCCL orders the ranks of one color by key, then by their rank in the parent. The ranks can be inferred only if all
//! calls are seen. Incomplete splits, which are usual when ranks are on other nodes, are bounded.

use std::collections::VecDeque;

use crate::registry::MemberKey;

/// Maximum number of splits per communicator; the oldest is evicted.
const SPLITS_MAX: usize = 16;
/// Smallest color with a child; `NCCL_SPLIT_NOCOLOR` is below it.
const NO_COLOR_BELOW: i32 = 0;

/// One rank's arguments to a split.
#[derive(Clone, Copy, Debug)]
struct Part {
    parent_rank: u32,
    color: i32,
    key: i32,
    child: Option<MemberKey>,
}

/// Inferred rank and number of ranks in a child.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct InferredRank {
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
    /// Records the arguments of a parent's rank to the `ordinal`th split.
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

    /// Records the child that resulted for a parent's rank.
    pub(crate) fn set_child(&mut self, ordinal: i32, parent_rank: u32, child: MemberKey) {
        let split = self.0.iter_mut().find(|s| s.ordinal == ordinal);
        let part = split.and_then(|s| s.parts.iter_mut().find(|p| p.parent_rank == parent_rank));
        part.into_iter().for_each(|p| p.child = Some(child));
    }

    /// Returns the children with their ranks if all `nranks` arguments are known.
    pub(crate) fn infer(&self, ordinal: i32, nranks: u32) -> Vec<(MemberKey, InferredRank)> {
        let Some(split) = self.0.iter().find(|s| s.ordinal == ordinal) else { return Vec::new() };
        if split.parts.len() != nranks as usize {
            return Vec::new();
        }
        split.parts.iter().filter_map(|part| Some((part.child?, split.infer_rank(part)?))).collect()
    }
}

impl Split {
    fn infer_rank(&self, part: &Part) -> Option<InferredRank> {
        if part.color < NO_COLOR_BELOW {
            return None;
        }
        let order = |p: &Part| (p.key, p.parent_rank);
        let same = || self.parts.iter().filter(|p| p.color == part.color);
        let before = same().filter(|p| order(p) < order(part)).count();
        Some(InferredRank { rank: before as u32, nranks: same().count() as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slotmap::SlotMap;

    /// Returns keys without members; only their order matters here.
    fn keys(count: usize) -> Vec<MemberKey> {
        let mut map = SlotMap::with_key();
        (0..count).map(|_| map.insert(())).collect()
    }

    #[test]
    fn ranks_of_a_color_are_ordered_by_key_and_rank() {
        let children = keys(4);
        let mut splits = Splits::default();
        // Color and key of parent ranks 0 to 3.
        for (rank, (color, key)) in [(0, 5), (1, 0), (0, 1), (0, 5)].into_iter().enumerate() {
            assert_eq!(splits.infer(1, 4), [], "not all have passed theirs yet");
            splits.add(1, rank as u32, color, key);
            splits.set_child(1, rank as u32, children[rank]);
        }
        let ranks: Vec<(u32, u32)> = splits.infer(1, 4).iter().map(|(_, r)| (r.rank, r.nranks)).collect();
        assert_eq!(ranks, [(1, 3), (0, 1), (0, 3), (2, 3)]);
    }

    #[test]
    fn rank_without_color_has_no_child_but_must_arrive() {
        let children = keys(2);
        let mut splits = Splits::default();
        splits.add(1, 0, 3, 0);
        splits.set_child(1, 0, children[0]);
        assert_eq!(splits.infer(1, 2), []);
        splits.add(1, 1, -1, 0);
        assert_eq!(splits.infer(1, 2), [(children[0], InferredRank { rank: 0, nranks: 1 })]);
    }

    #[test]
    fn incomplete_splits_are_bounded() {
        let mut splits = Splits::default();
        (0..10_000).for_each(|ordinal| splits.add(ordinal, 0, 0, 0));
        assert_eq!(splits.0.len(), SPLITS_MAX);
    }
}
