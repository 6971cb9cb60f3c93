//! The fold: counters of a stream's work since its last step, and the [`StepRecord`] that a sync call makes of them.
//!
//! A stream's counters only grow. Recording an event, or entering a wait, takes a [`Snapshot`] of them; the return of
//! the wait makes a step of the difference between that snapshot and the last one closed. Work enqueued ahead, after
//! the snapshot, thus belongs to the next step. To know when that work was first enqueued, time is divided into
//! segments, and the last eight store their first enqueue. Which other streams a wait covers is decided in
//! [`crate::frontier`].
//!
//! The same code runs in the kernel programs and, for traces and tests, in user space. All accesses are atomic and
//! relaxed, since threads of a process may enqueue on one stream at once. Of two threads that wait for the same work,
//! the first to return makes its step. Callers supply all times as a [`Stamp`].

mod capture;
mod close;
mod iteration;
mod snapshot;
mod stamp;
mod work;

pub use iteration::PART_MIN;
pub use snapshot::Snapshot;
pub use stamp::{Mark, Stamp};

use core::ops::Deref;

use crate::atomic::{AtomicU64, Relaxed};
use crate::frontier::WaitedStreams;
use crate::function::{SIGNATURE, one, word};
use crate::graph::Contents;
use crate::record::StreamKey;

/// Counter of a stream. The order is that of [`StepRecord::work`]; never reuse a number.
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
    /// Enqueues by another thread than the one that ended the stream's last step (before the first step: than the one
    /// that enqueued first), as in a training loop's backward pass.
    Foreign = 10,
    /// Sum of the launched functions' mixed addresses: equal for equal sets of kernels.
    Functions = 11,
    /// Sum of the launched executable graphs' mixed addresses.
    Graphs = 12,
    /// Calls captured into a graph instead of enqueued.
    Captured = 13,
    /// Launches of graphs with known contents ([`crate::graph`]). If fewer than the graph launches, the counters of
    /// graph contents are incomplete.
    GraphsKnown = 14,
    /// Kernels in launched graphs. Not counted as launches.
    GraphKernels = 15,
    /// Threads started by kernels in launched graphs.
    GraphThreads = 16,
    /// Kernels in launched graphs that were captured by another thread than the one that began the capture.
    GraphForeign = 17,
    /// Bytes copied and filled by launched graphs.
    GraphBytes = 18,
    /// Collectives in launched graphs.
    GraphCollectives = 19,
}

/// Number of counters.
pub const COUNTERS: usize = 20;

const WORK: usize = COUNTERS + SIGNATURE;

/// Counters of a stream, indexed by [`Counter`], followed by the words of its signature ([`crate::function`]).
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(transparent)]
pub struct Work([AtomicU64; WORK]);

impl Default for Work {
    fn default() -> Work {
        Work([const { AtomicU64::new(0) }; WORK])
    }
}

impl Deref for Work {
    type Target = [AtomicU64; WORK];

    #[inline(always)]
    fn deref(&self) -> &[AtomicU64; WORK] {
        &self.0
    }
}

/// Number of segments whose first enqueue is stored.
pub const SEGMENTS: usize = 8;

/// Counters and open work of a stream.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct StreamFold {
    work: Work,
    /// The work at the end of the last closed step.
    closed: Work,
    /// Snapshot for a device synchronization under way.
    pub pending: Snapshot,
    /// Snapshots of other streams that the stream waited for.
    pub waited: WaitedStreams,
    /// The first enqueue of each of the last segments, by epoch modulo [`SEGMENTS`].
    first: [Mark; SEGMENTS],
    /// First enqueue of open work.
    oldest: Mark,
    /// 1 if that enqueue is older than all stored segments, and `oldest` is a later one.
    is_oldest_late: AtomicU64,
    /// Number of the open segment.
    epoch: AtomicU64,
    /// Return of the previous sync call.
    exit: Mark,
    /// Enqueues at the return of the previous sync call.
    seen: AtomicU64,
    /// Number of closed steps.
    sequence: AtomicU64,
    /// Time of the first use, ns.
    born_ns: AtomicU64,
    /// 1 while the stream is captured into a graph, 2 while it is captured because it joined another stream's capture.
    capturing: AtomicU64,
    /// Device, plus one, of the thread that last began a segment; 0 if not known.
    device: AtomicU64,
    /// 1 if the stream and the legacy default stream wait for each other.
    blocking: AtomicU64,
    /// 1 if a polling thread ended the last step.
    polled: AtomicU64,
    /// Number of captures begun on this stream.
    captures: AtomicU64,
    /// Thread that began the last capture.
    capturer: AtomicU64,
    /// Contents captured so far, on this stream and on streams that joined.
    captured: Contents,
    /// Thread, handle and capture number of the stream whose capture this one joined.
    joined: [AtomicU64; 3],
}

/// A call that enqueues work.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Enqueue {
    /// Threads started, for a kernel launch.
    pub threads: u64,
    /// Address of the launched function, or of the graph.
    pub identity: u64,
    /// Bytes copied or filled.
    pub bytes: u64,
    /// Lane of the launched function ([`crate::function`]).
    pub lane: u32,
}

/// Mixes an address into 64 bits (the finalizer of SplitMix64), so that sums of them identify sets.
#[inline(always)]
pub fn mix(value: u64) -> u64 {
    let z = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl StreamFold {
    /// Returns the number of calls that enqueued work. Launches, graph launches and copies are counted once: counter 0
    /// has the others.
    #[inline(always)]
    fn enqueues(&self) -> u64 {
        let count = |counter: Counter| self.work[counter as usize].load(Relaxed);
        count(Counter::Enqueues)
            + count(Counter::Launches)
            + count(Counter::GraphLaunches)
            + count(Counter::Copies)
    }

    #[inline(always)]
    fn count(&self, at: usize) -> u64 {
        if at == Counter::Enqueues as usize { self.enqueues() } else { self.work[at].load(Relaxed) }
    }

    #[inline(always)]
    fn add(&self, counter: Counter, value: u64) {
        self.work[counter as usize].fetch_add(value, Relaxed);
    }

    /// Adds a value that is often 0: an addition costs more than the comparison.
    #[inline(always)]
    fn add_some(&self, counter: Counter, value: u64) {
        if value != 0 {
            self.add(counter, value);
        }
    }

    #[inline(always)]
    fn add_function(&self, lane: u32) {
        self.work[COUNTERS + word(lane)].fetch_add(one(lane), Relaxed);
    }

    /// Adds the launches of many functions.
    #[inline(always)]
    fn add_signature(&self, signature: &[AtomicU64; SIGNATURE]) {
        for (to, from) in self.work[COUNTERS..].iter().zip(signature) {
            let launches = from.load(Relaxed);
            if launches != 0 {
                to.fetch_add(launches, Relaxed);
            }
        }
    }

    #[inline(always)]
    fn open_segment(&self) -> &Mark {
        &self.first[(self.epoch.load(Relaxed) as usize) & (SEGMENTS - 1)]
    }

    /// Sets the device, plus one, of the enqueuing thread; 0 if not known.
    #[inline(always)]
    pub fn set_device(&self, device: u64) {
        self.device.store(device, Relaxed);
    }

    /// Returns true if the stream may be on the device, given plus one, so that a wait for the device covers it.
    #[inline(always)]
    pub fn is_on(&self, device: u64) -> bool {
        let own = self.device.load(Relaxed);
        own == 0 || device == 0 || own == device
    }

    /// Returns the legacy default stream of this stream's device. `key` is this stream's; `first` is the device, plus
    /// one, that the process chose first.
    #[inline(always)]
    pub fn legacy(&self, key: &StreamKey, first: u64) -> StreamKey {
        let stream = match key.is_default() {
            true => key.stream,
            false => StreamKey::default_of(self.device.load(Relaxed), first),
        };
        StreamKey { pid: key.pid, tid: 0, stream }
    }

    /// Returns true if the stream, with this `key`, and the legacy default stream wait for each other: a stream
    /// created without the non-blocking flag, or a thread's own default stream.
    #[inline(always)]
    pub fn is_blocking(&self, key: &StreamKey) -> bool {
        self.blocking.load(Relaxed) != 0 || key.is_own_default()
    }

    /// Marks the stream as created without the non-blocking flag.
    #[inline(always)]
    pub fn set_blocking(&self) {
        self.blocking.store(1, Relaxed);
    }

    /// Returns true if a polling thread ended the stream's last step.
    #[inline(always)]
    pub fn is_polled(&self) -> bool {
        self.polled.load(Relaxed) != 0
    }

    /// Sets whether a polling thread ended the stream's last step.
    #[inline(always)]
    pub fn set_polled(&self, polled: bool) {
        self.polled.store(u64::from(polled), Relaxed);
    }
}

#[cfg(test)]
mod tests;
