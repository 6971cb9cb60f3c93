//! Entry of a kernel launch: the hot path, in a program of its own. It also runs at the entry of registrations of
//! functions, which have no probed return either.
//!
//! Almost every launch only adds to the sums of a hot slot ([`probe_abi::hot`]). The others (the first of a step, a
//! stream without a slot, a new process, a capture) do out of line what [`crate::enter`] does for other calls, and
//! prepare the slot for the next launch.
//!
//! Cost: one pid, one read of user memory, five uncontended additions; no look-up, no ring, no clock. Each call of a
//! kernel function counts (20 ns where returns are protected against speculation), so user space makes the cookie a
//! constant of the program where it can. The stack stays below 64 bytes; above that, Linux 6.13 gives a program a
//! stack of its own, and reading user memory to it costs more checks (`cargo xtask bpf` does not check this; the
//! verifier's log shows it).

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::programs::ProbeContext;
use probe_abi::atomic::Relaxed;
use probe_abi::counters::DropReason;
use probe_abi::fold::{Enqueue, StreamFold};
use probe_abi::hot::HotProcess;
use probe_abi::record::{ROWS, StreamKey};
use probe_abi::{Action, ArgPos, Cookie, Grid};

use crate::function;
use crate::graph;
use crate::maps;
use crate::process;
use crate::regs::{Regs, read_user, read_user_into};
use crate::stream::is_capturing;
use crate::task::Task;

/// Runs at the entry of a launch whose return is not probed.
#[inline(always)]
pub fn run(ctx: &ProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    if cookie.is(Action::RegisterFunction) {
        return function::register(cookie, ctx.regs);
    }
    let task = Task::current();
    let Some(process) = process::hot(task.pid) else { return fold_launch(cookie, ctx.regs) };
    // Each launch through the runtime is also one of the driver's, so this is as frequent as the rest.
    if cookie.is_driver() && process::is_made_by_runtime(task.pid, task.tid, ctx.regs) {
        return maps::count_suppressed();
    }
    match add(cookie, &task, process, ctx.regs) {
        Some(()) => Some(()),
        None => fold_launch(cookie, ctx.regs),
    }
}

/// Counts a launch in the stream's slot; `None` if that is not enough, or not known to be.
#[inline(always)]
fn add(cookie: Cookie, task: &Task, process: &HotProcess, raw: *mut pt_regs) -> Option<()> {
    let mut key = StreamKey { pid: task.pid, tid: 0, stream: 0 };
    read_stream(cookie, &Regs::new(raw), &mut key.stream);
    key.settle(task.tid, cookie.is_twin());
    if key.stream == 0 {
        key.stream = process::default_stream(task.tid);
    }
    let stream = maps::hot_stream(&key).filter(|stream| stream.is_of(&key))?;
    let own = stream.armed();
    if own == 0 {
        return None;
    }
    let mut call = enqueue(cookie, raw);
    call.lane = function::count(process, task, call.identity, cookie, raw)?;
    process.calls[cookie.id() as usize & (ROWS - 1)].fetch_add(1, Relaxed);
    stream.launch(task.tid, own, &call);
    process.launches.fetch_add(1, Relaxed);
    Some(())
}

/// Returns the work of a launch, without its lane.
#[inline(always)]
fn enqueue(cookie: Cookie, raw: *mut pt_regs) -> Enqueue {
    let identity = launched_function(cookie, &Regs::new(raw));
    Enqueue { threads: threads(cookie, raw), identity, ..Enqueue::default() }
}

/// Returns the work of a launch, and counts it as one of its function.
#[inline(always)]
pub fn enqueue_numbered(cookie: Cookie, raw: *mut pt_regs, task: &Task) -> Enqueue {
    let call = enqueue(cookie, raw);
    Enqueue { lane: function::number(cookie, raw, task.pid, task.tid, call.identity), ..call }
}

/// Reads the stream of a launch into `into`.
#[inline(always)]
pub fn read_stream(cookie: Cookie, regs: &Regs, into: &mut u64) {
    match cookie.stream() {
        ArgPos::IN_CONFIG => read_user_into(regs.argument::<1>().wrapping_add(32), into),
        ArgPos(8) => regs.read_argument::<8>(into),
        _ => regs.read_argument::<9>(into),
    }
}

/// Returns the address of the launched function: the first argument, or the second after a configuration.
#[inline(always)]
fn launched_function(cookie: Cookie, regs: &Regs) -> u64 {
    // Both are read: the verifier refuses a load through a chosen pointer.
    let (first, second) = (regs.argument::<1>(), regs.argument::<2>());
    if cookie.has_grid(Grid::Config) { second } else { first }
}

#[inline(always)]
fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

/// Multiplies the halves of a word: x and y of a `dim3`.
#[inline(always)]
fn pair(word: u64) -> u64 {
    low(word).wrapping_mul(word >> 32)
}

#[inline(always)]
fn threads(cookie: Cookie, raw: *mut pt_regs) -> u64 {
    let regs = Regs::new(raw);
    if cookie.has_grid(Grid::Dim3) {
        let blocks = pair(regs.argument::<2>()).wrapping_mul(low(regs.argument::<3>()));
        return blocks.wrapping_mul(pair(regs.argument::<4>())).wrapping_mul(low(regs.argument::<5>()));
    }
    match cookie.has_grid(Grid::Config) {
        true => threads_in_config(regs.argument::<1>()),
        false => threads_in_words(cookie, raw),
    }
}

// The functions below are out of line and have plain names, so that the object does not depend on the path of its
// sources.

/// Multiplies grid, at 0, and block, at 12 of the configuration: six 32-bit integers.
#[unsafe(no_mangle)]
#[inline(never)]
fn threads_in_config(config: u64) -> u64 {
    match read_user::<[u64; 3]>(config) {
        Ok([xy, zx, yz]) => pair(xy).wrapping_mul(pair(zx)).wrapping_mul(pair(yz)),
        Err(_) => 0,
    }
}

/// Multiplies blocks and, where the row has them, threads per block: an argument each.
#[unsafe(no_mangle)]
#[inline(never)]
fn threads_in_words(cookie: Cookie, regs: *mut pt_regs) -> u64 {
    let regs = Regs::new(regs);
    let first = low(regs.argument::<2>()).wrapping_mul(low(regs.argument::<3>()));
    let first = first.wrapping_mul(low(regs.argument::<4>()));
    if cookie.has_grid(Grid::Threads) {
        return first;
    }
    let rest = low(regs.argument::<5>()).wrapping_mul(low(regs.argument::<6>()));
    first.wrapping_mul(rest).wrapping_mul(low(regs.argument::<7>()))
}

/// Folds a launch that a slot cannot count.
#[unsafe(no_mangle)]
#[inline(never)]
fn fold_launch(cookie: Cookie, raw: *mut pt_regs) -> Option<()> {
    let (task, regs) = (Task::current(), Regs::new(raw));
    if !process::is_traced(&task) {
        return None;
    }
    if cookie.is_driver() && process::is_made_by_runtime(task.pid, task.tid, raw) {
        return maps::count_suppressed();
    }
    process::count_hit(&task, cookie.id());
    let mut key = StreamKey { pid: task.pid, tid: 0, stream: 0 };
    read_stream(cookie, &regs, &mut key.stream);
    key.settle(task.tid, cookie.is_twin());
    if key.stream == 0 {
        key.stream = process::default_stream(task.tid);
    }
    let Some(fold) = maps::stream(&key) else { return maps::count_drop(DropReason::StreamsFull) };
    if is_capturing(&key, fold) {
        fold.capture();
        if let Some(capturing) = graph::capturing(&key, fold) {
            capturing.capture_launch(task.tid, &enqueue_numbered(cookie, raw, &task));
        }
        process::count_folded(&task);
        return Some(());
    }
    if fold.is_segment_empty() {
        begin_step(task.tid, fold, &key);
    }
    fold.launch(task.tid, &enqueue_numbered(cookie, raw, &task));
    process::count_launch(&task);
    arm(fold, &key)
}

/// Lets later launches count in the stream's slot, if it is free.
#[inline(always)]
fn arm(fold: &StreamFold, key: &StreamKey) -> Option<()> {
    let stream = maps::hot_stream(key)?;
    if stream.claim(key) {
        stream.arm(fold.own_thread());
        // A thread that changed the fold meanwhile disarmed the slot before this.
        if fold.is_segment_empty() || fold.is_capturing() {
            stream.disarm();
        }
    }
    Some(())
}

/// Begins a step with its first work.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn begin_step(tid: u32, fold: &StreamFold, key: &StreamKey) {
    let task = Task { pid: key.pid, tid };
    fold.begin(&task.stamp());
    fold.set_device(process::device(&task));
    if let Some(process) = process::find(&task) {
        process::add_active(process, key);
        if key.is_own_default() {
            process.blocking.store(1, Relaxed);
        }
    }
}
