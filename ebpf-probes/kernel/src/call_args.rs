//! Calls recorded with their arguments and the memory that these point to. They are not folded.
//!
//! The row has the number of arguments, and which memory is read through which of them and when; the programs do not
//! know the functions. They share only processes and self-counters with `enter` and `leave`, so that calls which the
//! library makes of other libraries are seen there as usual.
//!
//! Cost of a call that moves data: the record is written at the entry, in the frame, and copied to the ring at the
//! return. Two pids, two clocks, a read of the stack and the ring; no look-up ([`probe_abi::hot`]). As in
//! [`crate::launch`], user space makes the cookie a constant of the program where it can.

use probe_abi::atomic::Relaxed;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::ordinal::Counted;
use probe_abi::record::{
    ARGUMENTS, ArgsFrame, ArgsRecord, Caller, Calls, FRAMES, GROUP_ENDS_MAX, LongArgsRecord, MEMORY_AT_ENTRY,
    MEMORY_AT_EXIT, NOT_SEEN, OUTS, ROWS, RecordKind,
};
use probe_abi::{ArgPos, Cookie, PointeeKind};

use crate::emit;
use crate::frames;
use crate::maps::{self, CALLERS, RING};
use crate::process;
use crate::regs::{Regs, read_user_into};
use crate::task::{Task, now_ns};

/// Runs at the entry of a function.
#[inline(always)]
pub fn enter(ctx: &ProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let task = Task::current();
    if cookie.is_operation()
        && let Some(process) = process::hot(task.pid)
        && let Some(calls) = maps::hot_calls(task.pid, task.tid).filter(|calls| calls.depth == 0)
    {
        process.calls[cookie.id() as usize & (ROWS - 1)].fetch_add(1, Relaxed);
        calls.depth = 1;
        let start_ns = calls.start_ns;
        fill(cookie, &Regs::new(ctx.regs), &task, start_ns, &mut calls.frames[0]);
        return Some(());
    }
    enter_any(cookie, ctx.regs)
}

/// Fills the frame with what is known at the entry; the time last.
#[inline(always)]
fn fill(cookie: Cookie, regs: &Regs, task: &Task, start_ns: u64, frame: &mut ArgsFrame) {
    (frame.cookie, frame.sp) = (cookie.0, regs.entry_sp());
    let record = &mut frame.record;
    regs.read_args(cookie, &mut record.arguments);
    (record.out, record.ordinal, record.entry_bytes, record.exit_bytes) = (0, NOT_SEEN, 0, 0);
    emit::fill_header(&mut record.header, RecordKind::Args, cookie.id(), task, start_ns, now_ns(), 0);
}

// Rare paths are out of line, so that the stack of the others stays below 64 bytes (see `crate::launch`).

/// Handles the entry of any call of any thread.
#[unsafe(no_mangle)]
#[inline(never)]
fn enter_any(cookie: Cookie, raw: *mut pt_regs) -> Option<()> {
    let (task, regs) = (Task::current(), Regs::new(raw));
    let calls = match maps::hot_calls(task.pid, task.tid) {
        // A process that user space excludes after its first calls still has the slot.
        Some(_) if !process::is_traced(&task) => return None,
        Some(calls) => calls,
        None => calls_of(task.pid, task.tid, cookie.id())?,
    };
    frames::unwind(&mut calls.depth, &calls.frames, regs.entry_sp());
    let depth = calls.depth as usize;
    if depth > 0 && cookie.is_operation() && Cookie(frame_at(calls, depth - 1).cookie).is_operation() {
        return maps::count_suppressed();
    }
    process::count_hit(&task, cookie.id());
    if depth >= FRAMES {
        return maps::count_drop(DropReason::TooDeep);
    }
    calls.depth += 1;
    let start_ns = calls.start_ns;
    let frame = &mut calls.frames[depth & (FRAMES - 1)];
    fill(cookie, &regs, &task, start_ns, frame);
    if !cookie.is_operation() {
        let record = &mut frame.record;
        record.entry_bytes = read_at_entry(cookie, &task, depth, &record.arguments);
        end_handle(cookie, &task, start_ns, &record.arguments);
        record.header.entry_ns = now_ns();
    }
    Some(())
}

/// Returns the calls of a thread without a slot, or of a new one. Returns `None`, and counts it, if the process is not
/// traced or the map is full.
#[unsafe(no_mangle)]
#[inline(never)]
fn calls_of(pid: u32, tid: u32, row: u16) -> Option<&'static mut Calls> {
    let task = Task { pid, tid };
    if !process::is_traced(&task) {
        return None;
    }
    let process = process::find(&task)?;
    process::set_uses_collectives(process, pid);
    let calls = maps::new_calls(pid, tid, process.start_ns.load(Relaxed));
    if calls.is_none() {
        process::count_hit(&task, row);
        let _ = maps::count_drop(DropReason::ThreadsFull);
    }
    calls
}

#[inline(always)]
fn frame_at(calls: &Calls, at: usize) -> &ArgsFrame {
    &calls.frames[at & (FRAMES - 1)]
}

#[inline(always)]
fn argument(arguments: &[u64; ARGUMENTS], position: ArgPos) -> u64 {
    match position.0 {
        0 => 0,
        n => arguments[(n as usize - 1) & (ARGUMENTS - 1)],
    }
}

/// Returns the size of the memory in bytes, of a list by its `int` argument; a negative number of items is 0.
#[inline(always)]
fn bytes(what: PointeeKind, cookie: Cookie, arguments: &[u64; ARGUMENTS]) -> u64 {
    let count = argument(arguments, cookie.args_count()) as u32;
    what.bytes(if count > i32::MAX as u32 { 0 } else { u64::from(count) })
}

/// Reads the memory that the row names. Returns the number of bytes read.
#[inline(always)]
fn read_at_entry(cookie: Cookie, task: &Task, depth: usize, arguments: &[u64; ARGUMENTS]) -> u32 {
    let wanted = cookie.args_at_entry();
    let bytes = bytes(wanted.kind, cookie, arguments);
    if bytes == 0 || bytes > MEMORY_AT_ENTRY as u64 {
        return 0;
    }
    let Some(caller) = own_entry(task.tid) else { return 0 };
    let memory = &mut caller.memory[depth & (FRAMES - 1)];
    let from = argument(arguments, wanted.arg);
    // SAFETY: there is room for that many bytes; the helper checks the address itself.
    let failed = unsafe { bpf_probe_read_user(memory.as_mut_ptr().cast(), bytes as u32, from as *const _) };
    if failed == 0 { bytes as u32 } else { 0 }
}

/// Returns the thread's entry in the map of callers.
#[inline(always)]
fn own_entry(tid: u32) -> Option<&'static mut Caller> {
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    CALLERS.get_ptr_mut(&tid).map(|caller| unsafe { &mut *caller })
}

/// Ends the handle that the row names. At the entry, since the address is free before the return.
#[inline(always)]
fn end_handle(cookie: Cookie, task: &Task, start_ns: u64, arguments: &[u64; ARGUMENTS]) {
    let position = cookie.ended_handle();
    if position == ArgPos::NONE {
        return;
    }
    let counted = Counted::new(task.pid, start_ns, argument(arguments, position));
    if let Some(slot) = maps::ordinal(counted) {
        slot.end(counted);
    }
}

/// Runs at the return of a function.
#[inline(always)]
pub fn leave(ctx: &RetProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let (task, regs) = (Task::current(), Regs::new(ctx.regs));
    if cookie.is_operation()
        && let Some(calls) = maps::hot_calls(task.pid, task.tid).filter(|calls| calls.depth == 1)
        && calls.frames[0].sp == regs.entry_sp_of_return()
        && calls.frames[0].cookie == cookie.0
    {
        calls.depth = 0;
        end(cookie, &regs, &task, calls.start_ns, &mut calls.frames[0].record);
        return send(&calls.frames[0].record);
    }
    leave_any(cookie, ctx.regs)
}

/// Fills the record with what is known at the return; the time first.
#[inline(always)]
fn end(cookie: Cookie, regs: &Regs, task: &Task, start_ns: u64, record: &mut ArgsRecord) {
    record.header.duration_ns = now_ns().wrapping_sub(record.header.entry_ns);
    (record.result, record.device) = (regs.return_value() as u32, -1);
    if cookie.counted_handle() != ArgPos::NONE && is_accepted(record.result) {
        record.ordinal = ordinal(cookie, task, start_ns, &record.arguments);
    }
}

/// Handles the return of any call of any thread.
#[unsafe(no_mangle)]
#[inline(never)]
fn leave_any(cookie: Cookie, raw: *mut pt_regs) -> Option<()> {
    let (task, regs) = (Task::current(), Regs::new(raw));
    let calls = match maps::hot_calls(task.pid, task.tid) {
        Some(calls) => calls,
        None => match own_entry(task.tid) {
            Some(caller) => &mut caller.calls,
            None => return count_unseen(task.pid, task.tid),
        },
    };
    let at = frames::pop(&mut calls.depth, &calls.frames, cookie, regs.entry_sp_of_return());
    let Some(at) = at else {
        // A call that moves data within another has no frame.
        let is_suppressed = cookie.is_operation() && calls.depth != 0;
        return if is_suppressed { maps::count_return() } else { count_unseen(task.pid, task.tid) };
    };
    let start_ns = calls.start_ns;
    let record = &mut calls.frames[at & (FRAMES - 1)].record;
    end(cookie, &regs, &task, start_ns, record);
    if cookie.is_operation() { send(record) } else { record_with_memory(cookie, calls, at) }
}

/// Returns true if the library accepted the call: 0, or 7, in progress.
#[inline(always)]
fn is_accepted(result: u32) -> bool {
    result == 0 || result == 7
}

#[inline(always)]
fn ordinal(cookie: Cookie, task: &Task, start_ns: u64, arguments: &[u64; ARGUMENTS]) -> u64 {
    let counted = Counted::new(task.pid, start_ns, argument(arguments, cookie.counted_handle()));
    maps::ordinal(counted).map_or(NOT_SEEN, |slot| slot.take(counted))
}

/// Puts the short record into the ring.
#[inline(always)]
fn send(record: &ArgsRecord) -> Option<()> {
    match RING.output::<ArgsRecord>(record, emit::QUIET) {
        Ok(()) => maps::counters()?.args_records.fetch_add(1, Relaxed),
        Err(_) => return count_full(),
    };
    Some(())
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_full() -> Option<()> {
    let _ = maps::count_return();
    maps::count_drop(DropReason::RingFull)
}

/// Counts a return without an entry, if the process is traced.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_unseen(pid: u32, tid: u32) -> Option<()> {
    let _ = maps::count_return();
    process::find(&Task { pid, tid })?;
    maps::count(SelfCounter::UnmatchedReturn);
    None
}

/// Records a call that does not move data, with the memory that it wrote.
#[unsafe(no_mangle)]
#[inline(never)]
fn record_with_memory(cookie: Cookie, calls: &mut Calls, at: usize) -> Option<()> {
    let task = Task::current();
    let tid = task.tid;
    let record = &mut calls.frames[at & (FRAMES - 1)].record;
    record.device = process::device(&task) as i32 - 1;
    let is_long = cookie.has_long_args() || (cookie.records_written() && calls.waiting != 0);
    let handle = match is_long {
        true => send_long(cookie, calls, at, tid)?,
        false => {
            // The helper needs a constant size, hence the two arms.
            record.exit_bytes = match cookie.args_at_exit().kind {
                PointeeKind::Int => read_out(cookie, record, 4),
                PointeeKind::Word => read_out(cookie, record, 8),
                _ => 0,
            };
            send(record)?;
            record.out
        }
    };
    let record = &calls.frames[at & (FRAMES - 1)].record;
    let unwritten = unwritten(cookie, record, handle);
    if unwritten != 0 {
        calls.outs[calls.waiting as usize & (OUTS - 1)] = unwritten;
        calls.waiting += 1;
        calls.group_ends = 0;
    }
    Some(())
}

/// Returns the address of a handle that an accepted call has not written yet; 0 if there is none.
#[inline(always)]
fn unwritten(cookie: Cookie, record: &ArgsRecord, handle: u64) -> u64 {
    let wanted = cookie.args_at_exit();
    let is_open = wanted.kind as u8 == PointeeKind::Word as u8 && record.exit_bytes == 8 && handle == 0;
    match is_open && is_accepted(record.result) {
        true => argument(&record.arguments, wanted.arg) & !7,
        false => 0,
    }
}

#[inline(always)]
fn read_out(cookie: Cookie, record: &mut ArgsRecord, bytes: u32) -> u32 {
    let from = argument(&record.arguments, cookie.args_at_exit().arg);
    let into = core::ptr::from_mut(&mut record.out).cast();
    // SAFETY: there is room for that many bytes; the helper checks the address itself.
    let failed = unsafe { bpf_probe_read_user(into, bytes, from as *const _) };
    if failed == 0 { bytes } else { 0 }
}

/// Puts the long record into the ring. Returns the first word read at the return; `None` if the ring is full.
#[inline(always)]
fn send_long(cookie: Cookie, calls: &mut Calls, at: usize, tid: u32) -> Option<u64> {
    let caller = own_entry(tid)?;
    let Some(mut entry) = RING.reserve::<LongArgsRecord>(0) else {
        let _ = count_full();
        return None;
    };
    // SAFETY: the ring's memory is ours until submitted, large enough and aligned; every field is written below. What
    // the two lists do not use is what the ring held before: user space reads their bytes.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    // SAFETY: both have this size, and the entry is readable.
    unsafe {
        let from = caller.memory[at & (FRAMES - 1)].as_ptr().cast();
        bpf_probe_read_kernel(out.entry.as_mut_ptr().cast(), MEMORY_AT_ENTRY as u32, from);
    }
    let exit_bytes = match cookie.records_written() {
        true => read_written(calls, out),
        false => read_at_return(cookie, &frame_at(calls, at).record.arguments, out),
    };
    let (first, record) = (out.exit[0], &mut calls.frames[at & (FRAMES - 1)].record);
    record.exit_bytes = exit_bytes;
    out.record = *record;
    out.record.header.kind = RecordKind::LongArgs as u16;
    entry.submit(emit::QUIET);
    maps::counters()?.args_records.fetch_add(1, Relaxed);
    Some(first)
}

/// Reads the memory that the row names. Returns the number of bytes read.
#[inline(always)]
fn read_at_return(cookie: Cookie, arguments: &[u64; ARGUMENTS], out: &mut LongArgsRecord) -> u32 {
    let wanted = cookie.args_at_exit();
    let bytes = bytes(wanted.kind, cookie, arguments);
    if bytes == 0 || bytes > MEMORY_AT_EXIT as u64 {
        return 0;
    }
    let from = argument(arguments, wanted.arg);
    // SAFETY: the record has room for that many bytes; the helper checks the address itself.
    let failed = unsafe { bpf_probe_read_user(out.exit.as_mut_ptr().cast(), bytes as u32, from as *const _) };
    if failed == 0 { bytes as u32 } else { 0 }
}

/// Reads pairs of address and handle for what earlier calls have written by now. Returns the number of bytes.
#[inline(always)]
fn read_written(calls: &mut Calls, out: &mut LongArgsRecord) -> u32 {
    for at in 0..OUTS {
        out.exit[2 * at] = calls.outs[at];
        read_user_into(calls.outs[at], &mut out.exit[2 * at + 1]);
        if out.exit[2 * at + 1] != 0 {
            calls.outs[at] = 0;
        }
    }
    calls.group_ends += 1;
    if calls.group_ends >= GROUP_ENDS_MAX {
        calls.outs = [0; OUTS];
        calls.waiting = 0;
    }
    16 * OUTS as u32
}
