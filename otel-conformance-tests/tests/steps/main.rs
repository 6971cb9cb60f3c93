//! Steps end to end: a throttled GPU, slow calls and the application's own trace, with real probes, a stub driver
//! and the real binary.
//!
//! All reports are compared with the player's log. Needs root; the reason for a skip is printed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests, which say why they are skipped and what they measured"
)]

mod context;
mod detail;
#[path = "../live/mod.rs"]
mod live;
mod throttle;

use std::path::Path;

use live::inbox::ReportedItem;
use simulator::oracle::{CallLine, Line, StepLine, read};

/// The log of a player.
struct Log {
    calls: Vec<CallLine>,
    /// Steps with an injected fault.
    slow: Vec<StepLine>,
}

impl Log {
    /// Reads the log of the player with this name.
    fn read(dir: &Path, name: &str) -> Log {
        let mut log = Log { calls: Vec::new(), slow: Vec::new() };
        for line in read(&dir.join(format!("{name}.oracle"))).unwrap() {
            match line {
                Line::Call(call) => log.calls.push(call),
                Line::Step(step) if !step.fault.is_empty() => log.slow.push(step),
                _ => {}
            }
        }
        log
    }
}

/// Converts the player's clock to ns since 1970.
fn unix(ns: u64) -> u64 {
    ns.wrapping_add_signed(capture::offsets().to_unix_ns)
}

/// Returns the spans of outliers that overlap a step; noise of the machine may cause others.
fn outliers_in<'a>(spans: &'a [ReportedItem], step: &StepLine) -> Vec<&'a ReportedItem> {
    let (from, to) = (unix(step.first_ns), unix(step.exit_ns));
    let overlaps =
        |s: &&ReportedItem| s.name.starts_with("infer.outlier.") && s.at_ns < to && s.end_ns > from;
    spans.iter().filter(|s| s.pid == step.pid).filter(overlaps).collect()
}
