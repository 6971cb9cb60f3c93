//! The agent's cost of a step record from the ring to the instruments, including metric collections and outlier spans,
//! and the cost of a node full of processes: `cargo run --release -p benches --bin step_cost`.
//!
//! Promises: at most 5 µs per record; 64 processes of 200 steps per second each take at most 5 % of a core.

use std::time::Instant;

use benches::{Promise, median, records};
use event::decode::{Record, decode};
use event::{Event, ProcessId, ProcessInfo, StepRecord};
use gpu::{Analyzer, Settings};

const STEPS: u64 = 20_000;
const ROUNDS: usize = 9;
/// The node: number of processes, and steps of each per second.
const PROCESSES: u32 = 64;
const STEPS_PER_SECOND: u64 = 200;
/// Seconds that are analysed: three metric collections.
const SECONDS: u64 = 30;

fn main() {
    let alone: Vec<Vec<u8>> = (0..STEPS).map(|n| records::bytes(&records::step(n))).collect();
    let us = median((0..ROUNDS).map(|_| 1e6 * round(1, &alone) / alone.len() as f64));
    Promise { what: "µs per step record", at_most: 5.0 }.print(us);
    let node: Vec<Vec<u8>> = (0..SECONDS * STEPS_PER_SECOND).flat_map(tick).collect();
    let share = median((0..3).map(|_| 100.0 * round(PROCESSES, &node) / SECONDS as f64));
    Promise { what: "% of a core for 64 processes of 200 steps per second", at_most: 5.0 }.print(share);
}

/// Returns one step of every process of the node.
fn tick(n: u64) -> Vec<Vec<u8>> {
    (1_000..1_000 + PROCESSES).map(|pid| records::bytes(&of(pid, n))).collect()
}

/// Returns step number `n` of a process, with a duration that fits the rate.
fn of(pid: u32, n: u64) -> StepRecord {
    let mut step = records::step(n);
    let period_ns = 1_000_000_000 / STEPS_PER_SECOND;
    (step.header.pid, step.header.tid, step.first_tid) = (pid, pid, pid);
    step.header.duration_ns /= 8;
    step.first_ns = n * period_ns + u64::from(pid);
    step.header.entry_ns = step.first_ns + period_ns / 5;
    step.recorded_ns = step.header.entry_ns;
    step.previous_exit_ns = step.first_ns.saturating_sub(period_ns / 10);
    step
}

/// Returns the seconds that the analysis of these records takes.
fn round(processes: u32, ring: &[Vec<u8>]) -> f64 {
    let mut analyzer = Analyzer::new(Settings::default());
    let mut sink = |batch: gpu::Batch| drop(std::hint::black_box(batch));
    for pid in 1_000..1_000 + processes {
        let process = ProcessId { pid, start_ns: 1 };
        let info = ProcessInfo { process, ..ProcessInfo::default() };
        analyzer.observe(&Event::Process(Box::new(info)), &mut sink);
    }
    let began = Instant::now();
    for bytes in ring {
        if let Ok(Record::Step(step)) = decode(bytes) {
            analyzer.observe(&Event::Step(step), &mut sink);
        }
    }
    began.elapsed().as_secs_f64()
}
