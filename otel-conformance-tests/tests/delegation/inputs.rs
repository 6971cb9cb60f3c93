//! What is sent to receivers that only the Collector has, each in its own protocol.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use prost::Message as _;

/// Sends input to the receivers of a configuration.
pub type Input = fn(&Path, &[u16]);

const NANOS: u64 = 1_790_000_000_000_000_000;

/// Posts a body, and panics if the answer is no success.
fn post(port: u16, path: &str, kind: &str, body: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 2"), "{path}: {answer}");
}

/// Returns the body of a page, once it can be read.
pub fn get(port: u16, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: localhost\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// Spans as Zipkin's clients send them.
pub fn zipkin(_: &Path, ports: &[u16]) {
    let spans: Vec<String> = (1..=20)
        .map(|n| {
            format!(
                r#"{{"traceId":"{n:032x}","id":"{n:016x}","name":"span {n}","kind":"SERVER","timestamp":1790000000000{n:03},"duration":{n}000,"localEndpoint":{{"serviceName":"shop"}},"tags":{{"http.method":"GET","n":"{n}"}}}}"#
            )
        })
        .collect();
    post(ports[0], "/api/v2/spans", "application/json", format!("[{}]", spans.join(",")).as_bytes());
}

/// Spans in the Thrift encoding of Jaeger's clients (`jaeger.thrift`, binary protocol).
pub fn jaeger(_: &Path, ports: &[u16]) {
    let (mut batch, stop) = (Vec::new(), 0_u8);
    field(&mut batch, STRUCT, 1);
    field(&mut batch, STRING, 1);
    string(&mut batch, "shop");
    batch.push(stop);
    field(&mut batch, LIST, 2);
    batch.push(STRUCT);
    batch.extend(10_i32.to_be_bytes());
    for n in 1..=10_i64 {
        for (id, value) in [(1, n), (2, 7), (3, 100 + n), (4, 0)] {
            long(&mut batch, id, value);
        }
        field(&mut batch, STRING, 5);
        string(&mut batch, &format!("operation {n}"));
        field(&mut batch, INT, 7);
        batch.extend(1_i32.to_be_bytes());
        long(&mut batch, 8, 1_790_000_000_000_000 + n);
        long(&mut batch, 9, 1_000 * n);
        batch.push(stop);
    }
    batch.push(stop);
    post(ports[0], "/api/traces", "application/vnd.apache.thrift.binary", &batch);
}

/// Types of the binary protocol.
const INT: u8 = 8;
const LONG: u8 = 10;
const STRING: u8 = 11;
const STRUCT: u8 = 12;
const LIST: u8 = 15;

fn field(out: &mut Vec<u8>, kind: u8, id: i16) {
    out.push(kind);
    out.extend(id.to_be_bytes());
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as i32).to_be_bytes());
    out.extend(text.as_bytes());
}

fn long(out: &mut Vec<u8>, id: i16, value: i64) {
    field(out, LONG, id);
    out.extend(value.to_be_bytes());
}

/// Counters and gauges of StatsD, which the receiver aggregates.
pub fn statsd(_: &Path, ports: &[u16]) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for n in 1..=50 {
        let line = format!("requests:{n}|c|#route:a\nqueue:{n}|g\n");
        socket.send_to(line.as_bytes(), ("127.0.0.1", ports[0])).unwrap();
    }
}

/// Records of Fluent's forward protocol: `[tag, time, {"log": …}]` in MessagePack.
pub fn fluent(_: &Path, ports: &[u16]) {
    let mut stream = TcpStream::connect(("127.0.0.1", ports[0])).unwrap();
    for n in 0..20_u8 {
        let line = format!("line {n:02}");
        let mut record = vec![0x93, 0xa3];
        record.extend(b"app");
        record.push(0xce);
        record.extend((1_790_000_000_u32 + u32::from(n)).to_be_bytes());
        record.extend([0x81, 0xa3]);
        record.extend(b"log");
        record.push(0xa0 | line.len() as u8);
        record.extend(line.as_bytes());
        stream.write_all(&record).unwrap();
    }
}

/// Lines of a file.
pub fn lines(dir: &Path, _: &[u16]) {
    let lines: String = (0..200).map(|n| format!("{{\"level\":\"info\",\"n\":{n}}}\n")).collect();
    std::fs::write(dir.join("app.log"), lines).unwrap();
}

/// Spans over OTLP.
pub fn spans(_: &Path, ports: &[u16]) {
    let attribute = |key: &str, value: &str| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(Value::StringValue(value.to_owned())) }),
        ..KeyValue::default()
    };
    let span = |n: u64| Span {
        trace_id: u128::from(n).to_be_bytes().into(),
        span_id: n.to_be_bytes().into(),
        name: format!("span {}", n % 3),
        kind: 2,
        start_time_unix_nano: NANOS,
        end_time_unix_nano: NANOS + n * 1_000_000,
        attributes: vec![attribute("route", "a")],
        ..Span::default()
    };
    let scope = ScopeSpans { spans: (1..=30).map(span).collect(), ..ScopeSpans::default() };
    let resource = Resource { attributes: vec![attribute("service.name", "shop")], ..Resource::default() };
    let all =
        ResourceSpans { resource: Some(resource), scope_spans: vec![scope], ..ResourceSpans::default() };
    let body = TracesData { resource_spans: vec![all] }.encode_to_vec();
    post(ports[0], "/v1/traces", "application/x-protobuf", &body);
}
