//! Memory that remains after communicators were created, used and destroyed:
//! `cargo run --release -p benches --bin communicator_memory`.
//!
//! Promise: after 10,000 communicators the program is at most 5 % larger than after 1,000.

#![expect(clippy::print_stdout, reason = "a command for the terminal")]

use benches::Promise;
use benches::collectives::Node;
use gpu::{Analyzer, Settings};

const FIRST: u64 = 1_000;
const ALL: u64 = 10_000;

fn main() -> anyhow::Result<()> {
    let node = Node::new(0);
    let mut analyzer = Analyzer::new(Settings::default());
    let mut sink = |batch: gpu::Batch| drop(std::hint::black_box(batch));
    node.begin().iter().for_each(|event| analyzer.observe(event, &mut sink));
    let mut live = |numbers: std::ops::Range<u64>| {
        let events = numbers.flat_map(|number| node.communicator(number));
        events.for_each(|event| analyzer.observe(&event, &mut sink));
    };
    live(0..FIRST);
    let before = resident_bytes()?;
    live(FIRST..ALL);
    let after = resident_bytes()?;
    println!("{before} bytes after {FIRST} communicators, {after} after {ALL}");
    Promise { what: "growth", at_most: 1.05 }.print(after as f64 / before as f64);
    Ok(())
}

/// Returns the resident memory of this process in bytes.
fn resident_bytes() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = text.split_whitespace().nth(1).unwrap_or_default().parse()?;
    Ok(pages * 4096)
}
