//! The demo with real probes: attaches them to a player, or to the ranks of a job that it starts.

use std::path::PathBuf;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context as _;
use capture::{Capture, Settings};
use event::{Event, EventSource as _};
use simulator::player::{Player, ProtocolError};

use super::Stage;

/// A running player and the probes attached to it.
pub(super) struct Live {
    capture: Capture,
    /// Processes whose exit has not been seen.
    alive: Vec<u32>,
    player: JoinHandle<Result<(), ProtocolError>>,
    /// Directory of the stub libraries; removed on drop.
    _stubs: tempfile::TempDir,
}

impl Live {
    /// Starts a player and attaches probes before its first call. Fails if eBPF programs cannot be loaded.
    pub(super) fn start(scenario: &str, seconds: Duration) -> anyhow::Result<Live> {
        let settings = Settings { totals_every_ns: 1_000_000_000, ..Settings::default() };
        let mut capture = Capture::start(&settings)?;
        let stubs = tempfile::tempdir().context("cannot create a directory for the stub libraries")?;
        let mut player = Player::start(command(scenario, seconds, stubs.path().to_owned())?)?;
        let ranks = player.ranks().context("cannot find the ranks")?;
        let alive = if ranks.is_empty() { vec![player.pid()] } else { ranks };
        for pid in &alive {
            capture.trace(*pid)?;
        }
        let playing = std::thread::spawn(move || {
            player.go()?;
            player.done()?;
            player.finish().map(drop)
        });
        Ok(Live { capture, alive, player: playing, _stubs: stubs })
    }

    /// Returns the attach method of the probes.
    pub(super) fn attach_name(&self) -> &'static str {
        self.capture.attach_name()
    }
}

fn command(scenario: &str, seconds: Duration, stubs: PathBuf) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find the path of this executable")?;
    let mut command = Command::new(own);
    command.args([
        "player",
        &format!("@{scenario}"),
        "--wait-go",
        "--seconds",
        &seconds.as_secs_f64().to_string(),
    ]);
    command.arg("--stubs").arg(stubs).env("OTEL_SERVICE_NAME", "stub-inference-server");
    Ok(command)
}

impl Stage for Live {
    fn read(&mut self, into: &mut Vec<Event>) -> anyhow::Result<bool> {
        self.capture.read(into)?;
        let ended = |pid| into.iter().any(|e| matches!(e, Event::Exit { process, .. } if process.pid == pid));
        self.alive.retain(|pid| !ended(*pid));
        let ended = self.player.is_finished() && self.alive.is_empty();
        if ended {
            into.push(Event::Account(Box::new(self.capture.account())));
        }
        Ok(!ended)
    }
}
