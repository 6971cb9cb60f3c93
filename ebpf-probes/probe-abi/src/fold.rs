//! The fold: what a stream did since its last step, and how a sync_call turns that into one [`StepRecord`].
//!
//! The one idea: a stream's counters only grow. Recording an event, or entering a wait, takes a [`Snapshot`] of them; the
//! wait's return makes a step of the difference between the snapshot and the last one closed. Work enqueued ahead, behind
//! the snapshot, thus belongs to the next step. To know when *that* work was first enqueued, time is snapshot into segments,
//! and the last eight remember their first enqueue. What other streams a wait covers is [`crate::frontier`]'s.
//!
//! The same code runs in the kernel programs and, for traces and tests, in user space. Everything is atomic and
//! relaxed: threads of a process may enqueue on one stream at once. Of two threads that wait for the same work, the
//! first to return makes its step. This file knows no clock: callers bring a [`Stamp`].

mod capture;
mod close;
mod snapshot;
mod stamp;
mod work;

pub use snapshot::Snapshot;
pub use stamp::{Mark, Stamp};

use crate::atomic::{AtomicU64, Relaxed};
use crate::frontier::WaitedStreams;
use crate::graph::Contents;
use crate::record::StreamKey;

/// What a stream counts. The order is that of [`StepRecord::work`]; never reuse a slot.
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
    /// Graph launches of which it is known what the graph holds ([`crate::graph`]): where these are fewer than the graph
    /// launches, what follows is not all of it.
    GraphsKnown = 14,
    /// Kernels in the graphs that were launched. Not among the launches.
    GraphKernels = 15,
    /// Threads that these start.
    GraphThreads = 16,
    /// Those of them that were captured by another thread than the one that began the capture.
    GraphForeign = 17,
    /// Bytes that such graphs copy and fill.
    GraphBytes = 18,
    /// Collectives in such graphs.
    GraphCollectives = 19,
}

/// How many things a stream counts.
pub const COUNTERS: usize = 20;

/// Segments whose first enqueue is remembered.
pub const SEGMENTS: usize = 8;

/// A stream.
#[derive(Debug, Default)]
#[repr(C)]
pub struct StreamFold {
    work: [AtomicU64; COUNTERS],
    /// The counters up to which steps are closed.
    closed: [AtomicU64; COUNTERS],
    /// How far a wait for the whole device reaches, while one is under way.
    pub pending: Snapshot,
    /// What the stream waited for.
    pub waited: WaitedStreams,
    /// The first enqueue of each of the last segments, by epoch modulo [`SEGMENTS`].
    first: [Mark; SEGMENTS],
    /// The first enqueue that no step has yet.
    oldest: Mark,
    /// 1 where that enqueue was forgotten, and `oldest` is one after it.
    is_oldest_late: AtomicU64,
    /// The segment now open.
    epoch: AtomicU64,
    /// The previous sync_call's return.
    exit: Mark,
    /// Enqueues when the previous sync_call returned.
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
    /// The thread that began the last of them.
    capturer: AtomicU64,
    /// What it captured so far, on this stream and on those that were drawn in.
    captured: Contents,
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
    /// Calls that enqueued work. A launch, by far the most frequent, is not counted twice: slot 0 holds the rest.
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

    /// The thread that enqueues uses this device, plus one; 0 where that is not known.
    #[inline(always)]
    pub fn set_device(&self, device: u64) {
        self.device.store(device, Relaxed);
    }

    /// True where a wait for the device, plus one, covers this stream: where it may be on it.
    #[inline(always)]
    pub fn is_on(&self, device: u64) -> bool {
        let own = self.device.load(Relaxed);
        own == 0 || device == 0 || own == device
    }

    /// The legacy default stream of this stream's device; `key` names this one, and the process chose the device `first`,
    /// plus one, before others.
    #[inline(always)]
    pub fn legacy(&self, key: &StreamKey, first: u64) -> StreamKey {
        let stream = match key.is_default() {
            true => key.stream,
            false => StreamKey::default_of(self.device.load(Relaxed), first),
        };
        StreamKey { pid: key.pid, tid: 0, stream }
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
}

#[cfg(test)]
mod tests;
