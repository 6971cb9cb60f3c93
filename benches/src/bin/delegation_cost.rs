//! The cost of a crossing to the Collector that runs delegated components: `cargo build --release -p warptap && cargo run
//! --release -p benches --bin delegation_cost [COLLECTOR]`, COLLECTOR being a Go OpenTelemetry Collector with the processor
//! `span`, by default the one that the conformance tests built.
//!
//! Spans pass a processor that changes none of them: in the Collector alone, and in the Collector beside warptap, to which they cross and
//! from which they come back. The same without the processor shows what warptap costs by itself. CPU is that of all processes; the latency
//! is that of one request of 1,000 spans at a time, to the answer of the backend.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use benches::median;
use benches::otlp::{ITEMS, Load, Sink, Target};
use benches::peer::{Peer, built_collector, free_port};

const ROUNDS: usize = 3;
const REQUESTS: usize = 1000;
const SINGLE_REQUESTS: usize = 300;

/// A collector and its way of running the processor.
struct Case<'a> {
    name: &'a str,
    program: &'a Path,
    arguments: Vec<&'a str>,
    processors: &'a str,
}

fn main() -> anyhow::Result<()> {
    let warptap = std::env::current_exe()?.with_file_name("warptap");
    let Some(collector) = std::env::args().nth(1).map(PathBuf::from).or_else(built_collector) else {
        eprintln!("skipped: there is no Go Collector");
        return Ok(());
    };
    let beside = collector.to_str().context("a path in UTF-8")?;
    let cases = [
        Case { name: "warptap, no processor", program: &warptap, arguments: Vec::new(), processors: "" },
        Case { name: "Collector, no processor", program: &collector, arguments: Vec::new(), processors: "" },
        Case {
            name: "Collector, with the processor",
            program: &collector,
            arguments: Vec::new(),
            processors: "span",
        },
        Case {
            name: "warptap, processor delegated",
            program: &warptap,
            arguments: vec!["--collector", beside],
            processors: "span",
        },
    ];
    let mut costs = vec![Vec::new(); cases.len()];
    for _ in 0..ROUNDS {
        for (case, costs) in cases.iter().zip(&mut costs) {
            costs.push(case.run().with_context(|| case.name.to_owned())?);
        }
    }
    for (case, costs) in cases.iter().zip(&costs) {
        let [cpu, rss, latency] = [0, 1, 2].map(|at| median(costs.iter().map(|cost: &[f64; 3]| cost[at])));
        println!(
            "{}: {cpu:.2} CPU-s per million spans, {rss:.0} MiB, {latency:.2} ms per request",
            case.name
        );
    }
    Ok(())
}

impl Case<'_> {
    /// Returns CPU seconds per million spans, peak memory in MiB, and the median latency in milliseconds.
    fn run(&self) -> anyhow::Result<[f64; 3]> {
        let (sink, port) = (Sink::start()?, free_port()?);
        let peer = Peer::start(self.program, &self.configuration(port, sink.port()), &self.arguments)?;
        let target = Target::connect(port).with_context(|| peer.log())?;
        let latency = median(target.latencies_ms(Load::Traces, SINGLE_REQUESTS)?.into_iter());
        let cpu = peer.cpu_seconds()?;
        target.send(Load::Traces, REQUESTS)?;
        let items = ((REQUESTS + SINGLE_REQUESTS) * ITEMS) as u64;
        sink.wait_for(items, Duration::from_secs(120)).with_context(|| peer.log())?;
        let cpu = peer.cpu_seconds()? - cpu;
        Ok([cpu / ((REQUESTS * ITEMS) as f64 / 1e6), peer.rss_mib()?, latency])
    }

    fn configuration(&self, receive: u16, send: u16) -> String {
        format!(
            "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: 'localhost:{receive}'}}}}}}}}
processors: {{{}}}
exporters:
  otlp_grpc:
    endpoint: 'localhost:{send}'
    compression: none
    tls: {{insecure: true}}
    sending_queue: {{enabled: false}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], processors: [{}], exporters: [otlp_grpc]}}}}
",
            if self.processors.is_empty() { "" } else { "span: {name: {from_attributes: [absent]}}" },
            self.processors
        )
    }
}
