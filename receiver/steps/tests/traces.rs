//! Steps of real programs: profiler traces whose own annotations say where a step began and what it was.
//!
//! Skipped, saying so, where the traces are not at hand.
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs::File;
use std::path::PathBuf;

use event::trace::{Annotation, Limits, Trace};
use event::{Event, EventSource};
use steps::{Engine, Finding, Phase, Settings, Step};

/// What the program itself says of a trace: its labelled steps, and what they are.
struct Truth {
    file: &'static str,
    /// The beginning of its labels.
    label: &'static str,
    steps: usize,
    phases: &'static [Phase],
    /// At most this sure.
    confidence_max: f64,
}

const TRUTHS: &[Truth] = &[
    Truth {
        file: "a100_ddp_nccl.json.gz",
        label: "ProfilerStep#",
        steps: 3,
        phases: &[Phase::Train],
        confidence_max: 1.0,
    },
    Truth {
        file: "a100_train_graphs_nccl_rank0.json.gz",
        label: "ProfilerStep#",
        steps: 5,
        phases: &[Phase::Train],
        confidence_max: 1.0,
    },
    Truth {
        file: "b200_vllm_prefill_eager.json.gz",
        label: "execute_",
        steps: 1,
        phases: &[Phase::Prefill],
        confidence_max: 0.9,
    },
    Truth {
        file: "mi300x_vllm_decode_full_graph.json.gz",
        label: "execute_",
        steps: 1,
        phases: &[Phase::Decode],
        confidence_max: 0.9,
    },
    // Prompts of nine requests and tokens of 37: a prefill would launch the same.
    Truth {
        file: "mi300x_vllm_mixed_piecewise.json.gz",
        label: "execute_",
        steps: 1,
        phases: &[Phase::Mixed, Phase::Prefill],
        confidence_max: 0.7,
    },
];

fn read(file: &str) -> Option<Trace> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(file);
    match File::open(&path) {
        Ok(input) => Some(Trace::read(input, &Limits::default()).expect("a trace of a real profiler reads")),
        Err(reason) => {
            println!("skipped: {}: {reason}", path.display());
            None
        }
    }
}

fn events(trace: Trace) -> Vec<Event> {
    let (mut source, mut events) = (trace.into_events(), Vec::new());
    while source.read(&mut events).expect("infallible") {}
    events
}

fn steps(events: &[Event]) -> Vec<Step> {
    let (mut engine, mut steps) = (Engine::new(Settings::default()), Vec::new());
    let mut take = |finding| match finding {
        Finding::Step(step) => steps.push(step),
        Finding::BaselineShift(shift) => panic!("nothing shifts in a few steps: {shift:?}"),
    };
    events.iter().for_each(|event| engine.observe(event, &mut take));
    engine.finish(&mut take);
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
    for step in &steps {
        assert!(truth.phases.contains(&step.phase), "{}: {told:?}", truth.file);
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
