//! The processes that wait for a scan, and which of them is scanned next.
//!
//! Users get equal shares of the time that scans take, while they have processes that wait: the next process belongs to
//! the user whose scans have taken the least time (start-time fair queueing: Goyal, Vin and Cheng, "Start-time Fair
//! Queueing", SIGCOMM 1996). A user who starts thousands of processes therefore delays those of another by one scan.

use std::collections::BTreeMap;

use crate::mappings::Mapped;

/// Processes that wait. When full, the user with the most of them loses the one that has waited the shortest time; it is
/// scanned when its next periodic scan is due.
const WAITING_MAX: usize = 4_096;

/// A process that waits for a scan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waiting {
    /// Id of the process.
    pub pid: u32,
    /// The user who answers for it ([`crate::user::of`]).
    pub user: u32,
    /// The first mapping of a library that it made since its last scan, if the kernel reported one.
    pub mapped: Option<Mapped>,
    /// When it began to wait, ns.
    pub since_ns: u64,
}

/// The processes that wait for a scan.
#[derive(Default)]
pub struct ScanQueue {
    waiting: BTreeMap<u32, Waiting>,
    /// Time that the scans of users with waiting processes took, ns. A user who is added begins with that of the user
    /// whose process was taken last.
    spent_ns: BTreeMap<u32, u64>,
    last_spent_ns: u64,
}

impl ScanQueue {
    /// Adds a process, or a mapping of one that waits already. Returns the process that no longer waits if the queue was
    /// full.
    pub fn push(&mut self, waiting: Waiting) -> Option<Waiting> {
        let Waiting { pid, user, mapped, .. } = waiting;
        self.spent_ns.entry(user).or_insert(self.last_spent_ns);
        let entry = self.waiting.entry(pid).or_insert(waiting);
        (entry.user, entry.mapped) = (user, entry.mapped.or(mapped));
        if self.waiting.len() > WAITING_MAX { self.drop_one() } else { None }
    }

    /// Notes a mapping of a process that waits. Returns false if it does not wait.
    pub fn note(&mut self, mapped: &Mapped) -> bool {
        let waiting = self.waiting.get_mut(&mapped.pid);
        waiting.map(|waiting| waiting.mapped.get_or_insert(*mapped)).is_some()
    }

    /// Removes and returns the process to scan next, of those that can be scanned.
    pub fn take(&mut self, can_be_scanned: impl Fn(u32) -> bool) -> Option<Waiting> {
        let spent_ns = |w: &Waiting| self.spent_ns.get(&w.user).copied().unwrap_or_default();
        // Of one user's processes, those that have just mapped a library are first.
        let order = |w: &&Waiting| (spent_ns(w), w.mapped.is_none(), w.since_ns);
        let ready = self.waiting.values().filter(|w| can_be_scanned(w.pid));
        let next = *ready.min_by_key(order)?;
        self.last_spent_ns = spent_ns(&next);
        self.waiting.remove(&next.pid)
    }

    /// Adds the duration of the scan of a process that was taken to the time of its user.
    pub fn charge(&mut self, user: u32, took_ns: u64) {
        if let Some(spent_ns) = self.spent_ns.get_mut(&user) {
            *spent_ns = spent_ns.saturating_add(took_ns);
        }
        self.forget_if_idle(user);
    }

    /// Removes a process, such as one that has ended.
    pub fn remove(&mut self, pid: u32) -> Option<Waiting> {
        let removed = self.waiting.remove(&pid)?;
        self.forget_if_idle(removed.user);
        Some(removed)
    }

    fn forget_if_idle(&mut self, user: u32) {
        if !self.waiting.values().any(|w| w.user == user) {
            self.spent_ns.remove(&user);
        }
    }

    /// Returns true if a process that can be scanned waits.
    pub fn is_ready(&self, can_be_scanned: impl Fn(u32) -> bool) -> bool {
        self.waiting.keys().any(|pid| can_be_scanned(*pid))
    }

    /// Returns true if a process waits that mapped no library since its last scan.
    pub fn has_unmapped(&self) -> bool {
        self.waiting.values().any(|w| w.mapped.is_none())
    }

    fn drop_one(&mut self) -> Option<Waiting> {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        self.waiting.values().for_each(|w| *counts.entry(w.user).or_default() += 1);
        let (largest, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let of_largest = self.waiting.values().filter(|w| w.user == largest);
        let last = of_largest.max_by_key(|w| w.since_ns)?.pid;
        self.remove(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::FileKey;

    const MS: u64 = 1_000_000;

    fn waiting(pid: u32, user: u32, since_ns: u64) -> Waiting {
        Waiting { pid, user, mapped: None, since_ns }
    }

    fn mapped(pid: u32, at_ns: u64) -> Option<Mapped> {
        Some(Mapped { pid, at_ns, file: FileKey { device: (0, 0), inode: 1 } })
    }

    fn next(queue: &mut ScanQueue) -> Option<u32> {
        queue.take(|_| true).map(|w| w.pid)
    }

    #[test]
    fn process_of_another_user_waits_for_one_scan_of_a_flood() {
        let mut queue = ScanQueue::default();
        (0..1_000).for_each(|pid| assert!(queue.push(waiting(pid, 7, 0)).is_none()));
        for turn in 0..100 {
            let first = queue.take(|_| true).unwrap();
            assert_eq!(first.user, 7);
            queue.push(waiting(5_000, 8, turn));
            queue.charge(7, 50 * MS);
            assert_eq!(next(&mut queue), Some(5_000), "turn {turn}");
            queue.charge(8, MS);
        }
    }

    #[test]
    fn first_mapping_of_a_waiting_process_is_kept() {
        let mut queue = ScanQueue::default();
        let [first, second] = [1, 2].map(|at_ns| mapped(7, at_ns).unwrap());
        assert!(!queue.note(&first), "the process does not wait");
        queue.push(waiting(7, 1, 0));
        assert!(queue.note(&first) && queue.note(&second));
        assert_eq!(queue.take(|_| true).unwrap().mapped, Some(first));
    }

    #[test]
    fn users_whose_processes_wait_get_equal_times() {
        let mut queue = ScanQueue::default();
        (0..1_000).for_each(|pid| assert!(queue.push(waiting(pid, pid % 2, 0)).is_none()));
        let mut spent_ms = [0_u64; 2];
        for _ in 0..500 {
            let user = queue.take(|_| true).unwrap().user;
            let took_ms = if user == 0 { 30 } else { 1 };
            spent_ms[user as usize] += took_ms;
            queue.charge(user, took_ms * MS);
            if spent_ms[1] >= 450 {
                break;
            }
        }
        assert!(spent_ms[0].abs_diff(spent_ms[1]) <= 30, "{spent_ms:?}");
    }

    #[test]
    fn mapped_libraries_of_a_user_are_first_then_the_longest_wait() {
        let mut queue = ScanQueue::default();
        queue.push(waiting(1, 7, 20));
        queue.push(waiting(2, 7, 10));
        queue.push(waiting(3, 7, 30));
        queue.push(Waiting { mapped: mapped(3, 40), ..waiting(3, 7, 40) });
        queue.push(Waiting { mapped: mapped(3, 50), ..waiting(3, 7, 50) });
        assert_eq!(queue.take(|_| true), Some(Waiting { mapped: mapped(3, 40), ..waiting(3, 7, 30) }));
        assert!(queue.has_unmapped());
        assert_eq!((next(&mut queue), next(&mut queue), next(&mut queue)), (Some(2), Some(1), None));
        assert!(!queue.has_unmapped());
    }

    #[test]
    fn processes_that_cannot_be_scanned_wait_and_delay_no_others() {
        let mut queue = ScanQueue::default();
        (0..10).for_each(|pid| assert!(queue.push(waiting(pid, 7, u64::from(pid))).is_none()));
        let is_odd = |pid: u32| pid % 2 == 1;
        assert_eq!(queue.take(is_odd).map(|w| w.pid), Some(1));
        assert_eq!(queue.remove(3).map(|w| w.pid), Some(3));
        assert_eq!(queue.take(is_odd).map(|w| w.pid), Some(5));
        assert!(queue.is_ready(|pid| pid == 4) && !queue.is_ready(|pid| pid == 5));
    }

    #[test]
    fn full_queue_drops_the_last_process_of_the_largest_user() {
        let mut queue = ScanQueue::default();
        queue.push(waiting(1, 8, 0));
        for n in 0..2 * WAITING_MAX as u64 {
            let dropped = queue.push(waiting(100 + n as u32, 7, n));
            assert!(dropped.is_none_or(|w| w.user == 7 && w.since_ns == n), "{dropped:?}");
        }
        assert_eq!(queue.waiting.len(), WAITING_MAX);
        assert_eq!(queue.push(waiting(2, 8, 9_999)).map(|w| w.user), Some(7));
        assert!(queue.waiting.contains_key(&1) && queue.waiting.contains_key(&2));
    }

    #[test]
    fn users_without_waiting_processes_are_forgotten() {
        let mut queue = ScanQueue::default();
        for user in 0..100 {
            queue.push(waiting(user, user, 0));
            if user % 2 == 0 {
                queue.take(|_| true);
                queue.charge(user, MS);
            } else {
                queue.remove(user);
            }
        }
        assert!(queue.spent_ns.is_empty());
    }
}
