//! Threads and their groups: calls that take effect at once, and calls that take effect with the outermost
//! `ncclGroupEnd`.
//!
//! A call inside a group only registers work, which begins with the group's last call, so the thread stores such calls
//! and releases them together. Nested calls that NCCL makes itself (`ncclBcast` calls `ncclBroadcast`) are detected
//! here: they are within the time of the outer call on one thread.

use std::collections::BTreeMap;

use event::ProcessId;

use crate::observe::Arguments;

/// A call that is pending in a group, or about to take effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PendingCall {
    pub(crate) arguments: Arguments,
    pub(crate) entry_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) device: i32,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    depth: u32,
    pending: Vec<PendingCall>,
    /// Entry and return of the last counted operation, ns.
    last: Option<(u64, u64)>,
    used: u64,
}

/// Decision about a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// The call takes effect now.
    Now,
    /// The call is pending until the group ends.
    Pending,
    /// The call was counted already: NCCL made it inside a counted call.
    Nested,
    /// The group is full; the call is dropped.
    Overflow,
}

/// Effect of the end of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    /// An inner group ended.
    Inner,
    /// The outermost group ended; these calls take effect.
    Outermost(Vec<PendingCall>),
    /// The start of the group was not seen.
    Unmatched,
}

/// The threads that use NCCL.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    threads_max: usize,
    calls_max: usize,
    threads: BTreeMap<(ProcessId, u32), Thread>,
    tick: u64,
    pub(crate) evicted_threads: u64,
    pub(crate) evicted_calls: u64,
}

impl Groups {
    pub(crate) fn new(threads_max: usize, calls_max: usize) -> Groups {
        Groups {
            threads_max,
            calls_max,
            threads: BTreeMap::new(),
            tick: 0,
            evicted_threads: 0,
            evicted_calls: 0,
        }
    }

    pub(crate) fn start(&mut self, process: ProcessId, tid: u32) {
        let depth = &mut self.thread(process, tid).depth;
        *depth = depth.saturating_add(1);
    }

    pub(crate) fn end(&mut self, process: ProcessId, tid: u32) -> Ended {
        let thread = self.thread(process, tid);
        match thread.depth {
            0 => Ended::Unmatched,
            1 => {
                thread.depth = 0;
                Ended::Outermost(std::mem::take(&mut thread.pending))
            }
            _ => {
                thread.depth -= 1;
                Ended::Inner
            }
        }
    }

    /// Decides about an operation that returned.
    pub(crate) fn call(&mut self, process: ProcessId, tid: u32, pending: PendingCall) -> Verdict {
        let max = self.calls_max.max(1);
        let thread = self.thread(process, tid);
        let exit_ns = pending.entry_ns.saturating_add(pending.duration_ns);
        if thread.last.is_some_and(|(entry, exit)| entry > pending.entry_ns && exit <= exit_ns) {
            return Verdict::Nested;
        }
        thread.last = Some((pending.entry_ns, exit_ns));
        if thread.depth == 0 {
            return Verdict::Now;
        }
        if thread.pending.len() >= max {
            return Verdict::Overflow;
        }
        thread.pending.push(pending);
        Verdict::Pending
    }

    /// Drops the calls of all open groups after a loss, since their ends may be lost. Returns their number.
    pub(crate) fn abandon(&mut self) -> u64 {
        let take = |t: &mut Thread| {
            t.depth = 0;
            std::mem::take(&mut t.pending).len() as u64
        };
        self.threads.values_mut().map(take).sum()
    }

    /// Removes a process. Returns the number of calls in its open groups.
    pub(crate) fn remove_process(&mut self, process: ProcessId) -> u64 {
        let range = (process, 0)..=(process, u32::MAX);
        let threads: Vec<_> = self.threads.range(range).map(|(key, _)| *key).collect();
        threads.iter().filter_map(|key| self.threads.remove(key)).map(|t| t.pending.len() as u64).sum()
    }

    fn thread(&mut self, process: ProcessId, tid: u32) -> &mut Thread {
        self.tick += 1;
        let key = (process, tid);
        if !self.threads.contains_key(&key) && self.threads.len() >= self.threads_max.max(1) {
            self.evict_thread();
        }
        let thread = self.threads.entry(key).or_default();
        thread.used = self.tick;
        thread
    }

    /// Evicts a thread, preferably one without an open group.
    fn evict_thread(&mut self) {
        let unused = self.threads.iter().min_by_key(|(_, t)| (t.depth > 0, t.used)).map(|(key, _)| *key);
        let gone = unused.and_then(|key| self.threads.remove(&key));
        self.evicted_threads += 1;
        self.evicted_calls += gone.map_or(0, |t| t.pending.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProcessId = ProcessId { pid: 1, start_ns: 1 };

    fn pending(entry_ns: u64, duration_ns: u64) -> PendingCall {
        PendingCall { arguments: Arguments::default(), entry_ns, duration_ns, device: 0 }
    }

    fn groups() -> Groups {
        Groups::new(2, 3)
    }

    #[test]
    fn work_begins_at_the_outermost_group_end() {
        let mut g = groups();
        g.start(P, 1);
        g.start(P, 1);
        assert_eq!(g.call(P, 1, pending(10, 1)), Verdict::Pending);
        assert_eq!(g.end(P, 1), Ended::Inner);
        assert_eq!(g.call(P, 2, pending(11, 1)), Verdict::Now);
        assert_eq!(g.end(P, 1), Ended::Outermost(vec![pending(10, 1)]));
        assert_eq!(g.call(P, 1, pending(20, 1)), Verdict::Now);
        assert_eq!(g.end(P, 1), Ended::Unmatched);
    }

    /// A published agent had one entry slot per thread, which a nested probed call overwrote: `ncclBcast` calls
    /// `ncclBroadcast`, and one collective was counted twice or not at all.
    #[test]
    fn nested_call_of_nccl_is_counted_once() {
        let mut g = groups();
        assert_eq!(g.call(P, 1, pending(12, 5)), Verdict::Now);
        assert_eq!(g.call(P, 1, pending(10, 9)), Verdict::Nested);
        assert_eq!(g.call(P, 1, pending(20, 5)), Verdict::Now);
    }

    #[test]
    fn group_that_never_ends_has_bounded_pending_calls() {
        let mut g = groups();
        g.start(P, 1);
        let verdicts: Vec<Verdict> = (0..5).map(|at| g.call(P, 1, pending(10 * at, 1))).collect();
        assert_eq!(verdicts[2..], [Verdict::Pending, Verdict::Overflow, Verdict::Overflow]);
        assert_eq!(g.remove_process(P), 3);
    }

    #[test]
    fn threads_without_a_group_are_evicted_first() {
        let mut g = groups();
        g.start(P, 1);
        g.call(P, 1, pending(1, 1));
        (2..10).for_each(|tid| {
            g.call(P, tid, pending(1, 1));
        });
        assert_eq!((g.threads.len(), g.evicted_threads, g.evicted_calls), (2, 7, 0));
        assert_eq!(g.end(P, 1), Ended::Outermost(vec![pending(1, 1)]));
    }
}
