//! The adaptive classifier on engines with known steps, in the proportions measured on real traces: threads per launch,
//! launches, graphs, copies.

use probe_abi::fold::{Counter, mix};

use super::*;
use crate::shape::StepWork;
use crate::testing::{Rng, allocated_bytes};

fn shape(rows: &[(Counter, f64)]) -> Shape {
    let mut work = StepWork::default();
    rows.iter().for_each(|(counter, value)| work.0[*counter as usize] = *value as u64);
    Shape::of(&work)
}

/// Returns an eager step with `threads` per launch.
fn eager(launches: f64, threads: f64, copies: f64) -> Shape {
    shape(&[(Counter::Launches, launches), (Counter::Threads, launches * threads), (Counter::Copies, copies)])
}

fn eager_decode(requests: f64) -> Shape {
    eager(700.0, 8_000.0 + 800.0 * requests, 12.0)
}

fn eager_prefill(tokens: f64) -> Shape {
    eager(768.0, 440.0 * tokens, 161.0)
}

/// Returns a decode by one graph, with eager sampling.
fn whole_decode(requests: f64) -> Shape {
    let graph = mix(requests as u64) as f64;
    shape(&[
        (Counter::Launches, 4.0),
        (Counter::Threads, 920_000.0 * requests),
        (Counter::GraphLaunches, 1.0),
        (Counter::Graphs, graph),
        (Counter::Copies, 9.0),
    ])
}

/// Returns a step of graphs with attention launched between them, `threads` per launch.
fn piecewise(threads: f64) -> Shape {
    shape(&[
        (Counter::Launches, 52.0),
        (Counter::Threads, 52.0 * threads),
        (Counter::GraphLaunches, 25.0),
        (Counter::Graphs, 77.0),
        (Counter::Copies, 10.0),
    ])
}

fn piecewise_mixed(tokens: f64) -> Shape {
    piecewise(420.0 * tokens)
}

fn piecewise_decode(requests: f64) -> Shape {
    piecewise(2_000.0 * requests)
}

/// Feeds the steps of an engine, and asserts the labels of those after the first hundred.
///
/// `right` is the least share labelled correctly, `wrong` the largest share labelled wrongly and not unknown. A mixed step may
/// be labelled prefill and vice versa: they can have the same shape.
#[track_caller]
fn check(right: f64, wrong: f64, mut next: impl FnMut(&mut Rng) -> (Shape, Phase)) {
    for seed in 0..4 {
        let (mut rng, mut clusters) = (Rng::new(seed), Clusters::default());
        let (mut rights, mut wrongs, mut sure_and_wrong, steps) = (0, 0, 0, 4_000);
        for step in 0..steps + 100 {
            let (shape, truth) = next(&mut rng);
            let label = clusters.label(&shape, Facts::default());
            assert!((0.0..=1.0).contains(&label.confidence));
            let reads = |phase| matches!(phase, Phase::Prefill | Phase::Mixed);
            let is_right = label.phase == truth || (reads(truth) && reads(label.phase));
            let is_wrong = !is_right && label.phase != Phase::Unknown;
            rights += u32::from(step >= 100 && is_right);
            wrongs += u32::from(step >= 100 && is_wrong);
            sure_and_wrong += u32::from(step >= 100 && is_wrong && label.confidence > 0.9);
        }
        let share = |count: u32| f64::from(count) / f64::from(steps);
        assert!(
            share(rights) >= right && share(wrongs) <= wrong && sure_and_wrong == 0,
            "seed {seed}: {:.3} right, {:.3} wrong, {sure_and_wrong} of them sure: {clusters:#?}",
            share(rights),
            share(wrongs)
        );
    }
}

/// Running requests, which start and end one by one, since answers take many steps.
#[derive(Clone, Copy, Debug)]
struct Batch {
    requests: f64,
    most: f64,
}

impl Batch {
    fn new(most: f64) -> Batch {
        Batch { requests: (most / 2.0).ceil(), most }
    }

    fn next(&mut self, rng: &mut Rng) -> f64 {
        let change = rng.pick(0.1, 1.0, 0.0) - rng.pick(0.1, 1.0, 0.0);
        self.requests = (self.requests + change).clamp(1.0, self.most);
        self.requests
    }
}

fn lengths(rng: &mut Rng) -> f64 {
    (600.0 * (0.7 * rng.normal()).exp()).clamp(64.0, 8_192.0)
}

#[test]
fn phases_of_an_eager_engine_are_distinguished() {
    let mut batch = Batch::new(48.0);
    check(0.99, 0.01, |r| match r.chance(0.1) {
        true => (eager_prefill(r.uniform(300.0, 8_000.0)), Phase::Prefill),
        false => (eager_decode(batch.next(r)), Phase::Decode),
    });
}

#[test]
fn phases_of_an_engine_with_whole_graphs_are_distinguished() {
    check(1.0, 0.0, |r| match r.chance(0.15) {
        true => (eager_prefill(lengths(r)), Phase::Prefill),
        false => (whole_decode((1u64 << r.below(8)) as f64), Phase::Decode),
    });
}

#[test]
fn a_decode_without_graph_is_never_certainly_a_prefill() {
    // A prompt of a few tokens after a cached prefix launches the same.
    check(0.98, 0.02, |r| match r.below(100) {
        0 => (eager(430.0, 12_000.0, 3.0), Phase::Decode),
        1..=5 => (eager(500.0, 333_000.0, 3.0), Phase::Prefill),
        _ => (whole_decode(16.0), Phase::Decode),
    });
}

#[test]
fn chunked_prefills_between_graph_decodes_are_recognised() {
    check(0.99, 0.0, |r| match r.chance(0.2) {
        true => (piecewise_mixed(r.uniform(256.0, 8_192.0)), Phase::Mixed),
        false => (whole_decode(32.0), Phase::Decode),
    });
}

#[test]
fn piecewise_decode_and_chunked_prefill_are_distinguished() {
    let mut batch = Batch::new(64.0);
    check(0.98, 0.01, |r| match r.chance(0.1) {
        true => (piecewise_mixed(r.uniform(2_000.0, 8_192.0)), Phase::Mixed),
        false => (piecewise_decode(batch.next(r)), Phase::Decode),
    });
}

#[test]
fn a_disaggregated_prefill_server_does_not_decode() {
    check(0.98, 0.0, |r| (eager_prefill(r.uniform(500.0, 8_000.0)), Phase::Prefill));
}

#[test]
fn a_disaggregated_decode_server_does_not_prefill() {
    let mut batch = Batch::new(32.0);
    check(0.99, 0.0, |r| (eager_decode(batch.next(r)), Phase::Decode));
}

#[test]
fn an_embedding_server_does_not_decode() {
    check(0.9, 0.001, |r| match r.chance(0.2) {
        true => (eager(300.0, 440.0 * 10.0 * lengths(r), 4.0), Phase::Prefill),
        false => (eager(300.0, 440.0 * lengths(r), 4.0), Phase::Prefill),
    });
}

#[test]
fn tensor_parallel_decode_is_not_a_prefill() {
    check(0.99, 0.0, |r| match r.chance(0.1) {
        true => (eager(900.0, 440.0 * r.uniform(500.0, 4_000.0), 161.0), Phase::Prefill),
        false => (eager(860.0, 24_000.0, 12.0), Phase::Decode),
    });
}

#[test]
fn an_adapter_swap_does_not_change_a_decode() {
    check(0.99, 0.0, |r| {
        let mut step = whole_decode(16.0);
        if r.chance(0.05) {
            (step.copies, step.bytes_to_device) = (260, 200_000_000);
        }
        (step, Phase::Decode)
    });
}

#[test]
fn phases_of_a_toy_model_are_distinguished_by_comparison() {
    check(0.98, 0.01, |r| match r.chance(0.2) {
        true => (eager(60.0, 16_384.0, 8.0), Phase::Prefill),
        false => (eager(40.0, 128.0, 2.0), Phase::Decode),
    });
}

#[test]
fn a_slow_step_has_the_phase_of_its_shape() {
    // The signature suffices: a shape has no duration.
    let fields = format!("{:?}", whole_decode(1.0));
    assert!(!fields.contains("ns"), "{fields}");
}

#[test]
fn shapes_of_real_traces_are_classified_unless_seen_alone() {
    let rows = [
        // B200, 888 tokens of context.
        (eager(768.0, 388_654.0, 161.0), &[Phase::Prefill][..]),
        // MI300X, 32 requests, one graph.
        (
            shape(&[
                (Counter::Launches, 4.0),
                (Counter::Threads, 29_442_432.0),
                (Counter::GraphLaunches, 1.0),
                (Counter::Copies, 9.0),
            ]),
            &[Phase::Decode],
        ),
        // MI300X, context of 9 requests and generation of 37.
        (piecewise(3_454_333.0), &[Phase::Mixed, Phase::Prefill]),
        (eager(700.0, 33_000.0, 12.0), &[Phase::Decode]),
    ];
    for (shape, expected) in rows {
        let alone = Facts { is_alone: true, ..Facts::default() };
        assert_eq!(Clusters::default().label(&shape, alone), PhaseLabel::UNKNOWN, "a step seen alone");
        let label = Clusters::default().label(&shape, Facts::default());
        assert!(expected.contains(&label.phase), "{shape:?}: {label:?}");
        assert!(label.confidence <= COLD_MAX, "one step is little evidence: {label:?}");
        assert!(label.phase != Phase::Mixed || label.confidence <= 0.65, "only the engine knows: {label:?}");
    }
}

#[test]
fn a_size_between_the_phases_is_unknown() {
    let label = Clusters::default().label(&eager(700.0, 110_000.0, 10.0), Facts::default());
    assert_eq!(label.phase, Phase::Unknown);
    assert!(label.confidence < CONFIDENCE_MIN);
}

#[test]
fn a_graph_updated_before_every_launch_is_unknown() {
    let (mut same, mut updated) = (Clusters::default(), Clusters::default());
    for _ in 0..100 {
        let step = whole_decode(16.0);
        updated.change_graph(step.graphs);
        same.label(&step, Facts::default());
        updated.label(&step, Facts::default());
    }
    let step = whole_decode(16.0);
    assert_eq!(same.label(&step, Facts::default()).phase, Phase::Decode);
    updated.change_graph(step.graphs);
    assert_eq!(updated.label(&step, Facts::default()).phase, Phase::Unknown);
}

#[test]
fn clusters_are_bounded_and_evictions_counted() {
    let before = allocated_bytes();
    let mut clusters = Clusters::default();
    let mut rng = Rng::new(1);
    for _ in 0..20_000 {
        clusters.label(
            &eager(
                rng.normal().abs() * 5_000.0 + 1.0,
                rng.uniform(1.0, 25.0).exp2(),
                rng.uniform(0.0, 900.0),
            ),
            Facts::default(),
        );
        assert!(clusters.clusters.len() <= CLUSTERS);
    }
    assert!(clusters.evicted() > 0);
    let bytes = allocated_bytes() - before;
    assert!(bytes <= 2_048, "{bytes}");
}
