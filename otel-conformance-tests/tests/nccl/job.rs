//! A distributed job of stub processes, and agents that watch it: both the real binary.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stubs::oracle::{Line, NcclLine, WaitLine, read};
use stubs::player::Player;
use tempfile::TempDir;

/// How long anything that is waited for may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The ranks of a script, a process each, that wait for the word.
pub struct Job {
    player: Option<Player>,
    /// Process ids, by rank.
    pub ranks: Vec<u32>,
    /// What it does, what it wrote.
    pub dir: TempDir,
    /// One at a time on this machine: another's processes would take the CPUs of these.
    _turn: File,
}

impl Job {
    /// Starts a script's ranks.
    pub fn start(binary: &Path, script: &str) -> Job {
        let turn = File::create(std::env::temp_dir().join("warptap-live.lock")).unwrap();
        turn.lock().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("script"), script).unwrap();
        let mut command = first_of_all(binary);
        command.arg("player").arg(dir.path().join("script")).arg("--wait-go");
        command.arg("--oracle").arg(dir.path().join("oracle")).arg("--stubs").arg(dir.path().join("stubs"));
        let player = Player::start(command).unwrap();
        let mut ranks: Vec<(u32, u32)> = children(player.pid()).map(|pid| (rank_of(pid), pid)).collect();
        ranks.sort_unstable();
        assert!(!ranks.is_empty(), "the player leads its ranks");
        let ranks = ranks.into_iter().map(|(_, pid)| pid).collect();
        Job { player: Some(player), ranks, dir, _turn: turn }
    }

    /// Gives the word.
    pub fn go(&mut self) {
        self.player.as_mut().unwrap().go().unwrap();
    }

    /// Waits until all ranks have done what they had to.
    pub fn done(&mut self) {
        self.player.as_mut().unwrap().done().unwrap();
    }

    /// Ends it, wherever its ranks are.
    pub fn end(&mut self) {
        self.player = None;
    }

    /// The calls that were made, in the order of the log.
    pub fn calls(&self) -> Vec<NcclLine> {
        self.lines().filter_map(|line| if let Line::Nccl(call) = line { Some(call) } else { None }).collect()
    }

    /// The waits.
    pub fn waits(&self) -> Vec<WaitLine> {
        self.lines().filter_map(|line| if let Line::Wait(wait) = line { Some(wait) } else { None }).collect()
    }

    fn lines(&self) -> impl Iterator<Item = Line> {
        read(&self.dir.path().join("oracle")).unwrap().into_iter()
    }

    /// Waits until `holds` of the calls made so far.
    pub fn until(&self, what: &str, holds: impl Fn(&[NcclLine]) -> bool) {
        let began = Instant::now();
        while !holds(&self.calls()) {
            assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The name of the communicator that the script calls so, as the agent should tell it.
    pub fn hash(&self, name: &str) -> String {
        let calls = self.calls();
        let made = calls.iter().find(|c| c.communicator == name && c.entry.len() == 256);
        let id = &made.unwrap_or_else(|| panic!("{name} was made of an id")).entry;
        let byte = |at: usize| u8::from_str_radix(&id[at * 2..at * 2 + 2], 16).unwrap();
        format!("{:#x}", nccl::hash::of_unique_id(&std::array::from_fn(byte)))
    }
}

/// A command that goes before whatever else this machine does, where it may: jitter is to be the script's.
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

fn children(pid: u32) -> impl Iterator<Item = u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children = threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap());
    let pids: Vec<u32> =
        children.flat_map(|c| c.split_whitespace().map(|p| p.parse().unwrap()).collect::<Vec<_>>()).collect();
    pids.into_iter()
}

fn rank_of(pid: u32) -> u32 {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let text = String::from_utf8_lossy(&environ).into_owned();
    let rank = text.split('\0').find_map(|variable| variable.strip_prefix("RANK="));
    rank.expect("the leader tells its ranks who they are").parse().unwrap()
}

/// A running agent; killed at the end.
pub struct Agent(Child);

impl Agent {
    /// Starts an agent that watches these processes; returns when its probes are in place. `receiver` is more of the
    /// receiver's configuration, `exporter` that of the exporter, both in YAML's flow style.
    pub fn start(binary: &Path, dir: &Path, pids: &[u32], receiver: &str, exporter: &str) -> Agent {
        Agent::start_with(binary, dir, pids, receiver, exporter, "")
    }

    /// The same with extensions: a mapping's inside, in YAML's flow style.
    pub fn start_with(
        binary: &Path,
        dir: &Path,
        pids: &[u32],
        receiver: &str,
        exporter: &str,
        extensions: &str,
    ) -> Agent {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let names: Vec<&str> = extensions.split(':').next().into_iter().filter(|n| !n.is_empty()).collect();
        let config = format!(
            "receivers:\n  gpu: {{capture: {{trace_all: false, pids: [{}]}}{receiver}}}\n\
             exporters:\n  otlp_grpc: {{{exporter}}}\nextensions: {{{extensions}}}\n\
             service:\n  extensions: [{}]\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n\
             \x20   traces: {{receivers: [gpu], exporters: [otlp_grpc]}}\n\
             \x20   metrics: {{receivers: [gpu], exporters: [otlp_grpc]}}\n\
             \x20   logs: {{receivers: [gpu], exporters: [otlp_grpc]}}\n",
            pids.join(", "),
            names.join(", ")
        );
        let path = tempfile::Builder::new().suffix(".yaml").tempfile_in(dir).unwrap().keep().unwrap().1;
        fs::write(&path, config).unwrap();
        let mut child =
            Command::new(binary).arg("--config").arg(&path).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let agent = Agent(child);
        let mut log = String::new();
        let is_ready = lines.by_ref().map_while(Result::ok).any(|line| {
            log = format!("{log}{line}\n");
            line.contains("Everything is ready")
        });
        assert!(is_ready, "the agent is not ready:\n{log}");
        std::thread::spawn(move || lines.for_each(drop));
        agent
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
