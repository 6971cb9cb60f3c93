//! Threads and their groups: which calls take effect now, and which with the outermost `ncclGroupEnd`.
//!
//! The one idea: inside a group a call only notes what is wanted; the work begins in the group's last call. So what
//! is called inside is held by its thread and let go as one. The same place tells a call that NCCL made itself
//! (`ncclBcast` calls `ncclBroadcast`) from one of the program: it lies within the other's time, on one thread.

use std::collections::BTreeMap;

use event::ProcessId;

use crate::observe::Arguments;

/// A call held by a group, or about to take effect.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) arguments: Arguments,
    pub(crate) entry_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) device: i32,
}

#[derive(Clone, Debug, Default)]
struct Thread {
    depth: u32,
    held: Vec<Held>,
    /// Entry and return of the last operation counted.
    last: Option<(u64, u64)>,
    used: u64,
}

/// What is to be done with a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    /// It takes effect now.
    Now,
    /// It is held until the group ends.
    Held,
    /// It was counted already: NCCL made it itself of one that was.
    Nested,
    /// The group holds as many as it can.
    Overflow,
}

/// What the end of a group does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ended {
    /// It was an inner one.
    Inner,
    /// It was the outermost: these take effect.
    Outermost(Vec<Held>),
    /// Its beginning was not seen.
    Unmatched,
}

/// The threads that use NCCL.
#[derive(Clone, Debug)]
pub(crate) struct Groups {
    threads_max: usize,
    calls_max: usize,
    threads: BTreeMap<(ProcessId, u32), Thread>,
    tick: u64,
    pub(crate) forgotten_threads: u64,
    pub(crate) forgotten_calls: u64,
}

impl Groups {
    pub(crate) fn new(threads_max: usize, calls_max: usize) -> Groups {
        Groups {
            threads_max,
            calls_max,
            threads: BTreeMap::new(),
            tick: 0,
            forgotten_threads: 0,
            forgotten_calls: 0,
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
                Ended::Outermost(std::mem::take(&mut thread.held))
            }
            _ => {
                thread.depth -= 1;
                Ended::Inner
            }
        }
    }

    /// An operation returned.
    pub(crate) fn call(&mut self, process: ProcessId, tid: u32, held: Held) -> Verdict {
        let max = self.calls_max.max(1);
        let thread = self.thread(process, tid);
        let exit_ns = held.entry_ns.saturating_add(held.duration_ns);
        if thread.last.is_some_and(|(entry, exit)| entry > held.entry_ns && exit <= exit_ns) {
            return Verdict::Nested;
        }
        thread.last = Some((held.entry_ns, exit_ns));
        if thread.depth == 0 {
            return Verdict::Now;
        }
        if thread.held.len() >= max {
            return Verdict::Overflow;
        }
        thread.held.push(held);
        Verdict::Held
    }

    /// Records were lost: the end of any group may be among them. Says how many calls the groups held.
    pub(crate) fn abandon(&mut self) -> u64 {
        let take = |t: &mut Thread| {
            t.depth = 0;
            std::mem::take(&mut t.held).len() as u64
        };
        self.threads.values_mut().map(take).sum()
    }

    /// The process is gone. Says how many calls its groups held.
    pub(crate) fn remove_process(&mut self, process: ProcessId) -> u64 {
        let range = (process, 0)..=(process, u32::MAX);
        let threads: Vec<_> = self.threads.range(range).map(|(key, _)| *key).collect();
        threads.iter().filter_map(|key| self.threads.remove(key)).map(|t| t.held.len() as u64).sum()
    }

    fn thread(&mut self, process: ProcessId, tid: u32) -> &mut Thread {
        self.tick += 1;
        let key = (process, tid);
        if !self.threads.contains_key(&key) && self.threads.len() >= self.threads_max.max(1) {
            self.make_room();
        }
        let thread = self.threads.entry(key).or_default();
        thread.used = self.tick;
        thread
    }

    /// Those in no group have the least to lose.
    fn make_room(&mut self) {
        let unused = self.threads.iter().min_by_key(|(_, t)| (t.depth > 0, t.used)).map(|(key, _)| *key);
        let gone = unused.and_then(|key| self.threads.remove(&key));
        self.forgotten_threads += 1;
        self.forgotten_calls += gone.map_or(0, |t| t.held.len() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: ProcessId = ProcessId { pid: 1, start_ns: 1 };

    fn held(entry_ns: u64, duration_ns: u64) -> Held {
        Held { arguments: Arguments::default(), entry_ns, duration_ns, device: 0 }
    }

    fn groups() -> Groups {
        Groups::new(2, 3)
    }

    #[test]
    fn work_begins_at_the_outermost_end() {
        let mut g = groups();
        g.start(P, 1);
        g.start(P, 1);
        assert_eq!(g.call(P, 1, held(10, 1)), Verdict::Held);
        assert_eq!(g.end(P, 1), Ended::Inner);
        assert_eq!(g.call(P, 2, held(11, 1)), Verdict::Now);
        assert_eq!(g.end(P, 1), Ended::Outermost(vec![held(10, 1)]));
        assert_eq!(g.call(P, 1, held(20, 1)), Verdict::Now);
        assert_eq!(g.end(P, 1), Ended::Unmatched);
    }

    /// A published agent kept one entry slot a thread, which a nested probed call overwrote: `ncclBcast` calls
    /// `ncclBroadcast`, and one collective was counted twice or not at all.
    #[test]
    fn a_call_that_nccl_makes_itself_is_counted_once() {
        let mut g = groups();
        assert_eq!(g.call(P, 1, held(12, 5)), Verdict::Now);
        assert_eq!(g.call(P, 1, held(10, 9)), Verdict::Nested);
        assert_eq!(g.call(P, 1, held(20, 5)), Verdict::Now);
    }

    #[test]
    fn a_group_that_never_ends_holds_a_bounded_number_of_calls() {
        let mut g = groups();
        g.start(P, 1);
        let verdicts: Vec<Verdict> = (0..5).map(|at| g.call(P, 1, held(10 * at, 1))).collect();
        assert_eq!(verdicts[2..], [Verdict::Held, Verdict::Overflow, Verdict::Overflow]);
        assert_eq!(g.remove_process(P), 3);
    }

    #[test]
    fn threads_in_no_group_make_room_first() {
        let mut g = groups();
        g.start(P, 1);
        g.call(P, 1, held(1, 1));
        (2..10).for_each(|tid| {
            g.call(P, tid, held(1, 1));
        });
        assert_eq!((g.threads.len(), g.forgotten_threads, g.forgotten_calls), (2, 7, 0));
        assert_eq!(g.end(P, 1), Ended::Outermost(vec![held(1, 1)]));
    }
}
