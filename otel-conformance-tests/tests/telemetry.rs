//! Internal telemetry in comparison with a real Collector: the same configuration and data in both, and the metrics
//! at their ports.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use otel_conformance_tests::{Program, collector_program, free_address, peer, warptap_program};

/// Time limit until both have counted the data.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Metrics that only the Collector exports, with the reason.
const THEIRS_ALONE: [(&str, &str); 3] = [
    ("otelcol_process_runtime_heap_alloc_bytes", "of Go's runtime"),
    ("otelcol_process_runtime_total_alloc_bytes", "of Go's runtime"),
    ("otelcol_process_runtime_total_sys_memory_bytes", "of Go's runtime"),
];

/// Metrics that only warptap exports, with the reason.
const OURS_ALONE: [(&str, &str); 1] =
    [("otelcol_receiver_requests", "there behind the gate receiverhelper.newReceiverMetrics")];

/// Labels whose values, the destinations, must be equal, too.
const PLACES: [&str; 3] = ["server_address", "server_port", "url_path"];

/// A running program, killed on drop.
struct Running {
    program: Program,
    data: SocketAddr,
    metrics: SocketAddr,
    _folder: tempfile::TempDir,
}

impl Running {
    fn start(program: &Path, level: &str) -> Running {
        let folder = tempfile::tempdir().expect("a folder for a moment");
        let [data, metrics, nowhere] = [(); 3].map(|()| free_address());
        let config = folder.path().join("config.yaml");
        std::fs::write(&config, yaml(level, data, metrics, nowhere)).expect("the folder can be written to");
        let mut command = Command::new(program);
        command.arg("--config").arg(&config).stdout(Stdio::null());
        let program = Program::start(&mut command).ready().expect("it starts");
        Running { program, data, metrics, _folder: folder }
    }

    /// Sends one item of each signal once they are accepted.
    fn send(&mut self) {
        for (signal, body) in [("traces", SPANS), ("metrics", POINTS), ("logs", RECORDS)] {
            let request = format!(
                "POST /v1/{signal} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            let begin = Instant::now();
            while !exchange(self.data, &request).is_some_and(|answer| answer.starts_with("HTTP/1.1 200")) {
                assert!(!self.program.has_ended(), "it ended");
                assert!(begin.elapsed() < PATIENCE, "it does not take {signal}");
                std::thread::sleep(POLL_EVERY);
            }
        }
    }

    /// Returns the types and label names of the metrics that the collector defines, by name.
    fn shown(&self) -> BTreeMap<String, (String, BTreeSet<String>)> {
        // HTTP/1.0 has no chunks, which would split lines.
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let answer = exchange(self.metrics, request).unwrap_or_default();
        let mut shown: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
        let mut explained = BTreeSet::new();
        for line in answer.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
                shown.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
            } else if let Some((name, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
                let name = ["_bucket", "_sum", "_count"]
                    .iter()
                    .find_map(|end| name.strip_suffix(end))
                    .unwrap_or(name);
                let pairs = labels.split("\",").filter_map(|label| label.split_once('='));
                let entry = shown.entry(name.to_owned()).or_default();
                entry.1.extend(pairs.map(|(name, value)| match PLACES.contains(&name) {
                    // The port differs, and no server listens there.
                    true if name != "server_port" => format!("{name}={value}"),
                    _ => name.to_owned(),
                }));
            } else if let Some((name, _)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' '))
            {
                explained.insert(name.to_owned());
            }
        }
        let is_ours = |name: &String| {
            name.starts_with("otelcol_") || name.starts_with("promhttp_") || name == "target_info"
        };
        shown.retain(|name, _| is_ours(name));
        let unexplained: Vec<&String> = shown.keys().filter(|name| !explained.contains(*name)).collect();
        assert!(unexplained.is_empty(), "without a word of help: {unexplained:?}");
        shown
    }
}

/// Returns the response to a request, if there is one.
fn exchange(to: SocketAddr, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(to).ok()?;
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Returns a configuration; no server listens at `nowhere`, so that sends to it fail.
fn yaml(level: &str, data: SocketAddr, metrics: SocketAddr, nowhere: SocketAddr) -> String {
    format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{data}'}}}}}}}}
processors: {{batch: {{timeout: 10ms}}}}
exporters:
  debug: {{}}
  otlp_grpc: {{endpoint: '{nowhere}', tls: {{insecure: true}}, retry_on_failure: {{enabled: false}}}}
  otlp_http: {{endpoint: 'http://{nowhere}/base', retry_on_failure: {{enabled: false}}}}
service:
  telemetry:
    resource: {{attributes: [{{name: deployment.environment.name, value: test}}]}}
    metrics: {{level: {level}, readers: [{{pull: {{exporter: {{prometheus: {{host: '127.0.0.1', port: {}}}}}}}}}]}}
  pipelines:
    traces: {{receivers: [otlp], processors: [batch], exporters: [debug, otlp_grpc, otlp_http]}}
    metrics: {{receivers: [otlp], processors: [batch], exporters: [debug, otlp_grpc, otlp_http]}}
    logs: {{receivers: [otlp], processors: [batch], exporters: [debug, otlp_grpc, otlp_http]}}
",
        metrics.port()
    )
}

const SPANS: &str = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5B8EFFF798038103D269B633813FC60C",
    "spanId":"EEE19B7EC3C1B174","name":"a","kind":2,"startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]}"#;
const POINTS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}"#;
const RECORDS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"x"}}]}]}]}"#;

/// Returns the differences, one line each.
fn differences(ours: &Running, theirs: &Running) -> Vec<String> {
    let (mut ours, mut theirs) = (ours.shown(), theirs.shown());
    ours.retain(|name, _| !OURS_ALONE.iter().any(|(alone, _)| alone == name));
    theirs.retain(|name, _| !THEIRS_ALONE.iter().any(|(alone, _)| alone == name));
    let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let line = |name: &String| match (ours.get(name), theirs.get(name)) {
        (a, b) if a == b => None,
        (a, b) => Some(format!("{name}: here {a:?}, there {b:?}")),
    };
    names.into_iter().filter_map(line).collect()
}

#[test]
fn metrics_equal_those_of_the_collector() {
    let (Some(program), Some(collector)) = (peer(warptap_program()), peer(collector_program())) else {
        return;
    };
    for level in ["basic", "normal"] {
        let [mut ours, mut theirs] = [&program, &collector].map(|program| Running::start(program, level));
        ours.send();
        theirs.send();
        let begin = Instant::now();
        let differences = loop {
            let differences = differences(&ours, &theirs);
            if differences.is_empty() || begin.elapsed() > PATIENCE / 3 {
                break differences;
            }
            std::thread::sleep(POLL_EVERY);
        };
        let both = ours.shown().len();
        println!(
            "level {level}: {both} metrics here, the same there but for {THEIRS_ALONE:?} and {OURS_ALONE:?}"
        );
        assert!(both > 10 && differences.is_empty(), "level {level}:\n{}", differences.join("\n"));
    }
}
