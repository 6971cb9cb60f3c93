//! The steps that were observed whole although probes of their process were detached at times.
//!
//! As after a late attachment, the first step of each stream in a window may contain work from before, up to a wait that
//! covers a time within the window. A step is whole if its wait and the wait before it on its stream are in the same window.

use std::collections::{BTreeMap, VecDeque};

use event::StepRecord;

/// Windows that are remembered. Steps in older ones are not whole.
const WINDOWS_MAX: usize = 64;
/// Streams whose last wait is remembered. When full, steps of further streams are not whole.
const STREAMS_MAX: usize = 1_024;

/// The times in which all probes of a process were attached.
#[derive(Clone, Debug)]
pub struct Whole {
    /// Beginning of the current time, ns; 0 if the probes were attached from the first call on. `None` while some are
    /// detached.
    since_ns: Option<u64>,
    past: VecDeque<(u64, u64)>,
    /// End of the work that the last wait covered, by stream, ns.
    covered: BTreeMap<u64, u64>,
}

impl Default for Whole {
    fn default() -> Self {
        Whole { since_ns: Some(0), past: VecDeque::new(), covered: BTreeMap::new() }
    }
}

impl Whole {
    /// Notes that all probes are attached.
    pub fn attach(&mut self, at_ns: u64) {
        self.since_ns.get_or_insert(at_ns);
    }

    /// Notes that probes are about to be detached.
    pub fn detach(&mut self, at_ns: u64) {
        if let Some(since_ns) = self.since_ns.take() {
            self.past.push_back((since_ns, at_ns));
            if self.past.len() > WINDOWS_MAX {
                self.past.pop_front();
            }
        }
    }

    /// Returns whether all work of the step was observed.
    pub fn contains(&mut self, step: &StepRecord) -> bool {
        let covered_ns = if step.recorded_ns > 0 { step.recorded_ns } else { step.header.entry_ns };
        let before_ns = self.covered.get(&step.stream).copied();
        if before_ns.is_some() || self.covered.len() < STREAMS_MAX {
            self.covered.insert(step.stream, covered_ns);
        }
        let is_within =
            |(from, to): (u64, u64)| (from..=to).contains(&covered_ns) && from <= before_ns.unwrap_or(0);
        let now = self.since_ns.map(|since_ns| (since_ns, u64::MAX));
        self.past.iter().copied().chain(now).any(is_within)
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::record::Header;

    use super::*;

    fn is_whole(whole: &mut Whole, stream: u64, entry_ns: u64) -> bool {
        let header = Header { entry_ns, ..Header::default() };
        whole.contains(&StepRecord { header, stream, ..StepRecord::default() })
    }

    #[test]
    fn steps_between_two_waits_of_one_window_are_whole() {
        let mut whole = Whole::default();
        assert!(is_whole(&mut whole, 1, 5));
        whole.detach(10);
        assert!(is_whole(&mut whole, 1, 9), "its record was read late");
        assert!(!is_whole(&mut whole, 1, 15));
        whole.attach(20);
        let found = [(1, 21), (1, 22), (2, 23), (2, 24)].map(|(stream, at)| is_whole(&mut whole, stream, at));
        assert_eq!(found, [false, true, false, true]);
        whole.detach(30);
        assert!(is_whole(&mut whole, 1, 29) && !is_whole(&mut whole, 1, 31));
        whole.attach(40);
        assert!(!is_whole(&mut whole, 1, 41) && is_whole(&mut whole, 1, 1_000));
    }

    #[test]
    fn a_wait_for_earlier_work_does_not_make_the_next_step_whole() {
        let mut whole = Whole::default();
        whole.detach(10);
        whole.attach(20);
        let header = Header { entry_ns: 25, ..Header::default() };
        let of_early = StepRecord { header, stream: 1, recorded_ns: 15, ..StepRecord::default() };
        assert!(!whole.contains(&of_early));
        assert!(!is_whole(&mut whole, 1, 26));
        assert!(is_whole(&mut whole, 1, 27));
    }

    #[test]
    fn windows_and_streams_are_bounded() {
        let mut whole = Whole::default();
        for at in 1..10_000u64 {
            whole.detach(10 * at);
            whole.attach(10 * at + 5);
            is_whole(&mut whole, at, 10 * at + 6);
        }
        assert_eq!((whole.past.len(), whole.covered.len()), (WINDOWS_MAX, STREAMS_MAX));
    }
}
