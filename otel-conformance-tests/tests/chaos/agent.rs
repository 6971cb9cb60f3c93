//! The real binary with a persistent queue, between OTLP over HTTP on both sides.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// Settings of its queue.
#[derive(Clone, Debug)]
pub struct Queue {
    pub storage: PathBuf,
    pub backend: SocketAddr,
    pub consumers: usize,
    pub fsync: bool,
    pub batch: bool,
}

/// A running agent, killed on drop.
pub struct Agent {
    pub address: SocketAddr,
    process: Child,
}

fn binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WARPTAP_BINARY") {
        return Some(PathBuf::from(named));
    }
    let binary = std::env::current_exe().ok()?.parent()?.parent()?.join("warptap");
    binary.exists().then_some(binary)
}

/// Returns the reason why the binary cannot run, if any.
pub fn missing() -> Option<&'static str> {
    binary().is_none().then_some("the binary was not built: `cargo build -p warptap` does that")
}

impl Agent {
    /// Starts the agent and waits until it is ready.
    pub fn start(queue: &Queue) -> Agent {
        // Another process may use a free port first.
        for _ in 0..3 {
            let mut agent = Agent::launch(queue);
            let stderr = agent.process.stderr.take().unwrap();
            match ready(stderr) {
                Ok(()) => return agent,
                Err(log) if log.contains("ddress already in use") => {}
                Err(log) => panic!("the agent does not start:\n{log}"),
            }
        }
        panic!("no free port found");
    }

    /// Starts the agent without waiting.
    pub fn launch(queue: &Queue) -> Agent {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(binary().unwrap());
        command.arg("--config").arg(format!("yaml:{}", yaml(queue, address)));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Agent { address, process: process.unwrap() }
    }

    /// Kills the agent with SIGKILL, as the kernel does when memory is exhausted.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops the agent with a signal and waits for its end.
    pub fn stop(mut self) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        let status = self.process.wait().unwrap();
        assert!(status.success(), "it ends well: {status}");
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the line that reports readiness; returns the log if the agent ends without it.
fn ready(stderr: ChildStderr) -> Result<(), String> {
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut log = String::new();
    for line in lines.by_ref() {
        if line.contains("Everything is ready") {
            let is_shown = std::env::var_os("WARPTAP_CHAOS_LOG").is_some();
            // The log is read to its end, so that the agent never blocks on it.
            std::thread::spawn(move || {
                lines.for_each(|line| {
                    if is_shown {
                        eprintln!("{line}")
                    }
                })
            });
            return Ok(());
        }
        log = format!("{log}{line}\n");
    }
    Err(log)
}

fn yaml(queue: &Queue, address: SocketAddr) -> String {
    let Queue { storage, backend, consumers, fsync, batch } = queue;
    let batch = if *batch { "{flush_timeout: 20ms, min_size: 10, max_size: 20}" } else { "{enabled: false}" };
    format!(
        "{{receivers: {{otlp: {{protocols: {{http: {{endpoint: '{address}'}}}}}}}}, \
         extensions: {{file_storage: {{directory: {storage:?}, fsync: {fsync}, timeout: 10s}}}}, \
         exporters: {{otlp_http: {{endpoint: 'http://{backend}', compression: none, timeout: 2s, \
         retry_on_failure: {{initial_interval: 20ms, max_interval: 100ms, max_elapsed_time: 0}}, \
         sending_queue: {{storage: file_storage, queue_size: 100000, num_consumers: {consumers}, \
         batch: {batch}}}}}}}, \
         service: {{telemetry: {{metrics: {{level: none}}}}, extensions: [file_storage], \
         pipelines: {{logs: {{receivers: [otlp], exporters: [otlp_http]}}}}}}}}"
    )
}
