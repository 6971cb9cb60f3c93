//! A call that is told whole: one record with its arguments and what stood behind them, and nothing is folded.
//!
//! The row says how many arguments there are, behind which of them how much is read, and when; which functions these
//! are the programs do not know. They share nothing with `enter` and `leave` but the processes and the account, so that
//! calls which the library makes of others are seen there as before.
//!
//! Cost of a call that moves data: the record is written at the entry where it waits for the return, and copied to the
//! ring as it lies. Two pids, two clocks, a read of the stack and the ring: no look-up ([`probe_abi::hot`]). As in
//! [`crate::launch`], user space puts the cookie in as a constant where it can.

use probe_abi::atomic::Relaxed;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use probe_abi::counters::DropReason;
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

/// The entry program.
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

/// What is known of the call when it begins; its beginning last.
#[inline(always)]
fn fill(cookie: Cookie, regs: &Regs, task: &Task, start_ns: u64, frame: &mut ArgsFrame) {
    (frame.cookie, frame.sp) = (cookie.0, regs.entry_sp());
    let told = &mut frame.record;
    regs.read_args(cookie, &mut told.arguments);
    (told.out, told.ordinal, told.entry_bytes, told.exit_bytes) = (0, NOT_SEEN, 0, 0);
    emit::fill_header(&mut told.header, RecordKind::Args, cookie.id(), task, start_ns, now_ns(), 0);
}

// Out of line is what is rare: the stack of what is not stays below 64 bytes (see `crate::launch`).

/// Any call, of any thread.
#[unsafe(no_mangle)]
#[inline(never)]
fn enter_any(cookie: Cookie, raw: *mut pt_regs) -> Option<()> {
    let (task, regs) = (Task::current(), Regs::new(raw));
    let calls = match maps::hot_calls(task.pid, task.tid) {
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
        let told = &mut frame.record;
        told.entry_bytes = read_at_entry(cookie, &task, depth, &told.arguments);
        end_handle(cookie, &task, start_ns, &told.arguments);
        told.header.entry_ns = now_ns();
    }
    Some(())
}

/// The calls of a thread without a slot of its own, which may be its first; `None`, counted, where it is not traced
/// or there is no room.
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

/// Bytes of a list of as many items as an `int` argument says; a negative number of them is none.
#[inline(always)]
fn bytes(what: PointeeKind, cookie: Cookie, arguments: &[u64; ARGUMENTS]) -> u64 {
    let count = argument(arguments, cookie.args_count()) as u32;
    what.bytes(if count > i32::MAX as u32 { 0 } else { u64::from(count) })
}

/// Reads what the row wants behind an argument; how much that was.
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

/// The thread's entry, which holds what was read for it.
#[inline(always)]
fn own_entry(tid: u32) -> Option<&'static mut Caller> {
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    CALLERS.get_ptr_mut(&tid).map(|caller| unsafe { &mut *caller })
}

/// The row ends a handle: the next of its address is counted anew. Now, since the address is free before the return.
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

/// The return program.
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
        return tell(&calls.frames[0].record);
    }
    leave_any(cookie, ctx.regs)
}

/// What is known of the call when it has ended; its end first.
#[inline(always)]
fn end(cookie: Cookie, regs: &Regs, task: &Task, start_ns: u64, told: &mut ArgsRecord) {
    told.header.duration_ns = now_ns().wrapping_sub(told.header.entry_ns);
    (told.result, told.device) = (regs.return_value() as u32, -1);
    if cookie.counted_handle() != ArgPos::NONE && is_taken_on(told.result) {
        told.ordinal = ordinal(cookie, task, start_ns, &told.arguments);
    }
}

/// Any return, on any thread.
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
        // An operation within another has no frame.
        let is_suppressed = cookie.is_operation() && calls.depth != 0;
        return if is_suppressed { count_return() } else { count_unseen(task.pid, task.tid) };
    };
    let start_ns = calls.start_ns;
    let told = &mut calls.frames[at & (FRAMES - 1)].record;
    end(cookie, &regs, &task, start_ns, told);
    if cookie.is_operation() { tell(told) } else { tell_more(cookie, calls, at) }
}

/// The library took the call on: 0, or 7, in progress.
#[inline(always)]
fn is_taken_on(result: u32) -> bool {
    result == 0 || result == 7
}

#[inline(always)]
fn ordinal(cookie: Cookie, task: &Task, start_ns: u64, arguments: &[u64; ARGUMENTS]) -> u64 {
    let counted = Counted::new(task.pid, start_ns, argument(arguments, cookie.counted_handle()));
    maps::ordinal(counted).map_or(NOT_SEEN, |slot| slot.take(counted))
}

/// The record as it lies.
#[inline(always)]
fn tell(told: &ArgsRecord) -> Option<()> {
    match RING.output::<ArgsRecord>(told, emit::QUIET) {
        Ok(()) => maps::counters()?.args_records.fetch_add(1, Relaxed),
        Err(_) => return count_full(),
    };
    Some(())
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_full() -> Option<()> {
    let _ = count_return();
    maps::count_drop(DropReason::RingFull)
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_return() -> Option<()> {
    maps::counters()?.returns.fetch_add(1, Relaxed);
    None
}

/// A return that has no entry: not of a process that is not traced.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_unseen(pid: u32, tid: u32) -> Option<()> {
    let _ = count_return();
    process::find(&Task { pid, tid })?;
    maps::counters()?.unmatched.fetch_add(1, Relaxed);
    None
}

/// The return of a call that does not move data: what it wrote is read, too.
#[unsafe(no_mangle)]
#[inline(never)]
fn tell_more(cookie: Cookie, calls: &mut Calls, at: usize) -> Option<()> {
    let tid = Task::current().tid;
    let told = &mut calls.frames[at & (FRAMES - 1)].record;
    told.device = device(tid);
    let is_long = cookie.has_long_args() || (cookie.records_written() && calls.waiting != 0);
    let handle = match is_long {
        true => tell_at_length(cookie, calls, at, tid)?,
        false => {
            // The amount is told apart here rather than computed: a constant is what the helper is happy with.
            told.exit_bytes = match cookie.args_at_exit().kind {
                PointeeKind::Int => read_out(cookie, told, 4),
                PointeeKind::Word => read_out(cookie, told, 8),
                _ => 0,
            };
            tell(told)?;
            told.out
        }
    };
    let told = &calls.frames[at & (FRAMES - 1)].record;
    let unwritten = unwritten(cookie, told, handle);
    if unwritten != 0 {
        calls.outs[calls.waiting as usize & (OUTS - 1)] = unwritten;
        calls.waiting += 1;
        calls.group_ends = 0;
    }
    Some(())
}

/// The address of a handle that was not written yet, though the call was taken on; or 0.
#[inline(always)]
fn unwritten(cookie: Cookie, told: &ArgsRecord, handle: u64) -> u64 {
    let wanted = cookie.args_at_exit();
    let is_open = wanted.kind as u8 == PointeeKind::Word as u8 && told.exit_bytes == 8 && handle == 0;
    match is_open && is_taken_on(told.result) {
        true => argument(&told.arguments, wanted.arg) & !7,
        false => 0,
    }
}

#[inline(always)]
fn read_out(cookie: Cookie, told: &mut ArgsRecord, bytes: u32) -> u32 {
    let from = argument(&told.arguments, cookie.args_at_exit().arg);
    let into = core::ptr::from_mut(&mut told.out).cast();
    // SAFETY: there is room for that many bytes; the helper checks the address itself.
    let failed = unsafe { bpf_probe_read_user(into, bytes, from as *const _) };
    if failed == 0 { bytes } else { 0 }
}

/// The long record. The first word that was read at the return; `None` where the ring is full.
#[inline(always)]
fn tell_at_length(cookie: Cookie, calls: &mut Calls, at: usize, tid: u32) -> Option<u64> {
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
    let (first, told) = (out.exit[0], &mut calls.frames[at & (FRAMES - 1)].record);
    told.exit_bytes = exit_bytes;
    out.record = *told;
    out.record.header.kind = RecordKind::LongArgs as u16;
    entry.submit(emit::QUIET);
    maps::counters()?.args_records.fetch_add(1, Relaxed);
    Some(first)
}

/// Reads what the row wants behind an argument; how much that was.
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

/// Pairs of address and handle of what earlier calls have written by now; their bytes.
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

/// The thread's current device, -1 where it was never set.
#[inline(always)]
fn device(tid: u32) -> i32 {
    let Some(thread) = maps::THREADS.get_ptr(&tid) else { return -1 };
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    unsafe { (*thread).device as i32 - 1 }
}
