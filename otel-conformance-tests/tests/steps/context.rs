//! A slow step is in the trace of the application that publishes the trace contexts of its threads.
//!
//! The player contains the CUDA runtime and publishes one sampled span per thread, in a variable of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use simulator::player::Player;

use super::{Log, outliers_in};
use crate::live::agent::{Agent, Setup, turn};
use crate::live::binary::binary;
use crate::live::inbox::{Inbox, ReportedItem};

/// One second of decodes of 4 ms, and one of 400.
const SCRIPT: &str = "\
stream main
graph decode main nodes=40
event done
thread engine
  repeat 300
    step decode main
      fault pause gpu=100x at=250
      copy h2d 2KiB main
      launch main grid=32 block=128
      graphlaunch decode main gpu=4ms
      record done main
      sync event done
    end
  end
end
";

/// The published trace id.
const TRACE: [u8; 16] = [0x5a; 16];
const SPAN: [u8; 8] = [0xa5; 8];

fn publisher(binary: &Path, dir: &Path) -> Option<Player> {
    let program = binary.with_file_name("static-player");
    if !program.exists() {
        println!("skipped: {} is not built", program.display());
        return None;
    }
    fs::write(dir.join("script"), SCRIPT).unwrap();
    let mut command = Command::new(program);
    command.arg(dir.join("script")).arg("--wait-go");
    command.arg("--oracle").arg(dir.join("own.oracle")).arg("--stubs").arg(dir.join("stubs"));
    Some(Player::start(command).unwrap())
}

/// Returns the slow step's span and all spans, for a relation of an outlier's span to that of the application.
fn outlier(relation: &str) -> Option<(ReportedItem, Vec<ReportedItem>)> {
    let binary = binary()?;
    let (_turn, dir, inbox) = (turn(), tempfile::tempdir().unwrap(), Inbox::open());
    let mut player = publisher(&binary, dir.path())?;
    let receiver = format!(
        ", collection_interval: 100ms, outliers: {{excess_min: 15ms, spans_burst: 100, trace_context: {relation}}}"
    );
    let setup =
        Setup { pids: &[player.pid()], receiver: &receiver, exporter: &inbox.exporter, ..Setup::default() };
    let _agent = Agent::set_up(&binary, dir.path(), &setup);
    player.go().unwrap();
    player.done().unwrap();
    let step = Log::read(dir.path(), "own").slow.remove(0);
    let spans = inbox.until_spans(|spans| !outliers_in(spans, &step).is_empty());
    let root = outliers_in(&spans, &step).remove(0).clone();
    inbox.until("gpu.step.outlier", |r| r.iter().any(|r| (&r.ids.0, &r.ids.1) == (&root.ids.0, &root.ids.1)));
    player.finish().unwrap();
    Some((root, spans))
}

#[test]
fn slow_step_is_in_the_trace_of_its_waiting_span() {
    let Some((root, spans)) = outlier("auto") else { return };
    assert_eq!((&root.ids.0[..], &root.ids.2[..]), (&TRACE[..], &SPAN[..]));
    let children: Vec<_> = spans.iter().filter(|s| s.ids.2 == root.ids.1).collect();
    assert!(children.len() >= 2 && children.iter().all(|s| s.ids.0 == TRACE), "{children:?}");
}

#[test]
fn slow_step_has_its_own_trace_if_configured() {
    let Some((root, _)) = outlier("link") else { return };
    assert!(root.ids.0 != TRACE && root.ids.2.is_empty(), "{root:?}");
}
