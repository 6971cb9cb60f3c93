//! Profiler traces of real programs, with the programs' own annotations of their steps.
//!
//! They are outside the repository; a test that needs a missing one is skipped with a message.
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs::File;
use std::path::PathBuf;

use event::{Event, EventSource};
use steps::Phase;
use trace::{Limits, Trace};

/// The annotated steps of a trace.
pub struct Truth {
    pub file: &'static str,
    /// The prefix of its annotations.
    pub label: &'static str,
    pub steps: usize,
    pub phase: Phase,
    /// The largest expected confidence.
    pub confidence_max: f64,
}

pub const TRUTHS: &[Truth] = &[
    Truth {
        file: "a100_ddp_nccl.json.gz",
        label: "ProfilerStep#",
        steps: 3,
        phase: Phase::Train,
        confidence_max: 1.0,
    },
    Truth {
        file: "a100_train_graphs_nccl_rank0.json.gz",
        label: "ProfilerStep#",
        steps: 5,
        phase: Phase::Train,
        confidence_max: 1.0,
    },
    Truth {
        file: "b200_vllm_prefill_eager.json.gz",
        label: "execute_",
        steps: 1,
        phase: Phase::Prefill,
        confidence_max: 0.9,
    },
    Truth {
        file: "mi300x_vllm_decode_full_graph.json.gz",
        label: "execute_",
        steps: 1,
        phase: Phase::Decode,
        confidence_max: 0.9,
    },
    // Prompts of nine requests and tokens of 37: a prefill launches the same.
    Truth {
        file: "mi300x_vllm_mixed_piecewise.json.gz",
        label: "execute_",
        steps: 1,
        phase: Phase::Mixed,
        confidence_max: 0.7,
    },
];

/// Reads a trace; `None` if it is not available.
pub fn read(file: &str) -> Option<Trace> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(file);
    match File::open(&path) {
        Ok(input) => Some(Trace::read(input, &Limits::default()).expect("a trace of a real profiler reads")),
        Err(reason) => {
            println!("skipped: {}: {reason}", path.display());
            None
        }
    }
}

/// Returns the events that the kernel would have sent.
pub fn events(trace: Trace) -> Vec<Event> {
    let (mut source, mut events) = (trace.into_events(), Vec::new());
    while source.read(&mut events).expect("infallible") {}
    events
}
