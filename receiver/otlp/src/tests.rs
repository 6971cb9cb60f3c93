//! What a sender sees and what the pipeline gets. The senders here are tonic's generated clients and plain
//! HTTP/1.1, not our own exporters.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use component::config::{Node, Section};
use component::{BoxFuture, ComponentId, Consumer, Data, Receiver, Refused, Running, Signal};
use flate2::write::{GzEncoder, ZlibEncoder};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

use crate::{Counts, CountsSnapshot, FACTORY, OtlpConfig, OtlpReceiver, Protocol};

const TRACES: &str = r#"{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"name":"step","traceId":"5b8efff798038103d269b633813fc60c"}]}]}]}"#;
const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"},{"asDouble":2}]}}]}]}]}"#;
const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}"#;

fn json(signal: Signal) -> &'static str {
    [LOGS, METRICS, TRACES][signal as usize]
}

fn data(signal: Signal) -> Data {
    otlp_json::decode(signal, json(signal).as_bytes()).unwrap()
}

fn proto(signal: Signal) -> Vec<u8> {
    let mut bytes = Vec::new();
    data(signal).encode(&mut bytes);
    bytes
}

/// The pipeline: keeps what comes, answers what it was told to, waits at a gate that may be closed.
struct Pipeline {
    answer: Result<(), Refused>,
    got: Mutex<Vec<Data>>,
    gate: Semaphore,
    arrived: Semaphore,
}

impl Consumer for Pipeline {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            self.arrived.add_permits(1);
            let _open = self.gate.acquire().await.unwrap();
            self.got.lock().unwrap().push(data);
            self.answer.clone()
        })
    }
}

struct Started {
    pipeline: Arc<Pipeline>,
    counts: Arc<Counts>,
    grpc: SocketAddr,
    http: SocketAddr,
    stop: CancellationToken,
    running: Running,
}

impl Started {
    async fn answering(answer: Result<(), Refused>) -> Self {
        Self::with(answer, &Signal::STABLE, "", "").await
    }

    /// A receiver on free ports, with more settings of `grpc` and of `http`.
    async fn with(answer: Result<(), Refused>, signals: &[Signal], grpc: &str, http: &str) -> Self {
        let settings = format!(
            r#"{{"protocols": {{"grpc": {{"endpoint": "127.0.0.1:0"{grpc}}},
                                "http": {{"endpoint": "localhost:0"{http}}}}}}}"#
        );
        let (bound, mut told) = mpsc::unbounded_channel();
        let receiver = OtlpReceiver::new(id(), config(&settings)).telling(bound);
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        let pipeline = Arc::new(Pipeline { answer, got: Mutex::default(), gate, arrived: Semaphore::new(0) });
        let (counts, stop) = (receiver.counts(), CancellationToken::new());
        let next = signals.iter().map(|s| (*s, pipeline.clone() as Arc<dyn Consumer>)).collect();
        let running = Box::new(receiver).start(next, &component::Host::detached(), stop.clone()).await.unwrap();
        let (first, second) = (told.recv().await.unwrap(), told.recv().await.unwrap());
        assert_eq!((first.0, second.0), (Protocol::Grpc, Protocol::Http));
        Started { pipeline, counts, grpc: first.1, http: second.1, stop, running }
    }

    fn got(&self) -> Vec<Data> {
        self.pipeline.got.lock().unwrap().clone()
    }

    fn count(&self, protocol: Protocol, signal: Signal) -> (u64, u64) {
        let CountsSnapshot { accepted, refused } = self.counts.snapshot(protocol, signal);
        (accepted, refused)
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap()
    }

    async fn traces(&self) -> TraceServiceClient<Channel> {
        TraceServiceClient::new(self.channel().await)
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Answer {
        request("POST", self.http, path, headers, body).await
    }
}

fn id() -> ComponentId {
    ComponentId::parse("otlp/test").unwrap()
}

fn config(settings: &str) -> OtlpConfig {
    let node: Node = serde_json::from_str(settings).unwrap();
    crate::config::decode(Section::new("receivers::otlp", &node)).unwrap()
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    fn content_type(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }

    /// The code and the message of the status in the body.
    fn error(&self) -> (i32, String) {
        match self.content_type() {
            "application/json" => {
                let status: otlp_json::Status = otlp_json::from_slice(&self.body).unwrap();
                (status.code, status.message)
            }
            "application/x-protobuf" => {
                let status = tonic_types::pb::Status::decode(&self.body[..]).unwrap();
                (status.code, status.message)
            }
            other => panic!("{other}: {:?}", self.body),
        }
    }
}

async fn request(
    method: &str,
    to: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Answer {
    let stream = TcpStream::connect(to).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", "h");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let (parts, body) = answer.into_parts();
    Answer { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

type Compress = fn(&[u8]) -> Vec<u8>;

const PROTO: (&str, &str) = ("content-type", "application/x-protobuf");
const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

#[tokio::test]
async fn every_signal_arrives_over_grpc() {
    for encoding in [None, Some(CompressionEncoding::Gzip)] {
        let receiver = Started::answering(Ok(())).await;
        let channel = receiver.channel().await;
        let mut logs = LogsServiceClient::new(channel.clone());
        let mut metrics = MetricsServiceClient::new(channel.clone());
        let mut traces = TraceServiceClient::new(channel);
        if let Some(encoding) = encoding {
            logs = logs.send_compressed(encoding).accept_compressed(encoding);
            metrics = metrics.send_compressed(encoding).accept_compressed(encoding);
            traces = traces.send_compressed(encoding).accept_compressed(encoding);
        }
        let request = ExportLogsServiceRequest::decode(&proto(Signal::Logs)[..]).unwrap();
        assert_eq!(logs.export(request).await.unwrap().into_inner().partial_success, None);
        let request = ExportMetricsServiceRequest::decode(&proto(Signal::Metrics)[..]).unwrap();
        assert_eq!(metrics.export(request).await.unwrap().into_inner().partial_success, None);
        let request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
        assert_eq!(traces.export(request).await.unwrap().into_inner().partial_success, None);
        assert_eq!(receiver.got(), Signal::STABLE.map(data));
        let counts = Signal::STABLE.map(|s| receiver.count(Protocol::Grpc, s));
        assert_eq!(counts, [(1, 0), (2, 0), (1, 0)]);
    }
}

#[tokio::test]
async fn every_signal_arrives_over_http_in_either_encoding_and_any_compression() {
    let compressions: [(&str, Compress); 5] = [
        ("", <[u8]>::to_vec),
        ("identity", <[u8]>::to_vec),
        ("gzip", gzip),
        ("deflate", zlib),
        ("zlib", zlib),
    ];
    for signal in Signal::STABLE {
        for (name, compress) in compressions {
            for (content_type, body, nothing) in
                [(PROTO, proto(signal), ""), (JSON, json(signal).as_bytes().to_vec(), "{}")]
            {
                let receiver = Started::answering(Ok(())).await;
                let path = format!("/v1/{}", signal.name());
                let headers = [content_type, ("content-encoding", name)];
                let answer = receiver.post(&path, &headers, compress(&body)).await;
                assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, nothing.as_bytes()), "{name}");
                let media_type = content_type.1.split(';').next().unwrap();
                assert_eq!(answer.content_type(), media_type);
                assert_eq!(receiver.got(), [data(signal)], "{name} {content_type:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_says_whether_to_try_again() {
    let after = Some(Duration::from_millis(2500));
    for (refused, grpc_code, http_status, retry_after) in [
        (Refused::permanent("no such field"), 13, 500, None),
        (Refused::retryable("queue is full"), 14, 503, None),
        (Refused::Retryable { reason: "slow down".to_owned(), after }, 14, 503, Some("3")),
    ] {
        let receiver = Started::answering(Err(refused.clone())).await;
        let reason = refused.to_string().trim_start_matches("permanent: ").to_owned();
        let request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
        let status = receiver.traces().await.export(request).await.unwrap_err();
        assert_eq!((status.code() as i32, status.message()), (grpc_code, &reason[..]));
        let told = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(told, after.filter(|_| retry_after.is_some()));

        for (content_type, body) in [(PROTO, proto(Signal::Traces)), (JSON, TRACES.as_bytes().to_vec())] {
            let answer = receiver.post("/v1/traces", &[content_type], body).await;
            assert_eq!((answer.status.as_u16(), answer.error()), (http_status, (grpc_code, reason.clone())));
            let told = answer.headers.get("retry-after").map(|v| v.to_str().unwrap());
            assert_eq!(told, retry_after);
        }
        assert_eq!(receiver.count(Protocol::Grpc, Signal::Traces), (0, 1));
        assert_eq!(receiver.count(Protocol::Http, Signal::Traces), (0, 2));
    }
}

#[tokio::test]
async fn what_is_empty_is_taken_and_bothers_nobody() {
    let receiver = Started::answering(Err(Refused::permanent("never asked"))).await;
    receiver.traces().await.export(ExportTraceServiceRequest::default()).await.unwrap();
    for (content_type, body) in
        [(PROTO, ""), (JSON, "{}"), (JSON, r#"{"resourceSpans":[{"scopeSpans":[]}]}"#)]
    {
        let answer = receiver.post("/v1/traces", &[content_type], body.as_bytes().to_vec()).await;
        assert_eq!(answer.status, StatusCode::OK);
    }
    assert_eq!(receiver.got(), []);
}

#[tokio::test]
async fn what_is_no_export_over_http_is_refused_for_good() {
    let receiver = Started::answering(Ok(())).await;
    let garbage = || b"\xff\xff garbage".to_vec();
    let post = |path: &'static str, headers: Vec<(&'static str, &'static str)>, body: Vec<u8>| {
        let receiver = &receiver;
        async move { receiver.post(path, &headers, body).await }
    };
    let wrong = post("/v1/trace", vec![PROTO], vec![]).await;
    assert_eq!((wrong.status.as_u16(), &wrong.body[..]), (404, &b"404 page not found"[..]));
    let wrong = request("GET", receiver.http, "/v1/traces", &[PROTO], vec![]).await;
    let why = &b"405 method not allowed, supported: [POST]"[..];
    assert_eq!((wrong.status.as_u16(), &wrong.body[..], wrong.content_type()), (405, why, "text/plain"));
    for headers in [vec![], vec![("content-type", "text/plain")]] {
        let wrong = post("/v1/traces", headers, vec![]).await;
        let why = "415 unsupported media type, supported: [application/json, application/x-protobuf]";
        assert_eq!((wrong.status.as_u16(), &wrong.body[..]), (415, why.as_bytes()));
    }
    for (headers, body, why) in [
        (vec![PROTO], garbage(), "the body is no OTLP protobuf of traces: "),
        (vec![JSON], garbage(), "the body is no OTLP JSON of traces: at byte 0: expected an object"),
        (vec![JSON, ("content-encoding", "gzip")], garbage(), "cannot decompress the body: "),
        (vec![JSON, ("content-encoding", "br")], garbage(), "unsupported \"Content-Encoding\": br: expected"),
    ] {
        let wrong = post("/v1/traces", headers.clone(), body).await;
        let (code, message) = wrong.error();
        assert_eq!((wrong.status.as_u16(), code), (400, 3), "{message}");
        assert!(message.starts_with(why), "{message}");
        assert_eq!(wrong.content_type(), headers[0].1.split(';').next().unwrap());
    }
    assert_eq!(receiver.got(), []);
}

/// A kilobyte of gzip can stand for a megabyte: the limit holds before decompression and after it.
#[tokio::test]
async fn what_is_larger_than_the_limit_is_refused_for_good_before_and_after_decompression() {
    let receiver = Started::with(
        Ok(()),
        &Signal::STABLE,
        r#", "max_recv_msg_size_mib": 1"#,
        r#", "max_request_body_size": 1000"#,
    )
    .await;
    let large = |bytes: usize| {
        let mut request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
        request.resource_spans[0].scope_spans[0].spans[0].name = "x".repeat(bytes);
        request
    };
    for encoding in [None, Some(CompressionEncoding::Gzip)] {
        let mut client = receiver.traces().await;
        if let Some(encoding) = encoding {
            client = client.send_compressed(encoding);
        }
        client.export(large(1_000_000)).await.unwrap();
        for bytes in [1_100_000, 50_000_000] {
            let status = client.export(large(bytes)).await.unwrap_err();
            assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{encoding:?} {bytes} {status:?}");
            assert!(status.get_details_retry_info().is_none(), "it is not to be tried again");
        }
    }
    let http = |bytes: usize| large(bytes).encode_to_vec();
    let compressed = [PROTO, ("content-encoding", "gzip")];
    for (headers, body, status) in [
        (&[PROTO][..], http(900), 200),
        (&compressed, gzip(&http(900)), 200),
        (&[PROTO][..], http(1100), 413),
        (&compressed, gzip(&http(1100)), 413),
        (&compressed, gzip(&http(500_000)), 413),
    ] {
        let answer = receiver.post("/v1/traces", headers, body).await;
        assert_eq!(answer.status.as_u16(), status, "{headers:?}");
        if status == 413 {
            assert_eq!(answer.error(), (8, "the body is larger than 1000 bytes".to_owned()));
        }
    }
    assert_eq!(receiver.got().len(), 4);
}

#[tokio::test]
async fn a_signal_without_a_pipeline_is_not_served() {
    let receiver = Started::with(Ok(()), &[Signal::Logs], "", "").await;
    let request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
    let status = receiver.traces().await.export(request).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::Unimplemented);
    assert_eq!(receiver.post("/v1/traces", &[JSON], TRACES.into()).await.status, StatusCode::NOT_FOUND);
    assert_eq!(receiver.post("/v1/logs", &[JSON], LOGS.into()).await.status, StatusCode::OK);
}

#[tokio::test]
async fn paths_are_as_configured() {
    let http = r#", "traces_url_path": "t", "logs_url_path": "/l/x""#;
    let receiver = Started::with(Ok(()), &Signal::STABLE, "", http).await;
    for (path, body, status) in
        [("/t", TRACES, 200), ("/l/x", LOGS, 200), ("/v1/metrics", METRICS, 200), ("/v1/traces", TRACES, 404)]
    {
        assert_eq!(receiver.post(path, &[JSON], body.into()).await.status.as_u16(), status, "{path}");
    }
}

#[tokio::test]
async fn requests_that_are_under_way_when_it_stops_are_answered() {
    let receiver = Started::answering(Ok(())).await;
    receiver.pipeline.gate.forget_permits(Semaphore::MAX_PERMITS);
    let mut client = receiver.traces().await;
    let request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
    let over_grpc = tokio::spawn(async move { client.export(request).await });
    let http = receiver.http;
    let over_http =
        tokio::spawn(async move { self::request("POST", http, "/v1/logs", &[JSON], LOGS.into()).await });
    receiver.pipeline.arrived.acquire_many(2).await.unwrap().forget();
    receiver.stop.cancel();
    let ending = tokio::spawn(receiver.running);
    while TcpStream::connect(http).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!ending.is_finished(), "two requests are under way");
    receiver.pipeline.gate.add_permits(2);
    over_grpc.await.unwrap().unwrap();
    assert_eq!(over_http.await.unwrap().status, StatusCode::OK);
    ending.await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_taken_stops_the_start() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let settings = format!(r#"{{"protocols": {{"http": {{"endpoint": "{address}"}}}}}}"#);
    let receiver = Box::new(OtlpReceiver::new(id(), config(&settings)));
    let Err(error) = receiver.start(vec![], &component::Host::detached(), CancellationToken::new()).await else { panic!("it started") };
    assert!(error.to_string().starts_with(&format!("listen tcp {address}: ")), "{error}");
}

#[test]
fn settings_are_the_collectors() {
    let parsed = config(r#"{"protocols": {"grpc": null, "http": {}}}"#);
    assert_eq!(parsed.protocols.grpc.get().unwrap().endpoint, "localhost:4317");
    assert_eq!(parsed.protocols.grpc.get().unwrap().message_bytes_max(), 4 << 20);
    assert_eq!(parsed.protocols.http.get().unwrap().endpoint, "localhost:4318");
    assert_eq!(parsed.protocols.http.get().unwrap().body_bytes_max(), 20 << 20);
    assert!(!config(r#"{"protocols": {"http": {}}}"#).protocols.grpc.is_some());
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (json, want) in [
        ("{}", "must specify at least one protocol when using the OTLP receiver"),
        (r#"{"protocols": {"grpc": {"enabled": false}}}"#, "must specify at least one protocol"),
        (r#"{"protocols": {"grpc": {"endpoint": "localhost"}}}"#, "missing port in address"),
        (r#"{"protocols": {"http": {"endpoint": "localhost:http"}}}"#, "invalid port \"http\""),
        (r#"{"protocols": {"http": {"cors": {}}}}"#, "invalid keys: cors"),
        (r#"{"protocols": {"thrift": {}}}"#, "invalid keys: thrift"),
    ] {
        let node: Node = serde_json::from_str(json).unwrap();
        let context = component::BuildContext { id: id(), version: "1.2.3" };
        let Err(error) = (FACTORY.build)(&context, Section::new("receivers::otlp", &node)) else {
            panic!("{json}")
        };
        assert!(error.to_string().contains(want), "{json}: {error}");
    }
}
