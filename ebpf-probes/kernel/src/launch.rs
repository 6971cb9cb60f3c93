//! A kernel launch begins: the hot path, a program of its own.
//!
//! It does what [`crate::enter`] does for every other call, with the little that a launch needs. What happens once
//! per stream or step, or for rare rows, is put out of line: the stack stays below 64 bytes (`cargo xtask bpf`
//! does not check it; the verifier's log tells), above which Linux 6.13 gives a program a stack of its own, and copying
//! user memory there costs more checks.
//!
//! Cost: one cookie, one pid, two hash look-ups, one read of user memory, six uncontended additions. No ring, and no
//! clock once a step has begun.

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::programs::ProbeContext;
use table::atomic::Relaxed;
use table::counters::Drop;
use table::fold::{Enqueue, StreamFold};
use table::record::{ProcessFold, StreamKey};
use table::{Cookie, Grid, Slot};

use crate::maps;
use crate::process;
use crate::regs::{Regs, read_user, read_user_into};
use crate::task::Task;

/// The entry program of launches whose return is not probed.
#[inline(always)]
pub fn run(ctx: &ProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let task = Task::current();
    // One place on the stack serves as the key of both look-ups, and as the buffer of the read between them.
    let mut key = StreamKey { pid: task.pid, tid: 0, stream: 0 };
    let process = process::traced_by(&key.pid, task.tid)?;
    if cookie.is_driver() && process::is_made_by_runtime(task.pid, task.tid, ctx.regs) {
        return count_suppressed();
    }
    let regs = Regs::new(ctx.regs);
    process.calls[cookie.id() as usize & 255].fetch_add(1, Relaxed);
    read_stream(cookie, &regs, &mut key.stream);
    key.settle(task.tid, cookie.is_twin());
    let Some(fold) = maps::found(&key).or_else(|| new_stream(&key)) else { return count_dropped() };
    if fold.is_capturing() {
        return capture(process, fold);
    }
    if fold.is_fresh() {
        begin_step(task.tid, process, fold, &key);
    }
    fold.launch(
        task.tid,
        &Enqueue { threads: threads(cookie, ctx.regs), identity: function(cookie, &regs), bytes: 0 },
    );
    process.launches.fetch_add(1, Relaxed);
    Some(())
}

#[inline(always)]
fn read_stream(cookie: Cookie, regs: &Regs, into: &mut u64) {
    match cookie.stream() {
        Slot::IN_CONFIG => read_user_into(regs.argument::<1>().wrapping_add(32), into),
        Slot(8) => regs.read_argument::<8>(into),
        _ => regs.read_argument::<9>(into),
    }
}

/// The launched function stands first, but behind the configuration where there is one.
#[inline(always)]
fn function(cookie: Cookie, regs: &Regs) -> u64 {
    // Both are read: a load through a chosen pointer is one that the verifier refuses.
    let (first, second) = (regs.argument::<1>(), regs.argument::<2>());
    if cookie.has_grid(Grid::Config) { second } else { first }
}

#[inline(always)]
fn low(word: u64) -> u64 {
    word & 0xffff_ffff
}

/// Two halves of a word multiplied: x and y of a `dim3`.
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

// Below: out of line, and under plain names, so that the object does not depend on where its sources lie.

/// Grid at 0 and block at 12 of the configuration, six 32-bit integers.
#[unsafe(no_mangle)]
#[inline(never)]
fn threads_in_config(config: u64) -> u64 {
    match read_user::<[u64; 3]>(config) {
        Ok([xy, zx, yz]) => pair(xy).wrapping_mul(pair(zx)).wrapping_mul(pair(yz)),
        Err(_) => 0,
    }
}

/// Blocks, and threads per block where the row has them, an argument each.
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

/// A stream's first work: once per stream.
#[unsafe(no_mangle)]
#[inline(never)]
fn new_stream(key: &StreamKey) -> Option<&'static StreamFold> {
    maps::stream(key)
}

/// A step's first work: once per step.
#[unsafe(no_mangle)]
#[inline(never)]
fn begin_step(tid: u32, process: &ProcessFold, fold: &StreamFold, key: &StreamKey) {
    fold.begin(&Task { pid: key.pid, tid }.stamp());
    process::remember(process, key);
}

#[unsafe(no_mangle)]
#[inline(never)]
fn capture(process: &ProcessFold, fold: &StreamFold) -> Option<()> {
    fold.capture();
    process.folded.fetch_add(1, Relaxed);
    Some(())
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_suppressed() -> Option<()> {
    maps::counters()?.suppressed.fetch_add(1, Relaxed);
    None
}

#[unsafe(no_mangle)]
#[inline(never)]
fn count_dropped() -> Option<()> {
    maps::counters()?.dropped[Drop::StreamsFull as usize].fetch_add(1, Relaxed);
    None
}
