//! Settings of exporters of internal telemetry, by OTLP or to the console, and of their processors.

use std::path::PathBuf;
use std::time::Duration;

use config::Headers;

use super::Reading;
use super::keys::{BatchKeys, ExporterKeys, OtlpKeys, ProcessorKeys};

/// An exporter of internal telemetry.
#[derive(Clone, Debug, PartialEq)]
pub enum ExporterConfig {
    /// Writes to standard output.
    Console,
    /// Sends to an OTLP server.
    Otlp(Box<Otlp>),
}

/// Settings of the export to an OTLP server.
#[derive(Clone, Debug, PartialEq)]
pub struct Otlp {
    /// The protocol.
    pub protocol: Protocol,
    /// The URL, whose scheme determines whether TLS is used.
    pub endpoint: String,
    /// Certificates of trusted authorities, instead of the machine's.
    pub certificate: Option<PathBuf>,
    /// The client's certificate.
    pub client_certificate: Option<PathBuf>,
    /// The client's private key.
    pub client_key: Option<PathBuf>,
    /// Whether requests are compressed with gzip.
    pub is_compressed: bool,
    /// Time limit of a request including retries.
    pub timeout: Duration,
    /// Headers of each request.
    pub headers: Headers,
    /// Further headers, decoded from a list in one text.
    pub headers_list: Vec<(String, String)>,
    /// Temporality of metrics.
    pub temporality: Temporality,
}

/// The protocol of an OTLP server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Protocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP as Protobuf over HTTP.
    HttpProtobuf,
}

/// The start of counted intervals.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Temporality {
    /// The start of the collector.
    #[default]
    Cumulative,
    /// The previous export.
    Delta,
    /// The one that requires less memory.
    LowMemory,
}

/// Settings of a batching processor of log records or spans.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorConfig {
    /// Longest time that an item waits for a batch; 0 sends it at once.
    pub delay: Duration,
    /// Time limit of an export.
    pub timeout: Duration,
    /// The maximum number of pending items; further ones are dropped and counted.
    pub queue_size_max: usize,
    /// The maximum number of items of a batch.
    pub batch_size_max: usize,
    /// The exporter.
    pub exporter: ExporterConfig,
}

/// Differences between signals.
pub(super) struct Defaults {
    noun: &'static str,
    delay: Duration,
}

/// The defaults of log records.
pub(super) const LOGS: Defaults = Defaults { noun: "log", delay: Duration::from_secs(1) };
/// The defaults of spans.
pub(super) const SPANS: Defaults = Defaults { noun: "span", delay: Duration::from_secs(5) };

/// Default time limit of an export.
const EXPORT_MAX: Duration = Duration::from_secs(30);
/// Default time limit of an OTLP request.
const REQUEST_MAX: Duration = Duration::from_secs(10);
const QUEUE_SIZE_MAX: usize = 2048;
const BATCH_SIZE_MAX: usize = 512;

/// Returns a duration in milliseconds, or its default.
pub(super) fn millis(written: Option<u64>, default: Duration) -> Duration {
    written.map_or(default, Duration::from_millis)
}

pub(super) fn processors(
    keys: &[ProcessorKeys],
    defaults: &Defaults,
    reading: &mut Reading<'_>,
) -> Vec<ProcessorConfig> {
    let mut found = Vec::new();
    for (index, keys) in keys.iter().enumerate() {
        let path = format!("processors[{index}]");
        match (&keys.batch, &keys.simple) {
            (Some(_), Some(_)) => {
                reading.wrong(&path, format!("must not specify multiple {} processor type", defaults.noun));
            }
            (Some(batch), None) => found.extend(batched(batch, &path, defaults, reading)),
            (None, Some(simple)) => {
                let path = format!("{path}::simple::exporter");
                let exporter = exporter(&simple.exporter, &path, defaults.noun, reading);
                found.extend(exporter.map(|exporter| ProcessorConfig {
                    delay: Duration::ZERO,
                    timeout: EXPORT_MAX,
                    queue_size_max: QUEUE_SIZE_MAX,
                    batch_size_max: 1,
                    exporter,
                }));
            }
            (None, None) => {
                let noun = defaults.noun;
                reading.wrong(
                    &path,
                    format!("unsupported {noun} processor type, must be one of simple or batch"),
                );
            }
        }
    }
    found
}

fn batched(
    keys: &BatchKeys,
    path: &str,
    defaults: &Defaults,
    reading: &mut Reading<'_>,
) -> Option<ProcessorConfig> {
    let exporter = exporter(&keys.exporter, &format!("{path}::batch::exporter"), defaults.noun, reading)?;
    let queue_size_max = keys.max_queue_size.filter(|n| *n > 0).unwrap_or(QUEUE_SIZE_MAX);
    let batch_size_max = keys.max_export_batch_size.filter(|n| *n > 0).unwrap_or(BATCH_SIZE_MAX);
    Some(ProcessorConfig {
        delay: millis(keys.schedule_delay, defaults.delay),
        timeout: millis(keys.export_timeout, EXPORT_MAX),
        queue_size_max,
        batch_size_max: batch_size_max.min(queue_size_max),
        exporter,
    })
}

/// Reads the section `exporter`; `noun` is the exported signal.
pub(super) fn exporter(
    keys: &ExporterKeys,
    path: &str,
    noun: &str,
    reading: &mut Reading<'_>,
) -> Option<ExporterConfig> {
    match (&keys.console, &keys.otlp) {
        (Some(_), Some(_)) => reading.wrong(path, "must not specify multiple exporters"),
        (Some(_), None) => return Some(ExporterConfig::Console),
        (None, Some(keys)) => {
            return otlp(keys, &format!("{path}::otlp"), noun, reading)
                .map(Box::new)
                .map(ExporterConfig::Otlp);
        }
        (None, None) => {
            reading.wrong(path, format!("no valid {noun} exporter: expected one of otlp, console"));
        }
    }
    None
}

fn otlp(keys: &OtlpKeys, path: &str, noun: &str, reading: &mut Reading<'_>) -> Option<Otlp> {
    let protocol = match keys.protocol.as_deref() {
        Some("grpc") => Protocol::Grpc,
        Some("http/protobuf") => Protocol::HttpProtobuf,
        other => {
            let other = other.unwrap_or_default();
            let message =
                format!("unsupported protocol {other:?}: expected one of \"grpc\", \"http/protobuf\"");
            reading.wrong(&format!("{path}::protocol"), message);
            return None;
        }
    };
    let is_compressed = match keys.compression.as_deref() {
        None | Some("none") => false,
        Some("gzip") => true,
        Some(other) => {
            let message = format!("unsupported compression {other:?}: expected one of \"gzip\", \"none\"");
            reading.wrong(&format!("{path}::compression"), message);
            false
        }
    };
    if keys.client_certificate.is_some() != keys.client_key.is_some() {
        reading.wrong(path, "client_certificate and client_key are needed together");
    }
    let endpoint = endpoint(keys, protocol);
    if let Err(e) = transport::endpoint::HttpEndpoint::parse(&endpoint) {
        reading.wrong(&format!("{path}::endpoint"), e);
    }
    let named = |path: &Option<String>| path.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(Otlp {
        protocol,
        endpoint,
        certificate: named(&keys.certificate),
        client_certificate: named(&keys.client_certificate),
        client_key: named(&keys.client_key),
        is_compressed,
        timeout: millis(keys.timeout.filter(|n| *n > 0), REQUEST_MAX),
        headers: keys.headers.clone(),
        headers_list: pairs(keys.headers_list.as_deref().unwrap_or_default(), path, reading),
        temporality: temporality(keys, path, noun, reading),
    })
}

/// Returns the URL. If it lacks a scheme, `insecure` determines the scheme. For HTTP, the path is preserved.
fn endpoint(keys: &OtlpKeys, protocol: Protocol) -> String {
    let port = if protocol == Protocol::Grpc { 4317 } else { 4318 };
    let written = keys.endpoint.clone().unwrap_or_else(|| format!("localhost:{port}"));
    let has_scheme = written.starts_with("http://") || written.starts_with("https://");
    match (has_scheme, keys.insecure.unwrap_or(false)) {
        (true, _) => written,
        (false, true) => format!("http://{written}"),
        (false, false) => format!("https://{written}"),
    }
}

/// Parses `a=b,c=d`.
fn pairs(text: &str, path: &str, reading: &mut Reading<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((name, value)) => found.push((name.trim().to_owned(), value.trim().to_owned())),
            None => reading.wrong(&format!("{path}::headers_list"), "expected name=value pairs with commas"),
        }
    }
    found
}

fn temporality(keys: &OtlpKeys, path: &str, noun: &str, reading: &mut Reading<'_>) -> Temporality {
    for (key, value) in [
        ("temporality_preference", &keys.temporality_preference),
        ("default_histogram_aggregation", &keys.default_histogram_aggregation),
    ] {
        if value.is_some() && noun != "metric" {
            reading.wrong(path, format!("has invalid keys: {key}"));
        }
    }
    if keys.default_histogram_aggregation.as_deref().is_some_and(|a| a != "explicit_bucket_histogram") {
        reading.no_effect(&format!("{path}::default_histogram_aggregation"));
    }
    match keys.temporality_preference.as_deref() {
        None | Some("cumulative") => Temporality::Cumulative,
        Some("delta") => Temporality::Delta,
        Some("lowmemory") => Temporality::LowMemory,
        Some(other) => {
            let message = format!(
                "unsupported temporality preference {other:?}: expected one of \"cumulative\", \"delta\", \"lowmemory\""
            );
            reading.wrong(&format!("{path}::temporality_preference"), message);
            Temporality::default()
        }
    }
}
