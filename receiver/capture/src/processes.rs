//! The tracked processes, and when each is scanned next.
//!
//! A process is scanned when it appears, maps a library or executes another program, then at growing intervals: it may
//! publish trace contexts later, and where the kernel reports no mappings, libraries are found by these scans. A scan
//! reads one file of /proc.

use std::collections::BTreeMap;

use event::ProcessId;

/// Processes tracked. When full, further processes are not scanned, which is logged once.
const PROCESSES_MAX: usize = 32_768;
const FIRST_SCAN_AFTER_NS: u64 = 20_000_000;
const INTERVAL_NS_MAX: u64 = 30_000_000_000;

/// Whether a process is selected to be traced.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Selected {
    /// Not decided for its program.
    #[default]
    Undecided,
    Yes,
    No {
        /// The kernel programs ignore it; otherwise its records are discarded.
        is_filtered: bool,
    },
}

/// A tracked process.
#[derive(Clone, Debug, Default)]
pub struct Tracked {
    /// Its identity, once it has called a probed function.
    pub traced: Option<ProcessId>,
    /// Whether it is selected to be traced.
    pub selected: Selected,
    /// The libraries in which it is observed, each with the number of functions.
    pub observed: Vec<String>,
    /// The libraries in which it is not, each with the reason.
    pub gaps: Vec<String>,
    /// Its description lacks the command line and the environment, which could not be read yet.
    pub is_outlined: bool,
    scan_at_ns: u64,
    interval_ns: u64,
}

/// The tracked processes by pid.
#[derive(Default)]
pub struct Processes {
    tracked: BTreeMap<u32, Tracked>,
    has_logged_full: bool,
}

impl Processes {
    /// Tracks `pid` as a process that has just started; one that is tracked already starts again.
    pub fn track(&mut self, pid: u32, now_ns: u64) {
        if !self.tracked.contains_key(&pid) && self.tracked.len() >= PROCESSES_MAX {
            if !std::mem::replace(&mut self.has_logged_full, true) {
                tracing::warn!(pid, max = PROCESSES_MAX, "too many processes: further ones are not traced");
            }
            return;
        }
        let entry = self.tracked.entry(pid).or_default();
        entry.interval_ns = FIRST_SCAN_AFTER_NS;
        entry.scan_at_ns = now_ns + FIRST_SCAN_AFTER_NS;
    }

    /// Returns the process with this pid.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut Tracked> {
        self.tracked.get_mut(&pid)
    }

    /// Returns the tracked pids.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.tracked.keys().copied()
    }

    /// Returns when the next process is to be scanned, ns, if none of them has a library; `None` if one has.
    pub fn idle_until_ns(&self) -> Option<u64> {
        let mut until_ns = u64::MAX;
        for tracked in self.tracked.values() {
            if tracked.traced.is_some() || !tracked.observed.is_empty() || !tracked.gaps.is_empty() {
                return None;
            }
            until_ns = until_ns.min(tracked.scan_at_ns);
        }
        Some(until_ns)
    }

    /// Returns the identities of the processes that have called a probed function.
    pub fn traced(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.tracked.values().filter_map(|f| f.traced)
    }

    /// Returns the number of processes that are excluded.
    pub fn excluded(&self) -> usize {
        self.tracked.values().filter(|f| matches!(f.selected, Selected::No { .. })).count()
    }

    /// Stops tracking `pid`.
    pub fn remove(&mut self, pid: u32) -> Option<Tracked> {
        self.tracked.remove(&pid)
    }

    /// Returns at most `max` pids whose scan is due, and doubles their intervals.
    pub fn due(&mut self, now_ns: u64, max: usize) -> Vec<u32> {
        let ready = self.tracked.iter_mut().filter(|(_, f)| f.scan_at_ns <= now_ns).take(max);
        ready
            .map(|(pid, f)| {
                f.interval_ns = (f.interval_ns * 2).min(INTERVAL_NS_MAX);
                f.scan_at_ns = now_ns + f.interval_ns;
                *pid
            })
            .collect()
    }

    /// Makes the scan of `pid` due now.
    pub fn scan_soon(&mut self, pid: u32) {
        if let Some(tracked) = self.tracked.get_mut(&pid) {
            tracked.scan_at_ns = 0;
        }
    }

    /// Returns true if a process that was to be scanned soon was not scanned yet.
    pub fn are_scans_pending(&self) -> bool {
        self.tracked.values().any(|f| f.scan_at_ns == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_of_a_process_become_less_frequent() {
        let mut processes = Processes::default();
        processes.track(7, 0);
        let scans: Vec<u64> = (0..100_000u64)
            .map(|ms| ms * 1_000_000)
            .filter(|now| !processes.due(*now, 9).is_empty())
            .collect();
        assert_eq!(scans[..3], [20_000_000, 60_000_000, 140_000_000]);
        assert!(scans.len() < 20, "{}", scans.len());
        processes.track(7, 200_000_000_000);
        assert!(processes.due(200_000_000_000, 9).is_empty());
        assert_eq!(processes.due(200_020_000_000, 9), [7]);
    }
}
