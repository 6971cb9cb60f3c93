//! What a probe hit costs: `cargo run --release -p benches --bin probe_cost`. Needs root.
//!
//! Promises: a folded launch at most 1.20 times an empty entry probe, a timed call at most 1.35 times an empty pair.
//! All variants run in turn in one process, so that the machine's moods fall on all alike; the ratio is the median
//! of the rounds' ratios.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use benches::{Promise, median};
use capture::cost::{Bench, Variant};

const ROUNDS: usize = 15;

fn main() {
    if let Err(error) = run() {
        eprintln!("skipped: {error}");
    }
}

fn run() -> Result<(), capture::CaptureError> {
    let mut bench = Bench::new()?;
    let mut ns = vec![Vec::new(); Variant::ALL.len()];
    for _ in 0..ROUNDS {
        for (variant, all) in Variant::ALL.into_iter().zip(&mut ns) {
            all.push(bench.measure(variant, 3)?);
        }
    }
    for (variant, all) in Variant::ALL.iter().zip(&ns) {
        println!("{:<12} {:7.1} ns", format!("{variant:?}"), median(all.iter().copied()));
    }
    let ratio = |a: usize, b: usize| median(ns[a].iter().zip(&ns[b]).map(|(a, b)| a / b));
    Promise { what: "folded launch / empty entry probe", at_most: 1.20 }.print(ratio(2, 1));
    Promise { what: "timed call / empty entry and return probe", at_most: 1.35 }.print(ratio(4, 3));
    Ok(())
}
