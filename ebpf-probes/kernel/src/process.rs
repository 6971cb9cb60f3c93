//! The process filter, and what each traced process is known by.

use table::atomic::Relaxed;

use aya_ebpf::bindings::{BPF_NOEXIST, pt_regs};
use table::Cookie;
use table::counters::{Counters, Drop};
use table::record::{ActiveStream, FRAMES, Kind, ProcessFold, StreamKey};

use crate::maps::{FILTER, NEW_PROCESS, PROCESSES, RUNTIME};
use crate::regs::Regs;
use crate::task::{Task, process_start_ns, settings};
use crate::{emit, maps};

/// The process of `task`, where it is known.
#[inline(always)]
pub fn find(task: &Task) -> Option<&'static ProcessFold> {
    // SAFETY: map values live until they are deleted, and under RCU until this program run ends.
    PROCESSES.get_ptr(&task.pid).map(|p| unsafe { &*p })
}

/// The traced process of `task`; `None`, counted, where it is not traced.
#[inline(always)]
pub fn traced(task: &Task) -> Option<&'static ProcessFold> {
    traced_by(&task.pid, task.tid)
}

/// The same by a pid that lies in memory already.
#[inline(always)]
pub fn traced_by(pid: &u32, tid: u32) -> Option<&'static ProcessFold> {
    // SAFETY: as above.
    match PROCESSES.get_ptr(pid).map(|p| unsafe { &*p }) {
        Some(known) => Some(known),
        None => adopt(*pid, tid),
    }
}

/// True where a process seen for the first time is to be traced.
#[inline(always)]
fn is_wanted(task: &Task) -> bool {
    // SAFETY: as above.
    match FILTER.get_ptr(&task.pid).map(|verdict| unsafe { *verdict }) {
        Some(verdict) => verdict != 0,
        None => settings().is_some_and(|s| s.trace_all != 0),
    }
}

/// A process nobody has named yet: traced from now on where the settings say so.
// Under a plain name, as the object must come out the same wherever its sources lie.
#[unsafe(no_mangle)]
#[inline(never)]
fn adopt(pid: u32, tid: u32) -> Option<&'static ProcessFold> {
    let task = &Task { pid, tid };
    let counters = maps::counters()?;
    if !is_wanted(task) {
        counters.filtered.fetch_add(1, Relaxed);
        return None;
    }
    let inserted = PROCESSES.insert(&task.pid, NEW_PROCESS.get(0)?, u64::from(BPF_NOEXIST));
    let Some(process) = find(task) else {
        refuse(counters);
        return None;
    };
    if inserted.is_ok() {
        process.start_ns.store(process_start_ns(), Relaxed);
        emit::process(Kind::ProcessSeen, task, process.start_ns.load(Relaxed));
    }
    Some(process)
}

#[inline(always)]
fn refuse(counters: &Counters) {
    counters.strangers.fetch_add(1, Relaxed);
    counters.dropped[Drop::ProcessesFull as usize].fetch_add(1, Relaxed);
}

/// True where `address` lies in the runtime's own code: then the runtime called the driver, not the program.
#[inline(always)]
pub fn is_runtime(task: &Task, address: u64) -> bool {
    let Some(code) = RUNTIME.get_ptr(&task.pid) else { return false };
    // SAFETY: as above; user space replaces an entry whole.
    let code = unsafe { &*code };
    code.iter().any(|[first, end]| address >= *first && address < *end)
}

/// True where the runtime itself makes this driver call.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn is_made_by_runtime(pid: u32, tid: u32, regs: *mut pt_regs) -> bool {
    let (task, regs) = (Task { pid, tid }, Regs::new(regs));
    is_runtime(&task, regs.return_address()) || is_within_runtime(&task, regs.entry_sp())
}

/// True where a runtime call of this thread is under way: a program that carries the runtime inside itself.
#[inline(always)]
fn is_within_runtime(task: &Task, sp: u64) -> bool {
    let Some(thread) = maps::THREADS.get_ptr(&task.tid) else { return false };
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    let thread = unsafe { &*thread };
    let depth = thread.depth as usize;
    if depth == 0 || depth > FRAMES {
        return false;
    }
    let top = &thread.frames[(depth - 1) & (FRAMES - 1)];
    top.sp > sp && !Cookie(top.cookie).is_driver()
}

/// Remembers that a stream has open work, for the process's next device synchronisation.
#[inline(always)]
pub fn remember(process: &ProcessFold, key: &StreamKey) {
    let mut free: Option<&ActiveStream> = None;
    for place in &process.active {
        if place.taken.load(Relaxed) == 0 {
            if free.is_none() {
                free = Some(place);
            }
        } else if place.stream.load(Relaxed) == key.stream && place.tid.load(Relaxed) == u64::from(key.tid) {
            return;
        }
    }
    match free {
        Some(place) => {
            place.stream.store(key.stream, Relaxed);
            place.tid.store(u64::from(key.tid), Relaxed);
            place.taken.store(1, Relaxed);
        }
        None => {
            if let Some(counters) = maps::counters() {
                counters.unclosed_streams.fetch_add(1, Relaxed);
            }
        }
    }
}

/// The stream is gone: its place is free for another.
#[inline(always)]
pub fn forget(process: &ProcessFold, key: &StreamKey) {
    for place in &process.active {
        if place.stream.load(Relaxed) == key.stream && place.tid.load(Relaxed) == u64::from(key.tid) {
            place.taken.store(0, Relaxed);
        }
    }
}
