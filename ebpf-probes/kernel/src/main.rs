//! The kernel programs: seven of them, and none knows CUDA.
//!
//! `enter` and `leave` run at the entry and return of every probed function, `launch` at the entry of the one kind
//! that is called thousands of times a second; the attach cookie ([`probe_abi::Cookie`]) tells them what the call means.
//! `args_enter` and `args_leave` run at both ends of those functions of which each call is told whole.
//! `exec` and `exit` keep threads and processes honest.
//! Work is folded into maps ([`probe_abi::fold`]); a record leaves only for a step, an allocation, an error, a
//! process. Every call that is seen ends in exactly one of folded, delivered, sampled out or dropped.

#![no_std]
#![no_main]

mod call_args;
mod context;
mod emit;
mod enter;
mod frames;
mod frontier;
mod graph;
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

/// A probed function is entered.
#[uprobe]
pub fn enter(ctx: ProbeContext) -> u32 {
    let _ = enter::run(&ctx);
    0
}

/// A kernel is launched by a function whose return is not probed.
#[uprobe]
pub fn launch(ctx: ProbeContext) -> u32 {
    let _ = launch::run(&ctx);
    0
}

/// A probed function returns.
#[uretprobe]
pub fn leave(ctx: RetProbeContext) -> u32 {
    let _ = leave::run(&ctx);
    0
}

/// A function is entered whose calls are told whole.
#[uprobe]
pub fn args_enter(ctx: ProbeContext) -> u32 {
    let _ = call_args::enter(&ctx);
    0
}

/// It returns.
#[uretprobe]
pub fn args_leave(ctx: RetProbeContext) -> u32 {
    let _ = call_args::leave(&ctx);
    0
}

/// A process runs another program.
#[raw_tracepoint(tracepoint = "sched_process_exec")]
pub fn exec(_ctx: RawTracePointContext) -> i32 {
    life::exec();
    0
}

/// A thread ends.
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
