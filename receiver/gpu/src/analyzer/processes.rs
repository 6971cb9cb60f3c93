//! The lifetimes of processes: which process an event belongs to, which one is evicted at the limit, and the last
//! collection of an ended one.

use event::{ProcessId, ProcessInfo};
use instrumentation::Limit;

use super::Analyzer;
use super::collecting::series_overflowing;
use crate::batch::{Sink, metrics};
use crate::collectives::emit::Limits;
use crate::emit;
use crate::traced::{Bounds, Traced};

/// Number of ended processes that are remembered, so that late events do not create them again.
const ENDED_MAX: usize = 1024;

impl Analyzer {
    pub(super) fn describe(&mut self, info: &ProcessInfo, sink: Sink<'_>) {
        self.ended.retain(|ended| *ended != info.process);
        self.evicted.retain(|evicted| evicted.process != info.process);
        if let Some(traced) = self.processes.get_mut(&info.process) {
            traced.describe(info);
        } else {
            self.make_room(sink);
            let (now_ns, bounds) = (self.clock.now_ns(), self.bounds());
            self.processes.insert(info.process, Traced::new(info, &self.settings.host, now_ns, bounds));
        }
        if let Some(traced) = self.processes.get(&info.process) {
            emit::coverage(traced, info, &self.records, &self.clock, sink);
        }
    }

    fn bounds(&self) -> Bounds {
        let of_collectives = &self.settings.collectives;
        Bounds {
            relation: self.settings.relation,
            spans: Limit::new(self.settings.spans_per_minute, self.settings.spans_burst),
            limits: Limits::new(of_collectives.verdicts_per_minute, of_collectives.verdicts_burst),
            ranks: of_collectives.communicators_max,
            kernel_names: self.settings.kernel_names_max,
        }
    }

    /// Returns the process of an event. It is created if it was never described; `None` if it has ended.
    pub(super) fn traced(&mut self, process: ProcessId, sink: Sink<'_>) -> Option<&mut Traced> {
        if !self.processes.contains_key(&process) {
            if self.ended.contains(&process) {
                self.account.orphaned += 1;
                return None;
            }
            let (info, now_ns, bounds) =
                (self.evicted_description(process), self.clock.now_ns(), self.bounds());
            self.make_room(sink);
            self.processes.insert(process, Traced::new(&info, &self.settings.host, now_ns, bounds));
        }
        let now_ns = self.clock.now_ns();
        let traced = self.processes.get_mut(&process)?;
        traced.last_seen_ns = now_ns;
        Some(traced)
    }

    /// Returns the description of a process from before its eviction, or an empty one.
    fn evicted_description(&mut self, process: ProcessId) -> ProcessInfo {
        let at = self.evicted.iter().position(|info| info.process == process);
        let info = at.and_then(|at| self.evicted.remove(at));
        ProcessInfo { process, at_ns: self.clock.now_ns(), ..info.unwrap_or_default() }
    }

    fn make_room(&mut self, sink: Sink<'_>) {
        while self.processes.len() >= self.settings.processes_max.max(1) {
            let idle = self.processes.iter().min_by_key(|(id, traced)| (traced.last_seen_ns, **id));
            let Some((&process, traced)) = idle else { return };
            self.account.evicted += 1;
            self.evicted.push_back(traced.info().clone());
            if self.evicted.len() > self.settings.processes_max {
                self.evicted.pop_front();
            }
            self.flush(process, self.clock.now_ns(), sink);
        }
    }

    pub(super) fn end(&mut self, process: ProcessId, at_ns: u64, sink: Sink<'_>) {
        self.trouble.end(process);
        self.flush(process, at_ns.max(self.clock.now_ns()), sink);
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(process);
    }

    /// Sends the last values of a process.
    fn flush(&mut self, process: ProcessId, at_ns: u64, sink: Sink<'_>) {
        let Some(mut traced) = self.processes.remove(&process) else { return };
        let (last, _) = traced.collect(&self.clock, at_ns);
        self.account.overflowed += series_overflowing(&last);
        if last.scope_metrics.iter().any(|s| !s.metrics.is_empty()) {
            sink(metrics(vec![last], false));
        }
    }
}
