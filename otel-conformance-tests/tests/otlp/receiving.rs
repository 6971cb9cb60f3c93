//! A receiver on free ports of the loopback interface with a recording consumer, and requests for it.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use component::{ComponentId, Consumer, Host, Receiver as _, Running};
use config::Optional;
use otel_conformance_tests::Sink;
use otlp_receiver::{GrpcConfig, HttpConfig, OtlpConfig, OtlpReceiver, Protocols};
use pdata::{Data, Signal};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A running receiver.
pub struct Receiving {
    pub grpc: SocketAddr,
    pub http: SocketAddr,
    stop: CancellationToken,
    running: Running,
}

impl Receiving {
    /// Starts a receiver with the default limits.
    pub async fn before(sink: &Arc<Sink>) -> Self {
        Receiving::limited(sink, 0, 0).await
    }

    /// Starts a receiver with limits of a message in MiB and of a body in bytes.
    pub async fn limited(sink: &Arc<Sink>, message_mib: i64, body_bytes: i64) -> Self {
        let endpoint = "127.0.0.1:0".to_owned();
        let grpc = GrpcConfig {
            endpoint: endpoint.clone(),
            max_recv_msg_size_mib: message_mib,
            ..GrpcConfig::default()
        };
        let mut http = HttpConfig::default();
        http.server.endpoint = endpoint;
        http.server.max_request_body_size = body_bytes;
        let protocols = Protocols { grpc: Optional::some(grpc), http: Optional::some(http) };
        let (bound, mut addresses) = mpsc::unbounded_channel();
        let id = ComponentId::parse("otlp").unwrap();
        let receiver = OtlpReceiver::new(id, OtlpConfig { protocols }).with_bound_addresses(bound);
        let next = Signal::STABLE.map(|signal| (signal, sink.clone() as Arc<dyn Consumer>)).to_vec();
        let stop = CancellationToken::new();
        let running = Box::new(receiver).start(next, &Host::detached(), stop.clone()).await.unwrap();
        let mut address = async || addresses.recv().await.unwrap().1.to_string().parse().unwrap();
        Receiving { grpc: address().await, http: address().await, stop, running }
    }

    pub async fn end(self) {
        self.stop.cancel();
        self.running.await;
    }
}

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
