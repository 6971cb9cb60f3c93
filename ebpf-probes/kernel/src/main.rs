//! The kernel programs: seven, independent of CUDA.
//!
//! `enter` and `leave` run at the entry and return of every probed function, `launch` at the entry of kernel launches,
//! which are called thousands of times a second; the attach cookie ([`probe_abi::Cookie`]) describes the call.
//! `args_enter` and `args_leave` run at both ends of functions whose calls are recorded with their arguments. `exec`
//! and `exit` remove the state of threads and processes. Work is folded into maps ([`probe_abi::fold`]); a record is
//! sent for a step, an allocation, an error or a process. Every hit has exactly one outcome: folded, delivered,
//! sampled out or dropped.

#![no_std]
#![no_main]

mod call_args;
mod context;
mod emit;
mod enter;
mod frames;
mod frontier;
mod function;
mod graph;
mod iteration;
mod launch;
mod leave;
mod life;
mod maps;
mod process;
mod regs;
mod stream;
mod task;

use aya_ebpf::macros::{raw_tracepoint, uprobe, uretprobe};
use aya_ebpf::programs::{ProbeContext, RawTracePointContext, RetProbeContext};

/// Runs at the entry of a probed function.
#[uprobe]
pub fn enter(ctx: ProbeContext) -> u32 {
    let _ = enter::run(&ctx);
    0
}

/// Runs at the entry of a launch whose return is not probed.
#[uprobe]
pub fn launch(ctx: ProbeContext) -> u32 {
    let _ = launch::run(&ctx);
    0
}

/// Runs at the return of a probed function.
#[uretprobe]
pub fn leave(ctx: RetProbeContext) -> u32 {
    let _ = leave::run(&ctx);
    0
}

/// Runs at the entry of a function whose calls are recorded with their arguments.
#[uprobe]
pub fn args_enter(ctx: ProbeContext) -> u32 {
    let _ = call_args::enter(&ctx);
    0
}

/// Runs at the return of a function whose calls are recorded with their arguments.
#[uretprobe]
pub fn args_leave(ctx: RetProbeContext) -> u32 {
    let _ = call_args::leave(&ctx);
    0
}

/// Runs when a process executes another program.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn exec(_ctx: RawTracePointContext) -> i32 {
    life::exec();
    0
}

/// Runs when a thread ends.
#[raw_tracepoint(tracepoint = "sched_process_exit")]
pub fn exit(_ctx: RawTracePointContext) -> i32 {
    life::exit();
    0
}

#[panic_handler]
fn panic(_info: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: no code path panics: indices are masked or checked. The verifier refuses an object where one could.
    unsafe { core::hint::unreachable_unchecked() }
}

#[unsafe(link_section = "license")]
#[unsafe(no_mangle)]
static LICENSE: [u8; 13] = *b"Dual MIT/GPL\0";
