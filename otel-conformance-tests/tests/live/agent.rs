//! A running agent: the real binary with real probes, if this machine allows them.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use otel_conformance_tests::Program;
use simulator::player::Player;

/// Longest wait for an event.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Locks out other live tests on this machine until the file is dropped, since their processes would use its CPUs.
pub fn turn() -> File {
    let turn = File::create(std::env::temp_dir().join("warptap-live.lock")).unwrap();
    turn.lock().unwrap();
    turn
}

/// Starts a player of a script that waits for the start; its log is `NAME.oracle` in `dir`.
pub fn player(binary: &Path, dir: &Path, name: &str, script: &str) -> Player {
    let path = |end: &str| dir.join(format!("{name}.{end}"));
    fs::write(path("script"), script).unwrap();
    let mut command = first_of_all(binary);
    command.arg("player").arg(path("script")).arg("--wait-go");
    command.arg("--oracle").arg(path("oracle")).arg("--stubs").arg(dir.join("stubs"));
    Player::start(command).unwrap()
}

/// Returns a command with real-time priority if permitted, so that jitter is that of the script.
fn first_of_all(binary: &Path) -> Command {
    let real_time = ["-r", "1"];
    let may = Command::new("chrt").args(real_time).arg("true").stderr(Stdio::null()).status();
    if !may.is_ok_and(|status| status.success()) {
        return Command::new(binary);
    }
    let mut command = Command::new("chrt");
    command.args(real_time).arg(binary);
    command
}

/// The configuration of an agent. Mappings are their content in YAML's flow style.
#[derive(Clone, Copy, Default)]
pub struct Setup<'a> {
    /// Processes to trace.
    pub pids: &'a [u32],
    /// More of the receiver's configuration, after a comma.
    pub receiver: &'a str,
    /// The exporter's configuration.
    pub exporter: &'a str,
    /// Extensions.
    pub extensions: &'a str,
    /// An additional receiver of metrics.
    pub other: &'a str,
    /// Environment variables.
    pub variables: &'a [(&'a str, &'a Path)],
}

impl Setup<'_> {
    fn config(&self) -> String {
        let Setup { receiver, exporter, extensions, other, .. } = self;
        let pids: Vec<String> = self.pids.iter().map(u32::to_string).collect();
        let comma = if other.is_empty() { "" } else { ", " };
        format!(
            "receivers: {{gpu: {{pin: {{enabled: false}}, overhead: {{budget: 100%}}, capture: {{trace_all: false, pids: [{}]}}{receiver}}}{comma}{other}}}\n\
             exporters: {{otlp_grpc: {{{exporter}}}}}\nextensions: {{{extensions}}}\n\
             service:\n  extensions: [{}]\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n\
             \x20   traces: {{receivers: [gpu], exporters: [otlp_grpc]}}\n\
             \x20   metrics: {{receivers: [gpu{comma}{}], exporters: [otlp_grpc]}}\n\
             \x20   logs: {{receivers: [gpu], exporters: [otlp_grpc]}}\n",
            pids.join(", "),
            name(extensions),
            name(other)
        )
    }
}

/// Returns the first key of a mapping.
fn name(mapping: &str) -> &str {
    mapping.split(':').next().unwrap_or_default()
}

/// A running agent; killed on drop.
pub struct Agent(Program);

impl Agent {
    /// Starts an agent that traces processes; returns when its probes are attached. `receiver` is more of the
    /// receiver's configuration, `exporter` that of the exporter, both in YAML's flow style.
    pub fn start(binary: &Path, dir: &Path, pids: &[u32], receiver: &str, exporter: &str) -> Agent {
        Agent::start_with(binary, dir, pids, receiver, exporter, "")
    }

    /// Starts an agent with extensions, the content of a mapping in YAML's flow style.
    pub fn start_with(
        binary: &Path,
        dir: &Path,
        pids: &[u32],
        receiver: &str,
        exporter: &str,
        extensions: &str,
    ) -> Agent {
        let setup = Setup { pids, receiver, exporter, extensions, ..Setup::default() };
        Agent::set_up(binary, dir, &setup)
    }

    /// Starts an agent with a setup.
    pub fn set_up(binary: &Path, dir: &Path, setup: &Setup<'_>) -> Agent {
        Agent::run(binary, dir, &setup.config(), setup.variables)
    }

    /// Starts an agent with a complete configuration.
    pub fn run(binary: &Path, dir: &Path, config: &str, variables: &[(&str, &Path)]) -> Agent {
        let path = tempfile::Builder::new().suffix(".yaml").tempfile_in(dir).unwrap().keep().unwrap().1;
        fs::write(&path, config).unwrap();
        let mut command = Command::new(binary);
        command.envs(variables.iter().copied()).arg("--config").arg(&path);
        match Program::start(&mut command).ready() {
            Ok(program) => Agent(program),
            Err(log) => panic!("the agent is not ready:\n{log}"),
        }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Kills the process and waits for its exit.
    pub fn kill(self) {
        self.0.kill();
    }
}
