//! The overhead budget of the traced processes ([`crate::thinning`]), and what it adds to their totals.

use event::{Event, ProcessId};

use super::Capture;
use crate::totals::Share;

impl Capture {
    /// Holds the budget, if there is one.
    pub(super) fn hold_budget(&mut self, now_ns: u64) {
        if let Some(thinning) = &mut self.thinning {
            let traced = self.processes.traced().map(|process| process.pid);
            thinning.turn(&mut self.kernel, &mut self.libraries, traced, now_ns);
        }
    }

    /// Appends the totals of each function that the process called, with the estimated calls that were not observed. Returns
    /// its share of the account.
    pub(super) fn estimated_operations(
        &self,
        process: ProcessId,
        at_ns: u64,
        into: &mut Vec<Event>,
    ) -> Share {
        let first = into.len();
        let share = self.operations(process, at_ns, into);
        for event in &mut into[first..] {
            if let (Event::Operation(total), Some(thinning)) = (event, &self.thinning) {
                total.unobserved = thinning.unobserved(process.pid, total.row);
            }
        }
        share
    }

    /// Returns the cost of the probes to a process, if there is a budget.
    pub(super) fn overhead(&self, process: ProcessId, at_ns: u64) -> Option<Event> {
        let overhead = self.thinning.as_ref()?.overhead(process, at_ns);
        Some(Event::Overhead(Box::new(overhead)))
    }
}
