//! Ends of processes: what is read of them for the last time, and what is given back.

use event::{Event, ExitStatus, ProcessId};

use super::Capture;
use crate::{totals, unfinished};

impl Capture {
    /// A process ended: its last figures, then its end, and room for the next of its pid.
    pub(super) fn end(&mut self, pid: u32, at_ns: u64, status: ExitStatus, into: &mut Vec<Event>) {
        let Some(followed) = self.processes.forget(pid) else { return };
        self.libraries.retain(pid, &[], at_ns);
        self.forget_runtime(pid);
        self.publishers.forget(&mut self.kernel, pid);
        // Whoever has this pid next was not named.
        let _ = self.kernel.filter.remove(&pid);
        if let Some(process) = followed.traced {
            self.close(process, at_ns, status, into);
        }
    }

    /// A process runs another program: what it was has ended. It may have been looked at since, as what it is now:
    /// that is looked at again and replaced, never taken away in between.
    pub(super) fn exec(&mut self, pid: u32, at_ns: u64, now_ns: u64, into: &mut Vec<Event>) {
        if !self.trace_all && self.processes.get_mut(pid).is_none() {
            return;
        }
        let traced = self.processes.get_mut(pid).and_then(|f| f.traced.take());
        if let Some(process) = traced {
            self.close(process, at_ns, ExitStatus::Unknown, into);
        }
        self.publishers.forget(&mut self.kernel, pid);
        self.processes.follow(pid, now_ns);
        self.look(pid, now_ns, into);
    }

    /// The last figures of a traced process, and its end.
    fn close(&mut self, process: ProcessId, at_ns: u64, status: ExitStatus, into: &mut Vec<Event>) {
        let pid = process.pid;
        self.put_detail(pid, None);
        self.unfinished(process, at_ns, into);
        let share = totals::operations(&self.kernel, process, at_ns, into);
        if totals::forget(&mut self.kernel, pid) {
            self.retired.add(share);
        }
        totals::forget_durations(&mut self.kernel, pid);
        totals::forget_graphs(&mut self.kernel, pid);
        into.push(Event::Exit { process, at_ns, status });
    }

    /// Steps that nothing will close any more.
    fn unfinished(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        let mut keys: Vec<[u32; 4]> =
            self.kernel.streams.keys().flatten().filter(|k| k[0] == process.pid).collect();
        keys.sort_unstable();
        for key in keys {
            if let Some(fold) = unfinished::take(&mut self.kernel, key) {
                into.extend(unfinished::unfinished_step(process, key, &fold, at_ns).map(Event::Step));
            }
        }
    }
}
