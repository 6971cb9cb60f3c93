//! Steps of real programs: profiler traces with annotations of the start and kind of each step.
//!
//! Skipped with a message if the traces are not available.

mod real;

use event::Event;
use steps::{Engine, Finding, Phase, Settings, Step};
use trace::Annotation;

use crate::real::{TRUTHS, Truth, events, read};

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

#[track_caller]
fn check(truth: &Truth) {
    let Some(trace) = read(truth.file) else { return };
    let labels: Vec<Annotation> =
        trace.annotations.iter().filter(|a| a.name.starts_with(truth.label)).cloned().collect();
    let steps = steps(&events(trace));
    let summary: Vec<_> =
        steps.iter().map(|s| (s.phase, s.confidence, s.start_ns, s.end_ns, s.segments)).collect();
    assert_eq!(labels.len(), truth.steps, "{}: the trace has other labels", truth.file);
    assert_eq!(steps.len(), truth.steps, "{}: {summary:#?}\n{labels:#?}", truth.file);
    let is_right = |phase| phase == truth.phase || (truth.phase == Phase::Mixed && phase == Phase::Prefill);
    for step in &steps {
        assert!(is_right(step.phase), "{}: {summary:?}", truth.file);
        assert!(
            step.confidence >= 0.6 && step.confidence <= truth.confidence_max,
            "{}: {summary:?}",
            truth.file
        );
        assert_eq!(step.enqueue_ns + step.wait_ns, step.duration_ns);
    }
    // A single step has no boundaries with other steps.
    if truth.steps > 1 {
        check_boundaries(truth, &steps, &labels);
    }
}

#[track_caller]
fn check_boundaries(truth: &Truth, steps: &[Step], labels: &[Annotation]) {
    for (step, label) in steps.iter().zip(labels) {
        let length_ns = (label.end_ns - label.start_ns) as f64;
        for (found, expected) in [(step.start_ns, label.start_ns), (step.end_ns, label.end_ns)] {
            let off = found.abs_diff(expected) as f64 / length_ns;
            assert!(off <= 0.05, "{}: {} begins or ends {:.1} % off", truth.file, label.name, off * 100.0);
        }
    }
}

#[test]
fn real_traces_have_the_annotated_steps_and_phases() {
    TRUTHS.iter().for_each(check);
}

#[test]
fn a_trace_replayed_twice_gives_the_same_steps() {
    for truth in TRUTHS {
        let Some(trace) = read(truth.file) else { return };
        let events = events(trace);
        assert_eq!(steps(&events), steps(&events), "{}", truth.file);
    }
}
