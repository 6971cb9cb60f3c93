//! Measures the cost of a collective. Ignored by default because the result depends on the machine. Run it with `cargo test --release -p nccl --test cost -- --ignored --nocapture`.

mod sim;

use std::hint::black_box;
use std::time::Instant;

use nccl::{Engine, Settings};
use sim::{Job, MS, S, Watch, allocated_bytes};

/// Collectives per second on a node to which the CPU share refers.
const RATE: f64 = 20_000.0;

fn measure(count: usize, rounds: usize, late_ms: u64) -> String {
    let mut job = Job::new(count, 1000, 1);
    let mut watch = Watch::new(Settings::default());
    job.now_ns = S;
    job.init(&mut watch);
    let mut observations = Vec::new();
    for _ in 0..rounds {
        let mut round = job.round(|rank| Some(if rank == 1 { late_ms * MS } else { 0 }));
        round.sort_by_key(|o| o.at_ns());
        observations.append(&mut round);
    }
    let mut engine: Engine = watch.engine;
    let (mut findings, mut found) = (0, Vec::new());
    let start = Instant::now();
    observations.iter().for_each(|o| {
        engine.observe(black_box(o), &mut found);
        findings += found.drain(..).filter(|f| matches!(black_box(f), nccl::Finding::Completed(_))).count();
    });
    let ns = start.elapsed().as_nanos() as f64 / (rounds * count) as f64;
    assert!(findings > 0);
    let before = allocated_bytes();
    drop(engine);
    format!(
        "{count} ranks, one late by {late_ms} ms: {ns:.0} ns a collective and its wait, {:.2} % of a core at {RATE} a second; {} bytes of memory",
        ns * RATE / 1e7,
        before - allocated_bytes()
    )
}

#[test]
#[ignore = "the result depends on the machine"]
fn cost_of_a_collective() {
    for (count, rounds) in [(1, 200_000), (8, 40_000), (64, 5_000)] {
        for late_ms in [0, 20] {
            println!("{}", measure(count, rounds, late_ms));
        }
    }
}
