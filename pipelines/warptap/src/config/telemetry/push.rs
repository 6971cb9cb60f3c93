//! Settings of exporters of internal telemetry, by OTLP or to the console, and of their processors.

use std::path::PathBuf;
use std::time::Duration;

use config::{Headers, Problems};

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
    /// Protocol of the export.
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

config::choice! {
    /// Protocol of an OTLP server.
    pub enum Protocol {
        /// gRPC.
        Grpc = "grpc",
        /// Protobuf over HTTP.
        HttpProtobuf = "http/protobuf",
    }

    /// Compression of requests.
    #[derive(Default)]
    pub(super) enum OtlpCompression {
        /// None.
        #[default]
        None = "none",
        /// gzip.
        Gzip = "gzip",
    }

    /// Start of the sums of metrics.
    #[derive(Default)]
    pub enum Temporality {
        /// The start of the process.
        #[default]
        Cumulative = "cumulative",
        /// The last export.
        Delta = "delta",
        /// Whichever needs less memory.
        LowMemory = "lowmemory",
    }
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
    /// Settings of the exporter.
    pub exporter: ExporterConfig,
}

/// Differences between signals.
pub(super) struct Defaults {
    noun: &'static str,
    delay_ms: u64,
}

/// Log records.
pub(super) const LOGS: Defaults = Defaults { noun: "log", delay_ms: 1_000 };
/// Spans.
pub(super) const SPANS: Defaults = Defaults { noun: "span", delay_ms: 5_000 };

const EXPORT_MS: u64 = 30_000;
const REQUEST_MS: u64 = 10_000;
const QUEUE_SIZE_MAX: usize = 2048;
const BATCH_SIZE_MAX: usize = 512;

/// Returns a number of milliseconds, of which 0 is the default.
pub(super) fn millis(written: u64, default: u64) -> Duration {
    Duration::from_millis(if written == 0 { default } else { written })
}

/// Reads the list `processors` of the section at `path`.
pub(super) fn processors(
    keys: &[ProcessorKeys],
    path: &str,
    defaults: &Defaults,
    problems: &mut Problems<'_>,
) -> Vec<ProcessorConfig> {
    let mut found = Vec::new();
    for (index, keys) in keys.iter().enumerate() {
        let (path, noun) = (format!("{path}::processors[{index}]"), defaults.noun);
        match (&keys.batch, &keys.simple) {
            (Some(_), Some(_)) => {
                problems.add(&path, format!("must not specify multiple {noun} processor type"));
            }
            (Some(batch), None) => found.extend(batched(batch, &path, defaults, problems)),
            (None, Some(simple)) => {
                let exporter =
                    exporter(&simple.exporter, &format!("{path}::simple::exporter"), noun, problems);
                found.extend(exporter.map(|exporter| ProcessorConfig {
                    delay: Duration::ZERO,
                    timeout: Duration::from_millis(EXPORT_MS),
                    queue_size_max: QUEUE_SIZE_MAX,
                    batch_size_max: 1,
                    exporter,
                }));
            }
            (None, None) => problems
                .add(&path, format!("unsupported {noun} processor type, must be one of simple or batch")),
        }
    }
    found
}

fn batched(
    keys: &BatchKeys,
    path: &str,
    defaults: &Defaults,
    problems: &mut Problems<'_>,
) -> Option<ProcessorConfig> {
    let path = format!("{path}::batch::exporter");
    let exporter = exporter(&keys.exporter, &path, defaults.noun, problems)?;
    let size = |written: usize, default| if written == 0 { default } else { written };
    let queue_size_max = size(keys.max_queue_size, QUEUE_SIZE_MAX);
    Some(ProcessorConfig {
        delay: Duration::from_millis(keys.schedule_delay.unwrap_or(defaults.delay_ms)),
        timeout: Duration::from_millis(keys.export_timeout.unwrap_or(EXPORT_MS)),
        queue_size_max,
        batch_size_max: size(keys.max_export_batch_size, BATCH_SIZE_MAX).min(queue_size_max),
        exporter,
    })
}

/// Reads the section `exporter` at `path`; `noun` is what it exports.
pub(super) fn exporter(
    keys: &ExporterKeys,
    path: &str,
    noun: &str,
    problems: &mut Problems<'_>,
) -> Option<ExporterConfig> {
    match (&keys.console, &keys.otlp) {
        (Some(_), Some(_)) => problems.add(path, "must not specify multiple exporters"),
        (Some(_), None) => return Some(ExporterConfig::Console),
        (None, Some(keys)) => {
            return otlp(keys, &format!("{path}::otlp"), noun, problems)
                .map(Box::new)
                .map(ExporterConfig::Otlp);
        }
        (None, None) => {
            problems.add(path, format!("no valid {noun} exporter: expected one of otlp, console"));
        }
    }
    None
}

fn otlp(keys: &OtlpKeys, path: &str, noun: &str, problems: &mut Problems<'_>) -> Option<Otlp> {
    let key = |key: &str| format!("{path}::{key}");
    problems.require(keys.client_certificate.is_some() == keys.client_key.is_some(), path, {
        "client_certificate and client_key are needed together"
    });
    check_metric_keys(keys, path, noun, problems);
    let Some(protocol) = keys.protocol else {
        problems.add(&key("protocol"), "requires a protocol: expected one of \"grpc\", \"http/protobuf\"");
        return None;
    };
    let endpoint = endpoint(keys, protocol);
    problems.take(&key("endpoint"), transport::endpoint::HttpEndpoint::parse(&endpoint));
    let named = |path: &str| Some(PathBuf::from(path)).filter(|path| !path.as_os_str().is_empty());
    Some(Otlp {
        protocol,
        endpoint,
        certificate: named(&keys.certificate),
        client_certificate: keys.client_certificate.as_deref().and_then(named),
        client_key: keys.client_key.as_deref().and_then(named),
        is_compressed: keys.compression == OtlpCompression::Gzip,
        timeout: millis(keys.timeout, REQUEST_MS),
        headers: keys.headers.clone(),
        headers_list: pairs(keys.headers_list.reveal(), &key("headers_list"), problems),
        temporality: keys.temporality_preference.unwrap_or_default(),
    })
}

/// Returns the URL: without a scheme, `insecure` decides which; of HTTP, with the path that it has.
fn endpoint(keys: &OtlpKeys, protocol: Protocol) -> String {
    let port = if protocol == Protocol::Grpc { 4317 } else { 4318 };
    let written = keys.endpoint.clone().unwrap_or_else(|| format!("localhost:{port}"));
    let has_scheme = written.starts_with("http://") || written.starts_with("https://");
    match (has_scheme, keys.insecure) {
        (true, _) => written,
        (false, true) => format!("http://{written}"),
        (false, false) => format!("https://{written}"),
    }
}

/// Reads `a=b,c=d`.
fn pairs(text: &str, path: &str, problems: &mut Problems<'_>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some((name, value)) => found.push((name.trim().to_owned(), value.trim().to_owned())),
            None => problems.add(path, "expected name=value pairs with commas"),
        }
    }
    found
}

fn check_metric_keys(keys: &OtlpKeys, path: &str, noun: &str, problems: &mut Problems<'_>) {
    let aggregation = keys.default_histogram_aggregation.as_deref();
    for (key, is_given) in [
        ("temporality_preference", keys.temporality_preference.is_some()),
        ("default_histogram_aggregation", aggregation.is_some()),
    ] {
        problems.require(!is_given || noun == "metric", path, format!("has invalid keys: {key}"));
    }
    if aggregation.is_some_and(|aggregation| aggregation != "explicit_bucket_histogram") {
        problems.warn(&format!("{path}::default_histogram_aggregation"), {
            "accepted without effect: histograms have explicit buckets"
        });
    }
}
