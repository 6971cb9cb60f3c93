//! What a step record costs the agent, from its bytes in the ring to the instruments, collections and outlier spans
//! included: `cargo run --release -p benches --bin step_cost`.
//!
//! Promise: at most 5 µs.

use std::time::Instant;

use benches::{Promise, median, records};
use event::decode::{Record, decode};
use event::{Event, ProcessId, ProcessInfo};
use gpu::{Analyzer, Settings};

const STEPS: u64 = 20_000;
const ROUNDS: usize = 9;

fn main() {
    let ring: Vec<Vec<u8>> = (0..STEPS).map(|n| records::bytes(&records::step(n))).collect();
    let us = median((0..ROUNDS).map(|_| round(&ring)));
    Promise { what: "µs per step record", at_most: 5.0 }.print(us);
}

fn round(ring: &[Vec<u8>]) -> f64 {
    let mut analyzer = Analyzer::new(Settings::default());
    let process = ProcessId { pid: 1_000, start_ns: 1 };
    let mut sink = |batch: gpu::Batch| drop(std::hint::black_box(batch));
    analyzer.observe(&Event::Process(Box::new(ProcessInfo { process, ..ProcessInfo::default() })), &mut sink);
    let began = Instant::now();
    for bytes in ring {
        if let Ok(Record::Step(step)) = decode(bytes) {
            analyzer.observe(&Event::Step(step), &mut sink);
        }
    }
    began.elapsed().as_nanos() as f64 / 1e3 / ring.len() as f64
}
