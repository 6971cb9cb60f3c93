//! Profiler traces of real programs, with the programs' own annotations of their steps.
//!
//! They are outside the repository; a test that needs a missing one is skipped with a message.
#![expect(clippy::print_stdout, reason = "a test that is skipped says why")]

use std::fs::File;
use std::path::PathBuf;

use event::{Event, EventSource};
use steps::Phase;
use trace::{Limits, Trace};

/// What a trace was used for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// Rules of steps and iterations were made with it.
    Rules,
    /// It was only replayed, to check them.
    Checking,
}

/// The annotated steps of a trace.
pub struct Truth {
    pub file: &'static str,
    /// The prefix of its annotations.
    pub label: &'static str,
    pub steps: usize,
    pub phase: Phase,
    pub used_for: Use,
}

impl Truth {
    /// Returns true if the phase is right: prompts are read by mixed steps, too, and one pass over a prompt without its
    /// engine is a prefill or the pass of a model that generates nothing.
    pub fn accepts(&self, phase: Phase) -> bool {
        phase == self.phase
            || self.phase == Phase::Mixed && phase == Phase::Prefill
            || self.file.contains("llm_forward") && phase == Phase::Prefill
    }
}

const fn truth(file: &'static str, label: &'static str, steps: usize, phase: Phase, used_for: Use) -> Truth {
    Truth { file, label, steps, phase, used_for }
}

pub const TRUTHS: &[Truth] = &[
    truth("a100_ddp_nccl.json.gz", "ProfilerStep#", 3, Phase::Train, Use::Rules),
    truth("a100_train_graphs_nccl_rank0.json.gz", "ProfilerStep#", 5, Phase::Train, Use::Rules),
    truth("b200_vllm_prefill_eager.json.gz", "execute_", 1, Phase::Prefill, Use::Rules),
    truth("mi300x_vllm_decode_full_graph.json.gz", "execute_", 1, Phase::Decode, Use::Rules),
    truth("mi300x_vllm_mixed_piecewise.json.gz", "execute_", 1, Phase::Mixed, Use::Rules),
    truth("ddp_train_5_iterations.json.gz", "## backward ##", 5, Phase::Train, Use::Rules),
    truth("kineto_resnet50_workers_4.json.gz", "ProfilerStep#", 6, Phase::Train, Use::Checking),
    truth("mi300x_llm_forward.json.gz", "ProfilerStep#", 1, Phase::Forward, Use::Checking),
    truth("h100_encoder_forward.json.gz", "ProfilerStep#", 1, Phase::Forward, Use::Rules),
    truth("h100_video_encoder_forward.json.gz", "ProfilerStep#", 1, Phase::Forward, Use::Checking),
    truth("mi300x_diffusion_sd35.json.gz", "execute_", 1, Phase::Forward, Use::Checking),
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
