//! Where calls are counted while nobody looks: in arrays, found without a call into the kernel.
//!
//! The one idea: a launch only adds. So its sums may wait beside the [`StreamFold`](crate::fold::StreamFold) that
//! they belong to, in an array whose slot follows from the key, and whoever needs the fold takes them over first
//! ([`StreamFold::absorb`](crate::fold::StreamFold::absorb)). A look-up in a hash map costs a program 50 ns, most of
//! it in the returns of the functions behind it; a slot in an array costs 2.
//!
//! So do the counts of a process, which are told together with those of its fold.
//!
//! A slot belongs to the first stream that claims it, until that stream or its process is gone. The others that
//! fall on it count in their folds, at the price of the look-ups. So does a stream whose slot is not armed: its next
//! launch has more to say than a sum (the first work of a segment, work that is captured).

use crate::atomic::{AtomicU64, Relaxed, SeqCst};
use crate::fold::{Enqueue, mix};
use crate::histogram::Durations;
use crate::record::{Calls, OUTS, OperationKey, ROWS, StreamKey};

/// BucketCounts for streams; a power of two.
pub const HOT_STREAMS: u32 = 4096;
/// BucketCounts for processes; a power of two.
pub const HOT_PROCESSES: u32 = 512;
/// BucketCounts for durations; a power of two.
pub const HOT_DURATIONS: u32 = 2048;
/// BucketCounts for [`Calls`] of threads; a power of two.
pub const HOT_CALLS: u32 = 2048;

/// BucketCounts for the devices of threads; a power of two.
pub const HOT_DEVICES: u32 = 4096;

/// Which default streams a thread uses that chose a further device of its process: the thread in the upper half, what
/// stands for their handle ([`StreamKey::default_of`]) in the lower.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct HotDevice(AtomicU64);

impl HotDevice {
    /// Where the thread's slot is.
    #[inline(always)]
    pub fn slot(tid: u32) -> u32 {
        tid & (HOT_DEVICES - 1)
    }

    /// The handle of the thread's default streams; 0 where the slot is not its.
    #[inline(always)]
    pub fn default_stream(&self, tid: u32) -> u64 {
        let word = self.0.load(Relaxed);
        if word >> 32 == u64::from(tid) { word & 0xffff_ffff } else { 0 }
    }

    /// From here on the thread's default streams have this handle; none of a slot that is another's.
    #[inline(always)]
    pub fn set(&self, tid: u32, stream: u64) {
        let word = self.0.load(Relaxed);
        if word == 0 || word >> 32 == u64::from(tid) {
            self.0.store(if stream == 0 { 0 } else { u64::from(tid) << 32 | stream }, Relaxed);
        }
    }
}

const CLAIMING: u64 = u64::MAX;

/// The launches of a stream since its fold last absorbed them.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct HotStream {
    /// [`StreamKey::pid`] above [`StreamKey::tid`]; 0 where the slot is free.
    owner: AtomicU64,
    stream: AtomicU64,
    /// The thread whose launches are not foreign; 0 where the slot is not armed.
    thread: AtomicU64,
    pub(crate) launches: AtomicU64,
    pub(crate) foreign: AtomicU64,
    pub(crate) threads: AtomicU64,
    pub(crate) functions: AtomicU64,
}

impl HotStream {
    /// Where the stream's slot is.
    #[inline(always)]
    pub fn slot(key: &StreamKey) -> u32 {
        let both = key.stream ^ u64::from(key.pid ^ key.tid).wrapping_mul(0xff51_afd7_ed55_8ccd);
        (both.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32 & (HOT_STREAMS - 1)
    }

    #[inline(always)]
    fn owner(key: &StreamKey) -> u64 {
        u64::from(key.pid) << 32 | u64::from(key.tid)
    }

    /// True where the slot is this stream's.
    #[inline(always)]
    pub fn is_of(&self, key: &StreamKey) -> bool {
        self.owner.load(Relaxed) == Self::owner(key) && self.stream.load(Relaxed) == key.stream
    }

    /// Makes the slot the stream's, if it is free or the stream's already; false where it is another's.
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
        self.stream.store(key.stream, Relaxed);
        // Last: from here on others count in it.
        self.owner.swap(Self::owner(key), SeqCst);
        true
    }

    /// The stream is gone, and what it counted was absorbed.
    #[inline(always)]
    pub fn release(&self) {
        self.owner.store(0, Relaxed);
    }

    /// Launches need nothing but their sums from here on: those by another thread than `own` are foreign.
    #[inline(always)]
    pub fn arm(&self, own: u64) {
        self.thread.swap(own, SeqCst);
    }

    /// The next launch must ask the fold.
    #[inline(always)]
    pub fn disarm(&self) {
        self.thread.swap(0, SeqCst);
    }

    /// The thread whose launches are not foreign; 0 where the next launch must ask the fold.
    #[inline(always)]
    pub fn armed(&self) -> u64 {
        self.thread.load(Relaxed)
    }

    /// A kernel launch by `tid`, where the slot is armed for `own`.
    #[inline(always)]
    pub fn launch(&self, tid: u32, own: u64, call: &Enqueue) {
        if own != u64::from(tid) {
            self.foreign.fetch_add(1, Relaxed);
        }
        self.threads.fetch_add(call.threads, Relaxed);
        self.functions.fetch_add(mix(call.identity), Relaxed);
        // Last: who absorbs in between leaves at least this one, and comes back for it.
        self.launches.fetch_add(1, Relaxed);
    }
}

/// What a traced process counts without its [`ProcessFold`](crate::record::ProcessFold): both count, the sum is told.
#[derive(Debug)]
#[repr(C)]
pub struct HotProcess {
    /// The process id; 0 where the slot is free.
    pid: AtomicU64,
    /// [`ProcessFold::folded`](crate::record::ProcessFold::folded).
    pub folded: AtomicU64,
    /// [`ProcessFold::launches`](crate::record::ProcessFold::launches).
    pub launches: AtomicU64,
    /// [`ProcessFold::enqueues`](crate::record::ProcessFold::enqueues).
    pub enqueues: AtomicU64,
    /// [`ProcessFold::tells`](crate::record::ProcessFold::tells).
    pub uses_collectives: AtomicU64,
    /// [`ProcessFold::calls`](crate::record::ProcessFold::calls).
    pub calls: [AtomicU64; ROWS],
}

impl HotProcess {
    /// Where the process's slot is.
    #[inline(always)]
    pub fn slot(pid: u32) -> u32 {
        pid & (HOT_PROCESSES - 1)
    }

    /// True where the slot is this process's.
    #[inline(always)]
    pub fn is_of(&self, pid: u32) -> bool {
        self.pid.load(Relaxed) == u64::from(pid)
    }

    /// Makes the slot the process's, if it is free; user space frees it, all zeroes, when the process is gone.
    #[inline(always)]
    pub fn claim(&self, pid: u32) {
        let _ = self.pid.compare_exchange(0, u64::from(pid), SeqCst, SeqCst);
    }

    /// Calls that enqueued work.
    #[inline(always)]
    pub fn enqueued(&self) -> u64 {
        self.launches.load(Relaxed).wrapping_add(self.enqueues.load(Relaxed))
    }
}

/// Durations of one operation of one process: those in the map of durations and these are told as one histogram.
#[derive(Debug, Default)]
#[repr(C)]
pub struct HotDurations {
    /// [`OperationKey::pid`] above [`OperationKey::row`]; 0 where the slot is free.
    owner: AtomicU64,
    /// What is counted here.
    pub durations: Durations,
}

impl HotDurations {
    /// Where the operation's slot is: those of a process lie side by side.
    #[inline(always)]
    pub fn slot(key: &OperationKey) -> u32 {
        key.pid.wrapping_mul(0x9e37_79b1).wrapping_add(key.row) & (HOT_DURATIONS - 1)
    }

    /// What the slot of this operation begins with.
    #[inline(always)]
    pub fn owner(key: &OperationKey) -> u64 {
        u64::from(key.pid) << 32 | u64::from(key.row)
    }

    /// Makes the slot the operation's, if it is free or the operation's already; false where it is another's. User
    /// space frees it, all zeroes, when the process is gone.
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

/// A thread counts in its slot for as long as it lives, if the slot was free.
impl Calls {
    /// Where the thread's slot is.
    #[inline(always)]
    pub fn slot(tid: u32) -> u32 {
        tid & (HOT_CALLS - 1)
    }

    /// What the slot of this thread begins with.
    #[inline(always)]
    pub fn owner(pid: u32, tid: u32) -> u64 {
        u64::from(pid) << 32 | u64::from(tid)
    }

    /// Makes the slot the thread's, if it is free; false where it is another's. Then only it may go on to
    /// [`Calls::begin`].
    #[inline(always)]
    pub fn claim(&self, owner: u64) -> bool {
        self.owner.compare_exchange(0, owner, SeqCst, SeqCst).is_ok()
    }

    /// Nothing is under way yet.
    #[inline(always)]
    pub fn begin(&mut self, start_ns: u64) {
        (self.start_ns, self.depth, self.waiting, self.group_ends) = (start_ns, 0, 0, 0);
        self.outs = [0; OUTS];
    }
}

const _: () = {
    assert!(size_of::<HotStream>() == 64);
    assert!(HOT_CALLS.is_power_of_two() && HOT_DEVICES.is_power_of_two());
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

    const KEY: StreamKey = StreamKey { pid: 5, tid: 0, stream: 0x100 };

    #[test]
    fn a_slot_has_one_owner_until_it_is_released() {
        let slot = HotStream::default();
        let other = StreamKey { stream: 0x200, ..KEY };
        assert!(slot.claim(&KEY) && slot.is_of(&KEY) && slot.claim(&KEY));
        assert!(!slot.claim(&other) && !slot.is_of(&other));
        slot.release();
        assert!(!slot.is_of(&KEY) && slot.claim(&other) && slot.is_of(&other));
    }

    #[test]
    fn an_operation_claims_a_free_slot_and_its_own() {
        let slot = HotDurations::default();
        let (one, other) = (OperationKey { pid: 5, row: 6 }, OperationKey { pid: 5, row: 6 + HOT_DURATIONS });
        assert_eq!(HotDurations::slot(&one), HotDurations::slot(&other));
        assert!(slot.claim(&one) && slot.claim(&one) && !slot.claim(&other));
    }

    #[test]
    fn a_new_owner_begins_at_nothing_and_disarmed() {
        let slot = HotStream::default();
        assert!(slot.claim(&KEY));
        slot.arm(7);
        slot.launch(7, 7, &Enqueue { threads: 3, identity: 1, bytes: 0 });
        slot.release();
        assert!(slot.claim(&StreamKey { pid: 6, ..KEY }));
        assert_eq!((slot.armed(), slot.launches.load(Relaxed), slot.threads.load(Relaxed)), (0, 0, 0));
    }

    #[test]
    fn neighbouring_processes_and_streams_fall_on_slots_of_their_own() {
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
    fn a_step_is_the_same_whether_its_launches_waited_beside_the_fold_or_not() {
        let (slot, beside, straight) = (HotStream::default(), StreamFold::default(), StreamFold::default());
        let at = |ns| Stamp { ns, runq_ns: 0, tid: 7 };
        let calls = [(7, 10, 1), (8, 20, 2), (7, 30, 3)];
        beside.begin(&at(1));
        straight.begin(&at(1));
        slot.arm(beside.own_thread());
        for (tid, threads, identity) in calls {
            let call = Enqueue { threads, identity, bytes: 0 };
            slot.launch(tid, slot.armed(), &call);
            straight.launch(tid, &call);
        }
        beside.absorb(&slot);
        let step = |fold: &StreamFold| {
            let (snapshot, mut out) = (Snapshot::default(), StepRecord::default());
            fold.snapshot(&KEY, 0, &snapshot);
            assert!(fold.closes(&snapshot));
            fold.close(&snapshot, &at(50), &at(60), &mut out);
            out
        };
        let (a, b) = (step(&beside), step(&straight));
        assert_eq!(a, b);
        assert_eq!((a.work[Counter::Launches as usize], a.work[Counter::Foreign as usize]), (3, 1));
        beside.absorb(&slot);
        assert!(!beside.has_open_work(), "what was absorbed is not there again");
    }
}
