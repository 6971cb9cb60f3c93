//! The agent that is attacked: its memory, CPU time, log and end.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use otel_conformance_tests::free_address;

/// Longest wait for its start, and for its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running agent; killed on drop.
pub struct Agent {
    child: Child,
    log: PathBuf,
    /// Address of its OTLP receiver for HTTP.
    pub http: SocketAddr,
    /// The most memory of its own that was seen, MiB.
    pub own_mib: f64,
    /// The most resident memory since its start, MiB.
    pub resident_mib: f64,
}

impl Agent {
    /// Starts an agent that traces every process and exports by the exporter with these settings.
    pub fn start(warptap: &Path, dir: &Path, exporter: &str) -> Agent {
        fs::create_dir(dir).unwrap();
        let (http, config, log) = (free_address(), dir.join("agent.yaml"), dir.join("log"));
        fs::write(&config, self::config(http, dir, exporter)).unwrap();
        let mut command = Command::new(warptap);
        command.arg("--config").arg(config).stdin(Stdio::null()).stderr(File::create(&log).unwrap());
        let child = command.spawn().unwrap();
        let agent = Agent { child, log, http, own_mib: 0.0, resident_mib: 0.0 };
        let began = Instant::now();
        while !agent.read_log().contains("Everything is ready") {
            assert!(began.elapsed() < PATIENCE, "the agent is not ready:\n{}", agent.read_log());
            std::thread::sleep(Duration::from_millis(20));
        }
        agent
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn read_log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap()).into_owned()
    }

    /// Returns the number of characters in its log that would control a terminal.
    pub fn control_characters_in_log(&self) -> usize {
        self.read_log().chars().filter(|c| c.is_control() && !"\t\n".contains(*c)).count()
    }

    /// Notes its memory.
    pub fn measure(&mut self) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let mib = |name| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
        };
        self.own_mib = self.own_mib.max(mib("RssAnon:"));
        self.resident_mib = mib("VmHWM:");
    }

    /// Returns the CPU time of all its threads.
    pub fn cpu_seconds(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        // utime and stime in ticks of 10 ms (proc_pid_stat(5)).
        fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
    }

    /// Requests its end by SIGTERM; returns how long it took.
    pub fn stop(&mut self) -> (Duration, ExitStatus) {
        let began = Instant::now();
        assert!(Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap().success());
        loop {
            match self.child.try_wait().unwrap() {
                Some(status) => return (began.elapsed(), status),
                None => assert!(began.elapsed() < PATIENCE, "the agent does not end"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the configuration: the defaults, with exact counts, and without pins, which another agent may use.
fn config(http: SocketAddr, dir: &Path, exporter: &str) -> String {
    let pipeline =
        |signal: &str| format!("    {signal}: {{receivers: [gpu, otlp], exporters: [otlp_grpc, file]}}\n");
    let pipelines: String = ["metrics", "traces", "logs"].map(pipeline).concat();
    format!(
        "receivers:\n  gpu: {{pin: {{enabled: false}}, overhead: {{budget: 100%}}}}\n  otlp: {{protocols: {{http: {{endpoint: '{http}'}}}}}}\n\
         exporters:\n  otlp_grpc: {{{exporter}}}\n  file: {{path: '{}'}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  pipelines:\n{pipelines}",
        dir.join("data.jsonl").display()
    )
}
