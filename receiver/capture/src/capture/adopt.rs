//! Continuation of an earlier agent whose maps and probes are pinned ([`crate::pins`]).
//!
//! Counters are those of the maps, so that no call between the two agents is missed or counted twice. Records that the
//! earlier agent did not read are in the ring. What it had read and not exported is lost if it was killed.

use event::{Event, ProcessId};
use probe_abi::detail::Detail;

use super::Capture;
use crate::libraries::Libraries;
use crate::pins::{Ending, Pins, Progress, process_id};
use crate::totals::{self, Share};
use crate::{clock, functions, proc};

impl Capture {
    /// Continues with what the earlier agent counted and attached. Does nothing without pins.
    pub(super) fn adopt(&mut self, traced: &[u32]) {
        let Some(pins) = &self.pins else { return };
        let (files, adopted) = (pins.files(), pins.adopted());
        self.libraries = Libraries::adopted(files, clock::now_ns());
        let Some(progress) = adopted else { return };
        self.carried = self.pins.as_ref().map(Pins::carried).unwrap_or_default();
        (self.retired, self.lost, self.received) = (progress.retired, progress.lost, progress.received);
        self.clean_up(traced);
        self.adopt_processes(progress.read_ns);
        self.adopt_ending(&progress.ending);
        self.store_ended(0);
        let (files, functions) = self.libraries.attached();
        let processes = self.adopted.len();
        tracing::info!(files, functions, processes, "probes of an earlier agent are adopted");
    }

    /// Removes what the earlier agent stored of processes that have ended, and its own settings.
    fn clean_up(&mut self, traced: &[u32]) {
        let alive = proc::pids();
        let verdicts: Vec<(u32, u64)> =
            self.kernel.filter.iter().flatten().filter(|(pid, _)| !traced.contains(pid)).collect();
        for (pid, verdict) in verdicts {
            let _ = self.kernel.filter.remove(&pid);
            // It was excluded, and may be selected now: its calls are counted from now on.
            if verdict == 0 && alive.contains(&pid) {
                self.arming.admit(pid, clock::now_ns());
            }
        }
        let _ = self.kernel.filter.insert(std::process::id(), 0, 0);
        let codes: Vec<_> = self.kernel.runtime.iter().flatten().collect();
        for (pid, code) in codes {
            match alive.contains(&pid) {
                true => drop(self.runtime.insert(pid, code)),
                false => drop(self.kernel.runtime.remove(&pid)),
            }
        }
    }

    /// Takes over the processes that the kernel programs count.
    fn adopt_processes(&mut self, read_ns: u64) {
        let counted: Vec<ProcessId> = self.kernel.processes.iter().flatten().map(process_id).collect();
        for process in counted {
            let slot = Detail::slot(process.pid);
            let _ = self.kernel.details.set(slot, 0, 0);
            self.arming.adopt(process.pid, read_ns);
            self.adopted.push((process, read_ns));
        }
    }

    /// Completes the end of a process during which the earlier agent was killed.
    fn adopt_ending(&mut self, ending: &Ending) {
        let Ok(pid) = u32::try_from(ending.pid) else { return };
        let ending_id = ProcessId { pid, start_ns: ending.start_ns };
        if pid == 0 || self.adopted.iter().any(|(process, _)| *process == ending_id) {
            return;
        }
        self.retired.add(ending.share);
        if !self.adopted.iter().any(|(process, _)| process.pid == pid) {
            functions::remove(&mut self.kernel, pid);
            totals::remove(&mut self.kernel, pid);
            totals::remove_durations(&mut self.kernel, pid);
            totals::remove_graphs(&mut self.kernel, pid);
        }
    }

    /// Describes the processes of the earlier agent. Those that have ended end with their exit records, or with the next
    /// list of processes.
    pub(super) fn describe_adopted(&mut self, into: &mut Vec<Event>) {
        for (process, read_ns) in std::mem::take(&mut self.adopted) {
            self.ensure_described(process, read_ns, into);
        }
    }

    /// Stores how far this agent has read.
    pub(super) fn store_progress(&mut self, now_ns: u64) {
        let (received, lost) = (self.received, self.lost);
        if let Some(pins) = &mut self.pins {
            let before = pins.progress();
            if (before.received, before.lost) != (received, lost) {
                pins.store(Progress { received, lost, read_ns: now_ns, ..before });
            }
        }
    }

    /// Stores the share of a process before its counters are removed.
    pub(super) fn store_ending(&mut self, process: ProcessId, share: Share) {
        if let Some(pins) = &mut self.pins {
            let ending = Ending { pid: process.pid.into(), start_ns: process.start_ns, share };
            pins.store(Progress { ending, ..pins.progress() });
        }
    }

    /// Stores that the counters of a process are removed.
    pub(super) fn store_ended(&mut self, pid: u32) {
        let retired = self.retired;
        if let Some(pins) = &mut self.pins {
            pins.store(Progress { retired, ending: Ending::default(), ..pins.progress() });
            pins.remove_process(pid);
            pins.remove_carried(pid, &self.carried.remove(pid));
        }
    }
}
