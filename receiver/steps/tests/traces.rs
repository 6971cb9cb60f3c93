//! Steps of real programs: profiler traces whose own annotations say where a step began and what it was.
//!
//! Skipped, saying so, where the traces are not at hand.

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
    assert_eq!(tally.segments, tally.steps + tally.joined + tally.leftover, "{tally:?}");
    assert_eq!(tally.steps, steps.len() as u64);
    steps
}

#[track_caller]
fn check(truth: &Truth) {
    let Some(trace) = read(truth.file) else { return };
    let labels: Vec<Annotation> =
        trace.annotations.iter().filter(|a| a.name.starts_with(truth.label)).cloned().collect();
    let steps = steps(&events(trace));
    let told: Vec<_> =
        steps.iter().map(|s| (s.phase, s.confidence, s.start_ns, s.end_ns, s.segments)).collect();
    assert_eq!(labels.len(), truth.steps, "{}: the trace has other labels", truth.file);
    assert_eq!(steps.len(), truth.steps, "{}: {told:#?}\n{labels:#?}", truth.file);
    let is_right = |said| said == truth.phase || (truth.phase == Phase::Mixed && said == Phase::Prefill);
    for step in &steps {
        assert!(is_right(step.phase), "{}: {told:?}", truth.file);
        assert!(
            step.confidence >= 0.6 && step.confidence <= truth.confidence_max,
            "{}: {told:?}",
            truth.file
        );
        assert_eq!(step.enqueue_ns + step.wait_ns, step.duration_ns);
    }
    // One step alone has no neighbours to be told apart from; of several, the boundaries are what matters.
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
fn real_traces_have_the_steps_and_phases_that_the_programs_say() {
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
