//! Batches of telemetry, ready for a pipeline.

use opentelemetry::InstrumentationScope;
use opentelemetry_proto::tonic::common::v1::InstrumentationScope as EncodedScope;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use pdata::{Data, Payload};

use crate::records::Records;

/// Telemetry of one signal, ready for a pipeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Telemetry of the batch.
    pub data: Data,
    /// True if a later batch repeats the points, so that this one may be dropped.
    pub is_repeated: bool,
}

/// Receives the batches of an analysis.
pub type Sink<'a> = &'a mut dyn FnMut(Batch);

/// Returns a batch of metrics; `is_repeated` says that the next collection repeats the points.
pub fn metrics(resource_metrics: Vec<ResourceMetrics>, is_repeated: bool) -> Batch {
    Batch { data: Data::Metrics(Payload::new(MetricsData { resource_metrics })), is_repeated }
}

/// Returns the OTLP message for the metrics of one scope and resource.
pub fn resource_metrics(
    scope: &InstrumentationScope,
    resource: Resource,
    metrics: Vec<Metric>,
) -> ResourceMetrics {
    let scope_metrics = ScopeMetrics { scope: Some(encoded(scope)), metrics, schema_url: String::new() };
    ResourceMetrics {
        resource: Some(resource),
        scope_metrics: vec![scope_metrics],
        schema_url: semconv::UPSTREAM_SCHEMA_URL.to_owned(),
    }
}

/// Takes the finished spans and log records and sends them to `sink` as telemetry of `resource`.
pub fn take_records(resource: &Resource, records: &Records, sink: Sink<'_>) {
    let (spans, logs) = (records.take_spans(), records.take_logs());
    if !spans.is_empty() {
        sink(Batch { data: traces(records.scope(), resource, spans), is_repeated: false });
    }
    if !logs.is_empty() {
        sink(Batch { data: log_records(records.scope(), resource, logs), is_repeated: false });
    }
}

fn traces(scope: &InstrumentationScope, resource: &Resource, spans: Vec<Span>) -> Data {
    let scope_spans = ScopeSpans { scope: Some(encoded(scope)), spans, schema_url: String::new() };
    let resource_spans = ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        schema_url: semconv::UPSTREAM_SCHEMA_URL.to_owned(),
    };
    Data::Traces(Payload::new(TracesData { resource_spans: vec![resource_spans] }))
}

fn log_records(scope: &InstrumentationScope, resource: &Resource, log_records: Vec<LogRecord>) -> Data {
    let scope_logs = ScopeLogs { scope: Some(encoded(scope)), log_records, schema_url: String::new() };
    let resource_logs = ResourceLogs {
        resource: Some(resource.clone()),
        scope_logs: vec![scope_logs],
        schema_url: semconv::UPSTREAM_SCHEMA_URL.to_owned(),
    };
    Data::Logs(Payload::new(LogsData { resource_logs: vec![resource_logs] }))
}

/// Converts a scope to OTLP.
fn encoded(scope: &InstrumentationScope) -> EncodedScope {
    (scope.clone(), None).into()
}
