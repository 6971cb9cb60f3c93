//! Privileges of the running binary: every thread has dropped what no component uses, unless that is configured.

#![allow(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::thread::CapabilitySet;
use tempfile::TempDir;
use warptap::privileges::CAPABILITIES;

/// A running collector, which is killed on drop.
struct Collector {
    process: Child,
    log: String,
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Collector {
    /// Starts one with this exporter and these further keys of the service, and waits until it is ready.
    fn start(folder: &Path, exporter: &str, service: &str) -> Collector {
        let config = folder.join("config.yaml");
        let yaml = format!(
            "receivers: {{otlp: {{protocols: {{http: {{endpoint: 'localhost:0'}}}}}}}}\nexporters: {{{exporter}}}\n\
             service: {{{service}telemetry: {{metrics: {{level: none}}}}, pipelines: {{logs: {{receivers: [otlp], exporters: [{}]}}}}}}\n",
            exporter.split(':').next().unwrap()
        );
        std::fs::write(&config, yaml).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_warptap"));
        let mut process = command.arg("--config").arg(config).stderr(Stdio::piped()).spawn().unwrap();
        let mut log = String::new();
        let mut lines = BufReader::new(process.stderr.take().unwrap());
        while !log.contains("Everything is ready") {
            assert!(lines.read_line(&mut log).unwrap() > 0, "{log}");
        }
        Collector { process, log }
    }

    /// Returns a value of /proc/PID/status for each thread (proc_pid_status(5)).
    fn of_threads(&self, key: &str) -> Vec<u64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        let value = |task: std::fs::DirEntry| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap();
            let value = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':')).unwrap();
            u64::from_str_radix(value.trim(), 16).unwrap()
        };
        tasks.flatten().map(value).collect()
    }
}

fn own_capabilities() -> CapabilitySet {
    rustix::thread::capabilities(None).unwrap().permitted
}

#[test]
fn every_thread_has_dropped_what_no_component_uses() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path(), "nop: {}", "");
    let always = CAPABILITIES.iter().filter(|c| c.components.is_empty());
    let kept = always.fold(CapabilitySet::empty(), |all, c| all | c.set) & own_capabilities();
    for key in ["CapPrm", "CapEff"] {
        let of_threads = collector.of_threads(key);
        assert!(
            of_threads.len() > 1 && of_threads.iter().all(|set| *set == kept.bits()),
            "{key} {of_threads:x?}"
        );
    }
    if own_capabilities().contains(CapabilitySet::SETPCAP) {
        assert!(collector.of_threads("CapBnd").iter().all(|set| *set == kept.bits()));
    }
    assert!(collector.of_threads("NoNewPrivs").iter().all(|set| *set == 1));
    assert!(collector.of_threads("Seccomp").iter().all(|mode| *mode == 2), "a filter");
    assert!(collector.log.contains("capabilities kept: "), "{}", collector.log);
}

#[test]
fn exporter_of_files_may_write_in_directories_of_other_users() {
    let folder = TempDir::new().unwrap();
    let exporter = format!("file: {{path: {}}}", folder.path().join("out.jsonl").display());
    let collector = Collector::start(folder.path(), &exporter, "");
    let expected = own_capabilities() & CapabilitySet::DAC_OVERRIDE;
    assert!(
        collector
            .of_threads("CapEff")
            .iter()
            .all(|set| CapabilitySet::from_bits_retain(*set).contains(expected))
    );
}

#[test]
fn privileges_are_kept_for_a_reason() {
    let folder = TempDir::new().unwrap();
    let collector = Collector::start(folder.path(), "nop: {}", "keep_privileges: a driver needs them, ");
    assert!(collector.of_threads("CapPrm").iter().all(|set| *set == own_capabilities().bits()));
    assert!(collector.log.contains("privileges are kept: a driver needs them"), "{}", collector.log);
}
