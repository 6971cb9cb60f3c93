//! The keys of the section, which are those of the Collector; its declarative format is version 0.3.0 of
//! OpenTelemetry's. Durations are integers in milliseconds.

use std::collections::BTreeMap;

use config::{Headers, Node, Secret};
use serde::de::IgnoredAny;

use super::logs::{LogEncoding, Sampling};
use super::metrics::{Lists, MetricsLevel, Selector};
use super::push::{OtlpCompression, Protocol, Temporality};
use crate::config::LogLevel;
use crate::config::service::Nested;

/// A section of which only the presence matters.
pub(super) type Marker = Option<BTreeMap<String, IgnoredAny>>;

config::section! {
    /// The section `service::telemetry`.
    pub(crate) struct TelemetryKeys {
        /// The log.
        pub(super) logs: LogsKeys,
        /// The metrics.
        pub(super) metrics: MetricsKeys,
        /// Attributes of the collector, with all of its telemetry. A key that is not listed here is the name of an
        /// attribute, which is deprecated; null then removes a default attribute.
        resource: Nested<ResourceKeys>,
        /// The spans of the collector's own work.
        pub(super) traces: TracesKeys,
    }

    /// The section `logs`.
    pub(super) struct LogsKeys {
        /// Lowest level of lines that are logged. The levels above `error` are `error`.
        pub(super) level: LogLevel,
        /// Whether the log is meant for developers.
        development: bool => unused "lines are the same in development",
        /// Whether lines omit their position in the source.
        pub(super) disable_caller: bool,
        /// Whether lines omit stack traces, which they never have here.
        pub(super) disable_stacktrace: Option<bool>,
        /// Whether lines omit the attributes of the resource.
        pub(super) disable_zap_resource: bool,
        /// Format of lines.
        pub(super) encoding: LogEncoding,
        /// Destinations of errors of the log itself: as `output_paths`.
        pub(super) error_output_paths: Vec<String> = vec!["stderr".to_owned()],
        /// Fields added to every line.
        pub(super) initial_fields: BTreeMap<String, Node>,
        /// Destinations: `stdout`, `stderr`, paths of files, or `file:///path`.
        pub(super) output_paths: Vec<String> = vec!["stderr".to_owned()],
        /// Processors that export lines as log records in addition.
        pub(super) processors: Vec<ProcessorKeys>,
        /// Sampling of repeated lines.
        pub(super) sampling: Sampling,
    }

    /// The section `metrics`.
    pub(super) struct MetricsKeys {
        /// Amount of detail that is measured.
        pub(super) level: MetricsLevel,
        /// Readers of the metrics. Unset is a `pull` reader with a `prometheus` exporter at `localhost:8888`.
        pub(super) readers: Option<Vec<ReaderKeys>>,
        /// Changes to instruments, only at level `detailed`. Unset leaves the choice to the level.
        pub(super) views: Option<Vec<ViewKeys>>,
    }

    /// An item of `metrics::readers`.
    pub(super) struct ReaderKeys {
        /// A reader that waits for requests.
        pub(super) pull: Option<PullKeys>,
        /// A reader that exports at an interval.
        pub(super) periodic: Option<PeriodicKeys>,
        /// Other sources of metrics.
        producers: Option<Vec<IgnoredAny>> => unused "there are no other sources of metrics",
    }

    /// The section `pull`.
    pub(super) struct PullKeys {
        /// The exporter.
        pub(super) exporter: PullExporterKeys,
    }

    /// The section `exporter` of a `pull` reader.
    pub(super) struct PullExporterKeys {
        /// A server of Prometheus' format.
        pub(super) prometheus: Option<PrometheusKeys>,
    }

    /// The section `prometheus`.
    pub(super) struct PrometheusKeys {
        /// Address to listen on. Required.
        pub(super) host: Option<String>,
        /// Port to listen on. Required; 0 chooses a free port.
        pub(super) port: Option<u16>,
        /// Whether labels omit the instrumentation scope. Unset is true.
        pub(super) without_scope_info: Option<bool>,
        /// Whether names of counters omit `_total`. Unset is true.
        pub(super) without_type_suffix: Option<bool>,
        /// Whether names omit units. Unset is true.
        pub(super) without_units: Option<bool>,
        /// Attributes of the resource that become labels of every metric. Unset is none.
        pub(super) with_resource_constant_labels: Option<Lists>,
    }

    /// The section `periodic`.
    pub(super) struct PeriodicKeys {
        /// Interval of exports in milliseconds. 0 is 60000.
        pub(super) interval: u64,
        /// Longest time for an export in milliseconds. 0 is 30000.
        pub(super) timeout: u64,
        /// The exporter.
        pub(super) exporter: ExporterKeys,
    }

    /// An item of `logs::processors` or `traces::processors`.
    pub(super) struct ProcessorKeys {
        /// A processor that exports batches.
        pub(super) batch: Option<BatchKeys>,
        /// A processor that exports each item at once.
        pub(super) simple: Option<SimpleKeys>,
    }

    /// The section `batch`.
    pub(super) struct BatchKeys {
        /// Longest time that an item waits for a batch, in milliseconds. Unset is 1000 for log records and 5000 for spans.
        pub(super) schedule_delay: Option<u64>,
        /// Longest time for an export in milliseconds. Unset is 30000.
        pub(super) export_timeout: Option<u64>,
        /// Largest number of items that wait; more are dropped and counted. 0 is 2048.
        pub(super) max_queue_size: usize,
        /// Largest number of items in a batch. 0 is 512.
        pub(super) max_export_batch_size: usize,
        /// The exporter.
        pub(super) exporter: ExporterKeys,
    }

    /// The section `simple`.
    pub(super) struct SimpleKeys {
        /// The exporter.
        pub(super) exporter: ExporterKeys,
    }

    /// The section `exporter` of what pushes.
    pub(super) struct ExporterKeys {
        /// Standard output, where the key has a value such as `{}`.
        pub(super) console: Marker,
        /// An OTLP server.
        pub(super) otlp: Option<OtlpKeys>,
    }

    /// The section `otlp`.
    pub(super) struct OtlpKeys {
        /// Protocol of the server. Required.
        pub(super) protocol: Option<Protocol>,
        /// Address or URL of the server. Unset is `localhost` with port 4317 for gRPC and 4318 for HTTP.
        pub(super) endpoint: Option<String>,
        /// Whether an endpoint without a scheme is connected to without TLS.
        pub(super) insecure: bool,
        /// PEM file of the certificate authorities to trust instead of those of the system.
        pub(super) certificate: String,
        /// PEM file of the own certificate.
        pub(super) client_certificate: Option<String>,
        /// PEM file of the private key of the own certificate.
        pub(super) client_key: Option<String>,
        /// Compression of requests.
        pub(super) compression: OtlpCompression,
        /// Longest time for a request and its retries, in milliseconds. 0 is 10000.
        pub(super) timeout: u64,
        /// Headers added to every request.
        pub(super) headers: Headers,
        /// Headers added to every request, as `name=value` pairs separated by commas.
        pub(super) headers_list: Secret,
        /// Start of the sums of metrics: the start of the process (`cumulative`), the last export (`delta`), or whichever
        /// needs less memory (`lowmemory`). Unset is `cumulative`. Only for metrics.
        pub(super) temporality_preference: Option<Temporality>,
        /// Aggregation of histograms. Only for metrics.
        pub(super) default_histogram_aggregation: Option<String>,
    }

    /// An item of `metrics::views`.
    pub(super) struct ViewKeys {
        /// Instruments that are changed. Required.
        pub(super) selector: Option<Selector>,
        /// The changes.
        pub(super) stream: StreamKeys,
    }

    /// The section `stream`.
    pub(super) struct StreamKeys {
        /// New name.
        pub(super) name: Option<String>,
        /// New description.
        pub(super) description: Option<String>,
        /// New aggregation, one of these keys.
        pub(super) aggregation: AggregationKeys,
        /// Attributes of measurements.
        pub(super) attribute_keys: AttributeListKeys,
    }

    /// The section `attribute_keys`.
    pub(super) struct AttributeListKeys {
        /// Attributes that are kept. Empty keeps all.
        pub(super) included: Vec<String>,
        /// Attributes that are removed.
        excluded: Vec<String> => unused "attributes are selected by `included` only",
    }

    /// The section `aggregation`.
    pub(super) struct AggregationKeys {
        /// The aggregation of the instrument.
        default: Marker,
        /// No measurements.
        pub(super) drop: Marker,
        /// The last measurement.
        pub(super) last_value: Marker,
        /// The sum of measurements.
        pub(super) sum: Marker,
        /// A histogram with given bounds.
        pub(super) explicit_bucket_histogram: Option<BucketsKeys>,
        /// A histogram whose bounds adapt.
        pub(super) base2_exponential_bucket_histogram: Option<ExponentialKeys>,
    }

    /// The section `explicit_bucket_histogram`.
    pub(super) struct BucketsKeys {
        /// Upper bounds of the buckets. Unset leaves the aggregation as it is.
        pub(super) boundaries: Option<Vec<f64>>,
        /// Whether the smallest and the largest measurement are recorded.
        record_min_max: Option<bool> => unused "they are always recorded",
    }

    /// The section `base2_exponential_bucket_histogram`.
    pub(super) struct ExponentialKeys {
        /// Finest scale.
        pub(super) max_scale: i8 = 20,
        /// Largest number of buckets.
        pub(super) max_size: u32 = 160,
        /// Whether the smallest and the largest measurement are recorded.
        record_min_max: Option<bool> => unused "they are always recorded",
    }

    /// The section `traces`.
    pub(super) struct TracesKeys {
        /// `none` exports no spans.
        pub(super) level: MetricsLevel,
        /// Formats of the trace context in requests.
        propagators: Vec<Propagator> => unused "requests of the collector carry no trace context",
        /// Processors that export spans.
        pub(super) processors: Vec<ProcessorKeys>,
        /// Limits of the size of spans.
        limits: Marker => unused "spans have no limits",
        /// Sampling of spans.
        sampler: Marker => unused "spans of the collector are not sampled",
    }

    /// The section `resource`, except for names of attributes.
    pub(super) struct ResourceKeys {
        /// Attributes, in the order in which they are added.
        pub(super) attributes: Vec<AttributeKeys>,
        /// URL of the schema of the attributes.
        schema_url: IgnoredAny => unused "resources are exported without a schema",
        /// Detectors of attributes.
        detectors: IgnoredAny => unused "attributes are not detected",
    }

    /// An item of `resource::attributes`.
    pub(super) struct AttributeKeys {
        /// Name of the attribute.
        pub(super) name: String,
        /// Value of the attribute. Unset leaves the attribute out.
        pub(super) value: Option<Node>,
    }
}

config::choice! {
    /// A format of the trace context.
    pub(super) enum Propagator {
        /// W3C's.
        TraceContext = "tracecontext",
        /// Zipkin's.
        B3 = "b3",
    }
}
