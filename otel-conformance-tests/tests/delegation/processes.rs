//! The processes of a collector: itself, the guard of the Collector beside it, and that Collector.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use otel_conformance_tests::Program;

/// Longest wait for an event.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Returns free ports of this machine.
pub fn free_ports<const N: usize>() -> [u16; N] {
    let bound = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    bound.map(|listener| listener.local_addr().unwrap().port())
}

/// Starts a collector with a configuration and without own metrics; the sockets of delegation are in `dir`.
pub fn start(program: &Path, beside: Option<&Path>, yaml: &str, dir: &Path) -> Result<Program, String> {
    start_with(program, beside, yaml, dir, &["--config", "yaml:service::telemetry::metrics::level: none"])
}

/// Starts a collector with a configuration and further arguments.
pub fn start_with(
    program: &Path,
    beside: Option<&Path>,
    yaml: &str,
    dir: &Path,
    arguments: &[&str],
) -> Result<Program, String> {
    let path = dir.join("config.yaml");
    std::fs::write(&path, yaml).unwrap();
    let mut command = Command::new(program);
    command.arg("--config").arg(&path).args(arguments);
    command.current_dir(dir).stdout(Stdio::null());
    command.env("RUNTIME_DIRECTORY", dir);
    if let Some(beside) = beside {
        command.arg("--collector").arg(beside);
    }
    Program::start(&mut command).ready()
}

/// Returns the processes that a process started, and theirs, in that order.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut found = vec![pid];
    let all: Vec<(u32, u32)> = std::fs::read_dir("/proc").unwrap().flatten().filter_map(parent).collect();
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(all.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// Returns a process and its parent, from an entry of /proc.
fn parent(entry: std::fs::DirEntry) -> Option<(u32, u32)> {
    let pid = entry.file_name().to_str()?.parse().ok()?;
    let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
    let mut rest = stat.rsplit_once(") ")?.1.split(' ');
    Some((pid, rest.nth(1)?.parse().ok()?))
}

/// Kills processes.
pub fn kill(pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    assert!(Command::new("kill").arg("-KILL").args(pids).status().unwrap().success());
}

/// Returns whether a process runs; one that only waits for its parent does not.
pub fn is_running(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Waits until something holds.
#[track_caller]
pub fn wait(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the directories of sockets in `dir`.
pub fn socket_directories(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("warptap-")).collect()
}
