//! Hot slots: counters in arrays, which the programs reach without calling into the kernel.
//!
//! A launch only adds. Its sums are counted in a slot of an array, whose index follows from the key, and are moved to
//! the [`StreamFold`](crate::fold::StreamFold) before that is read
//! ([`StreamFold::absorb`](crate::fold::StreamFold::absorb)). A look-up in a hash map costs a program 50 ns, most of
//! it in the returns of the kernel's functions; a slot of an array costs 2 ns. Counters of processes, durations and
//! threads have slots, too, and user space adds them to those in the maps.
//!
//! A slot belongs to the first stream that claims it, until that stream or its process ends. Other streams with the
//! same index count in their folds, at the cost of the look-ups. So does a stream whose slot is disarmed, because its
//! next launch is more than a sum: the first work of a segment, or work that is captured.

use crate::atomic::{AtomicU64, Relaxed, SeqCst};
use crate::fold::{Enqueue, mix};
use crate::function::{SIGNATURE, one, word};
use crate::histogram::Durations;
use crate::record::{Calls, OUTS, OperationKey, ROWS, StreamKey, ThreadFold};

/// Slots for streams; a power of two.
pub const HOT_STREAMS: u32 = 4096;
/// Slots for processes; a power of two.
pub const HOT_PROCESSES: u32 = 512;
/// Slots for durations; a power of two.
pub const HOT_DURATIONS: u32 = 2048;
/// Slots for [`Calls`] of threads; a power of two.
pub const HOT_CALLS: u32 = 2048;
/// Slots for [`ThreadFold`]s; a power of two.
pub const THREADS: u32 = 4096;
/// Slots in which a thread may have its [`ThreadFold`].
pub const THREAD_SLOTS: u32 = 8;

/// Slots for the devices of threads; a power of two.
pub const HOT_DEVICES: u32 = 4096;

/// Default stream of a thread that uses another device than its process's first: the thread in the upper half, the
/// substitute of the handle ([`StreamKey::default_of`]) in the lower.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct HotDevice(AtomicU64);

impl HotDevice {
    /// Returns the slot of the thread.
    #[inline(always)]
    pub fn slot(tid: u32) -> u32 {
        tid & (HOT_DEVICES - 1)
    }

    /// Returns the handle of the thread's default streams; 0 if the slot is another thread's.
    #[inline(always)]
    pub fn default_stream(&self, tid: u32) -> u64 {
        let word = self.0.load(Relaxed);
        if word >> 32 == u64::from(tid) { word & 0xffff_ffff } else { 0 }
    }

    /// Sets the handle of the thread's default streams. Does nothing if the slot is another thread's.
    #[inline(always)]
    pub fn set(&self, tid: u32, stream: u64) {
        let word = self.0.load(Relaxed);
        if word == 0 || word >> 32 == u64::from(tid) {
            self.0.store(if stream == 0 { 0 } else { u64::from(tid) << 32 | stream }, Relaxed);
        }
    }
}

const CLAIMING: u64 = u64::MAX;

/// Launches of a stream since its fold absorbed them.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes))]
#[repr(C, align(64))]
pub struct HotStream {
    /// [`StreamKey::pid`] in the upper half, [`StreamKey::tid`] in the lower; 0 if the slot is free.
    owner: AtomicU64,
    stream: AtomicU64,
    /// Thread whose launches are not foreign; 0 if the slot is disarmed.
    thread: AtomicU64,
    pub(crate) launches: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) threads: AtomicU64,
    pub(crate) functions: AtomicU64,
    /// Launches by function ([`crate::function`]).
    pub(crate) signature: [AtomicU64; SIGNATURE],
}

impl HotStream {
    /// Returns the slot of the stream.
    #[inline(always)]
    pub fn slot(key: &StreamKey) -> u32 {
        let both = key.stream ^ u64::from(key.pid ^ key.tid).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (HOT_STREAMS - 1)
    }

    #[inline(always)]
    fn owner(key: &StreamKey) -> u64 {
        u64::from(key.pid) << 32 | u64::from(key.tid)
    }

    /// Returns true if the slot is this stream's.
    #[inline(always)]
    pub fn is_of(&self, key: &StreamKey) -> bool {
        self.owner.load(Relaxed) == Self::owner(key) && self.stream.load(Relaxed) == key.stream
    }

    /// Claims the slot if it is free or the stream's already. Returns false if it is another's.
    #[inline(always)]
    pub fn claim(&self, key: &StreamKey) -> bool {
        if self.is_of(key) {
            return true;
        }
        if self.owner.compare_exchange(0, CLAIMING, SeqCst, SeqCst).is_err() {
            return false;
        }
        for counter in [&self.thread, &self.launches, &self.foreign, &self.threads, &self.functions] {
            counter.store(0, Relaxed);
        }
        self.signature.iter().for_each(|lanes| lanes.store(0, Relaxed));
        self.stream.store(key.stream, Relaxed);
        // Last, since other threads count in the slot from then on.
        self.owner.swap(Self::owner(key), SeqCst);
        true
    }

    /// Frees the slot. Its launches must have been absorbed.
    #[inline(always)]
    pub fn release(&self) {
        self.owner.store(0, Relaxed);
    }

    /// Lets launches count in the slot; those by another thread than `own` are foreign.
    #[inline(always)]
    pub fn arm(&self, own: u64) {
        self.thread.swap(own, SeqCst);
    }

    /// Makes the next launch use the fold.
    #[inline(always)]
    pub fn disarm(&self) {
        self.thread.swap(0, SeqCst);
    }

    /// Returns the thread whose launches are not foreign; 0 if the slot is disarmed.
    #[inline(always)]
    pub fn armed(&self) -> u64 {
        self.thread.load(Relaxed)
    }

    /// Returns the launches by other threads than the stream's own.
    #[inline(always)]
    pub fn foreign(&self) -> u64 {
        self.foreign.load(Relaxed)
    }

    /// Counts a kernel launch by `tid`; the slot is armed for `own`.
    #[inline(always)]
    pub fn launch(&self, tid: u32, own: u64, call: &Enqueue) {
        if own != u64::from(tid) {
            self.foreign.fetch_add(1, Relaxed);
        }
        self.threads.fetch_add(call.threads, Relaxed);
        self.functions.fetch_add(mix(call.identity), Relaxed);
        self.signature[word(call.lane)].fetch_add(one(call.lane), Relaxed);
        // Last: if another thread absorbs in between, this launch remains and is absorbed later.
        self.launches.fetch_add(1, Relaxed);
    }
}

/// Counters of a traced process outside its [`ProcessFold`](crate::record::ProcessFold); user space adds both.
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct HotProcess {
    /// Process id; 0 if the slot is free.
    pid: AtomicU64,
    /// Part of [`ProcessFold::folded`](crate::record::ProcessFold::folded).
    pub folded: AtomicU64,
    /// Part of [`ProcessFold::launches`](crate::record::ProcessFold::launches).
    pub launches: AtomicU64,
    /// Part of [`ProcessFold::enqueues`](crate::record::ProcessFold::enqueues).
    pub enqueues: AtomicU64,
    /// Part of [`ProcessFold::uses_collectives`](crate::record::ProcessFold::uses_collectives).
    pub uses_collectives: AtomicU64,
    /// 1 once the process has as many functions with an ordinal as it may have.
    pub has_all_functions: AtomicU64,
    /// Part of [`ProcessFold::calls`](crate::record::ProcessFold::calls).
    pub calls: [AtomicU64; ROWS],
}

impl HotProcess {
    /// Returns the slot of the process.
    #[inline(always)]
    pub fn slot(pid: u32) -> u32 {
        pid & (HOT_PROCESSES - 1)
    }

    /// Returns true if the slot is this process's.
    #[inline(always)]
    pub fn is_of(&self, pid: u32) -> bool {
        self.pid.load(Relaxed) == u64::from(pid)
    }

    /// Claims the slot if it is free. User space zeroes it when the process has ended.
    #[inline(always)]
    pub fn claim(&self, pid: u32) {
        let _ = self.pid.compare_exchange(0, u64::from(pid), SeqCst, SeqCst);
    }

    /// Returns the number of calls that enqueued work.
    #[inline(always)]
    pub fn enqueued(&self) -> u64 {
        self.launches.load(Relaxed).wrapping_add(self.enqueues.load(Relaxed))
    }
}

/// Durations of one operation of one process, outside the map of durations; user space adds both.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct HotDurations {
    /// [`OperationKey::pid`] in the upper half, [`OperationKey::row`] in the lower; 0 if the slot is free.
    owner: AtomicU64,
    /// Histogram of the operation.
    pub durations: Durations,
}

impl HotDurations {
    /// Returns the slot of the operation. Operations of one process are adjacent.
    #[inline(always)]
    pub fn slot(key: &OperationKey) -> u32 {
        key.pid.wrapping_mul(0x9e37_79b1).wrapping_add(key.row) & (HOT_DURATIONS - 1)
    }

    /// Returns true if the slot is this operation's.
    #[inline(always)]
    pub fn is_of(&self, key: &OperationKey) -> bool {
        self.owner.load(Relaxed) == Self::owner(key)
    }

    #[inline(always)]
    fn owner(key: &OperationKey) -> u64 {
        u64::from(key.pid) << 32 | u64::from(key.row)
    }

    /// Claims the slot if it is free or the operation's already. Returns false if it is another's. User space zeroes
    /// it when the process has ended.
    #[inline(always)]
    pub fn claim(&self, key: &OperationKey) -> bool {
        let (owner, own) = (self.owner.load(Relaxed), Self::owner(key));
        if owner != 0 {
            return owner == own;
        }
        match self.owner.compare_exchange(0, own, SeqCst, SeqCst) {
            Ok(_) => true,
            Err(other) => other == own,
        }
    }
}

/// A thread uses its slot until it ends, if the slot was free.
impl Calls {
    /// Returns the slot of the thread.
    #[inline(always)]
    pub fn slot(tid: u32) -> u32 {
        tid & (HOT_CALLS - 1)
    }

    /// Returns the owner of the thread's slot.
    #[inline(always)]
    pub fn owner(pid: u32, tid: u32) -> u64 {
        u64::from(pid) << 32 | u64::from(tid)
    }

    /// Claims the slot if it is free. Returns false if it is another's. [`Calls::begin`] must follow.
    #[inline(always)]
    pub fn claim(&self, owner: u64) -> bool {
        self.owner.compare_exchange(0, owner, SeqCst, SeqCst).is_ok()
    }

    /// Resets the state to that of a thread without calls.
    #[inline(always)]
    pub fn begin(&mut self, start_ns: u64) {
        (self.start_ns, self.depth, self.waiting, self.group_ends) = (start_ns, 0, 0, 0);
        self.outs = [0; OUTS];
    }
}

/// A thread has the first slot that was free, of a few, until it ends. It has no state elsewhere.
impl ThreadFold {
    /// Returns the slots in which a thread may have its state, the most likely first.
    #[inline(always)]
    pub fn slots(tid: u32) -> impl Iterator<Item = u32> {
        (0..THREAD_SLOTS).map(move |at| tid.wrapping_add(at) & (THREADS - 1))
    }

    /// Returns true if the slot is this thread's.
    #[inline(always)]
    pub fn is_of(&self, pid: u32, tid: u32) -> bool {
        self.owner.load(Relaxed) == Calls::owner(pid, tid)
    }

    /// Claims the slot if it is free, or of an earlier thread with this id. Returns false if it is another's.
    /// [`ThreadFold::begin`] must follow.
    #[inline(always)]
    pub fn claim(&self, pid: u32, tid: u32) -> bool {
        let owner = self.owner.load(Relaxed);
        let is_free = owner == 0 || owner as u32 == tid;
        is_free && self.owner.compare_exchange(owner, Calls::owner(pid, tid), SeqCst, SeqCst).is_ok()
    }

    /// Resets the state to that of a thread without calls. What frames refer to is written with them.
    #[inline(always)]
    pub fn begin(&mut self) {
        (self.depth, self.device, self.frontier_sp, self.poll.began_ns) = (0, 0, 0, 0);
    }
}

const _: () = {
    assert!(size_of::<HotStream>() == 192);
    assert!(HOT_CALLS.is_power_of_two() && HOT_DEVICES.is_power_of_two() && THREADS.is_power_of_two());
    assert!(
        HOT_STREAMS.is_power_of_two() && HOT_PROCESSES.is_power_of_two() && HOT_DURATIONS.is_power_of_two()
    );
};

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::fold::{Counter, Snapshot, Stamp, StreamFold};
    use crate::record::StepRecord;
    use crate::thread_counter::THREAD_COUNTERS;

    const KEY: StreamKey = StreamKey { pid: 5, tid: 0, stream: 0x100 };

    #[test]
    fn slots_have_one_owner_until_released() {
        let slot = HotStream::default();
        let other = StreamKey { stream: 0x200, ..KEY };
        assert!(slot.claim(&KEY) && slot.is_of(&KEY) && slot.claim(&KEY));
        assert!(!slot.claim(&other) && !slot.is_of(&other));
        slot.release();
        assert!(!slot.is_of(&KEY) && slot.claim(&other) && slot.is_of(&other));
    }

    #[test]
    fn operations_claim_free_slots_and_their_own() {
        let slot = HotDurations::default();
        let (one, other) = (OperationKey { pid: 5, row: 6 }, OperationKey { pid: 5, row: 6 + HOT_DURATIONS });
        assert_eq!(HotDurations::slot(&one), HotDurations::slot(&other));
        assert!(slot.claim(&one) && slot.claim(&one) && !slot.claim(&other));
    }

    #[test]
    fn threads_claim_free_slots_and_those_of_earlier_threads_with_their_id() {
        let thread = ThreadFold { owner: AtomicU64::new(Calls::owner(5, 6)), ..ThreadFold::default() };
        assert!(thread.is_of(5, 6) && !thread.claim(5, 7), "another thread has it");
        assert!(thread.claim(8, 6) && thread.is_of(8, 6), "the process with pid 5 has ended");
        thread.owner.store(0, Relaxed);
        assert!(thread.claim(5, 7) && !thread.claim(8, 6));
        let slots: std::collections::BTreeSet<u32> = ThreadFold::slots(u32::MAX).collect();
        assert!(slots.len() == THREAD_SLOTS as usize && slots.iter().all(|slot| *slot < THREADS));
    }

    #[test]
    fn new_owners_find_zeroes_and_a_disarmed_slot() {
        let slot = HotStream::default();
        assert!(slot.claim(&KEY));
        slot.arm(7);
        slot.launch(7, 7, &Enqueue { threads: 3, identity: 1, bytes: 0, lane: 5 });
        slot.release();
        assert!(slot.claim(&StreamKey { pid: 6, ..KEY }));
        assert_eq!((slot.armed(), slot.launches.load(Relaxed), slot.threads.load(Relaxed)), (0, 0, 0));
    }

    #[test]
    fn neighbouring_processes_and_streams_have_slots_of_their_own() {
        let mut slots = std::collections::BTreeSet::new();
        for pid in 1000..1008 {
            for at in 0..16 {
                slots.insert(HotStream::slot(&StreamKey { pid, tid: 0, stream: 0x5555_0000 + at * 0x4c0 }));
            }
            slots.insert(HotStream::slot(&StreamKey { pid, tid: 0, stream: 0 }));
        }
        assert!(slots.len() > 130, "136 streams on {} slots", slots.len());
    }

    #[test]
    fn steps_are_equal_with_and_without_hot_slots() {
        let (slot, absorbing, straight) =
            (HotStream::default(), StreamFold::default(), StreamFold::default());
        let at = |ns| Stamp { ns, counts: [0; THREAD_COUNTERS], tid: 7 };
        let calls = [(7, 10, 1), (8, 20, 2), (7, 30, 3)];
        absorbing.begin(&at(1));
        straight.begin(&at(1));
        slot.arm(absorbing.own_thread());
        for (tid, threads, identity) in calls {
            let call = Enqueue { threads, identity, bytes: 0, lane: identity as u32 };
            slot.launch(tid, slot.armed(), &call);
            straight.launch(tid, &call);
        }
        absorbing.absorb(&slot);
        let step = |fold: &StreamFold| {
            let (snapshot, mut out) = (Snapshot::default(), StepRecord::default());
            fold.snapshot(&KEY, 0, &snapshot);
            assert!(fold.closes(&snapshot));
            fold.close(&snapshot, &at(50), &at(60), &mut out);
            out
        };
        let (a, b) = (step(&absorbing), step(&straight));
        assert_eq!(a, b);
        assert_eq!((a.work[Counter::Launches as usize], a.work[Counter::Foreign as usize]), (3, 1));
        absorbing.absorb(&slot);
        assert!(!absorbing.has_open_work(), "what was absorbed is not there again");
    }
}
