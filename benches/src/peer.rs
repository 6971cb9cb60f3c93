//! A collector that is measured: a process with a configuration, and what it costs with the processes that it started.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context as _, bail};
use tempfile::TempDir;

/// A running collector; killed on drop.
pub struct Peer {
    child: Child,
    folder: TempDir,
}

impl Peer {
    /// Starts a program with a configuration and further arguments.
    pub fn start(program: &Path, configuration: &str, arguments: &[&str]) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = folder.path().join("config.yaml");
        fs::write(&config, configuration)?;
        let log = fs::File::create(folder.path().join("log"))?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&config).args(arguments).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().with_context(|| program.display().to_string())?;
        Ok(Peer { child, folder })
    }

    /// Returns what it has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Returns user and system CPU seconds (proc(5), fields 14 and 15, in hundredths of a second) of all its processes.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        // By then the work of the last requests is done.
        thread::sleep(Duration::from_millis(300));
        let ticks: f64 = self.processes()?.iter().map(|stat| stat.cpu_ticks).sum();
        Ok(ticks / 100.0)
    }

    /// Returns the peak resident memory in MiB of all its processes.
    pub fn rss_mib(&self) -> anyhow::Result<f64> {
        self.processes()?.iter().map(|stat| peak_mib(stat.pid)).sum()
    }

    fn processes(&self) -> anyhow::Result<Vec<Stat>> {
        let all: Vec<Stat> = fs::read_dir("/proc")?.flatten().filter_map(|e| stat(&e.path())).collect();
        let mut family = vec![self.child.id()];
        let mut at = 0;
        while let Some(parent) = family.get(at).copied() {
            family.extend(all.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid));
            at += 1;
        }
        let family: Vec<Stat> = all.into_iter().filter(|stat| family.contains(&stat.pid)).collect();
        if family.is_empty() {
            bail!("it has ended:\n{}", self.log());
        }
        Ok(family)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

struct Stat {
    pid: u32,
    parent: u32,
    cpu_ticks: f64,
}

/// Reads a process; none if it has ended, or if the entry is none.
fn stat(entry: &Path) -> Option<Stat> {
    let pid = entry.file_name()?.to_str()?.parse().ok()?;
    let text = fs::read_to_string(entry.join("stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    Some(Stat { pid, parent: fields.get(1)?.parse().ok()?, cpu_ticks: number(11)? + number(12)? })
}

fn peak_mib(pid: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).context("VmHWM of proc(5)")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

/// Returns a port that is free now.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("localhost:0")?.local_addr()?.port())
}

/// Returns the path of the Collector that the conformance tests built, if it exists.
pub fn built_collector() -> Option<std::path::PathBuf> {
    let target = std::env::current_exe().ok()?.ancestors().nth(2)?.join("peers");
    let folders = fs::read_dir(target).ok()?.flatten().map(|e| e.path().join("built/otelcol"));
    folders.filter(|program| program.is_file()).max()
}
