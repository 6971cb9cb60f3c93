//! Telemetry in flight: one OTLP request body of one signal.
//!
//! Shared, copied only by a component that changes it ([`Payload::make_mut`]), as the Go Collector clones for a
//! consumer that mutates, and decoded only for one that looks into it.

use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::{MetricsData, metric};
use opentelemetry_proto::tonic::profiles::v1development::ProfilesData;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message as _};

use crate::payload::Payload;
use crate::wire::{self, WireError};

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

/// Why bytes are no data of a signal.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum DataError {
    /// They are no message of OTLP.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// They are no profiles.
    #[error(transparent)]
    Profiles(#[from] DecodeError),
}

/// One batch of telemetry, as OTLP's messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Log records by resource and scope.
    Logs(Payload<LogsData>),
    /// Metric points by resource and scope.
    Metrics(Payload<MetricsData>),
    /// Spans by resource and scope.
    Traces(Payload<TracesData>),
    /// Profiles by resource and scope, and the dictionary they refer to.
    Profiles(Payload<ProfilesData>),
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

    /// Takes the protobuf of a signal's data, which is that of its export request, too. It is checked here, and
    /// decoded when somebody looks into it.
    pub fn decode(signal: Signal, mut bytes: impl Buf) -> Result<Data, DataError> {
        let bytes = bytes.copy_to_bytes(bytes.remaining());
        let items = wire::check(signal, &bytes).transpose()?.unwrap_or_default();
        Ok(match signal {
            Signal::Logs => Data::Logs(Payload::from_wire(bytes, items)),
            Signal::Metrics => Data::Metrics(Payload::from_wire(bytes, items)),
            Signal::Traces => Data::Traces(Payload::from_wire(bytes, items)),
            Signal::Profiles => Data::Profiles(Payload::new(ProfilesData::decode(bytes)?)),
        })
    }

    /// Puts another batch behind this one without looking into either, where that can be done; the other one comes
    /// back where it cannot.
    pub fn join(&mut self, other: Data) -> Result<(), Data> {
        match (self, other) {
            (Data::Logs(d), Data::Logs(other)) => d.join(other).map_err(Data::Logs),
            (Data::Metrics(d), Data::Metrics(other)) => d.join(other).map_err(Data::Metrics),
            (Data::Traces(d), Data::Traces(other)) => d.join(other).map_err(Data::Traces),
            (_, other) => Err(other),
        }
    }

    /// The number of items, where it is known without looking.
    fn known_items(&self) -> Option<usize> {
        match self {
            Data::Logs(d) => d.items(),
            Data::Metrics(d) => d.items(),
            Data::Traces(d) => d.items(),
            Data::Profiles(d) => d.items(),
        }
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
        match self {
            Data::Logs(d) => d.encode(out),
            Data::Metrics(d) => d.encode(out),
            Data::Traces(d) => d.encode(out),
            Data::Profiles(d) => d.encode(out),
        }
    }

    /// It as protobuf, in parts to be written one behind the other: those it came in, where nobody changed it.
    pub fn to_parts(&self) -> Vec<Bytes> {
        match self {
            Data::Logs(d) => d.to_parts(),
            Data::Metrics(d) => d.to_parts(),
            Data::Traces(d) => d.to_parts(),
            Data::Profiles(d) => d.to_parts(),
        }
    }

    /// The number of log records, metric points, spans or profile samples inside.
    pub fn items(&self) -> usize {
        self.known_items().unwrap_or_else(|| self.counted_items())
    }

    fn counted_items(&self) -> usize {
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
