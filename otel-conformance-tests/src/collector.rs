//! A real OpenTelemetry Collector, built by its own builder in the target folder.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pdata::{Data, Signal};
use tempfile::TempDir;

use crate::peers::{self, Skip};
use crate::program::{Program, free_address};

/// The release of the Collector.
const VERSION: &str = "v0.159.0";

/// The manifest of the builder: the components of the Collector. Some modules are of the release before, since not every proxy has the
/// later one.
const MANIFEST: &str = "\
dist:
  name: otelcol
  description: a Collector to test against
  output_path: ./built
receivers:
  - gomod: go.opentelemetry.io/collector/receiver/otlpreceiver VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/receiver/filelogreceiver VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/receiver/fluentforwardreceiver VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/receiver/jaegerreceiver v0.158.0
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/receiver/statsdreceiver VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/receiver/zipkinreceiver v0.158.0
connectors:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/connector/spanmetricsconnector VERSION
extensions:
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/extension/headerssetterextension v0.158.0
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage VERSION
exporters:
  - gomod: go.opentelemetry.io/collector/exporter/debugexporter VERSION
  - gomod: go.opentelemetry.io/collector/exporter/otlpexporter VERSION
  - gomod: go.opentelemetry.io/collector/exporter/otlphttpexporter VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/prometheusexporter VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/exporter/zipkinexporter v0.158.0
processors:
  - gomod: go.opentelemetry.io/collector/processor/batchprocessor VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/processor/attributesprocessor VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/processor/resourceprocessor VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/processor/spanprocessor VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor VERSION
  - gomod: github.com/open-telemetry/opentelemetry-collector-contrib/processor/unrollprocessor v0.158.0
";

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often the output file is polled.
const POLL_EVERY: Duration = Duration::from_millis(20);

/// The configuration of a Collector in addition to an OTLP receiver and a file exporter, in JSON.
#[derive(Clone, Debug, Default)]
pub struct CollectorConfig {
    /// Its processors, in the order of the pipeline: id and settings.
    pub processors: Vec<(&'static str, String)>,
    /// More exporters: id and settings.
    pub exporters: Vec<(&'static str, String)>,
    /// The only signal with a pipeline; `None` configures all.
    pub only: Option<Signal>,
}

/// A running Collector; killed on drop.
#[derive(Debug)]
pub struct Collector {
    /// Address of the gRPC endpoint.
    pub grpc: SocketAddr,
    /// Address of the HTTP endpoint.
    pub http: SocketAddr,
    folder: TempDir,
    _program: Program,
}

/// Starts a Collector on free ports with an OTLP receiver, the processors, a file exporter, and further exporters.
pub fn real_collector(config: &CollectorConfig) -> Result<Collector, Skip> {
    let program = collector_program()?;
    // Another process may use a free port first.
    let mut refused = None;
    for _ in 0..3 {
        match start(&program, config) {
            Ok(collector) => return Ok(collector),
            Err(log) if log.contains("address already in use") => refused = Some(log),
            Err(log) => panic!("the Collector does not start:\n{log}"),
        }
    }
    panic!("no free port found: {refused:?}");
}

impl Collector {
    /// Waits until the output is `enough`; returns the batches in the order of the file.
    pub fn received(&self, enough: impl Fn(&[Data]) -> bool) -> Vec<Data> {
        let begin = Instant::now();
        loop {
            let batches = self.written();
            if enough(&batches) {
                return batches;
            }
            assert!(begin.elapsed() < PATIENCE, "in {PATIENCE:?} it received only {batches:?}");
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// Returns the batches written so far.
    pub fn written(&self) -> Vec<Data> {
        let text = fs::read_to_string(self.folder.path().join("received.jsonl")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(batch).collect()
    }

    /// Returns a folder for its exporters, removed on drop.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Decodes a line of the file: an export request of any signal.
fn batch(line: &str) -> Data {
    let signal = Signal::STABLE.into_iter().find(|signal| {
        let key = [r#"{"resourceLogs""#, r#"{"resourceMetrics""#, r#"{"resourceSpans""#][*signal as usize];
        line.starts_with(key)
    });
    let signal = signal.unwrap_or_else(|| panic!("no export request: {line}"));
    pdata::json::decode(signal, line.as_bytes()).unwrap_or_else(|e| panic!("{e}: {line}"))
}

/// Starts the process, or returns its log.
fn start(program: &Path, config: &CollectorConfig) -> Result<Collector, String> {
    let folder = tempfile::tempdir().expect("a folder for a moment");
    let (grpc, http) = (free_address(), free_address());
    let path = folder.path().join("config.yaml");
    fs::write(&path, yaml(config, grpc, http, folder.path())).expect("the folder can be written to");
    let stdout = File::create(folder.path().join("stdout")).expect("the folder can be written to");
    let mut command = Command::new(program);
    command.arg("--config").arg(&path).current_dir(folder.path()).stdout(stdout);
    let program = Program::start(&mut command).ready()?;
    Ok(Collector { grpc, http, folder, _program: program })
}

fn yaml(config: &CollectorConfig, grpc: SocketAddr, http: SocketAddr, folder: &Path) -> String {
    let section = |parts: &[(&str, String)]| -> String {
        parts.iter().map(|(id, settings)| format!("  {id}: {settings}\n")).collect()
    };
    let ids =
        |parts: &[(&'static str, String)]| parts.iter().map(|(id, _)| *id).collect::<Vec<_>>().join(", ");
    let file = folder.join("received.jsonl");
    let file = format!(r#"{{"path": {file:?}, "flush_interval": "20ms"}}"#);
    let folder = folder.to_str().expect("a name in UTF-8");
    let exporters: Vec<_> = [("file", file)].into_iter().chain(config.exporters.clone()).collect();
    let pipeline = format!(
        "{{receivers: [otlp], processors: [{}], exporters: [{}]}}",
        ids(&config.processors),
        ids(&exporters)
    );
    let signals = Signal::STABLE.into_iter().filter(|s| config.only.is_none_or(|only| only == *s));
    let pipelines: Vec<String> = signals.map(|s| format!("{}: {pipeline}", s.name())).collect();
    format!(
        "receivers:\n  otlp: {{protocols: {{grpc: {{endpoint: \"{grpc}\"}}, http: {{endpoint: \"{http}\"}}}}}}\n\
         processors:\n{}\nexporters:\n{}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n\
         \x20 pipelines: {{{}}}\n",
        section(&config.processors),
        section(&exporters).replace("${folder}", folder),
        pipelines.join(", "),
    )
}

/// Returns the path of the Collector, for tests of its command line.
pub fn collector_program() -> Result<PathBuf, Skip> {
    // Another manifest is another program.
    let mut hash = DefaultHasher::new();
    MANIFEST.hash(&mut hash);
    let folder = peers::folder()?.join(format!("collector-{VERSION}-{:08x}", hash.finish() as u32));
    let program = folder.join("built/otelcol");
    let is_wanted = std::env::var_os("WARPTAP_PEERS").is_some_and(|wish| wish == "build");
    if !program.is_file() && !is_wanted {
        return Err(Skip(format!(
            "no OpenTelemetry Collector was built: with WARPTAP_PEERS=build it is, by Go, in some minutes, to {}",
            program.display()
        )));
    }
    peers::once("collector", || program.is_file(), || build(&folder))?;
    Ok(program)
}

fn build(folder: &Path) -> Result<(), Skip> {
    fs::create_dir_all(folder).map_err(|e| Skip(format!("{}: {e}", folder.display())))?;
    let manifest = folder.join("builder.yaml");
    fs::write(&manifest, MANIFEST.replace("VERSION", VERSION)).map_err(|e| Skip(e.to_string()))?;
    let builder = format!("go.opentelemetry.io/collector/cmd/builder@{VERSION}");
    let mut go = Command::new("go");
    go.args(["run", &builder, "--config"]).arg(&manifest).current_dir(folder);
    peers::run("go run builder", go.env("CGO_ENABLED", "0").env("GOWORK", "off"))
}
