//! The agent's cost of a collective from its ring record to the instruments, including the waits for it, metric
//! collections and the traces of the default rate: `cargo run --release -p benches --bin collective_cost`.
//!
//! Promise: 20,000 collectives per second on a node take at most 3 % of one core, which is 1.5 µs for each. Waits are
//! included: a training loop waits once for a bucket of collectives, here eight.

#![expect(clippy::print_stdout, reason = "a command for the terminal")]

use std::time::Instant;

use benches::collectives::{Node, RANKS};
use benches::{Promise, median};
use event::Event;
use event::decode::{Record, decode};
use gpu::{Analyzer, Settings};

/// Number of collectives of each rank in a round.
const COLLECTIVES: u64 = 4_000;
const ROUNDS: usize = 7;
/// Collectives per second on a node, all ranks together.
const RATE: f64 = 20_000.0;

fn main() {
    let node = Node::new(COLLECTIVES);
    for (late_ns, promise) in [(0, "no rank late"), (20_000_000, "one rank late by 20 ms")] {
        let ring = node.ring(late_ns);
        let us = median((0..ROUNDS).map(|_| round(&node, &ring)));
        println!("{promise}: {us:.3} µs per collective");
        Promise { what: "% of a core at 20,000 collectives a second", at_most: 3.0 }.print(us * RATE / 1e4);
    }
}

fn round(node: &Node, ring: &[Vec<u8>]) -> f64 {
    let mut analyzer = Analyzer::new(Settings::default());
    let mut sink = |batch: gpu::Batch| drop(std::hint::black_box(batch));
    node.begin().iter().for_each(|event| analyzer.observe(event, &mut sink));
    let began = Instant::now();
    for bytes in ring {
        match decode(bytes) {
            Ok(Record::CallArgs(args)) => analyzer.observe(&Event::CallArgs(args), &mut sink),
            Ok(Record::Step(step)) => analyzer.observe(&Event::Step(step), &mut sink),
            other => panic!("the ring holds records of the kernel: {other:?}"),
        }
    }
    began.elapsed().as_nanos() as f64 / 1e3 / (COLLECTIVES * u64::from(RANKS)) as f64
}
