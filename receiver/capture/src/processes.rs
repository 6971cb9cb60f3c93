//! Which processes there are, and when to look at each again.
//!
//! A process is looked at when it appears or runs another program, then at growing intervals: libraries come with
//! the first import, seconds later, and hardly ever after. Looking is reading one file of /proc.

use std::collections::BTreeMap;

use event::ProcessId;

/// Processes followed. Full: a new one is not looked at, and counted.
const PROCESSES_MAX: usize = 32_768;
const FIRST_LOOK_AFTER_NS: u64 = 20_000_000;
const INTERVAL_NS_MAX: u64 = 30_000_000_000;

/// A process that is followed.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// Its identity, once it was seen to call a probed function.
    pub traced: Option<ProcessId>,
    /// What can be seen of it, by library.
    pub visible: Vec<String>,
    /// What cannot.
    pub blind: Vec<String>,
    look_at_ns: u64,
    interval_ns: u64,
}

/// The processes that are followed, by pid.
#[derive(Default)]
pub struct Processes {
    followed: BTreeMap<u32, Followed>,
    /// Processes not followed because there were too many.
    pub refused: u64,
}

impl Processes {
    /// Follows `pid` from now on, as a process that has just begun. One that is followed is looked at afresh.
    pub fn follow(&mut self, pid: u32, now_ns: u64) {
        if !self.followed.contains_key(&pid) && self.followed.len() >= PROCESSES_MAX {
            self.refused += 1;
            return;
        }
        let entry = self.followed.entry(pid).or_default();
        entry.interval_ns = FIRST_LOOK_AFTER_NS;
        entry.look_at_ns = now_ns + FIRST_LOOK_AFTER_NS;
    }

    /// The process of this pid.
    pub fn get_mut(&mut self, pid: u32) -> Option<&mut Followed> {
        self.followed.get_mut(&pid)
    }

    /// Pids followed.
    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.followed.keys().copied()
    }

    /// Identities of the processes seen to call a probed function.
    pub fn traced(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.followed.values().filter_map(|f| f.traced)
    }

    /// No longer follows `pid`.
    pub fn forget(&mut self, pid: u32) -> Option<Followed> {
        self.followed.remove(&pid)
    }

    /// Those whose time has come, at most `max`; each is due again after twice its interval.
    pub fn due(&mut self, now_ns: u64, max: usize) -> Vec<u32> {
        let ready = self.followed.iter_mut().filter(|(_, f)| f.look_at_ns <= now_ns).take(max);
        ready
            .map(|(pid, f)| {
                f.interval_ns = (f.interval_ns * 2).min(INTERVAL_NS_MAX);
                f.look_at_ns = now_ns + f.interval_ns;
                *pid
            })
            .collect()
    }

    /// Looks at `pid` at the next opportunity.
    pub fn hurry(&mut self, pid: u32) {
        if let Some(followed) = self.followed.get_mut(&pid) {
            followed.look_at_ns = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_looked_at_soon_and_then_ever_less_often() {
        let mut processes = Processes::default();
        processes.follow(7, 0);
        let looks: Vec<u64> = (0..100_000u64)
            .map(|ms| ms * 1_000_000)
            .filter(|now| !processes.due(*now, 9).is_empty())
            .collect();
        assert_eq!(looks[..3], [20_000_000, 60_000_000, 140_000_000]);
        assert!(looks.len() < 20, "{}", looks.len());
        processes.follow(7, 200_000_000_000);
        assert!(processes.due(200_000_000_000, 9).is_empty());
        assert_eq!(processes.due(200_020_000_000, 9), [7]);
    }
}
