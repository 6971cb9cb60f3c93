//! Launched functions: their numbers and launches ([`probe_abi::function`]), and the records of new ones.
//!
//! A launch of a known function is two comparisons and an addition. A new function gets the next number of its process
//! and a record, out of line; so does one launch in many of a known one.

use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::generated::bpf_probe_read_user;
use probe_abi::atomic::{Relaxed, SeqCst};
use probe_abi::counters::SelfCounter;
use probe_abi::function::{FUNCTIONS_MAX, FunctionRecord, HotFunction, OVERFLOW_LANE, RegisteredKey};
use probe_abi::hot::HotProcess;
use probe_abi::{Cookie, Grid};

use crate::emit;
use crate::maps::{self, HOT_FUNCTIONS, REGISTERED};
use crate::process;
use crate::regs::Regs;
use crate::task::Task;

/// Counts a launch and returns the lane of the function; `None` if the function is new, and nothing is counted.
#[inline(always)]
pub fn count(
    process: &HotProcess,
    task: &Task,
    function: u64,
    cookie: Cookie,
    raw: *mut pt_regs,
) -> Option<u32> {
    let [first, second] = HotFunction::slots(task.pid, function);
    let (first, second) = (HOT_FUNCTIONS.get(first)?, HOT_FUNCTIONS.get(second)?);
    let slot = match () {
        () if first.is_of(task.pid, function) => first,
        () if second.is_of(task.pid, function) => second,
        () if process.has_all_functions.load(Relaxed) != 0 => return Some(count_unlisted()),
        () if first.is_free() || second.is_free() => return None,
        () => return Some(count_unlisted()),
    };
    if slot.launch() {
        record(cookie, raw, slot);
    }
    Some(slot.lane())
}

/// Counts a launch of a function that may be new, and returns its lane.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn number(cookie: Cookie, raw: *mut pt_regs, pid: u32, tid: u32, function: u64) -> u32 {
    let slots = HotFunction::slots(pid, function);
    for slot in slots {
        if let Some(slot) = HOT_FUNCTIONS.get(slot).filter(|slot| slot.is_of(pid, function)) {
            return launched(cookie, raw, slot);
        }
    }
    for slot in slots {
        if let Some(slot) = HOT_FUNCTIONS.get(slot).filter(|slot| slot.is_free()) {
            let Some(ordinal) = next_ordinal(&Task { pid, tid }) else { break };
            if slot.claim(pid, function, ordinal) {
                return launched(cookie, raw, slot);
            }
        }
    }
    count_unlisted()
}

#[inline(always)]
fn launched(cookie: Cookie, raw: *mut pt_regs, slot: &HotFunction) -> u32 {
    if slot.launch() {
        record(cookie, raw, slot);
    }
    slot.lane()
}

/// Returns the next number of the process; `None` if it has all that it may have, or if another thread takes it now.
#[inline(always)]
fn next_ordinal(task: &Task) -> Option<u32> {
    let process = process::find(task)?;
    let ordinal = process.functions.load(Relaxed);
    if ordinal >= FUNCTIONS_MAX {
        if let Some(hot) = process::hot(task.pid) {
            hot.has_all_functions.store(1, Relaxed);
        }
        return None;
    }
    process.functions.compare_exchange(ordinal, ordinal + 1, SeqCst, SeqCst).is_ok().then_some(ordinal as u32)
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_unlisted() -> u32 {
    maps::count(SelfCounter::UnlistedFunction);
    OVERFLOW_LANE
}

/// Stores the address of a registered function's name, for the time when it is launched.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn register(cookie: Cookie, raw: *mut pt_regs) -> Option<()> {
    let (task, regs) = (Task::current(), Regs::new(raw));
    if !process::is_traced(&task) {
        return None;
    }
    process::count_hit(&task, cookie.id());
    let key = RegisteredKey { pid: task.pid.into(), address: regs.argument::<2>() };
    let _ = REGISTERED.insert(&key, &regs.argument::<4>(), 0);
    process::count_folded(&task);
    Some(())
}

/// Records a launch with its dimensions.
#[unsafe(no_mangle)]
#[inline(never)]
fn record(cookie: Cookie, raw: *mut pt_regs, slot: &HotFunction) -> u32 {
    let (task, regs) = (Task::current(), Regs::new(raw));
    let start_ns = process::find(&task).map_or(0, |process| process.start_ns.load(Relaxed));
    let Some(mut entry) = emit::function(&task, cookie.id(), start_ns) else { return 0 };
    // SAFETY: the ring's memory is ours until it is submitted, and `emit::function` has initialized it.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    (out.address, out.ordinal) = (slot.address(), slot.ordinal());
    out.launches = slot.launches.load(Relaxed).wrapping_sub(1);
    crate::launch::read_stream(cookie, &regs, &mut out.stream);
    match () {
        () if cookie.has_grid(Grid::Dim3) => {
            let [(x, z), (block_x, block_z)] =
                [(regs.argument::<2>(), regs.argument::<3>()), (regs.argument::<4>(), regs.argument::<5>())];
            out.grid = [x as u32, (x >> 32) as u32, z as u32];
            out.block = [block_x as u32, (block_x >> 32) as u32, block_z as u32];
            out.shared_bytes = regs.argument::<7>() as u32;
        }
        () if cookie.has_grid(Grid::Config) => read_config(regs.argument::<1>(), out),
        () => {
            out.grid = [regs.argument::<2>(), regs.argument::<3>(), regs.argument::<4>()].map(|n| n as u32);
            out.block = [regs.argument::<5>(), regs.argument::<6>(), regs.argument::<7>()].map(|n| n as u32);
            out.shared_bytes = regs.argument::<8>() as u32;
        }
    }
    emit::submit(entry);
    0
}

/// Reads grid, block and shared memory, which follow each other in a launch configuration.
#[inline(always)]
fn read_config(config: u64, out: &mut FunctionRecord) {
    // SAFETY: each destination has the size that is read; the helper checks the address, and zeroes what it cannot read.
    unsafe {
        bpf_probe_read_user(out.grid.as_mut_ptr().cast(), 12, config as *const _);
        bpf_probe_read_user(out.block.as_mut_ptr().cast(), 12, config.wrapping_add(12) as *const _);
        bpf_probe_read_user((&raw mut out.shared_bytes).cast(), 4, config.wrapping_add(24) as *const _);
    }
}
