//! The keys of the section, which are those of the Collector; its declarative format is version 0.3.0 of
//! OpenTelemetry's. Durations are integers in milliseconds.

use std::collections::BTreeMap;

use config::{GoDuration, Headers, Node};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::metrics::MetricsLevel;
use crate::config::LogLevel;

/// A section of which only the presence matters.
pub(super) type Marker = Option<BTreeMap<String, IgnoredAny>>;

/// Declares the structs of sections.
macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident { $($key:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Default, Deserialize)]
        #[serde(default)]
        pub(super) struct $name {
            $(pub(super) $key: $type,)*
        }
    )*};
}

keys! {
    /// The section `service::telemetry`, whose parts are read individually.
    TelemetryKeys {
        logs: IgnoredAny,
        metrics: IgnoredAny,
        resource: IgnoredAny,
        traces: IgnoredAny,
    }
    /// The section `logs`.
    LogsKeys {
        level: LogLevel,
        development: bool,
        disable_caller: bool,
        disable_stacktrace: Option<bool>,
        disable_zap_resource: bool,
        encoding: Option<String>,
        error_output_paths: Option<Vec<String>>,
        initial_fields: BTreeMap<String, Node>,
        output_paths: Option<Vec<String>>,
        processors: Vec<ProcessorKeys>,
        sampling: SamplingKeys,
    }
    /// The section `logs::sampling`.
    SamplingKeys {
        enabled: Option<bool>,
        tick: Option<GoDuration>,
        initial: Option<i64>,
        thereafter: Option<i64>,
    }
    /// The section `metrics`.
    MetricsKeys {
        level: MetricsLevel,
        readers: Option<Vec<ReaderKeys>>,
        views: Option<Vec<ViewKeys>>,
        address: Option<String>,
    }
    /// An item of `metrics::readers`.
    ReaderKeys {
        pull: Option<PullKeys>,
        periodic: Option<PeriodicKeys>,
        producers: Option<Vec<IgnoredAny>>,
    }
    PullKeys {
        exporter: PullExporterKeys,
    }
    PullExporterKeys {
        prometheus: Option<PrometheusKeys>,
    }
    PrometheusKeys {
        host: Option<String>,
        port: Option<u16>,
        without_scope_info: Option<bool>,
        without_type_suffix: Option<bool>,
        without_units: Option<bool>,
        with_resource_constant_labels: Option<ListsKeys>,
    }
    /// Lists of included and excluded names.
    ListsKeys {
        included: Vec<String>,
        excluded: Vec<String>,
    }
    PeriodicKeys {
        interval: Option<u64>,
        timeout: Option<u64>,
        exporter: ExporterKeys,
    }
    /// An item of `logs::processors` or `traces::processors`.
    ProcessorKeys {
        batch: Option<BatchKeys>,
        simple: Option<SimpleKeys>,
    }
    BatchKeys {
        schedule_delay: Option<u64>,
        export_timeout: Option<u64>,
        max_queue_size: Option<usize>,
        max_export_batch_size: Option<usize>,
        exporter: ExporterKeys,
    }
    SimpleKeys {
        exporter: ExporterKeys,
    }
    /// The section of an exporter.
    ExporterKeys {
        console: Marker,
        otlp: Option<OtlpKeys>,
    }
    OtlpKeys {
        protocol: Option<String>,
        endpoint: Option<String>,
        insecure: Option<bool>,
        certificate: Option<String>,
        client_certificate: Option<String>,
        client_key: Option<String>,
        compression: Option<String>,
        timeout: Option<u64>,
        headers: Headers,
        headers_list: Option<String>,
        temporality_preference: Option<String>,
        default_histogram_aggregation: Option<String>,
    }
    /// An item of `metrics::views`.
    ViewKeys {
        selector: Option<SelectorKeys>,
        stream: Option<StreamKeys>,
    }
    SelectorKeys {
        instrument_name: Option<String>,
        instrument_type: Option<String>,
        meter_name: Option<String>,
        meter_version: Option<String>,
        meter_schema_url: Option<String>,
        unit: Option<String>,
    }
    StreamKeys {
        name: Option<String>,
        description: Option<String>,
        aggregation: Option<AggregationKeys>,
        attribute_keys: Option<ListsKeys>,
    }
    AggregationKeys {
        default: Marker,
        drop: Marker,
        last_value: Marker,
        sum: Marker,
        explicit_bucket_histogram: Option<BucketsKeys>,
        base2_exponential_bucket_histogram: Option<ExponentialKeys>,
    }
    BucketsKeys {
        boundaries: Option<Vec<f64>>,
        record_min_max: Option<bool>,
    }
    ExponentialKeys {
        max_scale: Option<i8>,
        max_size: Option<u32>,
        record_min_max: Option<bool>,
    }
    /// The section `traces`.
    TracesKeys {
        level: Option<MetricsLevel>,
        propagators: Vec<String>,
        processors: Vec<ProcessorKeys>,
        limits: Marker,
        sampler: Marker,
    }
    /// An item of `resource::attributes`.
    AttributeKeys {
        name: String,
        value: Option<Node>,
    }
}
