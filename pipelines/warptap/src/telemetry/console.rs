//! Internal telemetry on standard output: one line of OTLP JSON per export.

use pdata::Payload;
use std::io::Write as _;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::MetricsData;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use opentelemetry_proto::transform::logs::tonic::group_logs_by_resource_and_scope;
use opentelemetry_proto::transform::trace::tonic::group_spans_by_resource_and_scope;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::trace::SpanData;
use pdata::Data;

/// Writes metrics as one line.
pub(super) fn metrics(collected: &ResourceMetrics) -> OTelSdkResult {
    let ExportMetricsServiceRequest { resource_metrics } = collected.into();
    write(&Data::Metrics(Payload::new(MetricsData { resource_metrics })))
}

/// Writes spans as one line.
pub(super) fn spans(spans: Vec<SpanData>, resource: &Resource) -> OTelSdkResult {
    let resource_spans = group_spans_by_resource_and_scope(spans, &resource.into());
    write(&Data::Traces(Payload::new(TracesData { resource_spans })))
}

fn write(data: &Data) -> OTelSdkResult {
    let mut line = pdata::json::encode(data);
    line.push(b'\n');
    let mut out = std::io::stdout().lock();
    let written = out.write_all(&line).and_then(|()| out.flush());
    written.map_err(|error| OTelSdkError::InternalFailure(error.to_string()))
}

/// An exporter that writes each batch of log records as one line.
#[derive(Debug, Default)]
pub(super) struct ConsoleLogs {
    resource: ResourceAttributesWithSchema,
}

impl LogExporter for ConsoleLogs {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let resource_logs = group_logs_by_resource_and_scope(&batch, &self.resource);
        write(&Data::Logs(Payload::new(LogsData { resource_logs })))
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.into();
    }
}
