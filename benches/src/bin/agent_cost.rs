//! The cost of the whole agent while it watches processes: `cargo build --release -p warptap && cargo run --release -p benches
//! --bin agent_cost`. Needs root.
//!
//! Promises: the agent's CPU per step with 10,000 launches per step at most 1.10 times that with 10, at the same steps per
//! second; at most 40 MB resident with 64 traced processes. Agent and players are the real binary.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use benches::{Promise, median};

const SECONDS: u64 = 6;
const ROUNDS: usize = 3;

fn main() -> anyhow::Result<()> {
    let warptap = std::env::current_exe()?.with_file_name("warptap");
    if !warptap.exists() {
        eprintln!("skipped: there is no {}: build it first", warptap.display());
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let bench = Bench { warptap, dir: dir.path().to_owned() };
    if !Command::new(&bench.warptap)
        .arg("check")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?
        .success()
    {
        eprintln!("skipped: this machine or user cannot watch GPU processes: run warptap check");
        return Ok(());
    }
    bench.launches()?;
    bench.processes()
}

struct Bench {
    warptap: PathBuf,
    dir: PathBuf,
}

/// A child process that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
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
    fn agent(&self) -> anyhow::Result<Killed> {
        let config = self.dir.join("agent.yaml");
        let text = "receivers:\n  gpu:\n    pin:\n      enabled: false\n    overhead:\n      budget: 100%\nexporters:\n  file:\n    path: /dev/null\nservice:\n  telemetry:\n    logs:\n      level: info\n  \
                    pipelines:\n    metrics:\n      receivers: [gpu]\n      exporters: [file]\n    traces:\n      receivers: [gpu]\n      \
                    exporters: [file]\n    logs:\n      receivers: [gpu]\n      exporters: [file]\n";
        fs::write(&config, text)?;
        let mut child =
            Command::new(&self.warptap).arg("--config").arg(&config).stderr(Stdio::piped()).spawn()?;
        let log = child.stderr.take().context("no log")?;
        let mut lines = BufReader::new(log).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("Everything is ready"));
        anyhow::ensure!(ready, "the agent did not start");
        // Its log must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Killed(child))
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
        let before = cpu_seconds(agent.0.id())?;
        sleep(Duration::from_secs(SECONDS - 2));
        Ok((cpu_seconds(agent.0.id())? - before) / (SECONDS - 2) as f64)
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
        let status = fs::read_to_string(format!("/proc/{}/status", agent.0.id()))?;
        let kib: f64 = field(&status, "VmRSS:").context("no VmRSS")?;
        Promise { what: "MB resident with 64 traced processes", at_most: 40.0 }.print(kib * 1024.0 / 1e6);
        Ok(())
    }
}

fn field(status: &str, name: &str) -> Option<f64> {
    status.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU seconds of all threads (proc_pid_schedstat(5)).
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let mut ns = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let text = fs::read_to_string(task?.path().join("schedstat"))?;
        ns += text.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(ns / 1e9)
}
