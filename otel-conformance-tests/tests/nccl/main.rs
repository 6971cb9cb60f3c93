//! NCCL from end to end: stub processes that are late, hang and exit, traced by real probes and the real binary.
//!
//! Everything reported is compared with the player's oracle log. Needs root; the reason for a skip is printed. The variable
//! `WARPTAP_NCCL_LONG` enables the long tests and is the number of repetitions of those that depend on chance.
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

/// Returns the number of repetitions of tests that depend on chance.
fn times() -> usize {
    std::env::var("WARPTAP_NCCL_LONG").ok().and_then(|times| times.parse().ok()).unwrap_or(1)
}

/// Returns true if long tests are enabled.
fn is_long() -> bool {
    std::env::var_os("WARPTAP_NCCL_LONG").is_some()
}
