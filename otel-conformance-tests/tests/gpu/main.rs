//! Programs that label their own steps, traced by the real binary: PyTorch on a real GPU if there is one, and the
//! stub player everywhere.
//!
//! Each program is recorded and replayed, and the inferred steps and phases must equal its labels. The player tests
//! recorder, replay and comparison; only a GPU tests the behaviour of CUDA's libraries. With a GPU, `cargo test -p
//! otel-conformance-tests --test gpu -- --nocapture` prints which functions fire, and with `WARPTAP_GPU_OUT=DIR`
//! writes recordings and labels. `WARPTAP_PYTHON` is the path of a Python that has PyTorch.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test, which prints what it saw and why it is skipped"
)]

mod labels;
#[path = "../live/mod.rs"]
mod live;
mod recorded;

use std::path::{Path, PathBuf};
use std::process::Command;

use labels::{Agreement, Label};
use live::agent;
use live::binary::binary;
use recorded::Recorded;
use simulator::player::Player;

/// Number of steps of each mode.
const STEPS: &str = "400";
/// Minimum share of labels with exactly one step; the first ones may precede the attachment of libraries.
const MATCHED_MIN: f64 = 0.98;
const MACRO_F1_MIN: f64 = 0.98;

/// Returns a Python whose PyTorch has a GPU, or the reason why there is none.
fn python() -> Result<PathBuf, String> {
    if !Path::new("/dev/nvidiactl").exists() {
        return Err("no NVIDIA GPU here".to_owned());
    }
    let python = PathBuf::from(std::env::var_os("WARPTAP_PYTHON").unwrap_or_else(|| "python3".into()));
    let code = "import sys, torch; sys.exit(not torch.cuda.is_available())";
    let said = Command::new(&python).args(["-c", code]).output().map_err(|e| e.to_string())?;
    match said.status.success() {
        true => Ok(python),
        false => Err(format!("{} has no PyTorch that sees the GPU", python.display())),
    }
}

#[track_caller]
fn check(name: &str, labels: &[Label], recorded: &Recorded) {
    let agreement = Agreement::of(labels, &recorded.steps);
    println!("{name}: {agreement}");
    recorded.print_operations();
    assert!(agreement.matched as f64 >= MATCHED_MIN * agreement.labels as f64, "{name}: {agreement}");
    assert_eq!(agreement.confident_mistakes, 0, "{name}: {agreement}");
    assert!(agreement.macro_f1() >= MACRO_F1_MIN, "{name}: {agreement}");
}

fn player(name: &str) {
    let Some(warptap) = binary() else { return };
    let dir = tempfile::tempdir().unwrap();
    // Processes of another test would use the CPUs and be traced.
    let _turn = agent::turn();
    let player = agent::player(&warptap, dir.path(), name, simulator::scripts::find(name).unwrap());
    let recorded = Recorded::of(&warptap, player, dir.path());
    check(name, &labels::of_player(&dir.path().join(name).with_extension("oracle")), &recorded);
}

#[test]
fn steps_of_the_player_equal_its_log() {
    player("vllm-graphs");
    player("train");
}

fn transformer(mode: &str) {
    let Some(warptap) = binary() else { return };
    let python = match python() {
        Ok(python) => python,
        Err(why) => return println!("skipped: {why}"),
    };
    let dir = tempfile::tempdir().unwrap();
    let labels = dir.path().join("labels");
    let mut command = Command::new(python);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("gpu/transformer.py"));
    command.args(["--mode", mode, "--steps", STEPS, "--labels"]).arg(&labels);
    let _turn = agent::turn();
    let recorded = Recorded::of(&warptap, Player::start(command).unwrap(), dir.path());
    if let Some(out) = std::env::var_os("WARPTAP_GPU_OUT") {
        recorded.keep(Path::new(&out), mode, &labels);
    }
    check(mode, &labels::lines(&labels), &recorded);
}

#[test]
fn eager_transformer_steps_equal_its_labels() {
    transformer("eager");
}

#[test]
fn cuda_graph_transformer_steps_equal_its_labels() {
    transformer("graphs");
}

#[test]
fn training_loop_steps_equal_its_labels() {
    transformer("train");
}

#[test]
fn single_rank_transformer_steps_equal_its_labels() {
    transformer("collective");
}
