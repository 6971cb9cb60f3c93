//! The cost of the whole agent while it watches processes: `cargo build --release -p warptap && cargo run --release -p benches
//! --bin agent_cost`. Needs root.
//!
//! Promises: the agent's CPU per step with 10,000 launches per step at most 1.10 times that with 10, at the same steps per
//! second; at most 40 MB resident with 64 traced processes. Agent and players are the real binary.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use benches::agent::{self, Agent, Killed};
use benches::{Promise, median};

const SECONDS: u64 = 6;
const ROUNDS: usize = 3;

fn main() -> anyhow::Result<()> {
    let warptap = match agent::binary() {
        Ok(warptap) => warptap,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return Ok(());
        }
    };
    let dir = tempfile::tempdir()?;
    let bench = Bench { warptap, dir: dir.path().to_owned() };
    bench.launches()?;
    bench.processes()
}

struct Bench {
    warptap: PathBuf,
    dir: PathBuf,
}

/// Returns the script of a server with fifty steps per second, for any number of launches.
fn script(launches: u64) -> String {
    let rest_ms = if launches > 1_000 { 1 } else { 15 };
    format!(
        "stream main\nthread engine\n  repeat {SECONDS}s\n    repeat {launches}\n      launch main\n    end\n    \
         sync stream main\n    sleep {rest_ms}ms\n  end\nend\n"
    )
}

impl Bench {
    fn agent(&self) -> anyhow::Result<Agent> {
        let config = self.dir.join("agent.yaml");
        let receiver = "    pin:\n      enabled: false\n    overhead:\n      budget: 100%\n";
        fs::write(&config, agent::config(receiver))?;
        Agent::start(&self.warptap, &config)
    }

    fn player(&self, script: &Path) -> anyhow::Result<Killed> {
        let mut command = Command::new(&self.warptap);
        command.arg("player").arg(script).arg("--wait-go").arg("--stubs").arg(self.dir.join("stubs"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        Ok(Killed(child))
    }

    fn launches(&self) -> anyhow::Result<()> {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let few = self.cpu_per_second(10)?;
            let many = self.cpu_per_second(10_000)?;
            println!(
                "agent: {:.2} % of a core with 10 launches per step, {:.2} % with 10,000",
                few * 100.0,
                many * 100.0
            );
            ratios.push(many / few.max(1e-6));
        }
        Promise { what: "agent CPU, 10,000 launches per step / 10", at_most: 1.10 }
            .print(median(ratios.into_iter()));
        Ok(())
    }

    /// Returns the agent's CPU seconds per second while a server runs.
    fn cpu_per_second(&self, launches: u64) -> anyhow::Result<f64> {
        let path = self.dir.join("script");
        fs::write(&path, script(launches))?;
        let agent = self.agent()?;
        let mut player = self.player(&path)?;
        // Until the agent has found the player's libraries.
        sleep(Duration::from_secs(3));
        player.0.stdin.as_mut().context("no input")?.write_all(b"go\n")?;
        sleep(Duration::from_secs(1));
        let before = agent.cpu_seconds()?;
        sleep(Duration::from_secs(SECONDS - 2));
        Ok((agent.cpu_seconds()? - before) / (SECONDS - 2) as f64)
    }

    fn processes(&self) -> anyhow::Result<()> {
        let path = self.dir.join("script");
        fs::write(&path, script(10).replace("sleep 15ms", "sleep 200ms"))?;
        let agent = self.agent()?;
        let mut players = (0..64).map(|_| self.player(&path)).collect::<anyhow::Result<Vec<_>>>()?;
        sleep(Duration::from_secs(3));
        for player in &mut players {
            player.0.stdin.as_mut().context("no input")?.write_all(b"go\n")?;
        }
        sleep(Duration::from_secs(SECONDS));
        let (resident, _) = agent.resident()?;
        Promise { what: "MB resident with 64 traced processes", at_most: 40.0 }
            .print(resident.total() * 1.048_576);
        Ok(())
    }
}
