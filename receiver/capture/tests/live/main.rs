//! Real probes on real calls, as root: what the kernel saw against what the players say they did.
//!
//! Not for timing: durations come from the machine's mood. Without the right to load eBPF programs every test says so
//! and passes.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "a test")]

mod account;
mod contexts;
mod contexts_real;
mod detail;
mod endings;
mod libraries;
mod nccl;
mod nccl_hash;
mod nccl_real;
mod nvidia;
mod ranks;
mod rig;
mod rows;
mod scripts;
mod steps;
mod sums;
mod traces;

/// Not a test: this is where a player's process begins.
#[test]
fn player_process() {
    simulator::player::main_by_variable(rig::PLAYER);
    if let Ok(code) = std::env::var(rig::EXIT) {
        std::process::exit(code.parse().unwrap());
    }
}

/// Not a test either: where a process begins that calls NVIDIA's library.
#[test]
fn calling_process() {
    if let Ok(arguments) = std::env::var(nvidia::CALLER)
        && let Some((library, told)) = arguments.split_once('\n')
    {
        nvidia::call_everything(library, told);
    }
    if let Ok(arguments) = std::env::var(contexts::CALLER)
        && let Some((publisher, stubs)) = arguments.split_once('\n')
    {
        contexts::publish_and_call(publisher.as_ref(), stubs.as_ref());
    }
    if let Ok(arguments) = std::env::var(nccl_real::CALLER)
        && let Some((library, told)) = arguments.split_once('\n')
    {
        nccl_real::call_everything(library, told);
    }
}
