//! The cost of a probe hit: `cargo run --release -p benches --bin probe_cost`. Needs root.
//!
//! Promises: a folded launch, counted by function, at most 1.15 times an empty entry probe, a timed call at most 1.20
//! times an empty entry and return pair, a graph launch with the contents of its graph at most 1.05 times a timed call, a
//! recorded collective at most 1.25 times an empty pair. The uprobe sessions are for comparison: the agent uses none.
//! All variants run in turn in one process, a fraction of a millisecond each, so that disturbances of the machine affect
//! all alike. A figure is the median over all turns, a ratio is that of two medians.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use benches::{Promise, median};
use capture::cost::{Bench, Variant};

const TURNS: usize = 3_000;

fn main() {
    if let Err(error) = run() {
        eprintln!("skipped: {error}");
    }
}

fn run() -> Result<(), capture::CaptureError> {
    let mut bench = Bench::new()?;
    let turns: Vec<_> = (0..TURNS).map(|_| bench.window()).collect();
    let ns = |at: usize| median(turns.iter().map(|turn| turn[at]));
    for (at, variant) in Variant::ALL.iter().enumerate() {
        println!("{:<12} {:7.1} ns", format!("{variant:?}"), ns(at));
    }
    Promise { what: "folded launch / empty entry probe", at_most: 1.15 }.print(ns(2) / ns(1));
    Promise { what: "timed call / empty entry and return probe", at_most: 1.20 }.print(ns(4) / ns(3));
    Promise { what: "graph launch / timed call", at_most: 1.05 }.print(ns(7) / ns(4));
    for (at, what) in [(5, "all-gather"), (6, "all-reduce, its stream on the stack")] {
        let what = &format!("{what} / empty entry and return probe");
        Promise { what, at_most: 1.25 }.print(ns(at) / ns(3));
    }
    Ok(())
}
