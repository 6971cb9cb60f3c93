//! Telemetry in flight: one OTLP request body of one signal.
//!
//! Shared by [`Arc`], copied only by a component that changes it (`Arc::make_mut`), as the Go Collector
//! clones for a consumer that mutates.

use std::sync::Arc;

use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::{MetricsData, metric};
use opentelemetry_proto::tonic::trace::v1::TracesData;

/// The kind of telemetry a pipeline carries.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Signal {
    /// Log records.
    Logs,
    /// Metric points.
    Metrics,
    /// Spans.
    Traces,
}

impl Signal {
    /// All signals, in the order of their names.
    pub const ALL: [Signal; 3] = [Signal::Logs, Signal::Metrics, Signal::Traces];

    /// The name that a pipeline id begins with: `logs`, `metrics`, `traces`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
            Signal::Traces => "traces",
        }
    }
}

/// One batch of telemetry, as OTLP's messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Log records by resource and scope.
    Logs(Arc<LogsData>),
    /// Metric points by resource and scope.
    Metrics(Arc<MetricsData>),
    /// Spans by resource and scope.
    Traces(Arc<TracesData>),
}

impl Data {
    /// Which signal this is.
    pub fn signal(&self) -> Signal {
        match self {
            Data::Logs(_) => Signal::Logs,
            Data::Metrics(_) => Signal::Metrics,
            Data::Traces(_) => Signal::Traces,
        }
    }

    /// The number of log records, metric points or spans inside.
    pub fn items(&self) -> usize {
        match self {
            Data::Logs(d) => {
                d.resource_logs.iter().flat_map(|r| &r.scope_logs).map(|s| s.log_records.len()).sum()
            }
            Data::Metrics(d) => {
                let metrics =
                    d.resource_metrics.iter().flat_map(|r| &r.scope_metrics).flat_map(|s| &s.metrics);
                metrics.map(|m| points(m.data.as_ref())).sum()
            }
            Data::Traces(d) => {
                d.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len()).sum()
            }
        }
    }
}

fn points(data: Option<&metric::Data>) -> usize {
    match data {
        None => 0,
        Some(metric::Data::Gauge(g)) => g.data_points.len(),
        Some(metric::Data::Sum(s)) => s.data_points.len(),
        Some(metric::Data::Histogram(h)) => h.data_points.len(),
        Some(metric::Data::ExponentialHistogram(h)) => h.data_points.len(),
        Some(metric::Data::Summary(s)) => s.data_points.len(),
    }
}
