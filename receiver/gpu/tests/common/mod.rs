//! A simulated GPU machine: events for the analysis, and access to its output.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod job;

use event::{CallRecord, ClockOffsets, Event, EventSource, ProcessId, ProcessInfo};
use gpu::Settings;
pub use instrumentation::testing::*;
use opentelemetry_proto::tonic::metrics::v1::ExponentialHistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use probe_abi::Direction;
use probe_abi::record::Header;
use trace::Call;
use trace::fold::{Bounds, Folder};

pub const US: u64 = 1_000;
pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000_000_000;
/// Offset of the wall clock to event time, ns.
pub const UNIX: u64 = 1_700_000_000 * SECOND;

/// Returns the id of a row.
pub fn row(symbol: &str) -> u16 {
    probe_abi::PROBES.iter().find(|p| p.symbol == symbol).expect("a probed function").id
}

/// Different kernels of a server's passes, fewer than there are lanes.
const KERNELS: u64 = 40;

/// A process that makes calls.
#[derive(Clone, Debug)]
pub struct Program {
    pub info: ProcessInfo,
    pub now_ns: u64,
    pub calls: Vec<Call>,
    stream: u64,
}

impl Program {
    pub fn new(pid: u32) -> Program {
        let process = ProcessId { pid, start_ns: u64::from(pid) * 1_000 };
        let info = ProcessInfo {
            process,
            at_ns: SECOND,
            executable: "python3.12".to_owned(),
            executable_path: "/usr/bin/python3.12".to_owned(),
            command: ["python3", "/usr/bin/vllm", "serve", "meta/llama"].map(str::to_owned).to_vec(),
            observed: vec!["libcudart.so.12".to_owned()],
            ..ProcessInfo::default()
        };
        Program { info, now_ns: 2 * SECOND, calls: Vec::new(), stream: 0x7000 }
    }

    pub fn on_stream(&mut self, stream: u64) {
        self.stream = stream;
    }

    pub fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    pub fn call(&mut self, symbol: &str, duration_ns: u64, change: impl FnOnce(&mut Call)) {
        let mut call = Call {
            process: self.info.process,
            tid: self.info.process.pid,
            row: row(symbol),
            entry_ns: self.now_ns,
            duration_ns,
            stream: self.stream,
            ..Call::default()
        };
        change(&mut call);
        self.calls.push(call);
        self.now_ns += duration_ns + US;
    }

    /// Launches a kernel that no other step has.
    pub fn launch_unusual(&mut self) {
        self.call("cudaLaunchKernel", US, |c| (c.threads, c.identity) = (20_000, 1 + KERNELS));
    }

    /// Decodes one token: a graph launch, and a wait for an event.
    pub fn decode(&mut self, wait_ns: u64) {
        self.call("cudaMemcpyAsync", 5 * US, |c| (c.bytes, c.direction) = (4096, Direction::HostToDevice));
        self.call("cudaGraphLaunch", 50 * US, |c| (c.handle, c.identity) = (Some(0x9), 0x9));
        self.call("cudaMemcpyAsync", 5 * US, |c| (c.bytes, c.direction) = (512, Direction::DeviceToHost));
        self.call("cudaEventRecord", 2 * US, |c| c.handle = Some(0xe));
        self.call("cudaEventSynchronize", wait_ns, |c| c.handle = Some(0xe));
        self.wait(300 * US);
    }

    /// Captures the graph that decodes launch.
    pub fn capture(&mut self) {
        self.call("cudaStreamBeginCapture", US, |_| {});
        for kernel in 0..400 {
            self.call("cudaLaunchKernel", US, |c| (c.threads, c.identity) = (20_000, 1 + kernel % KERNELS));
        }
        self.call("cudaStreamEndCapture", US, |c| c.handle = Some(0xa));
        self.call("cudaGraphInstantiate", MS, |c| (c.handle, c.graph) = (Some(0x9), 0xa));
    }

    /// Processes a prompt: many large kernels, and a wait for an event.
    pub fn prefill(&mut self, wait_ns: u64) {
        self.call("cudaMemcpyAsync", 9 * US, |c| (c.bytes, c.direction) = (1 << 20, Direction::HostToDevice));
        for kernel in 0..400 {
            self.call("cudaLaunchKernel", US, |c| (c.threads, c.identity) = (400_000, 1 + kernel % KERNELS));
        }
        self.call("cudaEventRecord", 2 * US, |c| c.handle = Some(0xe));
        self.call("cudaEventSynchronize", wait_ns, |c| c.handle = Some(0xe));
        self.wait(300 * US);
    }

    /// Makes `count` decodes of about `wait_ns`, and some prompts.
    pub fn serve(&mut self, count: u64, wait_ns: u64) {
        for step in 0..count {
            if step % 20 == 7 {
                self.prefill(4 * wait_ns + step % 5 * 10 * US);
            }
            self.decode(wait_ns + step % 7 * 10 * US);
        }
    }

    /// Makes a decode every two seconds, and an allocation every minute that is never freed.
    pub fn leak(&mut self, minutes: u64, bytes: u64) {
        for minute in 0..minutes {
            self.allocate(0x10_0000 + minute, bytes, 0);
            for _ in 0..30 {
                self.decode(5 * MS);
                self.wait(2 * SECOND);
            }
        }
    }

    /// Runs one iteration of a training loop: two threads, one wait.
    pub fn train(&mut self, wait_ns: u64) {
        let backward = self.info.process.pid + 1;
        for kernel in 0..60 {
            self.call("cudaLaunchKernel", US, |c| (c.threads, c.identity) = (100_000, kernel));
        }
        for kernel in 60..120 {
            self.call("cudaLaunchKernel", US, |c| {
                (c.threads, c.identity, c.tid) = (100_000, kernel, backward);
            });
        }
        self.call("cudaStreamSynchronize", wait_ns, |_| {});
    }

    pub fn allocate(&mut self, address: u64, bytes: u64, result: u32) {
        self.call("cudaMalloc", 100 * US, |c| {
            (c.handle, c.bytes, c.result, c.stream) = (Some(address), bytes, result, 0);
        });
    }

    pub fn free(&mut self, address: u64) {
        self.call("cudaFree", 100 * US, |c| (c.handle, c.stream) = (Some(address), 0));
    }
}

/// Returns the events of programs as the kernel sends them: sorted by time, with totals every second.
pub fn events(programs: &[Program], exits: bool) -> Vec<Event> {
    let mut out =
        vec![Event::Clock(ClockOffsets { at_ns: SECOND, to_unix_ns: UNIX as i64, to_boottime_ns: 0 })];
    out.extend(programs.iter().map(|p| Event::Process(Box::new(p.info.clone()))));
    let mut calls: Vec<&Call> = programs.iter().flat_map(|p| &p.calls).collect();
    calls.sort_by_key(|c| c.entry_ns);
    let mut folder = Folder::new(Bounds::default());
    let (mut tick_ns, mut totals_ns) = (SECOND, 2 * SECOND);
    for call in calls {
        while tick_ns + 100 * MS <= call.entry_ns {
            tick_ns += 100 * MS;
            folder.advance(tick_ns, &mut out);
            out.push(Event::Tick { at_ns: tick_ns });
            if tick_ns >= totals_ns {
                totals_ns += SECOND;
                folder.totals(tick_ns, &mut out);
            }
        }
        folder.push(call, &mut out);
    }
    let end_ns = folder.finish(&mut out);
    for program in programs.iter().filter(|_| exits) {
        folder.exit(program.info.process.pid, end_ns + MS, &mut out);
    }
    out.push(Event::Tick { at_ns: end_ns + SECOND });
    out
}

/// A source of given events, in small batches.
pub struct Given {
    pub events: Vec<Event>,
    pub at: usize,
    pub batch: usize,
}

impl EventSource for Given {
    type Error = std::convert::Infallible;

    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, Self::Error> {
        let end = (self.at + self.batch).min(self.events.len());
        into.extend_from_slice(&self.events[self.at..end]);
        self.at = end;
        Ok(end < self.events.len())
    }
}

/// Analyzes events.
pub fn analysed(events: &[Event], settings: Settings) -> Output {
    read_in_batches(events, 64, settings)
}

/// Analyzes events in batches of a given size.
pub fn read_in_batches(events: &[Event], batch: usize, settings: Settings) -> Output {
    let mut source = Given { events: events.to_vec(), at: 0, batch };
    let mut batches = Vec::new();
    let result = gpu::replay(&mut source, settings, &mut |batch| batches.push(batch), &mut |_| {});
    result.unwrap_or_else(|never| match never {});
    Output { batches }
}

/// Returns the lower bound, upper bound and count of each bucket of a point.
pub fn buckets(point: &ExponentialHistogramDataPoint) -> Vec<(f64, f64, u64)> {
    let Buckets { offset, bucket_counts } = point.positive.clone().unwrap_or_default();
    let bound = |index: i32| (f64::from(index) * (-f64::from(point.scale)).exp2()).exp2();
    let rows = bucket_counts.into_iter().zip(offset..);
    rows.map(|(count, index)| (bound(index), bound(index + 1), count)).collect()
}

/// Adds individually recorded calls: one in every segment, the n-th `4 n` us long.
pub fn in_detail(events: Vec<Event>) -> Vec<Event> {
    let mut with = Vec::new();
    for (n, event) in events.into_iter().enumerate() {
        if let Event::Step(step) = &event {
            let flags = probe_abi::detail::Detail::flags(1);
            let (row, duration_ns) = (row("cudaMemcpyAsync"), n as u64 % 1_000 * 4 * US);
            let header = Header { kind: 2, row, flags, entry_ns: step.first_ns, duration_ns, ..step.header };
            with.push(Event::Call(CallRecord { header, ..CallRecord::default() }));
        }
        with.push(event);
    }
    with
}
