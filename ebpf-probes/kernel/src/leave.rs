//! Return of a timed call: counts its duration, ends the steps that it waited for, records it and counts its outcome.

use probe_abi::atomic::{AtomicU64, Relaxed};

use aya_ebpf::EbpfContext as _;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::programs::RetProbeContext;
use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::detail::Detail;
use probe_abi::fold::{Snapshot, Stamp};
use probe_abi::frontier::Frontier;
use probe_abi::record::{
    ActiveStream, FRAMES, Frame, OperationKey, ProcessFold, Query, StreamKey, ThreadFold, flag,
};
use probe_abi::thread_counter::UNKNOWN_COUNTS;
use probe_abi::{Action, Cookie, Leave, NON_BLOCKING};

use crate::context;
use crate::emit::{self, Returned};
use crate::enter::active_key;
use crate::frames;
use crate::graph;
use crate::maps::{self, STREAMS};
use crate::process;
use crate::regs::{Regs, read_user};
use crate::stream::found;
use crate::task::{self, Task, now_ns};

/// Runs at the return of a function.
#[inline(always)]
pub fn run(ctx: &RetProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let task = Task::current();
    let regs = Regs::new(ctx.regs);
    if cookie.is_driver() && process::is_runtime(&task, regs.returned_to()) {
        return maps::count_return();
    }
    let Some(thread) = maps::known_thread(task.pid, task.tid) else {
        return count_unmatched(task.pid, task.tid);
    };
    let at = frames::pop(&mut thread.depth, &thread.frames, cookie, regs.entry_sp_of_return());
    let Some(at) = at else {
        // A driver call within a runtime call was suppressed at its entry and has no frame.
        let is_suppressed = cookie.is_driver() && thread.depth != 0;
        return if is_suppressed { maps::count_return() } else { count_unmatched(task.pid, task.tid) };
    };
    let at = unknown(&thread.scratch.ns, at as u64) as usize & (FRAMES - 1);
    let (now_ns, result) = (now_ns(), regs.return_value() as u32);
    let failed = cookie.has_failed(result);
    if cookie.is(Action::Query) {
        answered(thread, at, &task, result);
    }
    let frame = &thread.frames[at];
    let key = OperationKey { pid: task.pid, row: u32::from(cookie.id()) };
    let duration_ns = now_ns.wrapping_sub(frame.entry_ns);
    match maps::hot_durations(&key).filter(|slot| slot.claim(&key)) {
        Some(slot) => slot.durations.add(duration_ns, failed),
        None => count_duration(key.pid, key.row, duration_ns, failed),
    }
    let is_reported = cookie.is_reported() || (cookie.orders_streams() && process::uses_collectives(&task));
    let is_sum = !failed && frame.closing == 0 && !is_reported && cookie.on_leave(result) == Leave::Nothing;
    // Queries are not sampled: a polling thread makes more of them than of all other calls, without information.
    let detail = if cookie.is(Action::Query) { Detail::NONE } else { process::detail(task.pid) };
    let weight = detail.weight(duration_ns, now_ns);
    if is_sum && weight == 0 {
        if detail != Detail::NONE {
            maps::counters()?.sampled_out.fetch_add(1, Relaxed);
            return Some(());
        }
        process::count_folded(&task);
        return maps::count_return();
    }
    let verdict = Verdict::of(failed, is_reported, detail, weight) | Verdict::of_steps(cookie, result);
    let (cookie, result, verdict) = (
        Cookie(unknown(&frame.lost, cookie.0)),
        unknown(&frame.lost, result.into()) as u32,
        Verdict(unknown(&frame.lost, verdict)),
    );
    frame.lost.store(0, Relaxed);
    settle(&Return {
        cookie,
        task,
        frame,
        frontier: &thread.frontier,
        frontier_sp: thread.frontier_sp,
        device: thread.device as i32 - 1,
        result,
        verdict,
        now_ns,
    })
}

/// Returns a value as it is read back from memory. The verifier follows each value of a variable that it knows, and all
/// that follows for each; of memory in a map it knows nothing.
#[inline(always)]
fn unknown(memory: &AtomicU64, value: u64) -> u64 {
    memory.store(value, Relaxed);
    memory.load(Relaxed)
}

/// What a return leads to, as bits of one word.
#[derive(Clone, Copy)]
struct Verdict(u64);

impl Verdict {
    const FAILED: u64 = 1;
    const REPORTED: u64 = 2;
    const SAMPLED: u64 = 4;
    const ENDS_STEPS: u64 = 8;
    const STEP_FLAGS_AT: u32 = 8;
    const WEIGHT_AT: u32 = 32;

    #[inline(always)]
    fn of(failed: bool, is_reported: bool, detail: Detail, weight: u32) -> u64 {
        u64::from(failed) * Verdict::FAILED
            | u64::from(is_reported) * Verdict::REPORTED
            | u64::from(detail != Detail::NONE) * Verdict::SAMPLED
            | u64::from(weight) << Verdict::WEIGHT_AT
    }

    /// Returns the bits about the steps that a call ends.
    #[inline(always)]
    fn of_steps(cookie: Cookie, result: u32) -> u64 {
        u64::from(cookie.ends_steps(result)) * Verdict::ENDS_STEPS
            | u64::from(cookie.step_flags()) << Verdict::STEP_FLAGS_AT
    }

    #[inline(always)]
    fn is(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    /// Flags of the records of steps that the call ends.
    #[inline(always)]
    fn step_flags(self) -> u32 {
        (self.0 >> Verdict::STEP_FLAGS_AT) as u32 & 0xff
    }

    /// Weight of the record of the call if it is sampled; 0 if it gets none.
    #[inline(always)]
    fn weight(self) -> u32 {
        (self.0 >> Verdict::WEIGHT_AT) as u32
    }
}

/// Follows a wait by polling. Only the query that ends such a wait ends a step, or any query of a stream whose steps
/// end by polling, since memory pools query events, too.
#[inline(always)]
fn answered(thread: &mut ThreadFold, at: usize, task: &Task, result: u32) {
    let ThreadFold { poll, frontier, frames, .. } = thread;
    let frame = &mut frames[at & (FRAMES - 1)];
    if frame.closing != Frame::CLOSES_FRONTIER {
        poll.began_ns = 0;
        return;
    }
    let key = frontier.own.key(task.pid);
    let Some(stream) = found(&key) else { return };
    let query = Query {
        handle: if frame.handle != 0 { frame.handle } else { frame.stream },
        entry_ns: frame.entry_ns,
        exit_ns: now_ns(),
        enqueued: stream.enqueued_by(task.tid),
    };
    match poll.answer(&query, result == 0, stream.is_polled()) {
        None => frame.closing = 0,
        Some(began_ns) if began_ns == frame.entry_ns => {}
        Some(began_ns) => (frame.entry_ns, frame.counts) = (began_ns, UNKNOWN_COUNTS),
    }
}

/// Counts the duration of an operation without a hot slot.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_duration(pid: u32, row: u32, duration_ns: u64, failed: bool) {
    match maps::durations(&OperationKey { pid, row }) {
        Some(durations) => durations.add(duration_ns, failed),
        None => maps::count(SelfCounter::Untimed),
    }
}

/// Counts a return without an entry, if the process is traced.
#[unsafe(no_mangle)]
#[inline(never)]
fn count_unmatched(pid: u32, tid: u32) -> Option<()> {
    let _ = maps::count_return();
    process::find(&Task { pid, tid })?;
    maps::count(SelfCounter::UnmatchedReturn);
    None
}

struct Return<'a> {
    cookie: Cookie,
    task: Task,
    frame: &'a Frame,
    frontier: &'a Frontier,
    frontier_sp: u64,
    device: i32,
    result: u32,
    verdict: Verdict,
    now_ns: u64,
}

/// Outcome of a call.
#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Folded,
    Delivered,
    SampledOut,
    RingFull,
}

/// Handles the return of a call that ends a step, failed, gets a record or changes state.
#[unsafe(no_mangle)]
#[inline(never)]
fn settle(r: &Return<'_>) -> Option<()> {
    let Some(process) = process::find(&r.task) else {
        // User space has excluded the process meanwhile.
        let _ = maps::count_return();
        return maps::count_drop(DropReason::Abandoned);
    };
    let counters = maps::counters()?;
    let returned = returned(r, process);
    let outcome = match outcome(r, process, &returned) {
        Outcome::Folded => sample(r, &returned),
        outcome => outcome,
    };
    if outcome != Outcome::SampledOut {
        counters.returns.fetch_add(1, Relaxed);
    }
    match outcome {
        Outcome::Folded => process.folded.fetch_add(1, Relaxed),
        Outcome::Delivered => counters.delivered.fetch_add(1, Relaxed),
        Outcome::SampledOut => counters.sampled_out.fetch_add(1, Relaxed),
        Outcome::RingFull => counters.dropped[DropReason::RingFull as usize].fetch_add(1, Relaxed),
    };
    Some(())
}

#[inline(always)]
fn returned<'a>(r: &'a Return<'_>, process: &ProcessFold) -> Returned<'a> {
    // Only the record of a sync call contains the thread's counters; reading one costs a helper call.
    let counts = if r.frame.closing != 0 { task::counts() } else { UNKNOWN_COUNTS };
    Returned {
        task: &r.task,
        start_ns: process.start_ns.load(Relaxed),
        row: r.cookie.id(),
        device: r.device,
        enter: Stamp { ns: r.frame.entry_ns, counts: r.frame.counts, tid: r.task.tid },
        exit: Stamp { ns: r.now_ns, counts, tid: r.task.tid },
        frame: r.frame,
    }
}

#[inline(always)]
fn outcome(r: &Return<'_>, process: &ProcessFold, returned: &Returned<'_>) -> Outcome {
    let closed = match r.verdict.is(Verdict::ENDS_STEPS) {
        true => close(r, process, returned),
        false => Outcome::Folded,
    };
    let handle = match r.cookie.writes_handle() && !r.verdict.is(Verdict::FAILED) {
        true => read_user(r.frame.handle).unwrap_or(0),
        false => r.frame.handle,
    };
    apply(r, process, handle);
    if !r.verdict.is(Verdict::FAILED | Verdict::REPORTED) {
        return closed;
    }
    match emit::call(returned, handle, r.result, 0) {
        true if closed != Outcome::RingFull => Outcome::Delivered,
        true => closed,
        false => Outcome::RingFull,
    }
}

/// Records a folded call if it is sampled.
#[inline(always)]
fn sample(r: &Return<'_>, returned: &Returned<'_>) -> Outcome {
    let weight = match (r.verdict.is(Verdict::SAMPLED), r.verdict.weight()) {
        (false, _) => return Outcome::Folded,
        (true, 0) => return Outcome::SampledOut,
        (true, weight) => weight,
    };
    let is_recorded = emit::has_space_for_samples()
        && emit::call(returned, r.frame.handle, r.result, Detail::flags(weight));
    if is_recorded { Outcome::Delivered } else { Outcome::RingFull }
}

/// Ends the steps that the call waited for.
#[inline(always)]
fn close(r: &Return<'_>, process: &ProcessFold, returned: &Returned<'_>) -> Outcome {
    if r.frame.closing == 0 {
        return Outcome::Folded;
    }
    context::record(returned);
    match r.frame.closing {
        Frame::CLOSES_FRONTIER if !close_frontier(r, returned) => return Outcome::Folded,
        Frame::CLOSES_FRONTIER => {}
        _ => close_all(process, returned),
    }
    process.seen.store(process::enqueued(process, r.task.pid), Relaxed);
    match r.frame.lost.load(Relaxed) {
        0 => Outcome::Delivered,
        _ => Outcome::RingFull,
    }
}

/// Ends the steps within the call's frontier. Returns false if another thread ended them before.
#[inline(always)]
fn close_frontier(r: &Return<'_>, returned: &Returned<'_>) -> bool {
    if r.frontier_sp != r.frame.sp {
        return false;
    }
    let flags = r.verdict.step_flags();
    r.frame.slots.store(0, Relaxed);
    close_snapshot(returned, &r.frontier.own, flags);
    for snapshot in &r.frontier.waited.0 {
        close_snapshot(returned, snapshot, flags);
    }
    r.frame.slots.load(Relaxed) != 0
}

/// Ends the step of one stream, and notes that in the frame's slots. Out of line, so that the verifier forgets its state
/// at the return.
#[unsafe(no_mangle)]
#[inline(never)]
fn close_snapshot(returned: &Returned<'_>, snapshot: &Snapshot, flags: u32) {
    if snapshot.is_empty() {
        return;
    }
    let key = snapshot.key(returned.task.pid);
    let Some(stream) = found(&key).filter(|stream| stream.closes(snapshot)) else { return };
    emit::step(returned, &key, &stream, snapshot, flags);
    stream.set_polled(flags == flag::POLLED);
    returned.frame.slots.store(1, Relaxed);
}

/// Ends the step of every stream of the device that had open work.
#[inline(always)]
fn close_all(process: &ProcessFold, returned: &Returned<'_>) {
    for (at, slot) in process.active.iter().enumerate() {
        if returned.frame.slots.load(Relaxed) >> at & 1 == 1 {
            close_active(returned, slot);
        }
    }
}

/// Ends the step of one stream. Out of line, so that the verifier forgets its state at the return.
#[unsafe(no_mangle)]
#[inline(never)]
fn close_active(returned: &Returned<'_>, slot: &ActiveStream) {
    let key = active_key(returned.task.pid, slot);
    let Some(stream) = found(&key) else {
        slot.taken.store(0, Relaxed);
        return;
    };
    let snapshot = &stream.pending;
    if stream.closes(snapshot) {
        emit::step(returned, &key, &stream, snapshot, 0);
        stream.set_polled(false);
    }
    // Another thread may have enqueued while this one waited.
    slot.taken.store(u64::from(stream.has_open_work()), Relaxed);
}

/// Removes a destroyed stream. Its open work has become an unfinished step before.
#[inline(always)]
fn remove_stream(r: &Return<'_>, process: &ProcessFold) {
    if r.frame.stream <= 2 {
        return;
    }
    let key = process::stream_key(&r.task, r.frame.stream, r.cookie.is_twin());
    // Another thread may have created a stream at the same address meanwhile.
    if found(&key).is_some_and(|stream| stream.is_at(&r.frontier.own)) {
        delete_stream(process, &key);
    }
}

#[unsafe(no_mangle)]
#[inline(never)]
fn delete_stream(process: &ProcessFold, key: &StreamKey) {
    if let Some(stream) = found(key) {
        stream.release();
    }
    let _ = STREAMS.remove(key);
    process::remove_active(process, key);
}

/// Adds a stream. An earlier one with its handle, whose end was not seen, is removed.
#[inline(always)]
fn add_stream(r: &Return<'_>, process: &ProcessFold, handle: u64) {
    if handle == 0 {
        return;
    }
    let key = StreamKey { pid: r.task.pid, tid: 0, stream: handle };
    delete_stream(process, &key);
    if r.frame.bytes & NON_BLOCKING == 0
        && let Some(fold) = maps::stream(&key)
    {
        fold.set_blocking();
        process.blocking.store(1, Relaxed);
    }
}

/// Applies what the call changes for later calls. `handle` is the row's, as the library wrote it where it does.
#[inline(always)]
fn apply(r: &Return<'_>, process: &ProcessFold, handle: u64) {
    let key = process::stream_key(&r.task, r.frame.stream, r.cookie.is_twin());
    match r.cookie.on_leave(r.result) {
        Leave::Nothing => {}
        Leave::SetDevice => set_device(r, process),
        Leave::AddStream => add_stream(r, process, handle),
        Leave::RemoveStream => remove_stream(r, process),
        Leave::BeginCapture => {
            graph::begin(process, &key, r.task.tid, r.frame.graph);
            if let Some(stream) = found(&key) {
                stream.disarm();
            }
        }
        Leave::EndCapture => {
            graph::end_graph(process, &key, handle);
            end_capture(&key);
        }
        Leave::AbortCapture => end_capture(&key),
        Leave::FollowGraph => graph::follow_graph(r.task.pid, handle, r.frame.graph),
    }
}

#[inline(always)]
fn end_capture(key: &StreamKey) {
    if let Some(stream) = found(key) {
        stream.end_capture();
    }
}

#[inline(always)]
fn set_device(r: &Return<'_>, process: &ProcessFold) {
    let device = (r.frame.handle & 0x7fff_ffff) + 1;
    process::set_device(process, r.task.tid, device);
    if let Some(thread) = maps::known_thread(r.task.pid, r.task.tid) {
        thread.device = device;
    }
}
