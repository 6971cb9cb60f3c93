//! The real binary with a queue in a storage: OTLP in over HTTP, OTLP out over HTTP.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

/// How it is configured.
#[derive(Clone, Debug)]
pub struct Queue {
    pub storage: PathBuf,
    pub backend: SocketAddr,
    pub consumers: usize,
    pub fsync: bool,
    pub batch: bool,
}

/// A running agent; killed with this value.
pub struct Agent {
    pub address: SocketAddr,
    process: Child,
}

fn binary() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("WARPTAP_BINARY") {
        return Some(PathBuf::from(named));
    }
    let beside = std::env::current_exe().ok()?.parent()?.parent()?.join("warptap");
    beside.exists().then_some(beside)
}

/// Why there can be no agent.
pub fn missing() -> Option<&'static str> {
    binary().is_none().then_some("the binary was not built: `cargo build -p warptap` does that")
}

impl Agent {
    /// Starts, and returns when it is ready.
    pub fn start(queue: &Queue) -> Agent {
        // Another process may take a free port before it is used.
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

    /// Starts, and returns at once.
    pub fn launch(queue: &Queue) -> Agent {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut command = Command::new(binary().unwrap());
        command.arg("--config").arg(format!("yaml:{}", yaml(queue, address)));
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        Agent { address, process: process.unwrap() }
    }

    /// Kills it as the kernel does when memory runs out.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Asks it to stop, and waits for that.
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

/// Waits for the line that says it is ready; the log where it never comes.
fn ready(stderr: ChildStderr) -> Result<(), String> {
    let mut lines = BufReader::new(stderr).lines().map_while(Result::ok);
    let mut log = String::new();
    for line in lines.by_ref() {
        if line.contains("Everything is ready") {
            let is_shown = std::env::var_os("WARPTAP_CHAOS_LOG").is_some();
            // To its end, so that it never waits for someone to read.
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
