//! The choice of the file that is evicted when as many files are attached as there may be.
//!
//! A file that no process maps is evicted first. Then a user who has less than a share of the files gets one from the
//! user who has most, if that is more than a share.

use std::collections::BTreeMap;

use event::EvictionReason;

/// The part of the files that a user keeps when others need some: a quarter.
const SHARES: usize = 4;

/// What the choice depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot<K> {
    pub key: K,
    /// The user whose process mapped the file first.
    pub user: u32,
    /// When the last mapping went away, ns; `None` if a process maps the file.
    pub unused_since_ns: Option<u64>,
    /// When the file was attached, ns.
    pub armed_ns: u64,
}

/// Returns the user who occurs most often.
pub(super) fn richest(users: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    users.for_each(|user| *counts.entry(user).or_default() += 1);
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(user, _)| user)
}

/// Returns the file that is evicted for one of this user, with the reason; `None` if all files are kept.
pub(super) fn evicted<K: Copy>(slots: &[Slot<K>], user: u32) -> Option<(K, EvictionReason)> {
    let unused = slots.iter().filter_map(|slot| Some((slot.unused_since_ns?, slot.key)));
    if let Some((_, key)) = unused.min_by_key(|(since_ns, _)| *since_ns) {
        return Some((key, EvictionReason::Unused));
    }
    let count = |user| slots.iter().filter(|slot| slot.user == user).count();
    let (share, richest) = (slots.len() / SHARES, richest(slots.iter().map(|slot| slot.user))?);
    // The files that were attached last are not those of a job that has long been traced.
    let newest = slots.iter().filter(|slot| slot.user == richest).max_by_key(|slot| slot.armed_ns)?;
    let is_fair = count(user) < share && count(richest) > share;
    is_fair.then_some((newest.key, EvictionReason::OverShare))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(users: &[(u32, usize)]) -> Vec<Slot<usize>> {
        let users = users.iter().flat_map(|(user, count)| std::iter::repeat_n(*user, *count));
        let slot = |(key, user)| Slot { key, user, unused_since_ns: None, armed_ns: key as u64 };
        users.enumerate().map(slot).collect()
    }

    #[test]
    fn unused_files_are_evicted_first_the_oldest_before_others() {
        let mut slots = slots(&[(1, 100)]);
        (slots[3].unused_since_ns, slots[9].unused_since_ns) = (Some(20), Some(10));
        assert_eq!(evicted(&slots, 1), Some((9, EvictionReason::Unused)));
    }

    #[test]
    fn user_with_most_files_yields_to_users_with_less_than_a_share() {
        let taken = slots(&[(1, 90), (2, 10)]);
        assert_eq!(evicted(&taken, 2), Some((89, EvictionReason::OverShare)));
        assert_eq!(evicted(&taken, 3), Some((89, EvictionReason::OverShare)));
        assert_eq!(evicted(&taken, 1), None, "not to that user's own files");
        let equal = slots(&[(1, 25), (2, 25), (3, 25), (4, 25)]);
        assert_eq!(evicted(&equal, 5), None, "no user has more than a share");
    }
}
