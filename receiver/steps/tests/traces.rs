//! Steps of real programs: profiler traces with annotations of the start and kind of each step.
//!
//! Each trace is replayed as an agent would have seen it: from the start, after its graphs were captured, and without the
//! names of kernels. It is also replayed without the rows of [`functions::family`] that no other trace supports, so that a
//! phase does not depend on a row made for one trace. Skipped with a message if the traces are not available.
#![expect(clippy::print_stdout, reason = "the results of real traces are printed")]

mod real;

use std::collections::BTreeSet;

use event::Event;
use functions::family::{Family, ROWS, Row};
use steps::{Engine, Finding, Phase, Settings, Step};
use trace::{Annotation, Trace};

use crate::real::{TRUTHS, Truth, Use, events, read};

fn steps(events: &[Event]) -> Vec<Step> {
    let (mut engine, mut findings) = (Engine::new(Settings::default()), Vec::new());
    events.iter().for_each(|event| engine.observe(event, &mut findings));
    engine.finish(&mut findings);
    let step = |finding| match finding {
        Finding::Step(step) => step,
        Finding::BaselineShift(shift) => panic!("a few steps are not a lasting change: {shift:?}"),
    };
    let steps: Vec<Step> = findings.into_iter().map(step).collect();
    let tally = engine.tally();
    assert_eq!(tally.segments, tally.steps + tally.joined + tally.leftover + tally.unarmed, "{tally:?}");
    assert_eq!(tally.steps, steps.len() as u64);
    steps
}

/// Returns phases and confidences, for messages and the table.
fn labels(steps: &[Step]) -> String {
    let labels = steps.iter().map(|s| format!("{} {:.2}", s.phase.as_str(), s.confidence));
    labels.collect::<Vec<_>>().join(", ")
}

/// Asserts that no label is wrong and returns the number of labels.
#[track_caller]
fn check_labels(truth: &Truth, steps: &[Step]) -> usize {
    let labelled = || steps.iter().filter(|step| step.phase != Phase::Unknown);
    assert!(labelled().all(|step| truth.accepts(step.phase)), "{}: {}", truth.file, labels(steps));
    assert!(labelled().all(|step| step.confidence >= 0.5), "{}: {}", truth.file, labels(steps));
    labelled().count()
}

#[track_caller]
fn check(truth: &Truth) {
    let Some(trace) = read(truth.file) else { return };
    let annotations: Vec<Annotation> =
        trace.annotations.iter().filter(|a| a.name.starts_with(truth.label)).cloned().collect();
    let steps = steps(&events(trace));
    let used = if truth.used_for == Use::Rules { "rules" } else { "checking" };
    println!("{:<40} {used:<9} {} steps of {}: {}", truth.file, steps.len(), truth.steps, labels(&steps));
    // The trace of 2021 has no annotations of its steps.
    assert!(annotations.is_empty() || annotations.len() == truth.steps, "{}: other labels", truth.file);
    assert_eq!(steps.len(), truth.steps, "{}: {}", truth.file, labels(&steps));
    assert_eq!(check_labels(truth, &steps), truth.steps, "{}: {}", truth.file, labels(&steps));
    assert!(steps.iter().all(|step| step.enqueue_ns + step.wait_ns == step.duration_ns));
    if truth.steps > 1 && truth.label.starts_with("ProfilerStep") && !annotations.is_empty() {
        check_boundaries(truth, &steps, &annotations);
    }
}

#[track_caller]
fn check_boundaries(truth: &Truth, steps: &[Step], labels: &[Annotation]) {
    for (step, label) in steps.iter().zip(labels) {
        let length_ns = (label.end_ns - label.start_ns) as f64;
        for (found, expected) in [(step.start_ns, label.start_ns), (step.end_ns, label.end_ns)] {
            let off = found.abs_diff(expected) as f64 / length_ns;
            // The last annotation of a trace ends before the profiler's wait for the device.
            let is_last = step.end_ns == steps[steps.len() - 1].end_ns && found == step.end_ns;
            assert!(
                is_last || off <= 0.05,
                "{}: {} begins or ends {:.1} % off",
                truth.file,
                label.name,
                off * 100.0
            );
        }
    }
}

#[test]
fn real_traces_have_the_annotated_steps_and_phases() {
    TRUTHS.iter().for_each(check);
}

/// What an agent sees of a trace.
type Variant = fn(Trace) -> Trace;

#[test]
fn no_label_is_wrong_without_names_or_captures() {
    let variants: [(&str, Variant); 3] = [
        ("no captures", Trace::without_captures),
        ("no names", Trace::without_names),
        ("neither", |trace| trace.without_names().without_captures()),
    ];
    for truth in TRUTHS {
        for (name, variant) in variants {
            let Some(trace) = read(truth.file) else { return };
            let steps = steps(&events(variant(trace)));
            println!("{:<40} {name:<12} {} steps: {}", truth.file, steps.len(), labels(&steps));
            // By shape alone, the pass of an encoder is one that reads prompts.
            let reads = |s: &Step| truth.phase == Phase::Forward && s.phase == Phase::Prefill;
            let named: Vec<Step> = steps.into_iter().filter(|s| name == "no captures" || !reads(s)).collect();
            check_labels(truth, &named);
        }
    }
}

/// Returns the rows by which the kernels of a trace have a family.
fn rows_of(trace: &Trace) -> BTreeSet<usize> {
    let row_of = |name: &String| ROWS.iter().position(|row| row.matches(name));
    trace.functions.values().filter_map(row_of).collect()
}

/// Gives each kernel a name with the family that it has by these rows alone.
fn renamed(mut trace: Trace, rows: &[Row]) -> Trace {
    for name in trace.functions.values_mut() {
        let family = Family::by(rows.iter(), name);
        let example = rows.iter().find(|row| row.family == family).map(|row| row.examples[0]);
        *name = example.unwrap_or("a_kernel_of_no_row").to_owned();
        assert!(example.is_none() || Family::of(name) == family, "{name}");
    }
    trace
}

#[test]
fn phases_do_not_depend_on_rows_that_one_trace_supports() {
    let read_all = || TRUTHS.iter().filter_map(|truth| Some((truth, read(truth.file)?)));
    let all: Vec<(&Truth, BTreeSet<usize>)> =
        read_all().map(|(truth, trace)| (truth, rows_of(&trace))).collect();
    for (truth, trace) in read_all() {
        let others: BTreeSet<usize> = all
            .iter()
            .filter(|(other, _)| other.file != truth.file)
            .flat_map(|(_, rows)| rows)
            .copied()
            .collect();
        let own = rows_of(&trace);
        let is_left = |at: &usize| !own.contains(at) || others.contains(at);
        let rows: Vec<Row> = (0..ROWS.len()).filter(is_left).map(|at| ROWS[at]).collect();
        let steps = steps(&events(renamed(trace, &rows)));
        let removed = ROWS.len() - rows.len();
        println!("{:<40} without {removed} rows: {} steps: {}", truth.file, steps.len(), labels(&steps));
        check_labels(truth, &steps);
        assert_eq!(steps.len(), truth.steps, "{}", truth.file);
    }
}

#[test]
fn kernels_of_real_traces_have_a_family() {
    for truth in TRUTHS {
        let Some(trace) = read(truth.file) else { return };
        let names = trace.functions.values();
        let families: BTreeSet<Family> = names.clone().map(|name| Family::of(name)).collect();
        let covered = names.clone().filter(|name| Family::of(name) != Family::Other).count();
        println!("{:<40} {covered} of {} kernels: {families:?}", truth.file, names.len());
        assert!(covered * 20 >= names.len() * 19, "{}", truth.file);
    }
}

#[test]
fn a_trace_replayed_twice_gives_the_same_steps() {
    for truth in TRUTHS.iter().filter(|truth| truth.used_for == Use::Rules) {
        let Some(trace) = read(truth.file) else { return };
        let events = events(trace);
        assert_eq!(steps(&events), steps(&events), "{}", truth.file);
    }
}
