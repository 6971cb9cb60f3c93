//! Sync calls: a snapshot is taken, waited for, and the work before it becomes a step.

use crate::atomic::Relaxed;
use crate::fold::{COUNTERS, SEGMENTS, Snapshot, Stamp, StreamFold, WORK};
use crate::function::SIGNATURE;
use crate::record::{CountParts, NOT_SEEN, StepRecord, StreamKey, flag};
use crate::thread_counter::ThreadCounter;

impl StreamFold {
    /// Takes a snapshot of the stream, with this `key`, at `ns` for an event and 0 for other waits. Later work belongs
    /// to another segment.
    #[inline(always)]
    pub fn snapshot(&self, key: &StreamKey, ns: u64, into: &Snapshot) {
        let mut epoch = self.epoch.load(Relaxed);
        // A segment without work stays open.
        if !self.is_segment_empty() {
            epoch = epoch.wrapping_add(1);
            self.first[(epoch as usize) & (SEGMENTS - 1)].clear();
            self.epoch.store(epoch, Relaxed);
        }
        into.tid.store(u64::from(key.tid), Relaxed);
        into.stream.store(key.stream, Relaxed);
        into.born_ns.store(self.born_ns.load(Relaxed), Relaxed);
        into.ns.store(ns, Relaxed);
        into.epoch.store(epoch, Relaxed);
        into.entered.store(self.enqueues(), Relaxed);
        for (at, value) in into.work.iter().enumerate() {
            value.store(self.count(at), Relaxed);
        }
    }

    /// Returns true if a wait up to `snapshot` ends a step. An idle poll does not, nor does the second of two threads
    /// that waited for the same work.
    #[inline(always)]
    pub fn closes(&self, snapshot: &Snapshot) -> bool {
        self.is_at(snapshot) && snapshot.work[0].load(Relaxed) > self.closed[0].load(Relaxed)
    }

    /// Returns true if the snapshot is of this stream, and not of an earlier one with its handle.
    #[inline(always)]
    pub fn is_at(&self, snapshot: &Snapshot) -> bool {
        snapshot.born_ns.load(Relaxed) == self.born_ns.load(Relaxed)
    }

    /// Notes the entry of a wait up to `snapshot`.
    #[inline(always)]
    pub fn enter(&self, snapshot: &Snapshot) {
        snapshot.entered.store(self.enqueues(), Relaxed);
    }

    /// Ends the step at the return of the wait: fills `out`'s work and times and begins the next step.
    #[inline(always)]
    pub fn close(&self, snapshot: &Snapshot, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        out.sequence = self.sequence.load(Relaxed);
        out.previous_exit_ns = self.exit.ns.load(Relaxed);
        out.recorded_ns = snapshot.ns.load(Relaxed);
        let (entered, seen) = (snapshot.entered.load(Relaxed), self.seen.load(Relaxed));
        out.enqueued_since_sync = entered.saturating_sub(seen);
        let since = |at: usize| snapshot.work[at].load(Relaxed).wrapping_sub(self.closed[at].load(Relaxed));
        for at in 0..COUNTERS {
            out.work[at] = since(at);
        }
        for at in 0..SIGNATURE {
            out.signature.0[at] = since(COUNTERS + at);
        }
        if entered > snapshot.work[0].load(Relaxed) {
            out.header.flags |= flag::AHEAD;
        }
        self.fill_times(enter, exit, out);
        self.finish(snapshot, exit);
    }

    /// Returns true while there is work that no step contains.
    #[inline(always)]
    pub fn has_open_work(&self) -> bool {
        self.enqueues() > self.closed[0].load(Relaxed)
    }

    /// Ends the step without a record.
    #[inline(always)]
    pub fn finish(&self, snapshot: &Snapshot, exit: &Stamp) {
        for at in 0..WORK {
            self.closed[at].store(snapshot.work[at].load(Relaxed), Relaxed);
        }
        self.find_oldest(snapshot.epoch.load(Relaxed));
        self.seen.store(self.enqueues(), Relaxed);
        self.sequence.fetch_add(1, Relaxed);
        self.exit.set(exit);
    }

    #[inline(always)]
    fn fill_times(&self, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        out.first_ns = enter.ns;
        for counter in ThreadCounter::ALL {
            out.set_increase(counter, self.parts(counter, enter, exit));
        }
        let first = &self.oldest;
        if first.ns.load(Relaxed) == 0 {
            return;
        }
        if self.is_oldest_late.load(Relaxed) != 0 {
            out.header.flags |= flag::FIRST_UNKNOWN;
        }
        out.first_ns = first.ns.load(Relaxed);
        out.first_tid = first.tid.load(Relaxed) as u32;
    }

    /// Returns the increase of a counter in each part of the step.
    #[inline(always)]
    fn parts(&self, counter: ThreadCounter, enter: &Stamp, exit: &Stamp) -> CountParts {
        let (at, first) = (counter as usize, &self.oldest);
        let (entered, exited) = (enter.counts[at], exit.counts[at]);
        let wait = match entered == NOT_SEEN || exited == NOT_SEEN {
            true => NOT_SEEN,
            false => exited.wrapping_sub(entered),
        };
        if first.ns.load(Relaxed) == 0 {
            return CountParts { wait, ..CountParts::UNKNOWN };
        }
        let (began, began_tid) = (first.counts[at].load(Relaxed), first.tid.load(Relaxed) as u32);
        CountParts {
            gap: self.exit.increase(counter, began, began_tid),
            enqueue: first.increase(counter, entered, enter.tid),
            wait,
        }
    }

    /// Sets the first open enqueue: that of the first segment from `epoch` on that has work.
    #[inline(always)]
    fn find_oldest(&self, epoch: u64) {
        self.oldest.clear();
        self.is_oldest_late.store(0, Relaxed);
        if self.enqueues() <= self.closed[0].load(Relaxed) {
            return;
        }
        let last = self.epoch.load(Relaxed);
        let mut at = epoch;
        if last.wrapping_sub(at) >= SEGMENTS as u64 {
            self.is_oldest_late.store(1, Relaxed);
            at = last.wrapping_sub(SEGMENTS as u64 - 1);
        }
        for _ in 0..SEGMENTS {
            let mark = &self.first[(at as usize) & (SEGMENTS - 1)];
            if mark.ns.load(Relaxed) != 0 {
                self.oldest.copy(mark);
                return;
            }
            at = at.wrapping_add(1);
        }
    }
}
