//! Real probes on real calls, as root: the kernel's records compared with the logs of players.
//!
//! Durations are not tested, since they depend on the load of the machine. Without permission to load eBPF programs,
//! every test prints so and passes.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, reason = "a test")]

mod account;
mod budget;
mod contexts;
mod contexts_real;
mod detail;
mod endings;
mod functions;
mod hand_over;
mod hostile;
mod late;
mod libraries;
mod mapped;
mod names;
mod nccl;
mod nccl_hash;
mod nccl_real;
mod nvidia;
mod pins;
mod ranks;
mod rig;
mod rows;
mod scripts;
mod selection;
mod steps;
mod sums;
mod traces;
mod unanswering;
mod unsteady;

/// The entry point of a player process; not a test.
#[test]
fn player_process() {
    simulator::player::main_by_variable(rig::PLAYER);
    if let Ok(code) = std::env::var(rig::EXIT) {
        std::process::exit(code.parse().unwrap());
    }
}

/// The entry point of an agent in its own process; not a test.
#[test]
fn agent_process() {
    if let Ok(arguments) = std::env::var(pins::AGENT) {
        pins::run_agent(&arguments);
    }
}

/// The entry point of a guard; not a test.
#[test]
fn guard_process() {
    // Not started as a guard.
    let _ = capture::guard();
}

/// The entry point of a process that calls NVIDIA's library; not a test.
#[test]
fn calling_process() {
    if let Ok(arguments) = std::env::var(nvidia::CALLER)
        && let Some((library, log)) = arguments.split_once('\n')
    {
        nvidia::call_everything(library, log);
    }
    if let Ok(arguments) = std::env::var(names::CALLER)
        && let Some((library, function)) = arguments.split_once('\n')
    {
        names::record(library.as_ref(), function);
    }
    if let Ok(arguments) = std::env::var(budget::CALLER)
        && let Some((stubs, state)) = arguments.split_once('\n')
    {
        budget::storm(stubs.as_ref(), state.as_ref());
    }
    if let Ok(arguments) = std::env::var(contexts::CALLER)
        && let Some((publisher, stubs)) = arguments.split_once('\n')
    {
        contexts::publish_and_call(publisher.as_ref(), stubs.as_ref());
    }
    if std::env::var_os(hostile::CALLER).is_some() {
        hostile::run();
    }
    if let Ok(arguments) = std::env::var(mapped::CALLER) {
        mapped::map_and_call(&arguments);
    }
    if let Ok(arguments) = std::env::var(selection::CALLER) {
        selection::call_and_exec(&arguments);
    }
    if let Ok(arguments) = std::env::var(nccl_real::CALLER)
        && let Some((library, log)) = arguments.split_once('\n')
    {
        nccl_real::call_everything(library, log);
    }
}
