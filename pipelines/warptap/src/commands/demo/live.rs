//! The demo with real probes: attaches them to a player and to the processes that the player starts, and to no others.
//!
//! The player ends with this process and removes the directory of the stub libraries when it starts to play, so that
//! nothing remains of a demo that is killed.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use capture::{Capture, Settings};
use event::{Event, EventSource as _, ProcessId};
use simulator::player::{Player, ProtocolError};

use super::Stage;

/// Time that a player may take longer than its time limit.
const GRACE: Duration = Duration::from_secs(10);

/// A running player and the probes attached to it.
pub(super) struct Live {
    capture: Capture,
    /// Processes that have made calls and whose exit has not been seen.
    running: BTreeSet<ProcessId>,
    player: Option<JoinHandle<Result<(), ProtocolError>>>,
    deadline: Instant,
}

impl Live {
    /// Starts a player and attaches probes before its first call. Fails if eBPF programs cannot be loaded.
    pub(super) fn start(scenario: &str, seconds: Duration) -> anyhow::Result<Live> {
        let mut capture = Capture::start(&settings())?;
        let mut player = Player::start(command(scenario, seconds)?)?;
        for pid in processes(&player)? {
            capture.trace(pid)?;
        }
        let playing = std::thread::spawn(move || {
            player.go()?;
            player.done()?;
            player.finish().map(drop)
        });
        let deadline = Instant::now() + seconds + GRACE;
        Ok(Live { capture, running: BTreeSet::new(), player: Some(playing), deadline })
    }

    /// Returns the attach method of the probes.
    pub(super) fn attach_name(&self) -> &'static str {
        self.capture.attach_name()
    }

    fn observe(&mut self, event: &Event) {
        match event {
            Event::Process(info) => drop(self.running.insert(info.process)),
            Event::Exit { process, .. } => drop(self.running.remove(process)),
            _ => {}
        }
    }

    fn has_player_ended(&self) -> bool {
        self.player.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Returns the result of a player that has ended, once the exits of all its processes were read.
    fn take_result(&mut self) -> Option<anyhow::Result<()>> {
        let result = self.player.take_if(|_| self.running.is_empty())?.join();
        let result = result.unwrap_or_else(|_| Err(std::io::Error::other("its thread panicked").into()));
        Some(result.context("the simulated workload failed"))
    }
}

/// Returns the settings of the probes: other GPU processes of this machine are no part of the demo.
fn settings() -> Settings {
    Settings { trace_all: false, totals_every_ns: 1_000_000_000, ..Settings::default() }
}

/// Returns the pids of a player and of the processes that it has started.
fn processes(player: &Player) -> anyhow::Result<Vec<u32>> {
    let mut pids = player.ranks().context("cannot find the processes of the player")?;
    pids.insert(0, player.pid());
    Ok(pids)
}

fn command(scenario: &str, seconds: Duration) -> anyhow::Result<Command> {
    let own = std::env::current_exe().context("cannot find the path of this executable")?;
    let mut command = Command::new(own);
    let (script, seconds) = (format!("@{scenario}"), seconds.as_secs_f64().to_string());
    command.args(["player", &script, "--wait-go", "--unlink-stubs", "--seconds", &seconds]);
    command.env("OTEL_SERVICE_NAME", "stub-inference-server");
    Ok(command)
}

impl Stage for Live {
    fn read(&mut self, into: &mut Vec<Event>) -> anyhow::Result<bool> {
        // Determined first, so that the events read below include all of a player that has ended.
        let (from, has_ended) = (into.len(), self.has_player_ended());
        self.capture.read(into)?;
        into[from..].iter().for_each(|event| self.observe(event));
        if has_ended && let Some(result) = self.take_result() {
            result?;
            into.push(Event::Account(Box::new(self.capture.account())));
            return Ok(false);
        }
        if Instant::now() >= self.deadline {
            bail!("the simulated workload has not ended {} s after its time", GRACE.as_secs());
        }
        Ok(true)
    }
}
