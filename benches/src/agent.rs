//! The real agent in a process of its own, and what it uses.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

/// The line that the agent logs when it has started.
const READY: &str = "Everything is ready";

/// A child process that is killed on drop.
pub struct Killed(pub Child);

impl Drop for Killed {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

/// Returns the agent's binary beside this program if there is one and this machine and user can watch GPU processes;
/// otherwise the reason.
pub fn binary() -> Result<PathBuf, String> {
    let missing = |e| format!("there is no executable of this program: {e}");
    let warptap = std::env::current_exe().map_err(missing)?.with_file_name("warptap");
    if !warptap.exists() {
        return Err(format!("there is no {}: build it first", warptap.display()));
    }
    let check = Command::new(&warptap).arg("check").stdout(Stdio::null()).stderr(Stdio::null()).status();
    match check.is_ok_and(|status| status.success()) {
        true => Ok(warptap),
        false => Err("this machine or user cannot watch GPU processes: run warptap check".to_owned()),
    }
}

/// Returns a configuration of the gpu receiver alone, with these lines below its name.
pub fn config(receiver: &str) -> String {
    let pipeline = |signal: &str| format!("    {signal}:\n      receivers: [gpu]\n      exporters: [file]\n");
    let pipelines: String = ["metrics", "traces", "logs"].map(pipeline).concat();
    format!(
        "receivers:\n  gpu:\n{receiver}exporters:\n  file:\n    path: /dev/null\nservice:\n  pipelines:\n{pipelines}"
    )
}

/// A running agent, which is killed on drop.
pub struct Agent {
    process: Killed,
    /// Time from its exec to its log line that it is ready.
    pub started_in: Duration,
}

/// Resident memory of a process.
#[derive(Clone, Copy, Debug)]
pub struct Resident {
    /// Memory of its own, MiB.
    pub anonymous: f64,
    /// Pages of files and of kernel buffers that it has mapped, MiB.
    pub mapped: f64,
}

impl Resident {
    /// Returns all resident memory, MiB.
    pub fn total(self) -> f64 {
        self.anonymous + self.mapped
    }
}

impl Agent {
    /// Starts an agent and waits until it is ready.
    pub fn start(warptap: &Path, config: &Path) -> anyhow::Result<Agent> {
        let began = Instant::now();
        let mut command = Command::new(warptap);
        let mut child = command.arg("--config").arg(config).stderr(Stdio::piped()).spawn()?;
        let log = child.stderr.take().context("no log")?;
        let process = Killed(child);
        let mut lines = BufReader::new(log).lines();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains(READY));
        anyhow::ensure!(is_ready, "the agent did not start");
        let started_in = began.elapsed();
        // Its log must not block it.
        std::thread::spawn(move || lines.for_each(drop));
        Ok(Agent { process, started_in })
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Returns the CPU seconds of all its threads.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        cpu_seconds(self.pid())
    }

    /// Returns the resident memory of the agent, and that of the processes that it started.
    pub fn resident(&self) -> anyhow::Result<(Resident, Vec<Resident>)> {
        let pid = self.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().filter_map(|child| child.parse().ok());
        Ok((resident(pid)?, children.filter_map(|child| resident(child).ok()).collect()))
    }
}

/// Returns the resident memory of a process (proc_pid_smaps(5)).
fn resident(pid: u32) -> anyhow::Result<Resident> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let mib = |name| field(&text, name).map(|kib| kib / 1024.0).with_context(|| format!("no {name}"));
    let (all, anonymous) = (mib("Rss:")?, mib("Anonymous:")?);
    Ok(Resident { anonymous, mapped: all - anonymous })
}

fn field(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|l| l.strip_prefix(name))?.split_whitespace().next()?.parse().ok()
}

/// Returns the CPU seconds of all threads (proc_pid_schedstat(5)).
fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let mut ns = 0.0;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread that has just ended has no file any more.
        let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
        ns += text.split_whitespace().next().and_then(|n| n.parse::<f64>().ok()).unwrap_or(0.0);
    }
    Ok(ns / 1e9)
}
