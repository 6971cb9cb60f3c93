//! NCCL from end to end: stub processes that are late, hang and die, seen by real probes and judged by the real binary.
//!
//! What the player's own log says is the truth that everything told is compared with. Needs root; what is missing is
//! said. The variable `WARPTAP_NCCL_LONG` names how many times over the parts with an element of chance are done, and
//! lets the long ones run; see each test.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, which say why they are skipped and what they measured"
)]

mod agreement;
mod endings;
mod exact;
mod job;
#[path = "../live/mod.rs"]
mod live;
mod memory;
mod verdicts;

/// How many times over what has an element of chance is done.
fn times() -> usize {
    std::env::var("WARPTAP_NCCL_LONG").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// True where the long tests were asked for.
fn is_long() -> bool {
    std::env::var_os("WARPTAP_NCCL_LONG").is_some()
}
