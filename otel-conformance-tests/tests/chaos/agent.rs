//! The real binary with a persistent queue, between OTLP over HTTP on both sides.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use otel_conformance_tests::{Program, free_address, warptap_program};

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
    program: Program,
}

impl Agent {
    /// Starts the agent and waits until it is ready.
    pub fn start(queue: &Queue) -> Agent {
        // Another process may use a free port first.
        for _ in 0..3 {
            let Agent { address, program } = Agent::launch(queue);
            match program.ready() {
                Ok(program) => return Agent { address, program },
                Err(log) if log.contains("ddress already in use") => {}
                Err(log) => panic!("the agent does not start:\n{log}"),
            }
        }
        panic!("no free port found");
    }

    /// Starts the agent without waiting.
    pub fn launch(queue: &Queue) -> Agent {
        let address = free_address();
        let mut command = Command::new(warptap_program().unwrap());
        command.arg("--config").arg(format!("yaml:{}", yaml(queue, address)));
        Agent { address, program: Program::start(command.stdout(Stdio::null())) }
    }

    /// Kills it as the kernel does when memory runs out.
    pub fn kill(self) {
        self.program.kill();
    }

    /// Requests its end, and waits for it.
    pub fn stop(self) {
        let status = self.program.stop();
        assert!(status.success(), "it ends well: {status}");
    }
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
