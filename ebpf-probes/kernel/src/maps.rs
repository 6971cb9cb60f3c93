//! The maps: all state of the programs, each with its bound. The effect of a full map is counted by a
//! [`probe_abi::counters::DropReason`] or another self-counter; user space may choose other bounds when it loads the
//! object.

use probe_abi::atomic::Relaxed;

use aya_ebpf::bindings::BPF_F_NO_PREALLOC;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{Array, HashMap, LruHashMap, PerCpuArray, RingBuf};
use probe_abi::context::{VARIABLES as VARIABLES_MAX, Variable};
use probe_abi::counters::{Counters, DropReason, SelfCounter};
use probe_abi::detail::DETAILS as DETAILS_MAX;
use probe_abi::fold::StreamFold;
use probe_abi::frontier::Frontier;
use probe_abi::function::{
    HOT_FUNCTIONS as HOT_FUNCTIONS_MAX, HotFunction, REGISTERED as REGISTERED_MAX, RegisteredKey,
};
use probe_abi::graph::{Contents, GRAPHS as GRAPHS_MAX, GraphKey};
use probe_abi::hot::{
    HOT_CALLS as HOT_CALLS_MAX, HOT_DEVICES as HOT_DEVICES_MAX, HOT_DURATIONS as HOT_DURATIONS_MAX,
    HOT_PROCESSES as HOT_PROCESSES_MAX, HotDevice,
};
use probe_abi::hot::{
    HOT_STREAMS as HOT_STREAMS_MAX, HotDurations, HotProcess, HotStream, THREADS as THREADS_MAX,
};
use probe_abi::ordinal::{Counted, ORDINALS as ORDINALS_MAX, Ordinals};
use probe_abi::record::{
    Caller, Calls, EventKey, OperationFold, OperationKey, ProcessFold, RuntimeCode, Settings, StreamKey,
    ThreadFold,
};

/// Settings; one entry.
#[map]
pub static SETTINGS: Array<Settings> = Array::with_max_entries(1, 0);

/// Self-counters of each CPU.
#[map]
pub static COUNTERS: PerCpuArray<Counters> = PerCpuArray::with_max_entries(1, 0);

/// Processes by pid.
#[map]
pub static PROCESSES: HashMap<u32, ProcessFold> = HashMap::with_max_entries(1024, BPF_F_NO_PREALLOC);

/// Processes that user space named: 1 to trace, 0 to ignore. Read when a process is first seen. A 0 is removed when the
/// process executes another program or ends. Full: user space discards the records of an excluded process.
#[map]
pub static FILTER: HashMap<u32, u64> = HashMap::with_max_entries(4096, BPF_F_NO_PREALLOC);

/// Address ranges of the runtime in each process, written by user space. Full: driver calls made by the runtime count
/// twice in processes without an entry.
#[map]
pub static RUNTIME: HashMap<u32, RuntimeCode> = HashMap::with_max_entries(1024, BPF_F_NO_PREALLOC);

/// Folds of streams.
#[map]
pub static STREAMS: HashMap<StreamKey, StreamFold> = HashMap::with_max_entries(16384, BPF_F_NO_PREALLOC);

/// Hot slots of streams. Slot in use by another stream: the stream counts in its fold.
#[map]
pub static HOT_STREAMS: Array<HotStream> = Array::with_max_entries(HOT_STREAMS_MAX, 0);

/// Launched functions of all processes. Both slots of a function in use by others: it is counted in the overflow lane.
#[map]
pub static HOT_FUNCTIONS: Array<HotFunction> = Array::with_max_entries(HOT_FUNCTIONS_MAX, 0);

/// Addresses of the names of registered functions. Full: one that was registered long ago is evicted, and is named by its
/// file, if it is launched later.
#[map]
pub static REGISTERED: LruHashMap<RegisteredKey, u64> = LruHashMap::with_max_entries(REGISTERED_MAX, 0);

/// Hot slots of processes. Slot in use by another process: the process counts in its fold.
#[map]
pub static HOT_PROCESSES: Array<HotProcess> = Array::with_max_entries(HOT_PROCESSES_MAX, 0);

/// Hot slots of durations. Slot in use by another operation: the operation counts in the map of durations.
#[map]
pub static HOT_DURATIONS: Array<HotDurations> = Array::with_max_entries(HOT_DURATIONS_MAX, 0);

/// Frontiers of recorded events. Full: the least recently used is evicted, and a wait for it counts as unknown.
#[map]
pub static EVENTS: LruHashMap<EventKey, Frontier> = LruHashMap::with_max_entries(8192, 0);

/// Contents of graphs and executable graphs. Full: the graph is untracked, and its launches are unknown.
#[map]
pub static GRAPHS: HashMap<GraphKey, Contents> = HashMap::with_max_entries(GRAPHS_MAX, BPF_F_NO_PREALLOC);

/// Durations by process and function.
#[map]
pub static DURATIONS: HashMap<OperationKey, OperationFold> =
    HashMap::with_max_entries(8192, BPF_F_NO_PREALLOC);

/// Threads that make timed calls, each in one of a few slots. All of them in use: its calls are dropped.
#[map]
pub static THREADS: Array<ThreadFold> = Array::with_max_entries(THREADS_MAX, 0);

/// Threads that make calls recorded with arguments, by thread id.
#[map]
pub static CALLERS: HashMap<u32, Caller> = HashMap::with_max_entries(32768, BPF_F_NO_PREALLOC);

/// Hot slots of calls recorded with arguments. Slot in use by another thread: the thread's calls are in its entry.
#[map]
pub static HOT_CALLS: Array<Calls> = Array::with_max_entries(HOT_CALLS_MAX, 0);

/// Default streams of threads that use another device than their process's first. Slot in use by another thread: the
/// first device's are assumed.
#[map]
pub static HOT_DEVICES: Array<HotDevice> = Array::with_max_entries(HOT_DEVICES_MAX, 0);

/// Numbers of calls by handle.
#[map]
pub static ORDINALS: Array<Ordinals> = Array::with_max_entries(ORDINALS_MAX, 0);

/// Sampling rates of processes that have one of their own.
#[map]
pub static DETAILS: Array<u64> = Array::with_max_entries(DETAILS_MAX, 0);

/// Locations of the threads' trace contexts, by process.
#[map]
pub static VARIABLES: Array<Variable> = Array::with_max_entries(VARIABLES_MAX, 0);

/// Records for user space. Full: the record is dropped and counted.
#[map]
pub static RING: RingBuf = RingBuf::with_byte_size(4 * 1024 * 1024, 0);

// Zeroed values for new map entries: too large for a program's stack.

/// A zeroed [`ProcessFold`], from which map entries are created.
#[map]
pub static NEW_PROCESS: Array<ProcessFold> = Array::with_max_entries(1, 0);

/// A zeroed [`StreamFold`], from which map entries are created.
#[map]
pub static NEW_STREAM: Array<StreamFold> = Array::with_max_entries(1, 0);

/// A zeroed [`OperationFold`], from which map entries are created.
#[map]
pub static NEW_DURATIONS: Array<OperationFold> = Array::with_max_entries(1, 0);

/// A zeroed [`Caller`], from which map entries are created.
#[map]
pub static NEW_CALLER: Array<Caller> = Array::with_max_entries(1, 0);

macro_rules! entry_or_new {
    ($name:ident, $map:ident, $new:ident, $key:ty, $value:ty) => {
        /// Returns the entry for `key`, adding a zeroed one if there is none; `None` if the map is full.
        #[inline(always)]
        pub fn $name(key: &$key) -> Option<&'static $value> {
            if let Some(found) = $map.get_ptr(key) {
                // SAFETY: map values live until they are deleted, and under RCU until this program run ends.
                return Some(unsafe { &*found });
            }
            let zeroes = $new.get(0)?;
            // If another CPU inserted the entry meanwhile, insert fails and the look-up succeeds.
            let _ = $map.insert(key, zeroes, u64::from(aya_ebpf::bindings::BPF_NOEXIST));
            // SAFETY: as above.
            $map.get_ptr(key).map(|found| unsafe { &*found })
        }
    };
}

entry_or_new!(stream, STREAMS, NEW_STREAM, StreamKey, StreamFold);
entry_or_new!(durations, DURATIONS, NEW_DURATIONS, OperationKey, OperationFold);

/// Returns the stream's fold, if it has one.
#[inline(always)]
pub fn fold(key: &StreamKey) -> Option<&'static StreamFold> {
    // SAFETY: map values live until they are deleted, and under RCU until this program run ends.
    STREAMS.get_ptr(key).map(|fold| unsafe { &*fold })
}

/// Returns the hot slot with the stream's index, which may be another stream's. Not a call: the array's address is
/// known.
#[inline(always)]
pub fn hot_stream(key: &StreamKey) -> Option<&'static HotStream> {
    HOT_STREAMS.get(HotStream::slot(key))
}

/// Returns the hot slot with the operation's index, which may be another operation's.
#[inline(always)]
pub fn hot_durations(key: &OperationKey) -> Option<&'static HotDurations> {
    HOT_DURATIONS.get(HotDurations::slot(key))
}

/// Returns the hot slot with the process's index, which may be another process's.
#[inline(always)]
pub fn hot_process(pid: u32) -> Option<&'static HotProcess> {
    HOT_PROCESSES.get(HotProcess::slot(pid))
}

/// Returns the entry for `tid`, adding a zeroed one if there is none; `None` if the map is full. Only the thread itself may
/// change it.
#[inline(always)]
fn caller(tid: u32) -> Option<&'static mut Caller> {
    if let Some(found) = CALLERS.get_ptr_mut(&tid) {
        // SAFETY: one thread, one program run at a time on it: uprobes do not nest. Lives as long as above.
        return Some(unsafe { &mut *found });
    }
    let zeroes = NEW_CALLER.get(0)?;
    let _ = CALLERS.insert(&tid, zeroes, u64::from(aya_ebpf::bindings::BPF_NOEXIST));
    // SAFETY: as above.
    CALLERS.get_ptr_mut(&tid).map(|found| unsafe { &mut *found })
}

/// Returns the state of a thread that has its first slot.
#[inline(always)]
fn first_slot(pid: u32, tid: u32) -> Option<&'static mut ThreadFold> {
    let slot = THREADS.get_ptr_mut(ThreadFold::slots(tid).next()?)?;
    // SAFETY: only the thread that owns a slot changes it. Lives as long as above.
    unsafe { (*slot).is_of(pid, tid).then_some(&mut *slot) }
}

/// Returns the state of a thread that made timed calls before.
#[inline(always)]
pub fn known_thread(pid: u32, tid: u32) -> Option<&'static mut ThreadFold> {
    match first_slot(pid, tid) {
        Some(thread) => Some(thread),
        None => other_slot(pid, tid),
    }
}

/// Returns the state of a thread; `None` if it is new and all its slots are in use.
#[inline(always)]
pub fn thread(pid: u32, tid: u32) -> Option<&'static mut ThreadFold> {
    match first_slot(pid, tid) {
        Some(thread) => Some(thread),
        None => any_slot(pid, tid),
    }
}

/// Returns the state of a thread that may have another than its first slot.
#[unsafe(no_mangle)]
#[inline(never)]
fn other_slot(pid: u32, tid: u32) -> Option<&'static mut ThreadFold> {
    for at in ThreadFold::slots(tid) {
        let slot = THREADS.get_ptr_mut(at)?;
        // SAFETY: as above.
        if unsafe { (*slot).is_of(pid, tid) } {
            return Some(unsafe { &mut *slot });
        }
    }
    None
}

/// Returns the state of a thread that may be new.
#[unsafe(no_mangle)]
#[inline(never)]
fn any_slot(pid: u32, tid: u32) -> Option<&'static mut ThreadFold> {
    if let Some(thread) = other_slot(pid, tid) {
        return Some(thread);
    }
    for at in ThreadFold::slots(tid) {
        let slot = THREADS.get_ptr_mut(at)?;
        // SAFETY: as above; a slot that was claimed is this thread's.
        if unsafe { (*slot).claim(pid, tid) } {
            let thread = unsafe { &mut *slot };
            thread.begin();
            return Some(thread);
        }
    }
    None
}

/// Returns the calls of a thread that has a hot slot.
#[inline(always)]
pub fn hot_calls(pid: u32, tid: u32) -> Option<&'static mut Calls> {
    let calls = HOT_CALLS.get_ptr_mut(Calls::slot(tid))?;
    // SAFETY: only the thread that owns a slot changes it. Lives as long as above.
    unsafe { ((*calls).owner.load(Relaxed) == Calls::owner(pid, tid)).then_some(&mut *calls) }
}

/// Returns the calls of a thread that may be new; `None` if the map is full.
#[inline(always)]
pub fn new_calls(pid: u32, tid: u32, start_ns: u64) -> Option<&'static mut Calls> {
    let owner = Calls::owner(pid, tid);
    let in_entry = &mut caller(tid)?.calls;
    // Calls under way in the entry must end there.
    if in_entry.owner.load(Relaxed) == owner {
        return Some(in_entry);
    }
    in_entry.begin(start_ns);
    let slot = HOT_CALLS.get_ptr_mut(Calls::slot(tid))?;
    // SAFETY: as above.
    let calls = match unsafe { &*slot }.claim(owner) {
        true => unsafe { &mut *slot },
        false => {
            in_entry.owner.store(owner, Relaxed);
            in_entry
        }
    };
    calls.begin(start_ns);
    Some(calls)
}

/// Returns the slot with the index of the handle.
#[inline(always)]
pub fn ordinal(of: Counted) -> Option<&'static Ordinals> {
    ORDINALS.get(of.slot())
}

/// Returns this CPU's counters.
#[inline(always)]
pub fn counters() -> Option<&'static Counters> {
    // SAFETY: a per-CPU array entry always exists; all its fields are atomic.
    COUNTERS.get_ptr(0).map(|c| unsafe { &*c })
}

/// Adds one to a counter.
#[inline(always)]
pub fn count(counter: SelfCounter) {
    if let Some(counters) = counters() {
        counters.other[counter as usize].fetch_add(1, Relaxed);
    }
}

/// Counts a dropped call. Returns `None`, so that a program can return the result.
// Out of line, since it is rare, to keep the stack of callers small (see `crate::launch`).
#[unsafe(no_mangle)]
#[inline(never)]
pub fn count_drop(reason: DropReason) -> Option<()> {
    counters()?.dropped[reason as usize].fetch_add(1, Relaxed);
    None
}

/// Counts a run of a return program. Returns `None`, so that a program can return the result.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn count_return() -> Option<()> {
    counters()?.returns.fetch_add(1, Relaxed);
    None
}

/// Counts a suppressed driver call. Returns `None`, so that a program can return the result.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn count_suppressed() -> Option<()> {
    count(SelfCounter::Suppressed);
    None
}
