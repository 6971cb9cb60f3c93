//! Telemetry in flight: one OTLP request body of one signal.
//!
//! Shared by [`Arc`], copied only by a component that changes it (`Arc::make_mut`), as the Go Collector
//! clones for a consumer that mutates.

use std::sync::Arc;

use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::{MetricsData, metric};
use opentelemetry_proto::tonic::profiles::v1development::ProfilesData;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::bytes::{Buf, BufMut};
use prost::{DecodeError, Message};

/// The kind of telemetry a pipeline carries.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Signal {
    /// Log records.
    Logs,
    /// Metric points.
    Metrics,
    /// Spans.
    Traces,
    /// Profiles: passed through as they are, behind the gate `service.profilesSupport`.
    Profiles,
}

impl Signal {
    /// All signals: those that are stable, then the one that is not.
    pub const ALL: [Signal; 4] = [Signal::Logs, Signal::Metrics, Signal::Traces, Signal::Profiles];

    /// The signals whose protocol is stable.
    pub const STABLE: [Signal; 3] = [Signal::Logs, Signal::Metrics, Signal::Traces];

    /// The name that a pipeline id begins with: `logs`, `metrics`, `traces`, `profiles`.
    pub fn name(self) -> &'static str {
        match self {
            Signal::Logs => "logs",
            Signal::Metrics => "metrics",
            Signal::Traces => "traces",
            Signal::Profiles => "profiles",
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
    /// Profiles by resource and scope, and the dictionary they refer to.
    Profiles(Arc<ProfilesData>),
}

impl Data {
    /// Which signal this is.
    pub fn signal(&self) -> Signal {
        match self {
            Data::Logs(_) => Signal::Logs,
            Data::Metrics(_) => Signal::Metrics,
            Data::Traces(_) => Signal::Traces,
            Data::Profiles(_) => Signal::Profiles,
        }
    }

    /// Reads the protobuf of a signal's data, which is that of its export request, too.
    pub fn decode(signal: Signal, bytes: impl Buf) -> Result<Data, DecodeError> {
        Ok(match signal {
            Signal::Logs => Data::Logs(Arc::new(Message::decode(bytes)?)),
            Signal::Metrics => Data::Metrics(Arc::new(Message::decode(bytes)?)),
            Signal::Traces => Data::Traces(Arc::new(Message::decode(bytes)?)),
            Signal::Profiles => Data::Profiles(Arc::new(Message::decode(bytes)?)),
        })
    }

    /// The size as protobuf, in bytes.
    pub fn encoded_len(&self) -> usize {
        match self {
            Data::Logs(d) => d.encoded_len(),
            Data::Metrics(d) => d.encoded_len(),
            Data::Traces(d) => d.encoded_len(),
            Data::Profiles(d) => d.encoded_len(),
        }
    }

    /// Appends it as protobuf to a buffer that grows as it is written.
    pub fn encode(&self, out: &mut impl BufMut) {
        let encoded = match self {
            Data::Logs(d) => d.encode(out),
            Data::Metrics(d) => d.encode(out),
            Data::Traces(d) => d.encode(out),
            Data::Profiles(d) => d.encode(out),
        };
        encoded.expect("the buffer grows as it is written");
    }

    /// The number of log records, metric points, spans or profile samples inside.
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
            Data::Profiles(d) => {
                let scopes = d.resource_profiles.iter().flat_map(|r| &r.scope_profiles);
                scopes.flat_map(|s| &s.profiles).map(|p| p.samples.len()).sum()
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
