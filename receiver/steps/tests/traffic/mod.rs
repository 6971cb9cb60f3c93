//! Servers with known steps, as the kernel reports them.
//!
//! The work and duration of every step are generated from a seed, so that a test knows the truth of each.
#![allow(dead_code, reason = "every test file uses a part of it")]

#[path = "../../src/testing.rs"]
mod testing;

pub mod load;

use event::{Event, ProcessId, ProcessInfo, StepRecord};
use probe_abi::fold::Counter;
use steps::{BaselineShift, Engine, Finding, Step};

pub(crate) use testing::Rng;
#[allow(unused_imports, reason = "every test file uses a part of it")]
pub(crate) use testing::allocated_bytes;

pub const MS: f64 = 1e6;
/// `cudaStreamSynchronize`.
const STREAM_SYNC: u16 = 30;

/// Returns all findings of an engine that observes these events.
pub fn found<'a>(
    engine: &mut Engine,
    events: impl IntoIterator<Item = &'a Event>,
) -> (Vec<Step>, Vec<BaselineShift>) {
    let mut findings = Vec::new();
    events.into_iter().for_each(|event| engine.observe(event, &mut findings));
    engine.finish(&mut findings);
    sorted(findings)
}

/// Returns steps and lasting changes separately.
pub fn sorted(findings: Vec<Finding>) -> (Vec<Step>, Vec<BaselineShift>) {
    let (mut steps, mut shifts) = (Vec::new(), Vec::new());
    for finding in findings {
        match finding {
            Finding::Step(step) => steps.push(step),
            Finding::BaselineShift(shift) => shifts.push(shift),
        }
    }
    (steps, shifts)
}

/// The launches of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Tokens for `batch` requests, by the graph captured for that many.
    Decode { batch: u64 },
    /// An eager prompt of `tokens`.
    Prefill { tokens: u64 },
}

/// An inference server with one stream.
#[derive(Clone, Debug)]
pub struct Server {
    pub process: ProcessId,
    /// The base address of the process, of which fingerprints are made.
    pub addresses: u64,
    pub now_ns: u64,
    sequence: u64,
}

impl Server {
    pub fn new(pid: u32) -> Server {
        let process = ProcessId { pid, start_ns: 5 };
        Server { process, addresses: 0x9000, now_ns: 10_000_000_000, sequence: 0 }
    }

    /// Returns the description of its process: equal for all servers of this model.
    pub fn info(&self, model: &str) -> Event {
        Event::Process(Box::new(ProcessInfo {
            process: self.process,
            executable: "python3.12".to_owned(),
            executable_path: "/usr/bin/python3.12".to_owned(),
            command: ["python3", "vllm", "serve", model, "--port", &self.process.pid.to_string()]
                .map(str::to_owned)
                .to_vec(),
            ..ProcessInfo::default()
        }))
    }

    /// Returns the next step, of `ns`: the host takes a tenth of it, a millisecond at most.
    pub fn step(&mut self, shape: Shape, ns: f64) -> Event {
        let enqueue_ns = (ns / 10.0).min(MS) as u64;
        let mut record = StepRecord {
            stream: 0xbeef_0000,
            sequence: self.sequence,
            previous_exit_ns: if self.sequence == 0 { 0 } else { self.now_ns },
            first_ns: self.now_ns + 1_000_000,
            first_tid: self.process.pid,
            ..StepRecord::default()
        };
        let header = &mut record.header;
        (header.row, header.pid, header.tid) = (STREAM_SYNC, self.process.pid, self.process.pid);
        header.process_start_ns = self.process.start_ns;
        (header.entry_ns, header.duration_ns) = (record.first_ns + enqueue_ns, ns as u64 - enqueue_ns);
        self.now_ns = header.entry_ns + header.duration_ns;
        self.sequence += 1;
        for (counter, value) in self.work(shape) {
            record.work[counter as usize] = value;
        }
        let enqueues = [Counter::Launches, Counter::GraphLaunches, Counter::Copies];
        let enqueues: u64 = enqueues.into_iter().map(|c| record.work[c as usize]).sum();
        record.work[Counter::Enqueues as usize] = enqueues;
        (record.enqueued_since_sync, record.process_enqueued_since_sync) = (enqueues, enqueues);
        Event::Step(record)
    }

    fn work(&self, shape: Shape) -> Vec<(Counter, u64)> {
        match shape {
            Shape::Decode { batch } => vec![
                (Counter::GraphLaunches, 1),
                (Counter::Graphs, self.addresses + batch),
                (Counter::Copies, 9),
                (Counter::Launches, 4),
                (Counter::Functions, self.addresses + 7),
                (Counter::Threads, 920_000 * batch),
            ],
            Shape::Prefill { tokens } => vec![
                (Counter::Launches, 768),
                (Counter::Functions, self.addresses + tokens.ilog2() as u64),
                (Counter::Threads, 768 * 440 * tokens),
                (Counter::Copies, 20),
            ],
        }
    }
}
