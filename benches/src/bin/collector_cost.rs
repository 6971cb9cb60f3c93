//! The cost of a collector that forwards telemetry: `cargo build --release -p warptap && cargo run --release -p
//! benches --bin collector_cost [COLLECTOR]`, COLLECTOR being a Go OpenTelemetry Collector, by default the one that
//! the conformance tests built.
//!
//! Promises, for the same configuration (otlp -> batch -> otlp) and the same data, alternating: at most a third of
//! the Collector's CPU per data point and per span, at most a quarter of its memory; and on its own at most 0.95 CPU
//! seconds per million data points and 2.25 per million spans. The load is paced at a
//! rate that both sustain, and the sink counts what it receives, so that neither is cheap by losing data.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command for the terminal")]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use benches::otlp::{ITEMS, Load, Sink};
use benches::peer::{Peer, built_collector, free_port};
use benches::{Promise, median};

const ROUNDS: usize = 3;
const REQUESTS: usize = 1500;

fn main() -> anyhow::Result<()> {
    let beside = |name| Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name(name));
    let warptap = beside("warptap")?;
    if !warptap.exists() {
        eprintln!("skipped: there is no {}: build it first", warptap.display());
        return Ok(());
    }
    let collector = std::env::args().nth(1).map(PathBuf::from).or_else(built_collector);
    let peers: Vec<(&str, PathBuf)> = [("warptap", Some(warptap)), ("Collector", collector)]
        .into_iter()
        .filter_map(|(n, p)| Some((n, p?)))
        .collect();
    if peers.len() < 2 {
        eprintln!("there is no Go Collector: measuring warptap alone");
    }
    for load in [Load::Metrics, Load::Traces] {
        measure(load, &peers)?;
    }
    Ok(())
}

/// The cost of one run of a peer.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// CPU seconds per million items.
    cpu: f64,
    /// Peak resident memory in MiB.
    rss: f64,
    /// Items per second.
    rate: f64,
}

fn measure(load: Load, peers: &[(&str, PathBuf)]) -> anyhow::Result<()> {
    let mut costs = vec![Vec::new(); peers.len()];
    for _ in 0..ROUNDS {
        for ((_, program), costs) in peers.iter().zip(&mut costs) {
            costs.push(run(program, load)?);
        }
    }
    let of = |costs: &[Cost], pick: fn(&Cost) -> f64| median(costs.iter().map(pick));
    let noun = load.noun();
    for ((name, _), costs) in peers.iter().zip(&costs) {
        println!(
            "{name}: {:.3} CPU-s per million {noun}, {:.0} MiB at most, {:.0} {noun} per second",
            of(costs, |c| c.cpu),
            of(costs, |c| c.rss),
            of(costs, |c| c.rate)
        );
    }
    if let [ours, theirs] = &costs[..] {
        let ratio = |pick: fn(&Cost) -> f64| of(ours, pick) / of(theirs, pick);
        Promise { what: "CPU per item, of the Collector's", at_most: 0.333 }.print(ratio(|c| c.cpu));
        Promise { what: "memory / the Collector's", at_most: 0.25 }.print(ratio(|c| c.rss));
    }
    let at_most = match load {
        Load::Metrics => 0.95,
        Load::Traces => 2.25,
    };
    Promise { what: "CPU seconds per million items", at_most }.print(of(&costs[0], |c| c.cpu));
    Ok(())
}

fn run(program: &Path, load: Load) -> anyhow::Result<Cost> {
    let sink = Sink::start()?;
    let port = free_port()?;
    let peer = Peer::start(program, &configuration(port, sink.port()), &[])?;
    let target = benches::otlp::Target::connect(port)?;
    let (cpu, begin) = (peer.cpu_seconds()?, Instant::now());
    target.send(load, REQUESTS)?;
    let items = (REQUESTS * ITEMS) as u64;
    sink.wait_for(items, Duration::from_secs(60)).with_context(|| peer.log())?;
    let (elapsed, millions) = (begin.elapsed().as_secs_f64(), items as f64 / 1e6);
    let cpu = peer.cpu_seconds()? - cpu;
    Ok(Cost { cpu: cpu / millions, rss: peer.rss_mib()?, rate: items as f64 / elapsed })
}

/// Returns the configuration of both peers.
fn configuration(receive: u16, send: u16) -> String {
    format!(
        "receivers: {{otlp: {{protocols: {{grpc: {{endpoint: 'localhost:{receive}'}}}}}}}}
processors: {{batch: }}
exporters: {{otlp_grpc: {{endpoint: 'localhost:{send}', compression: none, tls: {{insecure: true}}}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines:
    metrics: {{receivers: [otlp], processors: [batch], exporters: [otlp_grpc]}}
    traces: {{receivers: [otlp], processors: [batch], exporters: [otlp_grpc]}}
"
    )
}
