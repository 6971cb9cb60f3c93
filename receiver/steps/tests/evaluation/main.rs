//! Phases compared with the truth: `cargo test --release -p steps --test evaluation -- --nocapture` prints the report.
//!
//! Programs are generated with a label for every step ([`workloads`]), different with every seed; real traces have
//! annotations. The labels of the engine are compared with them ([`score`]).
//!
//! The sets and the seeds are independent. The classifier was developed with [`Set::Tuned`] and [`Set::Hard`] at seeds 0 to
//! 23; [`Set::HeldOut`] was evaluated four times. That led to a corrected mistake (a comparison that applied to clusters
//! without evidence), to a larger weight of launches in the distance between shapes, and to the removal of three signs without
//! effect. Two of its workloads were moved: drafts by a small eager model to [`Set::Tuned`], since development used it, and
//! looked-up drafts between graphs to [`Set::Hard`], where the same drafts without graphs already were. [`SEEDS`] were not
//! used before the classifier was finished. When captures of graphs became visible, the set was evaluated once more; later
//! changes were developed with the other two.
//!
//! Names of functions were added later. Their families and the evidence of each were developed with seeds 0 to 23 and 12,000
//! to 12,023 of all sets, the held-out one included: it had found two mistakes, that the passes of a generator whose cache has
//! no kernels of its own were those of an encoder, and that the attention of prompts was that of mixed steps. Seeds 20,000 to
//! 20,023 then showed steps of unknown graphs to be unknown too often. [`SEEDS`] were evaluated once, when that was finished.
//!
//! Every program is played four times: for an agent that saw its captures or was started later, with and without names
//! ([`Visibility`]). Without names, the passes of encoders are those that read prompts.
//! `EVALUATION_SEEDS=0` uses other seeds, `EVALUATION_ONLY=eager` a part of the workloads.

mod engines;
mod machine;
mod names;
mod program;
#[path = "../real/mod.rs"]
#[expect(dead_code, reason = "shared with the test of boundaries, which uses more of it")]
mod real;
mod report;
mod score;
#[path = "../../src/testing.rs"]
#[expect(dead_code, reason = "shared with the unit tests, which use more of it")]
mod testing;
mod traffic;
mod training;
mod work;
mod workloads;

use event::Event;
use steps::{Classifier, Engine, Finding, Phase, Rules, Settings, Step};

use crate::program::{Program, Visibility};
use crate::report::Report;
use crate::score::{BUCKETS, Score};
use crate::testing::{Rng, allocated_bytes};
use crate::workloads::{Set, WORKLOADS, Workload};

/// The seeds of the evaluation.
const SEEDS: std::ops::Range<u64> = 30_000..30_024;
/// The most bytes that the engine may allocate for a process.
const BYTES_MAX: usize = 24 * 1024;
/// The fewest labels whose share of right ones is significant.
const BUCKET_MIN: u64 = 500;

fn program(workload: &Workload, seed: u64, slow_factor: u64, visibility: Visibility) -> Program {
    let mut program = Program::new(seed, slow_factor, visibility);
    (workload.run)(&mut Rng::new(seed), &mut program);
    program
}

/// Returns the steps that the engine finds in these events.
fn steps(events: &[Event], classifier: Classifier) -> Vec<Step> {
    let settings = Settings { classifier, ..Settings::default() };
    let (mut engine, mut findings) = (Engine::new(settings), Vec::new());
    events.iter().for_each(|event| engine.observe(event, &mut findings));
    engine.finish(&mut findings);
    let step = |finding| match finding {
        Finding::Step(step) => Some(step),
        Finding::BaselineShift(_) => None,
    };
    findings.into_iter().filter_map(step).collect()
}

/// Returns the most bytes that the engine allocates for these events.
fn bytes_max(events: &[Event], classifier: Classifier) -> usize {
    let (before, mut findings) = (allocated_bytes(), Vec::with_capacity(256));
    let own = allocated_bytes() - before;
    let mut engine = Engine::new(Settings { classifier, ..Settings::default() });
    let measured = events.iter().map(|event| {
        engine.observe(event, &mut findings);
        findings.clear();
        allocated_bytes() - before - own
    });
    measured.max().unwrap_or(0)
}

fn score(program: &Program, steps: &[Step]) -> Score {
    let mut score = Score::default();
    for step in steps {
        match program.truth_at(step.end_ns) {
            // Without names, the passes of an encoder are those that read prompts.
            Some(Some(Phase::Forward)) if !program.has_names() => score.add(Phase::Prefill, step),
            Some(Some(truth)) => score.add(truth, step),
            Some(None) => {}
            None => score.misplaced += 1,
        }
    }
    score
}

fn from_environment() -> (std::ops::Range<u64>, String) {
    let first = std::env::var("EVALUATION_SEEDS").map(|first| first.parse().expect("a number"));
    let seeds = first.map_or(SEEDS, |first: u64| first..first + (SEEDS.end - SEEDS.start));
    (seeds, std::env::var("EVALUATION_ONLY").unwrap_or_default())
}

fn measure(classifier: Classifier, seeds_max: usize, visibility: Visibility) -> Report {
    let (seeds, only) = from_environment();
    let mut report = Report::default();
    for workload in WORKLOADS.iter().filter(|w| w.name.contains(&only)) {
        for seed in seeds.clone().take(seeds_max) {
            let program = program(workload, seed, 5, visibility);
            let steps = steps(&program.events, classifier);
            let bytes = if seed == seeds.start { bytes_max(&program.events, classifier) } else { 0 };
            report.add(workload.set, workload.name, seed, score(&program, &steps), bytes);
        }
    }
    for truth in real::TRUTHS {
        let Some(trace) = real::read(truth.file) else { continue };
        let events = real::events(trace);
        let (steps, bytes) = (steps(&events, classifier), bytes_max(&events, classifier));
        let mut score = Score::default();
        steps.iter().for_each(|step| score.add(truth.phase, step));
        score.misplaced = steps.len().abs_diff(truth.steps) as u64;
        report.add(Set::Real, truth.file, 0, score, bytes);
    }
    report
}

#[test]
fn phases_are_those_of_the_programs() {
    let report = measure(Classifier::Adaptive, usize::MAX, Visibility::Captures);
    println!("{report}");
    check(&report);
}

/// An agent started after the captures does not know the contents of the graphs.
#[test]
fn phases_without_captures_are_those_of_the_programs() {
    let report = measure(Classifier::Adaptive, usize::MAX, Visibility::LaunchesAlone);
    println!("without captures: {report}");
    check(&report);
}

/// Without names the evidence is that of shapes, as for functions whose names are not found.
#[test]
fn phases_without_names_are_those_of_shapes() {
    for visibility in [Visibility::NoNames, Visibility::LaunchesWithoutNames] {
        let report = measure(Classifier::Adaptive, usize::MAX, visibility);
        println!("{visibility:?}: {report}");
        check(&report);
    }
}

#[track_caller]
fn check(report: &Report) {
    for set in [Set::Tuned, Set::HeldOut] {
        let score = report.of_set(set);
        assert!(score.macro_f1() >= 0.98, "{set:?}: macro-F1 {:.4}, expected 0.98", score.macro_f1());
        assert!(score.unknown() <= 0.02, "{set:?}: {:.4} unknown, expected 0.02 at most", score.unknown());
        check_calibration(set, &score);
    }
    for set in [Set::Tuned, Set::HeldOut, Set::Hard] {
        let share = report.of_set(set).confident_mistakes();
        assert!(
            share <= 0.002,
            "{set:?}: {share:.4} of the steps are confident mistakes, expected 0.002 at most"
        );
    }
    let real = report.of_set(Set::Real);
    assert!(real.wrong() == 0.0 && real.unknown() == 0.0, "real traces: {real:?}");
    assert!(report.bytes_max() <= BYTES_MAX, "{} bytes, expected {BYTES_MAX} at most", report.bytes_max());
}

/// Asserts that the share of right labels is at least their confidence.
#[track_caller]
fn check_calibration(set: Set, score: &Score) {
    for (from, (right, all)) in BUCKETS.iter().zip(score.buckets).filter(|(_, b)| b.1 >= BUCKET_MIN) {
        let share = right as f64 / all as f64;
        assert!(share >= *from, "{set:?}: {share:.3} of the labels from {from} on are right");
    }
}

/// Thresholds are the user's responsibility; the preset is measured without a requirement.
#[test]
fn the_preset_of_thresholds_is_measured() {
    let report = measure(Classifier::Rules(Rules::default()), 4, Visibility::Captures);
    println!("thresholds:");
    for set in [Set::Tuned, Set::HeldOut, Set::Hard, Set::Real] {
        println!("  {set:?}: {}", report.of_set(set));
    }
    assert!(report.of_set(Set::Tuned).macro_f1() > 0.0);
}

/// If phases depended on time, slow steps would be hidden: a slow decode would be a prefill.
#[test]
fn phases_do_not_depend_on_speed() {
    for workload in WORKLOADS {
        let labels = |slow_factor| -> Vec<_> {
            let program = program(workload, 1, slow_factor, Visibility::Captures);
            let steps = steps(&program.events, Classifier::Adaptive);
            steps.iter().map(|s| (s.sequence, s.phase, s.confidence)).collect()
        };
        assert_eq!(labels(1), labels(40), "{}", workload.name);
    }
}

#[test]
fn a_seed_always_makes_the_same_program() {
    for workload in WORKLOADS {
        let events = || program(workload, 7, 5, Visibility::Captures).events;
        assert_eq!(events(), events(), "{}", workload.name);
    }
}
