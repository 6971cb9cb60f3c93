//! The process filter, and the state of each traced process.

use probe_abi::atomic::{Relaxed, SeqCst};

use aya_ebpf::bindings::{BPF_NOEXIST, pt_regs};
use probe_abi::Cookie;
use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::detail::Detail;
use probe_abi::hot::{HotDevice, HotProcess};
use probe_abi::record::{ActiveStream, NOT_SEEN, ProcessFold, ROWS, RecordKind, StreamKey};

use crate::enter::active_key;
use crate::frames;
use crate::maps::{DETAILS, FILTER, NEW_PROCESS, PROCESSES, RUNTIME};
use crate::regs::Regs;
use crate::stream::found;
use crate::task::{Task, process_start_ns, settings};
use crate::{emit, maps};

/// Returns the process of `task`, if it is known.
#[inline(always)]
pub fn find(task: &Task) -> Option<&'static ProcessFold> {
    // SAFETY: map values live until they are deleted, and under RCU until this program run ends.
    PROCESSES.get_ptr(&task.pid).map(|p| unsafe { &*p })
}

/// Returns the process's hot slot, if it has one.
#[inline(always)]
pub fn hot(pid: u32) -> Option<&'static HotProcess> {
    maps::hot_process(pid).filter(|hot| hot.is_of(pid))
}

/// Returns true if the process of `task` is traced; counts the call if it is not.
#[inline(always)]
pub fn is_traced(task: &Task) -> bool {
    hot(task.pid).is_some() || is_adopted(task.pid, task.tid)
}

/// Returns true if the process of the thread is traced, and claims a hot slot for it.
// Has a plain name, since the object must not depend on the path of its sources.
#[unsafe(no_mangle)]
#[inline(never)]
fn is_adopted(pid: u32, tid: u32) -> bool {
    let task = &Task { pid, tid };
    let Some(process) = find(task).or_else(|| adopt(task)) else { return false };
    if let Some(slot) = maps::hot_process(pid) {
        slot.claim(pid);
        if slot.is_of(pid) {
            slot.uses_collectives.store(process.uses_collectives.load(Relaxed), Relaxed);
        }
    }
    true
}

/// Notes that the process uses collectives.
#[inline(always)]
pub fn set_uses_collectives(process: &ProcessFold, pid: u32) {
    process.uses_collectives.store(1, Relaxed);
    if let Some(hot) = hot(pid) {
        hot.uses_collectives.store(1, Relaxed);
    }
}

/// Returns true if the process uses collectives.
#[inline(always)]
pub fn uses_collectives(task: &Task) -> bool {
    match hot(task.pid) {
        Some(hot) => hot.uses_collectives.load(Relaxed) == 1,
        None => find(task).is_some_and(|process| process.uses_collectives.load(Relaxed) == 1),
    }
}

/// Counts a hit of the row with this id.
#[inline(always)]
pub fn count_hit(task: &Task, row: u16) {
    let row = row as usize & (ROWS - 1);
    if let Some(hot) = hot(task.pid) {
        hot.calls[row].fetch_add(1, Relaxed);
    } else if let Some(process) = find(task) {
        process.calls[row].fetch_add(1, Relaxed);
    } else if let Some(counters) = maps::counters() {
        counters.unattributed_hits.fetch_add(1, Relaxed);
    }
}

/// Counts a call that was folded and gets no record. User space may have excluded its process meanwhile.
#[inline(always)]
pub fn count_folded(task: &Task) {
    if let Some(hot) = hot(task.pid) {
        hot.folded.fetch_add(1, Relaxed);
    } else if let Some(process) = find(task) {
        process.folded.fetch_add(1, Relaxed);
    } else {
        let _ = maps::count_drop(DropReason::Abandoned);
    }
}

/// Counts a folded launch, as [`count_folded`] counts another call.
#[inline(always)]
pub fn count_launch(task: &Task) {
    if let Some(hot) = hot(task.pid) {
        hot.launches.fetch_add(1, Relaxed);
    } else if let Some(process) = find(task) {
        process.launches.fetch_add(1, Relaxed);
    } else {
        let _ = maps::count_drop(DropReason::Abandoned);
    }
}

/// Counts a call that enqueued work, except a launch.
#[inline(always)]
pub fn count_enqueue(task: &Task) {
    if let Some(hot) = hot(task.pid) {
        hot.enqueues.fetch_add(1, Relaxed);
    } else if let Some(process) = find(task) {
        process.enqueues.fetch_add(1, Relaxed);
    }
}

/// Returns the number of calls of the process that enqueued work.
#[inline(always)]
pub fn enqueued(process: &ProcessFold, pid: u32) -> u64 {
    process.enqueued().wrapping_add(hot(pid).map_or(0, HotProcess::enqueued))
}

/// Returns the sampling rate of the process.
#[inline(always)]
pub fn detail(pid: u32) -> Detail {
    let (Some(word), Some(settings)) = (DETAILS.get(Detail::slot(pid)), settings()) else {
        return Detail::NONE;
    };
    // SAFETY: a live word. Volatile: user space may write it now.
    let (word, default) = unsafe { (core::ptr::from_ref(word).read_volatile(), settings.detail) };
    Detail::of_word(word, pid, default)
}

/// Returns true if a process that is seen for the first time is to be traced.
#[inline(always)]
fn is_allowed(task: &Task) -> bool {
    // SAFETY: as above.
    match FILTER.get_ptr(&task.pid).map(|verdict| unsafe { *verdict }) {
        Some(verdict) => verdict != 0,
        None => settings().is_some_and(|s| s.trace_all != 0),
    }
}

/// Removes the verdict of user space that the process is not to be traced: it was on the program that ends now.
#[inline(always)]
pub fn clear_exclusion(pid: u32) {
    if is_excluded(pid) {
        let _ = FILTER.remove(&pid);
    }
}

/// Returns true if user space excluded the process.
#[inline(always)]
pub fn is_excluded(pid: u32) -> bool {
    // SAFETY: as above.
    FILTER.get_ptr(&pid).is_some_and(|verdict| unsafe { *verdict } == 0)
}

/// Adds a process if the filter or the settings let it be traced.
#[inline(always)]
fn adopt(task: &Task) -> Option<&'static ProcessFold> {
    if !is_allowed(task) {
        maps::count(SelfCounter::Filtered);
        return None;
    }
    let inserted = PROCESSES.insert(&task.pid, NEW_PROCESS.get(0)?, u64::from(BPF_NOEXIST));
    let Some(process) = find(task) else {
        return refuse();
    };
    if inserted.is_ok() {
        process.start_ns.store(process_start_ns(), Relaxed);
        emit::process(RecordKind::ProcessSeen, task, process.start_ns.load(Relaxed), NOT_SEEN);
    }
    Some(process)
}

#[inline(always)]
fn refuse<T>() -> Option<T> {
    let counters = maps::counters()?;
    counters.unattributed_hits.fetch_add(1, Relaxed);
    counters.dropped[DropReason::ProcessesFull as usize].fetch_add(1, Relaxed);
    None
}

/// Returns true if `address` is in the runtime's code, so that the runtime called the driver.
#[inline(always)]
pub fn is_runtime(task: &Task, address: u64) -> bool {
    let Some(code) = RUNTIME.get_ptr(&task.pid) else { return false };
    // SAFETY: as above; user space replaces an entry whole.
    let code = unsafe { &*code };
    code.iter().any(|[first, end]| address >= *first && address < *end)
}

/// Returns true if the runtime makes this driver call.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn is_made_by_runtime(pid: u32, tid: u32, regs: *mut pt_regs) -> bool {
    let (task, regs) = (Task { pid, tid }, Regs::new(regs));
    is_runtime(&task, regs.return_address()) || is_within_runtime(&task, regs.entry_sp())
}

/// Returns true if a runtime call of this thread is under way, as in a program that links the runtime statically.
#[inline(always)]
fn is_within_runtime(task: &Task, sp: u64) -> bool {
    let Some(thread) = maps::known_thread(task.pid, task.tid) else { return false };
    frames::top(thread.depth, &thread.frames)
        .is_some_and(|frame| frame.sp > sp && !Cookie(frame.cookie).is_driver())
}

/// Returns the thread's device, plus one; 0 if not known.
#[inline(always)]
pub fn device(task: &Task) -> u64 {
    maps::known_thread(task.pid, task.tid).map_or(0, |thread| thread.device)
}

/// Returns the handle of the thread's default streams.
#[inline(always)]
pub fn default_stream(tid: u32) -> u64 {
    maps::HOT_DEVICES.get(HotDevice::slot(tid)).map_or(0, |slot| slot.default_stream(tid))
}

/// Returns the stream that a call of the thread refers to by this handle.
#[inline(always)]
pub fn stream_key(task: &Task, stream: u64, is_twin: bool) -> StreamKey {
    let mut key = StreamKey::of(task.pid, task.tid, stream, is_twin);
    if key.stream == 0 {
        key.stream = default_stream(task.tid);
    }
    key
}

/// Sets the thread's device, plus one.
#[inline(always)]
pub fn set_device(process: &ProcessFold, tid: u32, device: u64) {
    let _ = process.device.compare_exchange(0, device, SeqCst, SeqCst);
    if let Some(slot) = maps::HOT_DEVICES.get(HotDevice::slot(tid)) {
        slot.set(tid, StreamKey::default_of(device, process.device.load(Relaxed)));
    }
}

/// Frees the slot of a thread that ended.
#[inline(always)]
pub fn clear_device(tid: u32) {
    if let Some(slot) = maps::HOT_DEVICES.get(HotDevice::slot(tid)) {
        slot.set(tid, 0);
    }
}

/// Adds a stream with open work, for the process's next device synchronization.
#[inline(always)]
pub fn add_active(process: &ProcessFold, key: &StreamKey) {
    // Two passes, instead of one that notes a free slot: the verifier would follow each possible slot.
    for slot in &process.active {
        if slot.taken.load(Relaxed) != 0 && is_slot_of(slot, key) {
            return;
        }
    }
    for slot in &process.active {
        if slot.taken.load(Relaxed) == 0 {
            return take_slot(slot, key);
        }
    }
    for slot in &process.active {
        if is_idle(key.pid, slot) {
            return take_slot(slot, key);
        }
    }
    maps::count(SelfCounter::UnclosedStream);
}

#[inline(always)]
fn take_slot(slot: &ActiveStream, key: &StreamKey) {
    slot.stream.store(key.stream, Relaxed);
    slot.tid.store(u64::from(key.tid), Relaxed);
    slot.taken.store(1, Relaxed);
}

/// Returns true if the stream of this slot has no open work.
#[unsafe(no_mangle)]
#[inline(never)]
fn is_idle(pid: u32, slot: &ActiveStream) -> bool {
    !found(&active_key(pid, slot)).is_some_and(|stream| stream.has_open_work())
}

#[inline(always)]
fn is_slot_of(slot: &ActiveStream, key: &StreamKey) -> bool {
    slot.stream.load(Relaxed) == key.stream && slot.tid.load(Relaxed) == u64::from(key.tid)
}

/// Frees the slot of a stream that is removed.
#[inline(always)]
pub fn remove_active(process: &ProcessFold, key: &StreamKey) {
    for slot in &process.active {
        if is_slot_of(slot, key) {
            slot.taken.store(0, Relaxed);
        }
    }
}
