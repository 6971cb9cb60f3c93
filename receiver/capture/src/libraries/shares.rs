//! The time that each user's processes may cost the agent.
//!
//! A scan reads what a process has mapped and examines new files, which the process can make expensive. Each user has a
//! budget for a burst, such as the start of a job, which is refilled slowly. While it is used up, further scans of that
//! user's processes are postponed and those of others are not.

use std::collections::BTreeMap;

/// Time that a user's scans may take at once, ns.
const BURST_NS: i64 = 10_000_000_000;
/// Share of the time that a user's scans may take in the long run: one in so many ns.
const REFILL: u64 = 20;
/// What one scan may exceed the budget by, ns: a longer one counts as this.
const DEBT_NS_MAX: i64 = 500_000_000;
/// Users with less than a full budget. When full, further users share one budget.
const USERS_MAX: usize = 4_096;
/// The budget that further users share.
const OTHERS: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Budget {
    left_ns: i64,
    at_ns: u64,
}

impl Budget {
    fn refilled(self, now_ns: u64) -> Budget {
        let added = i64::try_from(now_ns.saturating_sub(self.at_ns) / REFILL).unwrap_or(BURST_NS);
        Budget { left_ns: self.left_ns.saturating_add(added).min(BURST_NS), at_ns: now_ns }
    }
}

/// The budgets of users.
#[derive(Default)]
pub(super) struct Shares {
    budgets: BTreeMap<u32, Budget>,
}

impl Shares {
    /// Takes the duration of a scan from the budget of a user.
    pub fn charge(&mut self, user: u32, took_ns: u64, now_ns: u64) {
        if !self.budgets.contains_key(&user) && self.budgets.len() >= USERS_MAX {
            self.budgets.retain(|_, budget| budget.refilled(now_ns).left_ns < BURST_NS);
        }
        let user = self.known(user);
        let full = Budget { left_ns: BURST_NS, at_ns: now_ns };
        let budget = self.budgets.entry(user).or_insert(full);
        *budget = budget.refilled(now_ns);
        let took_ns = i64::try_from(took_ns).unwrap_or(i64::MAX);
        budget.left_ns = budget.left_ns.saturating_sub(took_ns).max(-DEBT_NS_MAX);
    }

    /// Returns the time until a process of this user may be scanned, ns.
    pub fn wait_ns(&self, user: u32, now_ns: u64) -> u64 {
        let budget = self.budgets.get(&self.known(user)).map(|budget| budget.refilled(now_ns));
        let missing = budget.map_or(0, |budget| u64::try_from(-budget.left_ns).unwrap_or(0));
        missing * REFILL
    }

    fn known(&self, user: u32) -> u32 {
        let is_known = self.budgets.contains_key(&user) || self.budgets.len() < USERS_MAX;
        if is_known { user } else { OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn user_whose_scans_take_too_long_waits_and_others_do_not() {
        let mut shares = Shares::default();
        let (mut now_ns, mut spent_ns) = (0, 0);
        while now_ns < 600_000 * MS {
            let wait_ns = shares.wait_ns(7, now_ns);
            assert_eq!(shares.wait_ns(8, now_ns), 0);
            assert!(wait_ns <= 10_000 * MS, "{wait_ns}");
            now_ns += wait_ns;
            let took_ns = 60 * MS;
            shares.charge(7, took_ns, now_ns + took_ns);
            (now_ns, spent_ns) = (now_ns + took_ns, spent_ns + took_ns);
        }
        let share = spent_ns as f64 / now_ns as f64;
        assert!(share < 0.07, "{share}");
    }

    #[test]
    fn start_of_a_large_job_is_not_delayed() {
        let mut shares = Shares::default();
        for scan in 0..100 {
            assert_eq!(shares.wait_ns(7, scan * 50 * MS), 0);
            shares.charge(7, 50 * MS, (scan + 1) * 50 * MS);
        }
    }

    #[test]
    fn number_of_users_is_bounded() {
        let mut shares = Shares::default();
        for user in 0..3 * USERS_MAX as u32 {
            shares.charge(user, 20_000 * MS, 0);
        }
        assert!(shares.budgets.len() <= USERS_MAX + 1);
        assert!(shares.wait_ns(2 * USERS_MAX as u32, 0) > 0, "users beyond the bound share a budget");
        shares.charge(9 * USERS_MAX as u32, 1, 1_000_000 * MS);
        assert_eq!(shares.budgets.len(), 1, "full budgets are removed");
    }
}
