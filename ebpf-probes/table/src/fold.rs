//! The fold: what a stream did since its last step, and how a closer turns that into one [`StepRecord`].
//!
//! The one idea: a stream's counters only grow. Recording an event, or entering a wait, takes a [`Cut`] of them; the
//! wait's return makes a step of the difference between the cut and the last one closed. Work enqueued ahead, behind
//! the cut, thus belongs to the next step. To know when *that* work was first enqueued, time is cut into segments,
//! and the last eight remember their first enqueue. What other streams a wait covers is [`crate::cover`]'s.
//!
//! The same code runs in the kernel programs and, for traces and tests, in user space. Everything is atomic and
//! relaxed: threads of a process may enqueue on one stream at once. Of two threads that wait for the same work, the
//! first to return makes its step. This file knows no clock: callers bring a [`Stamp`].

use crate::atomic::{AtomicU64, Relaxed};

use crate::Direction;
use crate::cover::Waited;
use crate::hot::HotStream;
use crate::record::{NOT_SEEN, StepRecord, StreamKey, flag};

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

/// A stream at one instant: how far an event's record reaches, and a wait.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Cut {
    /// [`StreamKey::tid`] of the stream.
    pub tid: AtomicU64,
    /// The stream's handle.
    pub stream: AtomicU64,
    /// When the stream was first used, ns: another one may come back under its handle. [`Cut::CAPTURED`] for an event
    /// recorded in a capture.
    pub born_ns: AtomicU64,
    /// When it was taken, ns, of an event; 0 for other waits.
    pub ns: AtomicU64,
    /// The first segment behind it. Of an event recorded in a capture: which of the stream's captures.
    pub epoch: AtomicU64,
    /// Enqueues when the wait for it was entered.
    pub entered: AtomicU64,
    /// The counters.
    pub work: [AtomicU64; COUNTERS],
}

impl Cut {
    /// The birth of no stream: the event was recorded in a capture, which `tid`, `stream` and `epoch` tell.
    pub const CAPTURED: u64 = u64::MAX;

    /// True where there is nothing before it.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.work[0].load(Relaxed) == 0
    }

    /// True where it is of this stream, or of one that had its handle.
    #[inline(always)]
    pub fn is_of(&self, key: &StreamKey) -> bool {
        self.stream.load(Relaxed) == key.stream && self.tid.load(Relaxed) == u64::from(key.tid)
    }

    /// The stream, of this process.
    #[inline(always)]
    pub fn key(&self, pid: u32) -> StreamKey {
        StreamKey { pid, tid: self.tid.load(Relaxed) as u32, stream: self.stream.load(Relaxed) }
    }

    /// Makes it one before which nothing is.
    #[inline(always)]
    pub fn clear(&self, key: &StreamKey) {
        self.tid.store(u64::from(key.tid), Relaxed);
        self.stream.store(key.stream, Relaxed);
        self.born_ns.store(0, Relaxed);
        self.work[0].store(0, Relaxed);
    }

    /// Makes it the same as `other`.
    #[inline(always)]
    pub fn copy(&self, other: &Cut) {
        let to = [&self.tid, &self.stream, &self.born_ns, &self.ns, &self.epoch, &self.entered];
        let from = [&other.tid, &other.stream, &other.born_ns, &other.ns, &other.epoch, &other.entered];
        for (to, from) in to.into_iter().zip(from) {
            to.store(from.load(Relaxed), Relaxed);
        }
        for (to, from) in self.work.iter().zip(&other.work) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}

/// A stream.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StreamFold {
    work: [AtomicU64; COUNTERS],
    /// The counters up to which steps are closed.
    closed: [AtomicU64; COUNTERS],
    /// How far a wait for the whole device reaches, while one is under way.
    pub pending: Cut,
    /// What the stream waited for.
    pub waited: Waited,
    /// The first enqueue of each of the last segments, by epoch modulo [`SEGMENTS`].
    first: [Mark; SEGMENTS],
    /// The first enqueue that no step has yet.
    oldest: Mark,
    /// 1 where that enqueue was forgotten, and `oldest` is one after it.
    is_oldest_late: AtomicU64,
    /// The segment now open.
    epoch: AtomicU64,
    /// The previous closer's return.
    exit: Mark,
    /// Enqueues when the previous closer returned.
    seen: AtomicU64,
    /// Steps closed.
    sequence: AtomicU64,
    /// When it was first used, ns.
    born_ns: AtomicU64,
    /// 1 while what is enqueued is captured into a graph, 2 while it is by another stream's capture.
    capturing: AtomicU64,
    /// The device, plus one, of the thread that enqueued last with a segment's first call; 0 where that is not known.
    device: AtomicU64,
    /// 1 where it and the legacy default stream wait for each other.
    blocking: AtomicU64,
    /// 1 where the last step was ended by a thread that polled.
    polled: AtomicU64,
    /// Captures begun on this stream.
    captures: AtomicU64,
    /// Of another stream's capture: that stream, and which of its captures.
    joined: [AtomicU64; 3],
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

    /// True while calls are captured into a graph: they are not work, [`StreamFold::capture`] counts them. Where
    /// another stream's capture is told by [`StreamFold::joined`], that must be under way still.
    #[inline(always)]
    pub fn is_capturing(&self) -> bool {
        self.capturing.load(Relaxed) != 0
    }

    /// A capture begins.
    #[inline(always)]
    pub fn begin_capture(&self) {
        self.captures.fetch_add(1, Relaxed);
        self.capturing.store(1, Relaxed);
    }

    /// A capture ended, this stream's or the one it was drawn into.
    #[inline(always)]
    pub fn end_capture(&self) {
        self.capturing.store(0, Relaxed);
    }

    /// The stream waits for an event that was recorded in a capture: what is enqueued belongs to that capture.
    #[inline(always)]
    pub fn join_capture(&self, event: &Cut) {
        if self.capturing.load(Relaxed) != 1 {
            for (to, from) in self.joined.iter().zip([&event.tid, &event.stream, &event.epoch]) {
                to.store(from.load(Relaxed), Relaxed);
            }
            self.capturing.store(2, Relaxed);
        }
    }

    /// The stream, of this process, whose capture this one was drawn into.
    #[inline(always)]
    pub fn joined(&self, pid: u32) -> Option<StreamKey> {
        let [tid, stream, _] = &self.joined;
        let key = StreamKey { pid, tid: tid.load(Relaxed) as u32, stream: stream.load(Relaxed) };
        if self.capturing.load(Relaxed) == 2 { Some(key) } else { None }
    }

    /// True where the capture that this stream was drawn into is `origin`'s and goes on.
    #[inline(always)]
    pub fn is_joined_to(&self, origin: &StreamFold) -> bool {
        origin.capturing.load(Relaxed) == 1 && origin.captures.load(Relaxed) == self.joined[2].load(Relaxed)
    }

    /// An event is recorded while the stream, which `key` names, is captured: it draws those that wait for it in.
    #[inline(always)]
    pub fn cut_capture(&self, key: &StreamKey, into: &Cut) {
        into.clear(key);
        into.born_ns.store(Cut::CAPTURED, Relaxed);
        into.epoch.store(self.captures.load(Relaxed), Relaxed);
        if self.capturing.load(Relaxed) == 2 {
            for (to, from) in [&into.tid, &into.stream, &into.epoch].into_iter().zip(&self.joined) {
                to.store(from.load(Relaxed), Relaxed);
            }
        }
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
        if self.born_ns.load(Relaxed) == 0 {
            self.born_ns.store(now.ns, Relaxed);
        }
        if self.oldest.ns.load(Relaxed) == 0 {
            self.oldest.set(now);
        }
    }

    /// The thread that enqueues uses this device, plus one; 0 where that is not known.
    #[inline(always)]
    pub fn set_device(&self, device: u64) {
        self.device.store(device, Relaxed);
    }

    /// True where a wait for the device, plus one, covers this stream, which `key` names: where it may be on it. Default
    /// streams, of which each device has its own, are not told apart.
    #[inline(always)]
    pub fn is_on(&self, key: &StreamKey, device: u64) -> bool {
        let own = self.device.load(Relaxed);
        key.stream == 0 || own == 0 || device == 0 || own == device
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

    /// What tells whether a thread enqueued anything: the same number again where it did not. Others may make it grow
    /// where the stream is neither's own.
    #[inline(always)]
    pub fn enqueued_by(&self, tid: u32) -> u64 {
        let foreign = self.work[Counter::Foreign as usize].load(Relaxed);
        match self.own_thread() == u64::from(tid) {
            true => self.enqueues().wrapping_sub(foreign),
            false => foreign,
        }
    }

    /// True where the stream, which `key` names, and the legacy default stream wait for each other: made without the flag
    /// that says not so, or a thread's own default stream.
    #[inline(always)]
    pub fn is_blocking(&self, key: &StreamKey) -> bool {
        self.blocking.load(Relaxed) != 0 || key.is_own_default()
    }

    /// The stream was made without that flag.
    #[inline(always)]
    pub fn set_blocking(&self) {
        self.blocking.store(1, Relaxed);
    }

    /// True where the stream's last step was ended by a thread that polled.
    #[inline(always)]
    pub fn is_polled(&self) -> bool {
        self.polled.load(Relaxed) != 0
    }

    /// The stream's step is ended by a thread that polls, or by one that waits.
    #[inline(always)]
    pub fn set_polled(&self, polled: bool) {
        self.polled.store(u64::from(polled), Relaxed);
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

    /// Keeps how far the stream, which `key` names, has come in `into`; at `ns` for an event, 0 for other waits. What is
    /// enqueued from here on is of another segment.
    #[inline(always)]
    pub fn cut(&self, key: &StreamKey, ns: u64, into: &Cut) {
        let mut epoch = self.epoch.load(Relaxed);
        // A segment without work need not end.
        if !self.is_fresh() {
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

    /// True where a wait that reaches as far as `cut` has something to close. An idle poll has not, nor has the second
    /// of two threads that waited for the same work.
    #[inline(always)]
    pub fn closes(&self, cut: &Cut) -> bool {
        self.is_at(cut) && cut.work[0].load(Relaxed) > self.closed[0].load(Relaxed)
    }

    /// True where the cut is of this stream, and not of one that had its handle.
    #[inline(always)]
    pub fn is_at(&self, cut: &Cut) -> bool {
        cut.born_ns.load(Relaxed) == self.born_ns.load(Relaxed)
    }

    /// A wait that reaches as far as `cut` is entered.
    #[inline(always)]
    pub fn enter(&self, cut: &Cut) {
        cut.entered.store(self.enqueues(), Relaxed);
    }

    /// The wait returned: fills `out`'s work and times, and the stream's next step begins.
    #[inline(always)]
    pub fn close(&self, cut: &Cut, enter: &Stamp, exit: &Stamp, out: &mut StepRecord) {
        out.sequence = self.sequence.load(Relaxed);
        out.previous_exit_ns = self.exit.ns.load(Relaxed);
        out.recorded_ns = cut.ns.load(Relaxed);
        let (entered, seen) = (cut.entered.load(Relaxed), self.seen.load(Relaxed));
        out.fresh = entered.saturating_sub(seen);
        for at in 0..COUNTERS {
            out.work[at] = cut.work[at].load(Relaxed).wrapping_sub(self.closed[at].load(Relaxed));
        }
        if entered > cut.work[0].load(Relaxed) {
            out.header.flags |= flag::AHEAD;
        }
        self.fill_times(enter, exit, out);
        self.finish(cut, exit);
    }

    /// True while there is work that no step has: enqueued, and not closed.
    #[inline(always)]
    pub fn has_open_work(&self) -> bool {
        self.enqueues() > self.closed[0].load(Relaxed)
    }

    /// The wait returned and nobody can be told: the stream's next step begins all the same.
    #[inline(always)]
    pub fn finish(&self, cut: &Cut, exit: &Stamp) {
        for at in 0..COUNTERS {
            self.closed[at].store(cut.work[at].load(Relaxed), Relaxed);
        }
        self.find_oldest(cut.epoch.load(Relaxed));
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

    /// The first enqueue that is open: of the first segment from `epoch` on that has any.
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

#[cfg(test)]
mod tests;
