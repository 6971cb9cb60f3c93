//! Requests for peers' clients, and data with a given size.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
pub use otel_conformance_tests::Receiving;
use pdata::{Data, Signal};
use serde_json::{Value, json};

/// Returns a request for Python's client over HTTP with protobuf.
pub fn over_http(port: u16, signal: Signal, body: &[u8]) -> Value {
    json!({
        "to": "http", "port": port, "path": format!("/v1/{}", signal.name()), "pad": 0, "compress": "",
        "headers": {"Content-Type": "application/x-protobuf"}, "body": STANDARD.encode(body),
    })
}

/// Returns a request for Python's client over gRPC.
pub fn over_grpc(port: u16, signal: Signal, body: &[u8]) -> Value {
    let (package, service) = match signal {
        Signal::Logs => ("logs", "Logs"),
        Signal::Metrics => ("metrics", "Metrics"),
        _ => ("trace", "Trace"),
    };
    let path = format!("/opentelemetry.proto.collector.{package}.v1.{service}Service/Export");
    json!({"to": "grpc", "port": port, "path": path, "pad": 0, "compress": "", "body": STANDARD.encode(body)})
}

/// Returns a value with some fields replaced.
pub fn but(mut value: Value, fields: Value) -> Value {
    for (key, field) in fields.as_object().unwrap() {
        value[key] = field.clone();
    }
    value
}

pub fn proto(data: &Data) -> Vec<u8> {
    let mut bytes = Vec::new();
    data.encode(&mut bytes);
    bytes
}

/// Returns one log record with a body of `bytes` bytes.
pub fn log_of(bytes: usize) -> Data {
    let text = "x".repeat(bytes);
    let json = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{{"stringValue":"{text}"}}}}]}}]}}]}}"#
    );
    pdata::json::decode(Signal::Logs, json.as_bytes()).unwrap()
}
