//! A call that is told whole: one record with its arguments and what stood behind them, and nothing is folded.
//!
//! The row says how many arguments there are, behind which of them how much is read, and when; which functions these
//! are the programs do not know. They share nothing with `enter` and `leave` but the processes and the account, so that
//! calls which the library makes of others are seen there as before.

use table::atomic::Relaxed;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::helpers::generated::{bpf_probe_read_kernel, bpf_probe_read_user};
use aya_ebpf::programs::{ProbeContext, RetProbeContext};
use table::counters::{Counters, Drop};
use table::record::{
    ARGUMENTS, Caller, FRAMES, Kind, LOOKS, LongRecord, MEMORY_AT_ENTRY, MEMORY_AT_EXIT, OUTS, ToldFrame,
    ToldRecord,
};
use table::{Cookie, Memory, Slot};

use crate::emit;
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
    if !process::is_traced(&task) {
        return None;
    }
    let (regs, counters) = (Regs::new(ctx.regs), maps::counters()?);
    let sp = regs.entry_sp();
    let Some(caller) = maps::caller(task.tid) else {
        process::count_hit(&task, cookie.id());
        counters.dropped[Drop::ThreadsFull as usize].fetch_add(1, Relaxed);
        return None;
    };
    if caller.pid != u64::from(task.pid) {
        let process = process::find(&task)?;
        process::set_tells(process, task.pid);
        (caller.pid, caller.start_ns) = (u64::from(task.pid), process.start_ns.load(Relaxed));
    }
    forget_left(caller, sp, counters);
    let depth = caller.depth as usize;
    if depth > 0 && cookie.is_operation() && Cookie(frame_at(caller, depth - 1).cookie).is_operation() {
        counters.suppressed.fetch_add(1, Relaxed);
        return None;
    }
    process::count_hit(&task, cookie.id());
    if depth >= FRAMES {
        counters.dropped[Drop::TooDeep as usize].fetch_add(1, Relaxed);
        return None;
    }
    caller.depth += 1;
    let frame = &mut caller.frames[depth & (FRAMES - 1)];
    regs.read_told(cookie, &mut frame.arguments);
    (frame.cookie, frame.sp) = (cookie.0, sp);
    frame.entry_bytes = read_at_entry(cookie, frame);
    frame.entry_ns = now_ns();
    Some(())
}

#[inline(always)]
fn frame_at(caller: &Caller, at: usize) -> &ToldFrame {
    &caller.frames[at & (FRAMES - 1)]
}

/// The stack grows down: a caller's frame lies above. One at or below was left without a return.
#[inline(always)]
fn forget_left(caller: &mut Caller, sp: u64, counters: &Counters) {
    for _ in 0..FRAMES {
        let depth = caller.depth as usize;
        if depth == 0 || depth > FRAMES || frame_at(caller, depth - 1).sp > sp {
            break;
        }
        caller.depth -= 1;
        counters.dropped[Drop::Abandoned as usize].fetch_add(1, Relaxed);
    }
}

#[inline(always)]
fn argument(arguments: &[u64; ARGUMENTS], slot: Slot) -> u64 {
    match slot.0 {
        0 => 0,
        n => arguments[(n as usize - 1) & (ARGUMENTS - 1)],
    }
}

/// Bytes of a list of as many items as an `int` argument says; a negative number of them is none.
#[inline(always)]
fn bytes(what: Memory, cookie: Cookie, arguments: &[u64; ARGUMENTS]) -> u64 {
    let count = argument(arguments, cookie.told_count()) as u32;
    what.bytes(if count > i32::MAX as u32 { 0 } else { u64::from(count) })
}

/// Reads what the row wants behind an argument into the frame; how much that was.
#[inline(always)]
fn read_at_entry(cookie: Cookie, frame: &mut ToldFrame) -> u64 {
    let wanted = cookie.told_at_entry();
    let bytes = bytes(wanted.what, cookie, &frame.arguments);
    if bytes == 0 || bytes > MEMORY_AT_ENTRY as u64 {
        return 0;
    }
    let from = argument(&frame.arguments, wanted.slot);
    // SAFETY: the frame has room for that many bytes; the helper checks the address itself.
    let failed =
        unsafe { bpf_probe_read_user(frame.memory.as_mut_ptr().cast(), bytes as u32, from as *const _) };
    if failed == 0 { bytes } else { 0 }
}

/// The return program.
#[inline(always)]
pub fn leave(ctx: &RetProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let task = Task::current();
    let counters = maps::counters()?;
    counters.returns.fetch_add(1, Relaxed);
    let regs = Regs::new(ctx.regs);
    let Some(caller) = CALLERS.get_ptr_mut(&task.tid) else { return count_unmatched(&task, counters) };
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    let caller = unsafe { &mut *caller };
    let Some(at) = pop(caller, cookie, regs.entry_sp_of_return(), counters) else {
        // An operation within another has no frame.
        let is_suppressed = cookie.is_operation() && caller.depth != 0;
        return if is_suppressed { None } else { count_unmatched(&task, counters) };
    };
    let now_ns = now_ns();
    let result = regs.return_value() as u32;
    let is_long = cookie.is_told_at_length() || (cookie.tells_written() && caller.waiting != 0);
    let call = Call { cookie, task, frame: frame_at(caller, at), start_ns: caller.start_ns, result, now_ns };
    let told = if is_long { call.tell_at_length() } else { call.tell() };
    let Some(unwritten) = told else {
        counters.dropped[Drop::RingFull as usize].fetch_add(1, Relaxed);
        return None;
    };
    counters.delivered.fetch_add(1, Relaxed);
    counters.records.fetch_add(1, Relaxed);
    if unwritten != 0 {
        caller.outs[caller.waiting as usize & (OUTS - 1)] = unwritten;
        caller.waiting += 1;
        caller.looks = 0;
    }
    Some(())
}

/// A return that has no entry: not of a process that is not traced.
#[inline(always)]
fn count_unmatched(task: &Task, counters: &Counters) -> Option<()> {
    process::find(task)?;
    counters.unmatched.fetch_add(1, Relaxed);
    None
}

/// Takes the call's frame off the stack, and with it those left above it without a return. Where it was; it stays
/// there until the thread's next call.
#[inline(always)]
fn pop(caller: &mut Caller, cookie: Cookie, sp: u64, counters: &Counters) -> Option<usize> {
    for _ in 0..FRAMES {
        let depth = caller.depth as usize;
        if depth == 0 || depth > FRAMES {
            return None;
        }
        let top = frame_at(caller, depth - 1);
        let (is_above, is_it) = (top.sp > sp, top.sp == sp && top.cookie == cookie.0);
        if is_above {
            return None;
        }
        caller.depth -= 1;
        if is_it {
            return Some(depth - 1);
        }
        counters.dropped[Drop::Abandoned as usize].fetch_add(1, Relaxed);
    }
    None
}

/// A call that has returned.
struct Call<'a> {
    cookie: Cookie,
    task: Task,
    frame: &'a ToldFrame,
    start_ns: u64,
    result: u32,
    now_ns: u64,
}

impl Call<'_> {
    /// The short record; `None` where the ring is full. Where the call will have written what it had not, or 0.
    #[inline(always)]
    fn tell(&self) -> Option<u64> {
        let mut entry = RING.reserve::<ToldRecord>(0)?;
        // SAFETY: the ring's memory is ours until submitted, large enough and aligned; every field is written below.
        let out = unsafe { &mut *entry.as_mut_ptr() };
        self.fill(out, Kind::Told);
        out.out = 0;
        // The amount is told apart here rather than computed: a constant is what the helper is happy with.
        out.exit_bytes = match self.cookie.told_at_exit().what {
            Memory::Int => self.read_out(&mut out.out, 4),
            Memory::Word => self.read_out(&mut out.out, 8),
            _ => 0,
        };
        let unwritten = self.unwritten(out.exit_bytes, out.out);
        entry.submit(emit::QUIET);
        Some(unwritten)
    }

    /// The address of a handle that was not written yet, though the call was taken on (0, or 7: in progress).
    #[inline(always)]
    fn unwritten(&self, bytes: u32, handle: u64) -> u64 {
        let wanted = self.cookie.told_at_exit();
        let is_open = wanted.what as u8 == Memory::Word as u8 && bytes == 8 && handle == 0;
        match is_open && (self.result == 0 || self.result == 7) {
            true => argument(&self.frame.arguments, wanted.slot) & !7,
            false => 0,
        }
    }

    #[inline(always)]
    fn read_out(&self, into: &mut u64, bytes: u32) -> u32 {
        let from = argument(&self.frame.arguments, self.cookie.told_at_exit().slot);
        // SAFETY: `into` has room for that many bytes; the helper checks the address itself.
        let failed =
            unsafe { bpf_probe_read_user(core::ptr::from_mut(into).cast(), bytes, from as *const _) };
        if failed == 0 { bytes } else { 0 }
    }

    /// The long record; else as above.
    #[inline(always)]
    fn tell_at_length(&self) -> Option<u64> {
        let mut entry = RING.reserve::<LongRecord>(0)?;
        // SAFETY: as above. What the two lists do not use is what the ring held before: user space reads their bytes.
        let out = unsafe { &mut *entry.as_mut_ptr() };
        self.fill(&mut out.told, Kind::ToldAtLength);
        out.told.out = 0;
        // SAFETY: both have this size, and the frame is readable.
        unsafe {
            let from = self.frame.memory.as_ptr().cast();
            bpf_probe_read_kernel(out.entry.as_mut_ptr().cast(), MEMORY_AT_ENTRY as u32, from);
        }
        let wanted = self.cookie.told_at_exit();
        let bytes = bytes(wanted.what, self.cookie, &self.frame.arguments);
        if self.cookie.tells_written() {
            out.told.exit_bytes = tell_written(self.task.tid, out);
        } else if bytes > 0 && bytes <= MEMORY_AT_EXIT as u64 {
            let from = argument(&self.frame.arguments, wanted.slot);
            // SAFETY: the record has room for that many bytes; the helper checks the address itself.
            let failed =
                unsafe { bpf_probe_read_user(out.exit.as_mut_ptr().cast(), bytes as u32, from as *const _) };
            out.told.exit_bytes = if failed == 0 { bytes as u32 } else { 0 };
        }
        let unwritten = self.unwritten(out.told.exit_bytes, out.exit[0]);
        entry.submit(emit::QUIET);
        Some(unwritten)
    }

    #[inline(always)]
    fn fill(&self, out: &mut ToldRecord, kind: Kind) {
        let (task, entry_ns) = (&self.task, self.frame.entry_ns);
        emit::fill_header(
            &mut out.header,
            kind,
            self.cookie.id(),
            task,
            self.start_ns,
            entry_ns,
            self.now_ns,
        );
        out.result = self.result;
        out.device = if self.cookie.is_operation() { -1 } else { device(task.tid) };
        out.arguments = self.frame.arguments;
        out.entry_bytes = self.frame.entry_bytes as u32;
        out.exit_bytes = 0;
    }
}

/// Pairs of address and handle of what earlier calls have written by now; their bytes.
#[inline(always)]
fn tell_written(tid: u32, out: &mut LongRecord) -> u32 {
    let Some(caller) = CALLERS.get_ptr_mut(&tid) else { return 0 };
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    let caller = unsafe { &mut *caller };
    for at in 0..OUTS {
        out.exit[2 * at] = caller.outs[at];
        read_user_into(caller.outs[at], &mut out.exit[2 * at + 1]);
        if out.exit[2 * at + 1] != 0 {
            caller.outs[at] = 0;
        }
    }
    caller.looks += 1;
    if caller.looks >= LOOKS {
        caller.outs = [0; OUTS];
        caller.waiting = 0;
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
