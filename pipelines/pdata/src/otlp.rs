//! Where OTLP requests of each signal are sent, and in which encodings.

use crate::Signal;

/// Returns the URL path of a signal's OTLP/HTTP requests.
pub const fn http_path(signal: Signal) -> &'static str {
    match signal {
        Signal::Logs => "/v1/logs",
        Signal::Metrics => "/v1/metrics",
        Signal::Traces => "/v1/traces",
        Signal::Profiles => "/v1development/profiles",
    }
}

/// Returns the path of a signal's gRPC method.
pub const fn grpc_path(signal: Signal) -> &'static str {
    match signal {
        Signal::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
        Signal::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
        Signal::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        Signal::Profiles => "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
    }
}

/// The media type of protobuf in OTLP/HTTP.
pub const PROTOBUF: &str = "application/x-protobuf";
/// The media type of JSON in OTLP/HTTP.
pub const JSON: &str = "application/json";
