//! How fast ring records decode: `cargo run --release -p benches --bin decode`.
//!
//! Promise: at least 3 million per second on one core, that is at most 333 ns each.

#![expect(clippy::print_stdout, reason = "a command for the terminal")]

use std::hint::black_box;
use std::time::Instant;

use benches::{Promise, median, records};

const RECORDS: usize = 1_000;
const ROUNDS: usize = 2_000;

fn main() {
    let ring: Vec<Vec<u8>> = (0..RECORDS as u64).map(|n| records::bytes(&records::step(n))).collect();
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        for record in &ring {
            _ = black_box(event::decode::decode(black_box(record)));
        }
        began.elapsed().as_nanos() as f64 / RECORDS as f64
    });
    let ns = median(rounds);
    println!("{:.1} million records per second", 1e3 / ns);
    Promise { what: "ns per record", at_most: 333.0 }.print(ns);
}
