//! The fold: what a stream did since its last step, and how a closer turns that into one [`StepRecord`].
//!
//! The one idea: a stream's counters only grow. Recording an event, or entering a wait, takes a snapshot of them;
//! the wait's return makes a step of the difference between the snapshot and the last one closed. Work enqueued
//! ahead, behind the snapshot, thus belongs to the next step. To know when *that* work was first enqueued, time is
//! cut into segments at every snapshot, and the last eight remember their first enqueue.
//!
//! The same code runs in the kernel programs and, for traces and tests, in user space. Everything is atomic and
//! relaxed: threads of a process may enqueue on one stream at once. Two threads that *close* one stream at the
//! same instant are served in either order. This file knows no clock: callers bring a [`Stamp`].

use crate::atomic::{AtomicU64, Relaxed};

use crate::Direction;
use crate::hot::HotStream;
use crate::record::{NOT_SEEN, StepRecord, flag};

/// What a stream counts. The order is that of [`StepRecord::work`]; never reuse a place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum Counter {
    /// Calls that enqueued work: launches, graph launches, copies, fills.
    Enqueues = 0,
    /// Kernel launches.
    Launches = 1,
    /// Graph launches.
    GraphLaunches = 2,
    /// Threads started by kernel launches: blocks times threads per block.
    Threads = 3,
    /// Bytes copied to the device.
    BytesToDevice = 4,
    /// Bytes copied from the device.
    BytesFromDevice = 5,
    /// Bytes copied on the device or between devices.
    BytesOnDevice = 6,
    /// Bytes copied in a direction that is not known, or on the host.
    BytesElsewhere = 7,
    /// Copies.
    Copies = 8,
    /// Bytes filled.
    BytesFilled = 9,
    /// Enqueues by another thread than the one that closed the stream's last step (before the first: than the
    /// one that enqueued first): a training loop's backward pass.
    Foreign = 10,
    /// Sum of the launched functions' mixed addresses: equal for equal sets of kernels.
    Functions = 11,
    /// The same over executable graphs.
    Graphs = 12,
    /// Calls captured into a graph instead of enqueued.
    Captured = 13,
}

/// How many things a stream counts.
pub const COUNTERS: usize = 14;

/// Segments whose first enqueue is remembered.
pub const SEGMENTS: usize = 8;

/// An instant on a thread.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Stamp {
    /// CLOCK_MONOTONIC, ns.
    pub ns: u64,
    /// Time the thread has waited for a CPU in its life, ns; [`NOT_SEEN`] if the kernel does not tell.
    pub runq_ns: u64,
    /// The thread.
    pub tid: u32,
}

/// An instant at rest in a map.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Mark {
    ns: AtomicU64,
    runq_ns: AtomicU64,
    tid: AtomicU64,
}

impl Mark {
    #[inline(always)]
    fn set(&self, stamp: &Stamp) {
        self.runq_ns.store(stamp.runq_ns, Relaxed);
        self.tid.store(u64::from(stamp.tid), Relaxed);
        self.ns.store(stamp.ns, Relaxed);
    }

    #[inline(always)]
    fn copy(&self, other: &Mark) {
        self.runq_ns.store(other.runq_ns.load(Relaxed), Relaxed);
        self.tid.store(other.tid.load(Relaxed), Relaxed);
        self.ns.store(other.ns.load(Relaxed), Relaxed);
    }

    #[inline(always)]
    fn clear(&self) {
        self.ns.store(0, Relaxed);
    }

    /// Run-queue wait since this mark, if the same thread made both.
    #[inline(always)]
    fn runq_until(&self, later: &Stamp) -> u64 {
        let before = self.runq_ns.load(Relaxed);
        let same = self.ns.load(Relaxed) != 0 && self.tid.load(Relaxed) == u64::from(later.tid);
        match same && before != NOT_SEEN && later.runq_ns >= before && later.runq_ns != NOT_SEEN {
            true => later.runq_ns - before,
            false => NOT_SEEN,
        }
    }
}

/// A stream's counters at one instant, as an event's record keeps them.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Snapshot {
    /// [`crate::record::StreamKey::tid`] of the stream.
    pub tid: u64,
    /// The stream's handle.
    pub stream: u64,
    /// When it was taken.
    pub ns: u64,
    /// The first segment behind it.
    pub epoch: u64,
    /// The counters.
    pub work: [u64; COUNTERS],
}

/// A stream.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StreamFold {
    work: [AtomicU64; COUNTERS],
    /// The counters up to which steps are closed.
    closed: [AtomicU64; COUNTERS],
    /// The counters up to which the closer under way will close.
    pending: [AtomicU64; COUNTERS],
    /// The first enqueue of each of the last segments, by epoch modulo [`SEGMENTS`].
    first: [Mark; SEGMENTS],
    /// The first enqueue that no step has yet.
    oldest: Mark,
    /// 1 where that enqueue was forgotten, and `oldest` is one after it.
    is_oldest_late: AtomicU64,
    /// The segment now open.
    epoch: AtomicU64,
    /// The first segment behind the closer under way.
    pending_epoch: AtomicU64,
    /// When the event was recorded that the closer under way waits for.
    pending_recorded_ns: AtomicU64,
    /// Enqueues between the previous closer's return and the entry of the one under way.
    pending_fresh: AtomicU64,
    /// The previous closer's return.
    exit: Mark,
    /// Enqueues when the previous closer returned.
    seen: AtomicU64,
    /// Steps closed.
    sequence: AtomicU64,
    /// 1 while what is enqueued is captured into a graph.
    capturing: AtomicU64,
}

/// One call that enqueues work.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Enqueue {
    /// Threads started, for a kernel launch.
    pub threads: u64,
    /// The launched function's, or the graph's, address.
    pub identity: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
}

/// Spreads an address over 64 bits (the finaliser of SplitMix64), so that sums of them tell sets apart.
#[inline(always)]
pub fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl StreamFold {
    /// Calls that enqueued work. A launch, by far the most frequent, is not counted twice: place 0 holds the rest.
    #[inline(always)]
    fn enqueues(&self) -> u64 {
        self.work[Counter::Enqueues as usize].load(Relaxed)
            + self.work[Counter::Launches as usize].load(Relaxed)
    }

    #[inline(always)]
    fn count(&self, at: usize) -> u64 {
        if at == Counter::Enqueues as usize { self.enqueues() } else { self.work[at].load(Relaxed) }
    }

    #[inline(always)]
    fn add(&self, counter: Counter, value: u64) {
        self.work[counter as usize].fetch_add(value, Relaxed);
    }

    #[inline(always)]
    fn open_segment(&self) -> &Mark {
        &self.first[(self.epoch.load(Relaxed) as usize) & (SEGMENTS - 1)]
    }

    /// True while calls are captured into a graph: they are not work, [`StreamFold::capture`] counts them.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        self.capturing.load(Relaxed) != 0
    }

    /// From here on calls are captured, or are not.
    #[inline(always)]
    pub fn set_capturing(&self, capturing: bool) {
        self.capturing.store(u64::from(capturing), Relaxed);
    }

    /// Counts a call that is captured instead of enqueued.
    #[inline(always)]
    pub fn capture(&self) {
        self.add(Counter::Captured, 1);
    }

    /// True where the open segment has no work yet: the next enqueue must be preceded by [`StreamFold::begin`].
    #[inline(always)]
    pub fn is_fresh(&self) -> bool {
        self.open_segment().ns.load(Relaxed) == 0
    }

    /// The open segment's first work is enqueued now.
    #[inline(always)]
    pub fn begin(&self, now: &Stamp) {
        self.open_segment().set(now);
        if self.oldest.ns.load(Relaxed) == 0 {
            self.oldest.set(now);
        }
    }

    /// What every enqueue but a launch counts. Call after [`StreamFold::begin`].
    #[inline(always)]
    fn enqueue(&self, tid: u32) {
        self.add(Counter::Enqueues, 1);
        self.note_thread(tid);
    }

    #[inline(always)]
    fn note_thread(&self, tid: u32) {
        if self.own_thread() != u64::from(tid) {
            self.add(Counter::Foreign, 1);
        }
    }

    /// The thread whose work is not foreign.
    #[inline(always)]
    pub fn own_thread(&self) -> u64 {
        // Not the open segment's thread: events recorded by the second thread would make its work its own.
        match self.exit.tid.load(Relaxed) {
            0 => self.open_segment().tid.load(Relaxed),
            closer => closer,
        }
    }

    /// Takes over the launches that were counted beside the fold.
    #[inline(always)]
    pub fn absorb(&self, hot: &HotStream) {
        if hot.launches.load(Relaxed) == 0 {
            return;
        }
        self.add(Counter::Foreign, hot.foreign.swap(0, Relaxed));
        self.add(Counter::Threads, hot.threads.swap(0, Relaxed));
        self.add(Counter::Functions, hot.functions.swap(0, Relaxed));
        self.add(Counter::Launches, hot.launches.swap(0, Relaxed));
    }

    /// A kernel launch.
    #[inline(always)]
    pub fn launch(&self, tid: u32, call: &Enqueue) {
        self.note_thread(tid);
        self.add(Counter::Launches, 1);
        self.add(Counter::Threads, call.threads);
        self.add(Counter::Functions, mix(call.identity));
    }

    /// A graph launch.
    #[inline(always)]
    pub fn launch_graph(&self, tid: u32, call: &Enqueue) {
        self.enqueue(tid);
        self.add(Counter::GraphLaunches, 1);
        self.add(Counter::Graphs, mix(call.identity));
    }

    /// A copy.
    #[inline(always)]
    pub fn copy(&self, tid: u32, direction: Direction, call: &Enqueue) {
        self.enqueue(tid);
        self.add(Counter::Copies, 1);
        match direction {
            Direction::HostToDevice => self.add(Counter::BytesToDevice, call.bytes),
            Direction::DeviceToHost => self.add(Counter::BytesFromDevice, call.bytes),
            Direction::DeviceToDevice => self.add(Counter::BytesOnDevice, call.bytes),
            Direction::HostToHost | Direction::Unknown => self.add(Counter::BytesElsewhere, call.bytes),
        }
    }

    /// A fill.
    #[inline(always)]
    pub fn fill(&self, tid: u32, call: &Enqueue) {
        self.enqueue(tid);
        self.add(Counter::BytesFilled, call.bytes);
    }

    /// An event is recorded: keeps the counters in `into` and opens the next segment.
    #[inline(always)]
    pub fn snapshot(&self, ns: u64, into: &mut Snapshot) {
        let epoch = self.epoch.load(Relaxed).wrapping_add(1);
        self.first[(epoch as usize) & (SEGMENTS - 1)].clear();
        self.epoch.store(epoch, Relaxed);
        into.ns = ns;
        into.epoch = epoch;
        for (at, value) in into.work.iter_mut().enumerate() {
            *value = self.count(at);
        }
    }

    /// A closer is entered that waits for all of the stream. False where there is nothing to close: an idle poll.
    #[inline(always)]
    pub fn begin_close(&self) -> bool {
        if !self.has_open_work() {
            return false;
        }
        let epoch = self.epoch.load(Relaxed).wrapping_add(1);
        self.first[(epoch as usize) & (SEGMENTS - 1)].clear();
        self.epoch.store(epoch, Relaxed);
        for at in 0..COUNTERS {
            self.pending[at].store(self.count(at), Relaxed);
        }
        self.begin_pending(epoch, 0);
        true
    }

    /// A closer is entered that waits for an event. False where what it covers is closed already.
    #[inline(always)]
    pub fn begin_close_at(&self, event: &Snapshot) -> bool {
        if event.work[0] <= self.closed[0].load(Relaxed) {
            return false;
        }
        for at in 0..COUNTERS {
            self.pending[at].store(event.work[at], Relaxed);
        }
        self.begin_pending(event.epoch, event.ns);
        true
    }

    #[inline(always)]
    fn begin_pending(&self, epoch: u64, recorded_ns: u64) {
        self.pending_epoch.store(epoch, Relaxed);
        self.pending_recorded_ns.store(recorded_ns, Relaxed);
        let fresh = self.enqueues().wrapping_sub(self.seen.load(Relaxed));
        self.pending_fresh.store(fresh, Relaxed);
    }

    /// The closer returned: fills `out`'s work and times, and the stream's next step begins.
    #[inline(always)]
    pub fn close(&self, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        out.sequence = self.sequence.load(Relaxed);
        out.previous_exit_ns = self.exit.ns.load(Relaxed);
        out.recorded_ns = self.pending_recorded_ns.load(Relaxed);
        out.fresh = self.pending_fresh.load(Relaxed);
        for at in 0..COUNTERS {
            let pending = self.pending[at].load(Relaxed);
            out.work[at] = pending.wrapping_sub(self.closed[at].load(Relaxed));
        }
        self.fill_times(enter, exit, out);
        self.finish(exit);
    }

    /// True while there is work that no step has: enqueued, and not closed.
    #[inline(always)]
    pub fn has_open_work(&self) -> bool {
        self.enqueues() > self.closed[0].load(Relaxed)
    }

    /// True while a closer under way has something to close: two threads may wait for the same work, and the first
    /// to return makes the step.
    #[inline(always)]
    pub fn has_pending_work(&self) -> bool {
        self.pending[0].load(Relaxed) > self.closed[0].load(Relaxed)
    }

    /// The closer returned and nobody can be told: the stream's next step begins all the same.
    #[inline(always)]
    pub fn finish(&self, exit: &Stamp) {
        for at in 0..COUNTERS {
            self.closed[at].store(self.pending[at].load(Relaxed), Relaxed);
        }
        self.find_oldest();
        self.seen.store(self.enqueues(), Relaxed);
        self.sequence.fetch_add(1, Relaxed);
        self.exit.set(exit);
    }

    #[inline(always)]
    fn fill_times(&self, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        out.first_ns = enter.ns;
        out.runq_gap_ns = NOT_SEEN;
        out.runq_enqueue_ns = NOT_SEEN;
        out.runq_wait_ns = match enter.runq_ns == NOT_SEEN || exit.runq_ns == NOT_SEEN {
            true => NOT_SEEN,
            false => exit.runq_ns.wrapping_sub(enter.runq_ns),
        };
        let first = &self.oldest;
        if first.ns.load(Relaxed) == 0 {
            return;
        }
        if self.is_oldest_late.load(Relaxed) != 0 {
            out.header.flags |= flag::FIRST_UNKNOWN;
        }
        out.first_ns = first.ns.load(Relaxed);
        out.first_tid = first.tid.load(Relaxed) as u32;
        out.runq_enqueue_ns = first.runq_until(enter);
        let began = Stamp { ns: out.first_ns, runq_ns: first.runq_ns.load(Relaxed), tid: out.first_tid };
        out.runq_gap_ns = self.exit.runq_until(&began);
    }

    /// The first enqueue behind the closer under way: of the first segment behind it that has any.
    #[inline(always)]
    fn find_oldest(&self) {
        self.oldest.clear();
        self.is_oldest_late.store(0, Relaxed);
        if self.enqueues() <= self.closed[0].load(Relaxed) {
            return;
        }
        let last = self.epoch.load(Relaxed);
        let mut at = self.pending_epoch.load(Relaxed);
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

#[cfg(test)]
mod tests;
