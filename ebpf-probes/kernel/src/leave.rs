//! A call returns: time it, close what it waited for, report what is worth a record, and settle its account.

use table::atomic::Relaxed;

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::programs::RetProbeContext;
use table::counters::{Counters, Drop};
use table::fold::{Stamp, StreamFold};
use table::record::{
    EventKey, FRAMES, Frame, NOT_SEEN, OperationKey, ProcessFold, StreamKey, ThreadFold, flag,
};
use table::{Action, Cookie};

use crate::emit::{self, Returned};
use crate::enter::active_key;
use crate::maps::{self, EVENTS, STREAMS, found};
use crate::process;
use crate::regs::{Regs, read_user};
use crate::task::{Task, now_ns, runq_ns};

/// The return program.
#[inline(always)]
pub fn run(ctx: &RetProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let task = Task::current();
    let process = process::find(&task)?;
    let counters = maps::counters()?;
    counters.returns.fetch_add(1, Relaxed);
    let regs = Regs::new(ctx.regs);
    if cookie.is_driver() && process::is_runtime(&task, regs.returned_to()) {
        return None;
    }
    let Some(thread) = maps::THREADS.get_ptr_mut(&task.tid) else {
        counters.unmatched.fetch_add(1, Relaxed);
        return None;
    };
    // SAFETY: only the thread itself changes its entry, and it runs this program now.
    let thread = unsafe { &mut *thread };
    let Some(frame) = pop(thread, cookie, regs.entry_sp_of_return(), counters) else {
        // A driver call within a runtime call was suppressed at its entry, and has no frame.
        if !cookie.is_driver() || thread.depth == 0 {
            counters.unmatched.fetch_add(1, Relaxed);
        }
        return None;
    };
    let result = regs.return_value() as u32;
    settle(&Return { cookie, task, process, thread, frame: &frame, result }, counters)
}

/// Takes the call's frame off the stack, and with it those left above it without a return.
#[inline(always)]
fn pop(thread: &mut ThreadFold, cookie: Cookie, sp: u64, counters: &Counters) -> Option<Frame> {
    for _ in 0..FRAMES {
        let depth = thread.depth as usize;
        if depth == 0 || depth > FRAMES {
            return None;
        }
        let top = &thread.frames[(depth - 1) & (FRAMES - 1)];
        if top.sp > sp {
            return None;
        }
        thread.depth -= 1;
        if top.sp == sp && top.cookie == cookie.0 {
            return Some(*top);
        }
        counters.dropped[Drop::Abandoned as usize].fetch_add(1, Relaxed);
    }
    None
}

struct Return<'a> {
    cookie: Cookie,
    task: Task,
    process: &'a ProcessFold,
    thread: &'a mut ThreadFold,
    frame: &'a Frame,
    result: u32,
}

/// What became of a call.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Folded,
    Delivered,
    SampledOut,
    RingFull,
}

#[inline(always)]
fn settle(r: &Return<'_>, counters: &Counters) -> Option<()> {
    // Only a closer's record tells of the run queue: no other call asks the kernel for it.
    let runq_ns = if r.frame.closing != 0 { runq_ns() } else { NOT_SEEN };
    let exit = Stamp { ns: now_ns(), runq_ns, tid: r.task.tid };
    let failed = r.cookie.has_failed(r.result);
    let key = OperationKey { pid: r.task.pid, row: u32::from(r.cookie.id()) };
    match maps::durations(&key) {
        Some(durations) => durations.add(exit.ns.wrapping_sub(r.frame.entry_ns), failed),
        None => {
            counters.untimed.fetch_add(1, Relaxed);
        }
    }
    match outcome(r, exit, failed) {
        Outcome::Folded => r.process.folded.fetch_add(1, Relaxed),
        Outcome::Delivered => counters.delivered.fetch_add(1, Relaxed),
        Outcome::SampledOut => counters.sampled_out.fetch_add(1, Relaxed),
        Outcome::RingFull => counters.dropped[Drop::RingFull as usize].fetch_add(1, Relaxed),
    };
    Some(())
}

#[inline(always)]
fn outcome(r: &Return<'_>, exit: Stamp, failed: bool) -> Outcome {
    let returned = Returned {
        task: &r.task,
        start_ns: r.process.start_ns.load(Relaxed),
        row: r.cookie.id(),
        device: r.thread.device as i32 - 1,
        enter: Stamp { ns: r.frame.entry_ns, runq_ns: r.frame.runq_ns, tid: r.task.tid },
        exit,
        process_fresh: r.frame.process_fresh,
    };
    let mut closed = close(r, &returned);
    if !failed && r.cookie.is(Action::StreamDestroy) {
        closed = forget_stream(r, &returned);
    }
    if !failed {
        apply(r);
    }
    if !failed && !r.cookie.is_reported() {
        return closed;
    }
    let handle = match r.cookie.writes_handle() && !failed {
        true => read_user(r.frame.handle).unwrap_or(0),
        false => r.frame.handle,
    };
    match emit::call(&returned, r.frame, handle, r.result) {
        None if closed == Outcome::Folded => Outcome::SampledOut,
        Some(true) if closed != Outcome::RingFull => Outcome::Delivered,
        Some(false) => Outcome::RingFull,
        _ => closed,
    }
}

/// Closes the streams that this call waited for.
#[inline(always)]
fn close(r: &Return<'_>, returned: &Returned<'_>) -> Outcome {
    let delivered = match r.frame.closing {
        0 => return Outcome::Folded,
        1 => match found(&r.frame.closes) {
            Some(fold) if fold.has_pending_work() => emit::step(returned, &r.frame.closes, fold, 0),
            _ => return Outcome::Folded,
        },
        _ => close_all(r, returned),
    };
    r.process.seen.store(r.process.enqueued(), Relaxed);
    match delivered {
        true => Outcome::Delivered,
        false => Outcome::RingFull,
    }
}

/// A device synchronisation returned: every stream with open work ends its step.
#[inline(always)]
fn close_all(r: &Return<'_>, returned: &Returned<'_>) -> bool {
    let mut all = true;
    for place in &r.process.active {
        if place.taken.load(Relaxed) == 2 {
            let key = active_key(r.task.pid, place);
            let mut is_open = false;
            if let Some(fold) = found(&key) {
                if fold.has_pending_work() {
                    all &= emit::step(returned, &key, fold, 0);
                }
                // Another thread may have enqueued while this one waited.
                is_open = fold.has_open_work();
            }
            place.taken.store(u64::from(is_open), Relaxed);
        }
    }
    all
}

/// A stream is gone: what nobody waited for is a step all the same, said to be unfinished.
#[inline(always)]
fn forget_stream(r: &Return<'_>, returned: &Returned<'_>) -> Outcome {
    let key = StreamKey::of(r.task.pid, r.task.tid, r.frame.stream, r.cookie.is_twin());
    if r.frame.stream <= 2 {
        return Outcome::Folded;
    }
    let delivered = match found(&key) {
        Some(fold) if fold.begin_close() => emit::step(returned, &key, fold, flag::UNFINISHED),
        _ => true,
    };
    let _ = STREAMS.remove(&key);
    process::forget(r.process, &key);
    if delivered { Outcome::Folded } else { Outcome::RingFull }
}

/// What a successful call changes for the calls after it.
#[inline(always)]
fn apply(r: &Return<'_>) {
    let key = StreamKey::of(r.task.pid, r.task.tid, r.frame.stream, r.cookie.is_twin());
    if r.cookie.is(Action::SetDevice) {
        set_device(r);
    } else if r.cookie.is(Action::CaptureBegin) {
        if let Some(fold) = maps::stream(&key) {
            fold.set_capturing(true);
        }
    } else if r.cookie.is(Action::CaptureEnd) {
        if let Some(fold) = found(&key) {
            StreamFold::set_capturing(fold, false);
        }
    } else if r.cookie.is(Action::EventDestroy) {
        let _ = EVENTS.remove(&EventKey { pid: r.task.pid, pad: 0, event: r.frame.handle });
    }
}

#[inline(always)]
fn set_device(r: &Return<'_>) {
    if let Some(thread) = maps::THREADS.get_ptr_mut(&r.task.tid) {
        // SAFETY: only the thread itself changes its entry, and it runs this program now.
        unsafe { (*thread).device = (r.frame.handle & 0x7fff_ffff) + 1 };
    }
}
