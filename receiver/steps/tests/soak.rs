//! A million steps of one server, one in two hundred of them slow: hours of a busy one. Its p95 remains exact, and memory
//! constant.
//!
//! `STEPS_SOAK=1 cargo test --release -p steps --test soak -- --nocapture` runs it; without the variable it is skipped.

mod traffic;

use steps::{Engine, Finding, Phase, Settings};
use traffic::load::{Healthy, Load};
use traffic::{Rng, Server, Shape, allocated_bytes};

fn phase(shape: Shape) -> Phase {
    match shape {
        Shape::Prefill { .. } => Phase::Prefill,
        Shape::Decode { .. } => Phase::Decode,
    }
}

/// Returns the bytes that a copy of the engine allocates.
fn engine_bytes(engine: &Engine) -> usize {
    let before = allocated_bytes();
    let copy = engine.clone();
    let bytes = allocated_bytes() - before;
    drop(copy);
    bytes
}

#[test]
fn a_million_steps_neither_grow_memory_nor_move_the_p95() {
    if std::env::var_os("STEPS_SOAK").is_none() {
        return println!("skipped: set STEPS_SOAK=1 to run it");
    }
    const STEPS: usize = 1_000_000;
    let (mut server, mut healthy, mut rng) = (Server::new(1), Healthy::new(Load::Mixed, 0), Rng::new(0));
    let (mut engine, mut findings) = (Engine::new(Settings::default()), Vec::new());
    let (mut truth, mut sizes) = (Phase::ALL.map(|_| Vec::new()), Vec::new());
    let (mut levels, mut shifts): (Vec<(Phase, f64)>, u32) = (Vec::new(), 0);
    for at in 0..STEPS {
        let (shape, usual_ns) = healthy.next();
        let is_slow = at > 1_500 && rng.chance(0.005);
        truth[phase(shape) as usize].extend((!is_slow).then_some(usual_ns));
        let is_checked = at % 10_000 > 9_900;
        engine.observe(&server.step(shape, if is_slow { 4.0 * usual_ns } else { usual_ns }), &mut findings);
        for finding in findings.drain(..) {
            match finding {
                Finding::Step(step) if is_checked => {
                    levels.extend(step.baseline.map(|level| (step.phase, level.p95_ns)));
                }
                Finding::Step(_) => {}
                Finding::BaselineShift(_) => shifts += 1,
            }
        }
        sizes.extend((at % 100_000 == 99_999).then(|| engine_bytes(&engine)));
    }
    assert_eq!(shifts, 0);
    assert!(sizes.iter().all(|size| *size <= sizes[0]), "{sizes:?} bytes");
    truth.iter_mut().for_each(|values| values.sort_by(f64::total_cmp));
    let off = |(phase, p95_ns): &(Phase, f64)| {
        let values = &truth[*phase as usize];
        let rank = values.partition_point(|value| value <= p95_ns) as f64 / values.len() as f64;
        (rank - 0.95).abs()
    };
    let worst = levels.iter().map(off).fold(0.0, f64::max);
    let mean = levels.iter().map(off).sum::<f64>() / levels.len() as f64;
    println!("soak: {} bytes, rank of the p95 off by {mean:.4}, at most {worst:.4}", sizes[0]);
    // Measured: 0.0015 and 0.008. The latest steps are a sample of all of them, with another p95.
    assert!(mean < 0.005 && worst < 0.015, "{mean}, {worst}");
}
