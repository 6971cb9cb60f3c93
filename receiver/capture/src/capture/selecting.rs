//! Application of the selection: which processes are traced is decided once for each program that they execute.
//!
//! A process is decided on when it is found to map a library, mostly before its first call, and otherwise at its first
//! record. An excluded process is put into the kernel's filter, and the state of its first calls is removed; the kernel
//! takes it out when the process executes another program or ends, so that the next program is traced from its first call
//! until it is decided on. If the filter is full, the records of the process are discarded here.

use std::collections::BTreeSet;

use event::{Event, ProcessId};
use probe_abi::record::Header;

use super::Capture;
use crate::inspect::Question;
use crate::processes::Selected;
use crate::selection::Selection;
use crate::{clock, functions, proc, totals, unfinished, user};

/// Verdict in the kernel's filter: the process is not traced.
const IGNORE: u64 = 0;

/// The selection and its account.
#[derive(Default)]
pub(super) struct Selector {
    selection: Selection,
    /// Processes that were excluded since the processes were listed: calls were under way.
    recent: Vec<u32>,
    /// Number of records of excluded processes.
    discarded: u64,
    /// Number of excluded processes for which the filter was full.
    unfiltered: u64,
}

impl Selector {
    pub(super) fn new(selection: Selection) -> Selector {
        Selector { selection, ..Selector::default() }
    }

    fn log_full(&mut self, pid: u32) {
        self.unfiltered += 1;
        if self.unfiltered == 1 {
            tracing::warn!(
                pid,
                "the kernel's filter of processes is full: the calls of further excluded processes are recorded and discarded"
            );
        }
    }
}

impl Capture {
    /// Returns true if the process is selected. Decides that for its program if it is not decided.
    pub(super) fn is_selected(&mut self, pid: u32) -> bool {
        if self.selects_all() {
            return true;
        }
        match self.decided(pid) {
            Selected::Yes => true,
            Selected::No { .. } => false,
            Selected::Undecided => self.decide(pid),
        }
    }

    /// Returns true if the process is known to be excluded.
    pub(super) fn is_excluded(&mut self, pid: u32) -> bool {
        !self.selects_all() && matches!(self.decided(pid), Selected::No { .. })
    }

    /// Returns true if no process is excluded, whatever it is.
    pub(super) fn selects_all(&self) -> bool {
        !self.trace_all || self.selector.selection.is_everything()
    }

    /// Returns what was decided for the program that the process executes now. The kernel removes the verdict at an exec,
    /// which is reported later.
    fn decided(&mut self, pid: u32) -> Selected {
        match self.processes.get_mut(pid).map(|tracked| tracked.selected).unwrap_or_default() {
            Selected::No { is_filtered: true } if self.kernel.filter.get(&pid, 0).is_err() => {
                Selected::Undecided
            }
            decided => decided,
        }
    }

    fn decide(&mut self, pid: u32) -> bool {
        let describe = move || proc::subject(pid);
        // Until there is an answer, it is excluded, and its records are discarded.
        let Ok(subject) = self.inspector.inspect((pid, user::of(pid)), Question::Subject, describe) else {
            return false;
        };
        let is_selected = match subject.is_known() {
            true => self.selector.selection.selects(&subject),
            // It has ended: that an earlier agent described it says that it was selected.
            false => self.pins.as_ref().is_some_and(|pins| pins.has_described(pid)),
        };
        match is_selected {
            true => self.store_selected(pid, Selected::Yes),
            false => self.exclude(pid),
        }
        is_selected
    }

    fn store_selected(&mut self, pid: u32, selected: Selected) {
        if self.processes.get_mut(pid).is_none() {
            self.processes.track(pid, clock::now_ns());
        }
        if let Some(tracked) = self.processes.get_mut(pid) {
            tracked.selected = selected;
        }
    }

    /// Excludes a process, and removes what its first calls left.
    fn exclude(&mut self, pid: u32) {
        tracing::debug!(pid, "a process is excluded");
        let is_filtered = self.kernel.filter.insert(pid, IGNORE, 0).is_ok();
        if !is_filtered {
            self.selector.log_full(pid);
        }
        self.store_selected(pid, Selected::No { is_filtered });
        if let Some(tracked) = self.processes.get_mut(pid) {
            (tracked.observed, tracked.gaps) = (Vec::new(), Vec::new());
        }
        self.arming.remove(pid);
        self.libraries.retain(pid, &BTreeSet::new(), clock::now_ns());
        self.clear_runtime(pid);
        self.publishers.clear(&mut self.kernel, pid);
        self.forget_former(pid);
        self.discard_calls(pid);
        self.selector.recent.push(pid);
    }

    /// Removes what the kernel counted of an excluded process. Calls under way may still count.
    fn discard_calls(&mut self, pid: u32) {
        self.put_detail(pid, None);
        for key in unfinished::keys(&self.kernel, pid) {
            let _ = unfinished::take(&mut self.kernel, &key);
        }
        let share = totals::share(&self.kernel, pid);
        functions::remove(&mut self.kernel, pid);
        if totals::remove(&mut self.kernel, pid) {
            self.retired.add(share);
        }
        totals::remove_durations(&mut self.kernel, pid);
        totals::remove_graphs(&mut self.kernel, pid);
        self.store_ended(pid);
    }

    /// Removes what calls left that were under way when their process was excluded.
    pub(super) fn settle_excluded(&mut self) {
        for pid in std::mem::take(&mut self.selector.recent) {
            if self.is_excluded(pid) {
                self.discard_calls(pid);
            }
        }
    }

    /// Ends the exclusion of a process that has ended or executed another program.
    pub(super) fn end_exclusion(&mut self, pid: u32, selected: Selected) {
        match selected {
            // After an exec, what is in the maps is of the new program.
            Selected::No { is_filtered: true } => drop(self.kernel.filter.remove(&pid)),
            Selected::No { is_filtered: false } => self.discard_calls(pid),
            Selected::Undecided | Selected::Yes => {}
        }
    }

    /// Returns true if the process of a record is traced, and describes it unless it was described before.
    pub(super) fn admits(&mut self, header: &Header, into: &mut Vec<Event>) -> bool {
        let is_admitted = self.ensure_described(ProcessId::from(header), header.entry_ns, into);
        self.selector.discarded += u64::from(!is_admitted);
        is_admitted
    }

    /// Returns the account of the selection; `None` without one.
    pub(super) fn selection_event(&self, at_ns: u64) -> Option<Event> {
        let Selector { discarded, unfiltered, .. } = self.selector;
        let excluded = self.processes.excluded() as u64;
        (!self.selects_all()).then_some(Event::Selection { at_ns, excluded, discarded, unfiltered })
    }

    /// Appends the calls under way of traced processes.
    pub(super) fn sample_calls(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let mut sampled = Vec::new();
        self.calls.sample(&self.kernel, now_ns, &mut sampled);
        // A call that was under way when its process was excluded is in the maps until it returns.
        sampled.retain(|e| !matches!(e, Event::UnderWay(call) if self.is_excluded(call.process.pid)));
        into.append(&mut sampled);
    }
}
