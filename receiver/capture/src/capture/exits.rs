//! Exits of processes: reads their last totals and frees their map entries.

use std::collections::BTreeSet;

use event::{Event, ExitStatus, ProcessId};

use super::Capture;
use crate::kernel::Kernel;
use crate::{totals, unfinished};

impl Capture {
    /// Appends the last totals of a process and its exit, and frees what its pid occupies.
    pub(super) fn process_exited(&mut self, pid: u32, at_ns: u64, status: ExitStatus, into: &mut Vec<Event>) {
        self.inspector.forget(pid);
        self.cancel_scan(pid);
        let Some(tracked) = self.processes.remove(pid) else { return };
        self.arming.remove(pid);
        self.fragments.remove(pid);
        self.libraries.retain(pid, &BTreeSet::new(), at_ns);
        self.clear_runtime(pid);
        self.publishers.clear(&mut self.kernel, pid);
        self.end_exclusion(pid, tracked.selected);
        // The next process with this pid is not one of the configured ones.
        let _ = self.kernel.filter.remove(&pid);
        if let Some(process) = tracked.traced {
            self.close(process, at_ns, status, into);
        }
    }

    /// Handles an exec: the old program has ended. A scan may already have seen the new one, so its entries are replaced
    /// by a new scan and not removed in between.
    pub(super) fn process_replaced(&mut self, pid: u32, at_ns: u64, now_ns: u64, into: &mut Vec<Event>) {
        let is_followed = !self.trace_all || self.finder.follows_mappings();
        if is_followed && self.processes.get_mut(pid).is_none() {
            return;
        }
        let before = self.processes.get_mut(pid).map(|f| (f.traced.take(), std::mem::take(&mut f.selected)));
        let (traced, selected) = before.unwrap_or_default();
        self.end_exclusion(pid, selected);
        if let Some(process) = traced {
            self.close(process, at_ns, ExitStatus::Unknown, into);
        }
        self.inspector.forget(pid);
        self.libraries.cancel_rescan(pid);
        // The kernel programs have freed the location of its trace contexts, and a scan may have found that of the new program.
        self.arming.restart(pid, at_ns);
        self.processes.track(pid, now_ns);
        self.processes.scan_soon(pid);
    }

    /// Appends the last totals of a traced process, and its exit.
    fn close(&mut self, process: ProcessId, at_ns: u64, status: ExitStatus, into: &mut Vec<Event>) {
        let pid = process.pid;
        self.put_detail(pid, None);
        let mut unfinished = Vec::new();
        push_unfinished_steps(&mut self.kernel, process, at_ns, &mut unfinished);
        if let Some(former) = self.former_kernel_of(process) {
            // The former programs saw the whole of them.
            unfinished.clear();
            push_unfinished_steps(former, process, at_ns, &mut unfinished);
        }
        into.extend(unfinished);
        self.settle(process);
        self.thinning.iter_mut().for_each(|thinning| thinning.end(pid, at_ns));
        let share = self.estimated_operations(process, at_ns, into);
        self.functions.totals(&self.kernel, process, at_ns, into);
        self.thinning.iter_mut().for_each(|thinning| thinning.remove(pid));
        self.store_ending(process, share);
        self.functions.remove(&mut self.kernel, process);
        if totals::remove(&mut self.kernel, pid) {
            self.retired.add(share);
        }
        totals::remove_durations(&mut self.kernel, pid);
        totals::remove_graphs(&mut self.kernel, pid);
        self.store_ended(pid);
        into.push(Event::Exit { process, at_ns, status });
    }
}

/// Appends the steps that no sync call will end any more.
fn push_unfinished_steps(kernel: &mut Kernel, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
    for key in unfinished::keys(kernel, process.pid) {
        if let Some(fold) = unfinished::take(kernel, &key) {
            into.extend(unfinished::unfinished_step(process, &key, &fold, at_ns).map(Event::Step));
        }
    }
}
