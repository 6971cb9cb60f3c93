//! The cost of an agent that has nothing to watch: `cargo build --release -p warptap && cargo run --release -p benches --bin
//! idle_cost`. Needs root.
//!
//! Promises for the gpu receiver alone with its defaults, while no process uses a GPU: at most 20 MiB resident, at most
//! 0.2 % of a core, and at most a second from its exec to the log line that it is ready. Other processes that start
//! meanwhile cost the agent CPU, since each of their mappings is reported to it: how busy the machine was is printed.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use benches::agent::{self, Agent};
use benches::{Promise, median};

const STARTS: usize = 5;
const SETTLED_AFTER: Duration = Duration::from_secs(10);
const SECONDS: u64 = 60;
/// A directory for pins beside the default one, which another agent may use.
const PINS: &str = "/sys/fs/bpf/warptap-idle-cost";

fn main() -> anyhow::Result<()> {
    let warptap = match agent::binary() {
        Ok(warptap) => warptap,
        Err(reason) => {
            eprintln!("skipped: {reason}");
            return Ok(());
        }
    };
    let dir = tempfile::tempdir()?;
    let config = dir.path().join("agent.yaml");
    fs::write(&config, agent::config(&format!("    pin:\n      path: {PINS}\n")))?;
    let bench = Bench { warptap, config };
    let measured = bench.run();
    bench.unpin();
    measured
}

struct Bench {
    warptap: PathBuf,
    config: PathBuf,
}

impl Bench {
    fn run(&self) -> anyhow::Result<()> {
        let mut started = Vec::new();
        for _ in 1..STARTS {
            started.push(self.start()?.started_in);
        }
        let agent = self.start()?;
        started.push(agent.started_in);
        sleep(SETTLED_AFTER);
        let (cpu_before, busy_before) = (agent.cpu_seconds()?, busy()?);
        sleep(Duration::from_secs(SECONDS));
        let cpu = agent.cpu_seconds()? - cpu_before;
        let busy = busy()?.share_since(&busy_before);
        let (resident, children) = agent.resident()?;
        println!("{:.1} MiB of its own, {:.1} MiB mapped", resident.anonymous, resident.mapped);
        for child in children {
            println!("its guard: {:.1} MiB of its own, {:.1} MiB mapped", child.anonymous, child.mapped);
        }
        println!("the machine was {:.0} % busy", busy * 100.0);
        Promise { what: "MiB resident", at_most: 20.0 }.print(resident.total());
        Promise { what: "% of a core", at_most: 0.2 }.print(cpu / SECONDS as f64 * 100.0);
        let started = median(started.iter().map(Duration::as_secs_f64));
        Promise { what: "s from exec to ready", at_most: 1.0 }.print(started);
        Ok(())
    }

    /// Starts an agent that adopts nothing.
    fn start(&self) -> anyhow::Result<Agent> {
        self.unpin();
        Agent::start(&self.warptap, &self.config)
    }

    fn unpin(&self) {
        let mut command = Command::new(&self.warptap);
        command.args(["unpin", "--path", PINS]).stdout(Stdio::null()).stderr(Stdio::null());
        // Without a bpf file system, nothing is pinned.
        if command.status().is_ok_and(|status| status.success()) {
            _ = fs::remove_dir(Path::new(PINS));
        }
    }
}

/// CPU time of the machine since its boot, in ticks (proc_stat(5)).
struct CpuTime {
    idle: u64,
    all: u64,
}

impl CpuTime {
    fn share_since(&self, before: &CpuTime) -> f64 {
        let all = (self.all - before.all).max(1) as f64;
        1.0 - (self.idle - before.idle) as f64 / all
    }
}

fn busy() -> anyhow::Result<CpuTime> {
    let text = fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // The fourth and fifth are idle time and time waiting for a disk.
    Ok(CpuTime { idle: ticks.iter().skip(3).take(2).sum(), all: ticks.iter().take(8).sum() })
}
