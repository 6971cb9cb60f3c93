//! Calls recorded individually, and the processes of which all calls are recorded.
//!
//! After a large outlier all calls of its process are recorded for a time; an outlier in that time has the longest calls inside
//! it as child spans. Event time ends it. This module decides; the reader of the source applies the changes. Of a healthy
//! process one in a hundred calls is recorded, and every long one, so that a first outlier has the call that made it slow.
//!
//! Usual durations of calls come from the folds, which count every call ([`crate::operations`]).
//!
//! Bounded: [`TROUBLED_MAX`] processes at a time, further ones stay sampled; [`CALLS_MAX`] calls of a troubled process,
//! [`HEALTHY_CALLS_MAX`] of a healthy one, of which the oldest is evicted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use event::{CallRecord, ProcessId};
use probe_abi::detail::Detail;
use steps::Outlier;

/// The maximum number of processes of which all calls are recorded.
const TROUBLED_MAX: usize = 32;
/// The maximum number of stored calls of a troubled process.
const CALLS_MAX: usize = 4_096;
/// The maximum number of stored calls of a healthy process.
const HEALTHY_CALLS_MAX: usize = 256;
/// The maximum number of calls shown for an outlier.
const CALLS_SHOWN_MAX: usize = 16;

/// When all calls of a process are recorded individually.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DetailSettings {
    /// Time for which all calls of a process are recorded after a large outlier, ns; 0 disables.
    pub trouble_ns: u64,
}

impl Default for DetailSettings {
    fn default() -> Self {
        DetailSettings { trouble_ns: 30_000_000_000 }
    }
}

/// A process and its new detail; `None` for that of a healthy process.
pub(crate) type Change = (ProcessId, Option<Detail>);

/// The troubled processes and the times at which their trouble ends.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    trouble_ns: u64,
    until: BTreeMap<ProcessId, u64>,
    changes: Vec<Change>,
}

impl Trouble {
    pub(crate) fn new(settings: DetailSettings) -> Trouble {
        Trouble { trouble_ns: settings.trouble_ns, ..Trouble::default() }
    }

    /// Observes an outlier of a process that ended at `end_ns`.
    pub(crate) fn outlier(&mut self, process: ProcessId, outlier: Outlier, end_ns: u64) {
        let is_large = matches!(outlier, Outlier::Ratio2 | Outlier::Ratio3);
        let is_known = self.until.contains_key(&process);
        if !is_large || self.trouble_ns == 0 || (!is_known && self.until.len() >= TROUBLED_MAX) {
            return;
        }
        self.until.insert(process, end_ns.saturating_add(self.trouble_ns));
        if !is_known {
            self.changes.push((process, Some(Detail::ALL)));
        }
    }

    /// Advances event time to `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64) {
        let Trouble { until, changes, .. } = self;
        until.retain(|process, until_ns| {
            let lasts = *until_ns > now_ns;
            if !lasts {
                changes.push((*process, None));
            }
            lasts
        });
    }

    /// Returns the number of calls to store for the process.
    pub(crate) fn calls_max(&self, process: ProcessId) -> usize {
        if self.until.contains_key(&process) { CALLS_MAX } else { HEALTHY_CALLS_MAX }
    }

    /// Removes an ended process.
    pub(crate) fn end(&mut self, process: ProcessId) {
        self.until.remove(&process);
    }

    /// Returns the changes since the last call.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}

/// A recorded call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Call {
    pub(crate) entry_ns: u64,
    pub(crate) exit_ns: u64,
    pub(crate) tid: u32,
    /// Number of calls that this one represents, including itself.
    pub(crate) weight: u32,
    pub(crate) row: u16,
}

impl Call {
    pub(crate) fn of(record: &CallRecord) -> Call {
        let header = &record.header;
        Call {
            entry_ns: header.entry_ns,
            exit_ns: header.entry_ns.saturating_add(header.duration_ns),
            tid: header.tid,
            weight: u32::try_from(header.weight()).unwrap_or(u32::MAX),
            row: header.row,
        }
    }

    pub(crate) fn duration_ns(&self) -> u64 {
        self.exit_ns.saturating_sub(self.entry_ns)
    }
}

/// The most recent recorded calls of a process.
#[derive(Debug, Default)]
pub(crate) struct Calls(VecDeque<Call>);

impl Calls {
    /// Adds a call, and evicts the oldest ones above `max`.
    pub(crate) fn push(&mut self, call: Call, max: usize) {
        if self.0.len() >= max {
            self.0.drain(..=self.0.len() - max);
            self.0.shrink_to(max);
        }
        self.0.push_back(call);
    }

    /// Returns the longest calls within this time, in order of entry.
    pub(crate) fn within(&self, start_ns: u64, end_ns: u64) -> Vec<Call> {
        let is_within = |c: &&Call| c.entry_ns >= start_ns && c.exit_ns <= end_ns;
        let mut calls: Vec<Call> = self.0.iter().filter(is_within).copied().collect();
        calls.sort_by_key(|c| (Reverse(c.duration_ns()), c.entry_ns, c.row));
        calls.truncate(CALLS_SHOWN_MAX);
        calls.sort_by_key(|c| (c.entry_ns, c.tid, c.row));
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_ns: 7 }
    }

    /// Regression test: a sampler never left its degraded state.
    #[test]
    fn trouble_lasts_from_the_last_large_outlier() {
        let mut trouble = Trouble::new(DetailSettings::default());
        let process = process(5);
        trouble.outlier(process, Outlier::Ratio15, S);
        assert_eq!(trouble.take_changes(), []);
        trouble.outlier(process, Outlier::Ratio2, 2 * S);
        trouble.outlier(process, Outlier::Ratio3, 20 * S);
        assert_eq!(trouble.take_changes(), [(process, Some(Detail::ALL))]);
        trouble.advance(49 * S);
        assert_eq!(trouble.take_changes(), []);
        trouble.advance(50 * S);
        assert_eq!(trouble.take_changes(), [(process, None)]);
        trouble.outlier(process, Outlier::Ratio3, 60 * S);
        assert_eq!(trouble.take_changes(), [(process, Some(Detail::ALL))], "and begins again");
        trouble.end(process);
        trouble.advance(999 * S);
        assert_eq!(trouble.take_changes(), [], "what is gone needs no change");
    }

    #[test]
    fn troubled_processes_are_bounded_and_can_be_disabled() {
        let mut trouble = Trouble::new(DetailSettings::default());
        (0..100).for_each(|pid| trouble.outlier(process(pid), Outlier::Ratio3, S));
        assert_eq!(trouble.take_changes().len(), TROUBLED_MAX);
        let mut off = Trouble::new(DetailSettings { trouble_ns: 0 });
        off.outlier(process(5), Outlier::Ratio3, S);
        assert_eq!(off.take_changes(), []);
    }

    #[test]
    fn longest_calls_inside_a_step_are_in_time_order() {
        let mut calls = Calls::default();
        let call = |at: u64| Call { entry_ns: at * 1_000, exit_ns: at * 1_000 + at % 97, ..Call::default() };
        (0..10_000).for_each(|at| calls.push(call(at), CALLS_MAX));
        assert_eq!(calls.0.len(), CALLS_MAX);
        let within = calls.within(9_000_000, 9_500_000);
        assert_eq!(within.len(), CALLS_SHOWN_MAX);
        assert!(within.is_sorted_by_key(|c| c.entry_ns));
        assert!(within.iter().all(|c| (9_000_000..=9_500_000).contains(&c.entry_ns)));
        let shortest = within.iter().map(Call::duration_ns).min();
        assert_eq!(shortest, Some(93), "of 94 to 96 there are fifteen");
    }

    /// Regression test: every process on a node had the capacity for calls of a troubled one.
    #[test]
    fn stored_calls_shrink_after_trouble() {
        let (mut trouble, process) = (Trouble::new(DetailSettings::default()), process(5));
        let mut calls = Calls::default();
        trouble.outlier(process, Outlier::Ratio3, S);
        (0..5_000).for_each(|_| calls.push(Call::default(), trouble.calls_max(process)));
        assert_eq!(calls.0.len(), CALLS_MAX);
        trouble.advance(100 * S);
        calls.push(Call::default(), trouble.calls_max(process));
        assert_eq!(calls.0.len(), HEALTHY_CALLS_MAX);
        assert!(calls.0.capacity() <= 2 * HEALTHY_CALLS_MAX, "{}", calls.0.capacity());
    }
}
