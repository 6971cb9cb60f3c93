//! Real profiler traces, played as real calls under real probes: the same steps as from the file.

use std::fs::File;
use std::path::PathBuf;

use event::{Event, EventSource as _};
use probe_abi::fold::Counter;
use steps::{Engine, Finding};
use trace::Limits;
use trace::replay::Replay;

use crate::rig::{rig, settings};

/// Launches, graph launches and copies of each step. The player's functions have no names, so that phases differ.
type Steps = Vec<[u64; 3]>;

fn steps(events: &[Event]) -> Steps {
    let mut engine = Engine::new(steps::Settings::default());
    let mut findings = Vec::new();
    events.iter().for_each(|event| engine.observe(event, &mut findings));
    engine.finish(&mut findings);
    let step = |finding| match finding {
        Finding::Step(s) => {
            Some([Counter::Launches, Counter::GraphLaunches, Counter::Copies].map(|c| s.work.of(c)))
        }
        Finding::BaselineShift(_) => None,
    };
    findings.into_iter().filter_map(step).collect()
}

fn check(name: &str, speed: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces").join(name);
    if !path.exists() {
        return println!("skipped: there is no {} beside the repository", name);
    }
    let mut recorded = Vec::new();
    let mut replay = Replay::open(File::open(&path).unwrap(), &Limits::default()).unwrap();
    while replay.read(&mut recorded).unwrap() {}
    let Some(mut rig) = rig(name, &settings()) else { return };
    let player = rig.player(&[path.to_str().unwrap(), "--speed", speed]);
    rig.play(player);
    let account = rig.capture.account();
    assert!(account.is_balanced() && account.lost() == 0, "{account:?}");
    assert_eq!(steps(&rig.events), steps(&recorded), "{name}: live against the file");
}

#[test]
fn a_decode_step_of_vllm_is_the_same_live() {
    check("mi300x_vllm_decode_full_graph.json.gz", "1");
}

#[test]
fn a_mixed_step_of_vllm_is_the_same_live() {
    check("mi300x_vllm_mixed_piecewise.json.gz", "1");
}

#[test]
fn a_prefill_step_of_vllm_is_the_same_live() {
    check("b200_vllm_prefill_eager.json.gz", "1");
}

#[test]
fn a_ddp_training_loop_is_the_same_live() {
    check("a100_ddp_nccl.json.gz", "1");
}

#[test]
fn a_training_loop_with_graphs_is_the_same_live() {
    check("a100_train_graphs_nccl_rank0.json.gz", "1");
}
