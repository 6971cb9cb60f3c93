//! When a process is told in detail, and the calls that this brings.
//!
//! The one idea: a large outlier says that there is trouble, and for a while after it every call of its process is told;
//! an outlier in that while brings the longest calls inside it along, as children of its span. Event time ends the
//! while. Whoever reads the source is told what to change: this decides, and changes nothing.
//!
//! Bounded: [`TROUBLED_MAX`] processes at a time, further ones stay as they are; [`CALLS_MAX`] calls of a process, the
//! oldest makes room.

use std::collections::{BTreeMap, VecDeque};

use event::{CallRecord, ProcessId};
use steps::Outlier;
use table::detail::Detail;

/// Processes told in detail at a time.
const TROUBLED_MAX: usize = 32;
/// Calls remembered of a process.
const CALLS_MAX: usize = 4_096;
/// Calls told with an outlier.
const TOLD_MAX: usize = 16;

/// Which calls are told one by one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DetailSettings {
    /// One of so many calls of a process without trouble; 0 none.
    pub healthy: u64,
    /// How long every call is told after a large outlier; 0 never.
    pub trouble_ns: u64,
}

impl Default for DetailSettings {
    fn default() -> Self {
        DetailSettings { healthy: 0, trouble_ns: 30_000_000_000 }
    }
}

/// What a process's detail is to be; `None`: that of one without trouble.
pub(crate) type Change = (ProcessId, Option<Detail>);

/// Which processes are in trouble, and until when.
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

    /// A step of the process that ended at `end_ns` is an outlier.
    pub(crate) fn outlier(&mut self, process: ProcessId, outlier: Outlier, end_ns: u64) {
        let is_large = matches!(outlier, Outlier::X2 | Outlier::X3);
        let is_known = self.until.contains_key(&process);
        if !is_large || self.trouble_ns == 0 || (!is_known && self.until.len() >= TROUBLED_MAX) {
            return;
        }
        self.until.insert(process, end_ns.saturating_add(self.trouble_ns));
        if !is_known {
            self.changes.push((process, Some(Detail::ALL)));
        }
    }

    /// Event time has come to `now_ns`.
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

    /// The process has ended, and its detail with it.
    pub(crate) fn end(&mut self, process: ProcessId) {
        self.until.remove(&process);
    }

    /// What is to be changed now.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}

/// The newest calls of a process that are told for their detail.
#[derive(Debug, Default)]
pub(crate) struct Calls(VecDeque<CallRecord>);

impl Calls {
    pub(crate) fn see(&mut self, call: &CallRecord) {
        if self.0.len() == CALLS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(*call);
    }

    /// The longest calls within this time, in order of entry.
    pub(crate) fn within(&self, start_ns: u64, end_ns: u64) -> Vec<CallRecord> {
        let is_within = |c: &&CallRecord| c.header.entry_ns >= start_ns && exit_ns(c) <= end_ns;
        let mut calls: Vec<CallRecord> = self.0.iter().filter(is_within).copied().collect();
        calls.sort_by_key(|c| (std::cmp::Reverse(c.header.duration_ns), c.header.entry_ns, c.header.row));
        calls.truncate(TOLD_MAX);
        calls.sort_by_key(|c| (c.header.entry_ns, c.header.tid, c.header.row));
        calls
    }
}

/// When a call returned.
pub(crate) fn exit_ns(call: &CallRecord) -> u64 {
    call.header.entry_ns.saturating_add(call.header.duration_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn process(pid: u32) -> ProcessId {
        ProcessId { pid, start_ns: 7 }
    }

    /// A sampler that never left its degraded state.
    #[test]
    fn trouble_begins_with_a_large_outlier_lasts_from_the_last_one_and_ends() {
        let mut trouble = Trouble::new(DetailSettings::default());
        let process = process(5);
        trouble.outlier(process, Outlier::X1_5, S);
        assert_eq!(trouble.take_changes(), []);
        trouble.outlier(process, Outlier::X2, 2 * S);
        trouble.outlier(process, Outlier::X3, 20 * S);
        assert_eq!(trouble.take_changes(), [(process, Some(Detail::ALL))]);
        trouble.advance(49 * S);
        assert_eq!(trouble.take_changes(), []);
        trouble.advance(50 * S);
        assert_eq!(trouble.take_changes(), [(process, None)]);
        trouble.outlier(process, Outlier::X3, 60 * S);
        assert_eq!(trouble.take_changes(), [(process, Some(Detail::ALL))], "and begins again");
        trouble.end(process);
        trouble.advance(999 * S);
        assert_eq!(trouble.take_changes(), [], "what is gone needs no change");
    }

    #[test]
    fn no_more_processes_are_in_trouble_than_there_is_room_for_and_none_where_it_is_off() {
        let mut trouble = Trouble::new(DetailSettings::default());
        (0..100).for_each(|pid| trouble.outlier(process(pid), Outlier::X3, S));
        assert_eq!(trouble.take_changes().len(), TROUBLED_MAX);
        let mut off = Trouble::new(DetailSettings { trouble_ns: 0, ..DetailSettings::default() });
        off.outlier(process(5), Outlier::X3, S);
        assert_eq!(off.take_changes(), []);
    }

    #[test]
    fn the_longest_calls_inside_a_step_are_told_in_their_order() {
        let mut calls = Calls::default();
        let call = |at: u64| {
            let mut call = CallRecord::default();
            (call.header.entry_ns, call.header.duration_ns) = (at * 1_000, at % 97);
            call
        };
        (0..10_000).for_each(|at| calls.see(&call(at)));
        assert_eq!(calls.0.len(), CALLS_MAX);
        let within = calls.within(9_000_000, 9_500_000);
        assert_eq!(within.len(), TOLD_MAX);
        assert!(within.is_sorted_by_key(|c| c.header.entry_ns));
        assert!(within.iter().all(|c| (9_000_000..=9_500_000).contains(&c.header.entry_ns)));
        let shortest = within.iter().map(|c| c.header.duration_ns).min();
        assert_eq!(shortest, Some(93), "of 94 to 96 there are fifteen");
    }
}
