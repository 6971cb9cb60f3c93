//! Push exporters: metrics at an interval, spans and log records in batches.
//!
//! Each destination has one task, which sends its remaining data before it ends. A destination that does not respond
//! drops its own data, delays no other destination, and is logged when it begins to fail and when it recovers.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use component::health::{Change, Health};
use component::spans::Span;
use opentelemetry::InstrumentationScope;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceState};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{
    BatchConfigBuilder, BatchLogProcessor, LogBatch, LogExporter, SdkLoggerProvider,
};
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::console::{self, ConsoleLogs};
use super::meters::Source;
use super::otlp::{self, OtlpError};
use crate::config::telemetry::{ExporterConfig, ProcessorConfig};
use crate::prepare::VERSION;

/// Delay of a batch of log records whose configured delay is zero.
const DELAY_MIN: Duration = Duration::from_secs(1);

/// A task that exports metrics at an interval.
pub(super) struct MetricsPush {
    pub(super) source: Source,
    pub(super) interval: Duration,
    pub(super) timeout: Duration,
    exporter: MetricsTo,
}

enum MetricsTo {
    Console,
    Otlp(Box<MetricExporter>),
}

impl MetricsPush {
    pub(super) fn new(
        source: Source,
        interval: Duration,
        timeout: Duration,
        to: &ExporterConfig,
    ) -> Result<Self, OtlpError> {
        let exporter = match to {
            ExporterConfig::Console => MetricsTo::Console,
            ExporterConfig::Otlp(otlp) => MetricsTo::Otlp(Box::new(otlp::metrics(otlp)?)),
        };
        Ok(MetricsPush { source, interval, timeout, exporter })
    }

    /// Exports at each interval until `stop`, and then once more.
    pub(super) async fn run(self, stop: CancellationToken) {
        let mut ticks = interval_at(Instant::now() + self.interval, self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut status = ExportStatus::new("metrics");
        loop {
            let is_last = tokio::select! {
                () = stop.cancelled() => true,
                _ = ticks.tick() => false,
            };
            match self.source.collect() {
                Ok(collected) => status.log_result(timeout(self.timeout, self.export(&collected)).await),
                Err(error) => tracing::warn!(%error, "failed to collect internal metrics"),
            }
            if is_last {
                return;
            }
        }
    }

    async fn export(&self, collected: &ResourceMetrics) -> OTelSdkResult {
        match &self.exporter {
            MetricsTo::Console => console::metrics(collected),
            MetricsTo::Otlp(exporter) => exporter.export(collected).await,
        }
    }
}

/// A task that exports spans in batches.
pub(super) struct SpansPush {
    settings: ProcessorConfig,
    exporter: SpansTo,
}

enum SpansTo {
    Console(Resource),
    Otlp(Box<SpanExporter>),
}

impl SpansPush {
    pub(super) fn new(settings: &ProcessorConfig, resource: &Resource) -> Result<Self, OtlpError> {
        let exporter = match &settings.exporter {
            ExporterConfig::Console => SpansTo::Console(resource.clone()),
            ExporterConfig::Otlp(otlp) => {
                let mut exporter = otlp::spans(otlp)?;
                exporter.set_resource(resource);
                SpansTo::Otlp(Box::new(exporter))
            }
        };
        Ok(SpansPush { settings: settings.clone(), exporter })
    }

    /// Returns how many spans may be queued.
    pub(super) fn capacity(&self) -> usize {
        self.settings.queue_size_max
    }

    /// Exports spans in batches until `stop`, and then the queued ones.
    pub(super) async fn run(self, mut spans: Receiver<Arc<Span>>, stop: CancellationToken) {
        let mut status = ExportStatus::new("traces");
        let mut batch: Vec<Arc<Span>> = Vec::new();
        let mut due = Instant::now();
        loop {
            let size_max = self.settings.batch_size_max;
            let is_last = tokio::select! {
                () = stop.cancelled() => true,
                () = sleep_until(due), if !batch.is_empty() => false,
                _ = next(&mut spans, &mut batch, &mut due, self.settings.delay), if batch.len() < size_max => {
                    if batch.len() < size_max {
                        continue;
                    }
                    false
                }
            };
            if is_last {
                while let Ok(span) = spans.try_recv() {
                    batch.push(span);
                }
            }
            for chunk in batch.chunks(size_max.max(1)) {
                let exported = timeout(self.settings.timeout, self.export(chunk)).await;
                status.log_result(exported);
            }
            batch.clear();
            if is_last {
                return;
            }
        }
    }

    async fn export(&self, spans: &[Arc<Span>]) -> OTelSdkResult {
        let scope = InstrumentationScope::builder("warptap").with_version(VERSION).build();
        let spans = spans.iter().map(|span| span_data(span, &scope)).collect();
        match &self.exporter {
            SpansTo::Console(resource) => console::spans(spans, resource),
            SpansTo::Otlp(exporter) => exporter.export(spans).await,
        }
    }
}

/// Receives the next span; the first span of a batch sets `due`. Never returns if the recorder is gone.
async fn next(
    spans: &mut Receiver<Arc<Span>>,
    batch: &mut Vec<Arc<Span>>,
    due: &mut Instant,
    delay: Duration,
) {
    let Some(span) = spans.recv().await else { return std::future::pending().await };
    if batch.is_empty() {
        *due = Instant::now() + delay;
    }
    batch.push(span);
}

/// Converts a span to the SDK's type.
fn span_data(span: &Span, scope: &InstrumentationScope) -> SpanData {
    let context = |id| SpanContext::new(span.trace_id, id, TraceFlags::SAMPLED, false, TraceState::NONE);
    let is_root = span.parent.is_none();
    SpanData {
        span_context: context(span.span_id),
        parent_span_id: span.parent.unwrap_or(SpanId::INVALID),
        parent_span_is_remote: false,
        span_kind: if is_root { SpanKind::Server } else { SpanKind::Internal },
        name: Cow::Owned(span.name.to_string()),
        start_time: span.started_at,
        end_time: span.started_at + span.duration,
        attributes: span.attributes.clone(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: span.error.as_ref().map_or(Status::Unset, |error| Status::error(error.clone())),
        instrumentation_scope: scope.clone(),
    }
}

/// Creates a provider that exports log records; none without processors.
pub(super) fn records(
    processors: &[ProcessorConfig],
    resource: &Resource,
) -> Result<Option<SdkLoggerProvider>, OtlpError> {
    let mut builder = SdkLoggerProvider::builder().with_resource(resource.clone());
    for processor in processors {
        builder = match &processor.exporter {
            ExporterConfig::Console => builder.with_log_processor(batched(processor, ConsoleLogs::default())),
            ExporterConfig::Otlp(otlp) => builder.with_log_processor(batched(processor, otlp::logs(otlp)?)),
        };
    }
    Ok((!processors.is_empty()).then(|| builder.build()))
}

/// Creates the SDK's batch processor, which exports on its own thread, so that logging never waits for the network.
fn batched(settings: &ProcessorConfig, exporter: impl LogExporter + 'static) -> BatchLogProcessor {
    let delay = if settings.delay.is_zero() { DELAY_MIN } else { settings.delay };
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(settings.queue_size_max)
        .with_max_export_batch_size(settings.batch_size_max)
        .with_scheduled_delay(delay)
        .build();
    let status = Mutex::new(ExportStatus::new("logs"));
    let exporter = LoggedExporter { exporter, status, timeout: settings.timeout };
    BatchLogProcessor::builder(exporter).with_batch_config(config).build()
}

/// An exporter of log records whose failures are logged.
#[derive(Debug)]
struct LoggedExporter<E> {
    exporter: E,
    status: Mutex<ExportStatus>,
    timeout: Duration,
}

impl<E: LogExporter> LogExporter for LoggedExporter<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let exported = self.exporter.export(batch).await;
        let error = exported.as_ref().err().map(ToString::to_string);
        self.status.lock().unwrap_or_else(PoisonError::into_inner).log_change(error);
        exported
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout.min(self.timeout))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The status of a destination; logs when exports begin to fail and when they succeed again.
#[derive(Debug)]
struct ExportStatus {
    signal: &'static str,
    health: Health,
}

impl ExportStatus {
    fn new(signal: &'static str) -> Self {
        ExportStatus { signal, health: Health::default() }
    }

    fn log_result(&mut self, exported: Result<OTelSdkResult, tokio::time::error::Elapsed>) {
        let error = match exported {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("timed out".to_owned()),
        };
        self.log_change(error);
    }

    fn log_change(&mut self, error: Option<String>) {
        let signal = self.signal;
        match (self.health.record(error.is_none()), error) {
            (Some(Change::Failed), Some(error)) => {
                tracing::warn!(signal, error, "failed to export internal telemetry");
            }
            (Some(Change::Recovered), _) => {
                tracing::info!(signal, "exporting internal telemetry works again")
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use opentelemetry::KeyValue;
    use opentelemetry::trace::TraceId;

    use super::*;

    #[test]
    fn a_span_is_converted_completely() {
        let (trace_id, span_id) = (TraceId::from(7), SpanId::from(8));
        let span = Span {
            name: "receiver/otlp/TraceDataReceived".into(),
            trace_id,
            span_id,
            parent: Some(SpanId::from(9)),
            started_at: SystemTime::UNIX_EPOCH,
            duration: Duration::from_millis(3),
            attributes: vec![KeyValue::new("accepted_spans", 2)],
            error: Some("full".to_owned()),
        };
        let got = span_data(&span, &InstrumentationScope::default());
        assert_eq!((got.span_context.trace_id(), got.span_context.span_id()), (trace_id, span_id));
        assert_eq!((got.parent_span_id, got.span_kind), (SpanId::from(9), SpanKind::Internal));
        assert_eq!(got.end_time.duration_since(got.start_time).unwrap(), Duration::from_millis(3));
        assert_eq!((got.status, got.attributes), (Status::error("full"), span.attributes));
    }
}
