//! Responses to senders and data for the pipeline. The senders are tonic's generated clients and plain HTTP/1.1,
//! not our own exporters.

use pdata::Payload;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use component::auth::{Identity, ServerAuth, Unauthenticated};
use component::context::{Context, Metadata};
use component::testing::{Metrics, Sink};
use component::{Code, ComponentId, Consumer, Host, Receiver, Refused, Running};
use config::{Node, Section};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::profiles::v1development as profiles;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use pdata::{Data, Signal};
use prost::Message as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::codec::CompressionEncoding;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;
use transport::compress::{Compression, Level};
use transport::listen::Address;

use crate::{FACTORY, OtlpConfig, OtlpReceiver, Protocol};

const TRACES: &str = r#"{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"name":"step","traceId":"5b8efff798038103d269b633813fc60c"}]}]}]}"#;
const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"},{"asDouble":2}]}}]}]}]}"#;
const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"hello"}}]}]}]}"#;

fn json(signal: Signal) -> &'static str {
    [LOGS, METRICS, TRACES][signal as usize]
}

fn data(signal: Signal) -> Data {
    if signal == Signal::Profiles {
        let profile =
            profiles::Profile { samples: vec![profiles::Sample::default(); 3], ..Default::default() };
        let scope_profiles = vec![profiles::ScopeProfiles { profiles: vec![profile], ..Default::default() }];
        let resource = profiles::ResourceProfiles { scope_profiles, ..Default::default() };
        let batch = profiles::ProfilesData { resource_profiles: vec![resource], ..Default::default() };
        return Data::Profiles(Payload::new(batch));
    }
    pdata::json::decode(signal, json(signal).as_bytes()).unwrap()
}

fn proto(signal: Signal) -> Vec<u8> {
    let mut bytes = Vec::new();
    data(signal).encode(&mut bytes);
    bytes
}

struct Started {
    pipeline: Arc<Sink>,
    metrics: Metrics,
    grpc: SocketAddr,
    http: SocketAddr,
    stop: CancellationToken,
    running: Running,
}

/// Accepts requests with the password in a header or in a configured parameter of the query.
struct Doorman;

impl ServerAuth for Doorman {
    fn authenticate(&self, headers: &Metadata) -> Result<Identity, Unauthenticated> {
        match headers.get("authorization") {
            [word] if word == "sesame" => Ok(Identity([("user".to_owned(), "ali".to_owned())].into())),
            _ => Err(Unauthenticated("who are you".to_owned())),
        }
    }
}

impl Started {
    async fn answering(answer: Result<(), Refused>) -> Self {
        Self::with(answer, &Signal::ALL, "", "").await
    }

    /// Starts a receiver on free ports, with more settings of `grpc` and of `http`.
    async fn with(answer: Result<(), Refused>, signals: &[Signal], grpc: &str, http: &str) -> Self {
        let settings = format!(
            r#"{{"protocols": {{"grpc": {{"endpoint": "127.0.0.1:0"{grpc}}},
                                "http": {{"endpoint": "localhost:0"{http}}}}}}}"#
        );
        let (bound, mut found) = mpsc::unbounded_channel();
        let receiver = OtlpReceiver::new(id(), config(&settings)).with_bound_addresses(bound);
        let pipeline = Sink::always(answer);
        let next = signals.iter().map(|s| (*s, pipeline.clone() as Arc<dyn Consumer>)).collect();
        let metrics = Metrics::default();
        let capabilities = component::Capabilities {
            server_auth: Some(Arc::new(Doorman)),
            ..component::Capabilities::default()
        };
        let host = metrics.host().with_extension(ComponentId::parse("doorman").unwrap(), capabilities);
        let stop = CancellationToken::new();
        let running = Box::new(receiver).start(next, &host, stop.clone()).await.unwrap();
        let [grpc, http] =
            [found.recv().await.unwrap(), found.recv().await.unwrap()].map(|(protocol, at)| match at {
                Address::Tcp(address) => (protocol, address),
                Address::Unix(path) => panic!("{path:?}"),
            });
        assert_eq!((grpc.0, http.0), (Protocol::Grpc, Protocol::Http));
        Started { pipeline, metrics, grpc: grpc.1, http: http.1, stop, running }
    }

    fn got(&self) -> Vec<Data> {
        self.pipeline.got()
    }

    /// Returns the accepted, refused and failed items.
    fn counts(&self, protocol: Protocol, items: &str) -> [u64; 3] {
        ["accepted", "refused", "failed"].map(|outcome| {
            let attributes = format!("receiver=otlp/test,transport={}", protocol.name());
            self.metrics.sum(&format!("otelcol_receiver_{outcome}_{items}{{{attributes}"))
        })
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

    /// Makes a call with a message that is compressed and framed here; returns the status and accepted encodings.
    async fn call(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        message: &[u8],
        is_compressed: bool,
    ) -> (String, String) {
        let stream = TcpStream::connect(self.grpc).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let mut body = vec![u8::from(is_compressed)];
        body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend(message);
        let mut request = Request::post(format!("http://h{path}")).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = sender.send_request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
        let accepted = answer.headers()["grpc-accept-encoding"].to_str().unwrap().to_owned();
        let status = answer.headers().get("grpc-status").cloned();
        let collected = answer.into_body().collect().await.unwrap();
        let trailer = collected.trailers().and_then(|t| t.get("grpc-status")).cloned();
        (status.or(trailer).unwrap().to_str().unwrap().to_owned(), accepted)
    }
}

const TRACE_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

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

    /// Returns the code and the message of the status in the body.
    fn error(&self) -> (i32, String) {
        match self.content_type() {
            "application/json" => {
                let status: pdata::json::Status = pdata::json::from_slice(&self.body).unwrap();
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
    Compression::Gzip.compress(Level(9), bytes)
}

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
        let counts = ["log_records", "metric_points", "spans"].map(|s| receiver.counts(Protocol::Grpc, s));
        assert_eq!(counts, [[1, 0, 0], [2, 0, 0], [1, 0, 0]]);
        let requests = "otelcol_receiver_requests{outcome=success,receiver=otlp/test,transport=grpc";
        assert_eq!(receiver.metrics.sum(requests), 3);
    }
}

#[tokio::test]
async fn signals_arrive_over_http_in_every_encoding_and_compression() {
    for signal in Signal::STABLE {
        for compression in Compression::ALL.into_iter().chain([Compression::None]) {
            let name = compression.name();
            for (content_type, body, nothing) in
                [(PROTO, proto(signal), ""), (JSON, json(signal).as_bytes().to_vec(), "{}")]
            {
                let receiver = Started::answering(Ok(())).await;
                let path = format!("/v1/{}", signal.name());
                let headers = [content_type, ("content-encoding", name)];
                let answer = receiver.post(&path, &headers, compression.compress(Level(0), &body)).await;
                assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, nothing.as_bytes()), "{name}");
                let media_type = content_type.1.split(';').next().unwrap();
                assert_eq!(answer.content_type(), media_type);
                assert_eq!(receiver.got(), [data(signal)], "{name} {content_type:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_refusal_keeps_its_code_in_both_protocols() {
    let after = Duration::from_millis(2500);
    for (refused, grpc_code, http_status, retry_after) in [
        (Refused::new(Code::Canceled, "closed"), 1, 503, None),
        (Refused::new(Code::Unknown, "what"), 2, 500, None),
        (Refused::new(Code::InvalidArgument, "bad id"), 3, 400, None),
        (Refused::new(Code::PermissionDenied, "no"), 7, 403, None),
        (Refused::new(Code::ResourceExhausted, "quota"), 8, 429, None),
        (Refused::new(Code::ResourceExhausted, "slow down").with_retry_after(after), 8, 429, Some("3")),
        (Refused::new(Code::Unauthenticated, "who"), 16, 401, None),
        (Refused::permanent("no such field"), 13, 500, None),
        (Refused::retryable("queue is full"), 14, 503, None),
        (Refused::retryable("slow down").with_retry_after(after), 14, 503, Some("3")),
    ] {
        let receiver = Started::answering(Err(refused.clone())).await;
        let reason = refused.to_string().trim_start_matches("permanent: ").to_owned();
        let request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
        let status = receiver.traces().await.export(request).await.unwrap_err();
        assert_eq!((status.code() as i32, status.message()), (grpc_code, &reason[..]));
        let found = status.get_details_retry_info().and_then(|info| info.retry_delay);
        assert_eq!(found, refused.retry_after);

        for (content_type, body) in [(PROTO, proto(Signal::Traces)), (JSON, TRACES.as_bytes().to_vec())] {
            let answer = receiver.post("/v1/traces", &[content_type], body).await;
            assert_eq!((answer.status.as_u16(), answer.error()), (http_status, (grpc_code, reason.clone())));
            let found = answer.headers.get("retry-after").map(|v| v.to_str().unwrap());
            assert_eq!(found, retry_after);
        }
        assert_eq!(receiver.counts(Protocol::Grpc, "spans"), [0, 1, 0]);
        assert_eq!(receiver.counts(Protocol::Http, "spans"), [0, 2, 0]);
    }
}

#[tokio::test]
async fn an_empty_request_is_a_success_without_data() {
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
async fn invalid_http_requests_are_permanent_errors() {
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
        (vec![PROTO], garbage(), "the body is not valid OTLP protobuf of traces: "),
        (vec![JSON], garbage(), "the body is not valid OTLP JSON of traces: at byte 0: expected an object"),
        (vec![JSON, ("content-encoding", "gzip")], garbage(), "cannot decompress gzip: "),
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

/// A kilobyte of gzip can expand to a megabyte, so the limit holds before and after decompression.
#[tokio::test]
async fn requests_above_the_limit_are_permanent_errors() {
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
            let (code, why) = answer.error();
            assert!(code == 8 && why.ends_with("body is larger than 1000 bytes"), "{why}");
        }
    }
    assert_eq!(receiver.got().len(), 4);
}

/// A kilobyte of gzip contained half a million spans, which filled gigabytes once a component read them.
#[tokio::test]
async fn requests_that_would_fill_the_memory_are_too_large() {
    let receiver = Started::with(
        Ok(()),
        &Signal::STABLE,
        r#", "max_recv_msg_size_mib": 1"#,
        r#", "max_request_body_size": 1048576"#,
    )
    .await;
    let compressed = |kind| [kind, ("content-encoding", "gzip")];
    for (spans, status) in [(1_000, 200), (200_000, 413)] {
        let scope_spans = ScopeSpans { spans: vec![Span::default(); spans], ..ScopeSpans::default() };
        let resource_spans =
            vec![ResourceSpans { scope_spans: vec![scope_spans], ..ResourceSpans::default() }];
        let request = ExportTraceServiceRequest { resource_spans };
        let json = format!(
            r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
            vec!["{}"; spans].join(",")
        );
        for (kind, body) in [(PROTO, request.encode_to_vec()), (JSON, json.into_bytes())] {
            let answer = receiver.post("/v1/traces", &compressed(kind), gzip(&body)).await;
            assert_eq!(answer.status.as_u16(), status, "{spans} {kind:?}");
            if status == 413 {
                let (code, why) = answer.error();
                let expected = "decoded, the message takes more than 8388608 bytes";
                assert!(code == 8 && why.ends_with(expected), "{why}");
            }
        }
        let mut client = receiver.traces().await.send_compressed(CompressionEncoding::Gzip);
        let refused = client.export(request).await.err();
        assert_eq!(refused.map(|s| s.code()), (status == 413).then_some(tonic::Code::ResourceExhausted));
    }
    assert_eq!(receiver.got().len(), 3);
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
async fn active_requests_are_answered_on_stop() {
    let receiver = Started::answering(Ok(())).await;
    receiver.pipeline.close_gate();
    let mut client = receiver.traces().await;
    let request = ExportTraceServiceRequest::decode(&proto(Signal::Traces)[..]).unwrap();
    let over_grpc = tokio::spawn(async move { client.export(request).await });
    let http = receiver.http;
    let over_http =
        tokio::spawn(async move { self::request("POST", http, "/v1/logs", &[JSON], LOGS.into()).await });
    receiver.pipeline.arrived(2).await;
    receiver.stop.cancel();
    let pipeline = receiver.pipeline;
    let ending = tokio::spawn(receiver.running);
    while TcpStream::connect(http).await.is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(!ending.is_finished(), "two requests are under way");
    pipeline.open_gate();
    over_grpc.await.unwrap().unwrap();
    assert_eq!(over_http.await.unwrap().status, StatusCode::OK);
    ending.await.unwrap();
}

#[tokio::test]
async fn a_taken_address_fails_the_start() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let settings = format!(r#"{{"protocols": {{"http": {{"endpoint": "{address}"}}}}}}"#);
    let receiver = Box::new(OtlpReceiver::new(id(), config(&settings)));
    let Err(error) = receiver.start(vec![], &Host::detached(), CancellationToken::new()).await else {
        panic!("it started")
    };
    assert!(error.to_string().starts_with(&format!("listen tcp {address}: ")), "{error}");
}

#[test]
fn settings_have_the_collectors_defaults() {
    let parsed = config(r#"{"protocols": {"grpc": null, "http": {}}}"#);
    assert_eq!(parsed.protocols.grpc.get().unwrap().endpoint, "localhost:4317");
    assert_eq!(parsed.protocols.grpc.get().unwrap().message_bytes_max(), 4 << 20);
    assert_eq!(parsed.protocols.http.get().unwrap().server.endpoint, "localhost:4318");
    assert_eq!(parsed.protocols.http.get().unwrap().body_bytes_max(), 20 << 20);
    assert!(!config(r#"{"protocols": {"http": {}}}"#).protocols.grpc.is_some());
}

#[test]
fn inconsistent_settings_are_refused() {
    for (json, want) in [
        ("{}", "must specify at least one protocol when using the OTLP receiver"),
        (r#"{"protocols": {"grpc": {"enabled": false}}}"#, "must specify at least one protocol"),
        (r#"{"protocols": {"grpc": {"endpoint": "localhost"}}}"#, "missing port in address"),
        (r#"{"protocols": {"http": {"endpoint": "localhost:http"}}}"#, "invalid port \"http\""),
        (r#"{"protocols": {"http": {"corse": {}}}}"#, "invalid keys: corse"),
        (r#"{"protocols": {"thrift": {}}}"#, "invalid keys: thrift"),
        (r#"{"protocols": {"http": {"compression_algorithms": ["br"]}}}"#, "unknown compression \"br\""),
        (r#"{"protocols": {"http": {"tls": {}}}}"#, "must include both certificate and key for server"),
        (r#"{"protocols": {"http": {"middlewares": [{"id": "x"}]}}}"#, "middleware \"x\" is not supported"),
        (r#"{"protocols": {"http": {"auth": {"authenticator": ""}}}}"#, "id must not be empty"),
        (r#"{"protocols": {"http": {"transport": "unix", "endpoint": ""}}}"#, "socket path cannot be empty"),
        (r#"{"protocols": {"http": {"response_headers": {"a b": "c"}}}}"#, "header \"a b\" cannot be sent"),
        (
            r#"{"protocols": {"grpc": {"max_recv_msg_size_mib": -1}}}"#,
            "max_recv_msg_size_mib: -1 is out of range: expected 0 or more",
        ),
        (
            r#"{"protocols": {"grpc": {"read_buffer_size": -1}}}"#,
            "read_buffer_size: -1 is out of range: expected 0 or more",
        ),
    ] {
        let node: Node = serde_json::from_str(json).unwrap();
        let context = component::BuildContext { id: id(), version: "1.2.3" };
        let Err(error) = (FACTORY.build)(&context, Section::new("receivers::otlp", &node)) else {
            panic!("{json}")
        };
        assert!(error.to_string().contains(want), "{json}: {error}");
    }
}

#[tokio::test]
async fn profiles_are_received_if_a_pipeline_consumes_them() {
    let receiver = Started::answering(Ok(())).await;
    let path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
    assert_eq!(receiver.call(path, &[], &proto(Signal::Profiles), false).await.0, "0");
    let answer = receiver.post("/v1development/profiles", &[PROTO], proto(Signal::Profiles)).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(receiver.got(), [data(Signal::Profiles), data(Signal::Profiles)]);
    assert_eq!(receiver.counts(Protocol::Http, "profile_samples"), [3, 0, 0]);
    let stable = Started::with(Ok(()), &Signal::STABLE, "", "").await;
    assert_eq!(stable.call(path, &[], &proto(Signal::Profiles), false).await.0, "12");
}

#[tokio::test]
async fn grpc_accepts_and_lists_its_compressions() {
    let receiver = Started::answering(Ok(())).await;
    for (name, compression) in [
        ("gzip", Compression::Gzip),
        ("deflate", Compression::Deflate),
        ("zstd", Compression::Zstd),
        ("snappy", Compression::SnappyFramed),
    ] {
        let message = compression.compress(Level(0), &proto(Signal::Traces));
        let found = receiver.call(TRACE_PATH, &[("grpc-encoding", name)], &message, true).await;
        assert_eq!(found, ("0".to_owned(), "deflate,gzip,snappy,zstd,identity".to_owned()), "{name}");
    }
    assert_eq!(receiver.got().len(), 4);
    let lz4 = Compression::Lz4.compress(Level(0), &proto(Signal::Traces));
    let found = receiver.call(TRACE_PATH, &[("grpc-encoding", "lz4")], &lz4, true).await;
    assert_eq!(found, ("12".to_owned(), "deflate,gzip,snappy,zstd,identity".to_owned()));
    assert_eq!(receiver.call(TRACE_PATH, &[], b"\xff\xff", false).await.0, "13");
}

#[tokio::test]
async fn only_configured_compressions_are_accepted() {
    let http = r#", "compression_algorithms": ["", "gzip"]"#;
    let receiver = Started::with(Ok(()), &Signal::STABLE, "", http).await;
    for (compression, status) in [
        (Compression::None, 200),
        (Compression::Gzip, 200),
        (Compression::Zstd, 400),
        (Compression::Zlib, 400),
    ] {
        let body = compression.compress(Level(0), TRACES.as_bytes());
        let headers = [JSON, ("content-encoding", compression.name())];
        let answer = receiver.post("/v1/traces", &headers, body).await;
        assert_eq!(answer.status.as_u16(), status, "{compression}");
    }
}

#[tokio::test]
async fn senders_are_authenticated_and_known_to_pipelines() {
    let auth = r#", "include_metadata": true, "auth": {"authenticator": "doorman"}"#;
    let http = r#", "include_metadata": true,
        "auth": {"authenticator": "doorman", "request_params": ["authorization"]}"#;
    let receiver = Started::with(Ok(()), &Signal::STABLE, auth, http).await;
    let right = [("authorization", "sesame"), ("x-tenant", "a"), JSON];
    for (path, headers, status) in [
        ("/v1/traces", &right[..], 200),
        ("/v1/traces", &right[1..], 401),
        ("/v1/traces?authorization=sesame&x=y", &right[1..], 200),
        ("/v1/traces?authorization=s%65same", &right[1..], 200),
        ("/v1/traces?authorization=wrong", &right[..], 401),
    ] {
        let answer = receiver.post(path, headers, TRACES.into()).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        if status == 401 {
            assert_eq!(answer.error(), (16, "who are you".to_owned()));
        }
    }
    assert_eq!(receiver.call(TRACE_PATH, &right[..2], &proto(Signal::Traces), false).await.0, "0");
    assert_eq!(receiver.call(TRACE_PATH, &right[1..2], &proto(Signal::Traces), false).await.0, "16");
    let received = receiver.pipeline.deliveries();
    assert_eq!(received.len(), 4);
    for sender in received.into_iter().map(|delivery| delivery.context) {
        assert_eq!(sender.identity.0["user"], "ali");
        assert_eq!(sender.metadata.get("X-Tenant"), ["a"]);
    }
}

#[tokio::test]
async fn headers_are_passed_on_only_if_configured() {
    let receiver = Started::answering(Ok(())).await;
    receiver.post("/v1/traces", &[("x-tenant", "a"), JSON], TRACES.into()).await;
    let received = receiver.pipeline.deliveries();
    let senders: Vec<Context> = received.into_iter().map(|delivery| delivery.context).collect();
    let address = Some(std::net::Ipv4Addr::LOCALHOST.into());
    assert_eq!(senders, [Context { address, ..Context::default() }]);
}

#[tokio::test]
async fn a_missing_authenticator_fails_the_start() {
    let settings =
        r#"{"protocols": {"http": {"endpoint": "127.0.0.1:0", "auth": {"authenticator": "ghost"}}}}"#;
    let receiver = Box::new(OtlpReceiver::new(id(), config(settings)));
    let started = receiver.start(vec![], &Host::detached(), CancellationToken::new()).await;
    let error = started.err().unwrap().to_string();
    assert!(error.starts_with("failed to resolve authenticator \"ghost\": "), "{error}");
}

#[tokio::test]
async fn cross_origin_requests_are_allowed_if_configured() {
    let http = r#", "cors": {"allowed_origins": ["https://*.example"], "max_age": 60},
        "response_headers": {"X-Served-By": "us"}"#;
    let receiver = Started::with(Ok(()), &Signal::STABLE, "", http).await;
    let asked = [("origin", "https://a.example"), ("access-control-request-method", "POST")];
    let answer = request("OPTIONS", receiver.http, "/v1/traces", &asked, vec![]).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    assert_eq!(answer.headers["access-control-allow-origin"], "https://a.example");
    assert_eq!(answer.headers["x-served-by"], "us");
    let answer = receiver.post("/v1/traces", &[asked[0], JSON], TRACES.into()).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "https://a.example");
    assert_eq!(answer.headers["x-served-by"], "us");
    let answer = receiver.post("/v1/traces", &[("origin", "https://b"), JSON], TRACES.into()).await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn slow_requests_and_responses_time_out() {
    let http = r#", "read_timeout": "50ms", "write_timeout": "100ms""#;
    let receiver = Started::with(Ok(()), &Signal::STABLE, "", http).await;
    let mut slow = TcpStream::connect(receiver.http).await.unwrap();
    let head = b"POST /v1/traces HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    slow.write_all(head).await.unwrap();
    let mut answer = vec![0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 400");
    receiver.pipeline.close_gate();
    let mut stuck = TcpStream::connect(receiver.http).await.unwrap();
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        TRACES.len()
    );
    stuck.write_all(head.as_bytes()).await.unwrap();
    stuck.write_all(TRACES.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stuck.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"");
    assert_eq!(receiver.counts(Protocol::Http, "spans"), [0, 0, 1], "the outcome is unknown");
}

/// As in [`slow_requests_and_responses_time_out`], without any configuration.
#[tokio::test(start_paused = true)]
async fn body_that_does_not_arrive_is_given_up_after_five_minutes() {
    let receiver = Started::with(Ok(()), &Signal::STABLE, "", "").await;
    let mut slow = TcpStream::connect(receiver.http).await.unwrap();
    let head = b"POST /v1/traces HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    slow.write_all(head).await.unwrap();
    let began = tokio::time::Instant::now();
    let mut answer = vec![0; 12];
    slow.read_exact(&mut answer).await.unwrap();
    assert_eq!((answer.as_slice(), began.elapsed().as_secs()), (b"HTTP/1.1 400".as_slice(), 300));
}

#[tokio::test(start_paused = true)]
async fn message_that_does_not_arrive_is_given_up_after_five_minutes() {
    let receiver = Started::with(Ok(()), &Signal::STABLE, "", "").await;
    let stream = TcpStream::connect(receiver.grpc).await.unwrap();
    let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.unwrap();
    tokio::spawn(connection);
    let (_never_ended, body) = http_body_util::channel::Channel::<Bytes>::new(1);
    let request = Request::post(format!("http://h{TRACE_PATH}")).header("content-type", "application/grpc");
    let began = tokio::time::Instant::now();
    let answer = sender.send_request(request.body(body).unwrap()).await.unwrap();
    let status = answer.headers()["grpc-status"].to_str().unwrap().parse::<i32>().unwrap();
    assert_eq!((status, began.elapsed().as_secs()), (Code::DeadlineExceeded as i32, 300));
}

#[tokio::test]
async fn a_unix_socket_can_be_the_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp.sock");
    let settings = format!(r#"{{"protocols": {{"http": {{"transport": "unix", "endpoint": {path:?}}}}}}}"#);
    let receiver = Box::new(OtlpReceiver::new(id(), config(&settings)));
    let stop = CancellationToken::new();
    let running = receiver.start(vec![], &Host::detached(), stop.clone()).await.unwrap();
    let mut stream = UnixStream::connect(&path).await.unwrap();
    stream.write_all(b"GET /v1/traces HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    stop.cancel();
    running.await;
}

/// Returns a self-signed certificate for 127.0.0.1 and its key.
fn certificate(folder: &std::path::Path) -> (PathBuf, PathBuf) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let paths = (folder.join("cert.pem"), folder.join("key.pem"));
    std::fs::write(&paths.0, made.cert.pem()).unwrap();
    std::fs::write(&paths.1, made.signing_key.serialize_pem()).unwrap();
    paths
}

#[tokio::test]
async fn both_protocols_use_tls_and_client_certificates_if_configured() {
    let folder = tempfile::tempdir().unwrap();
    let (cert, key) = certificate(folder.path());
    let tls =
        format!(r#", "tls": {{"cert_file": {cert:?}, "key_file": {key:?}, "client_ca_file": {cert:?}}}"#);
    let receiver = Started::with(Ok(()), &Signal::STABLE, &tls, &tls).await;
    let client = |shows: bool, is_http2: bool| {
        let mut config = transport::tls::ClientTlsConfig {
            common: transport::tls::CommonTlsConfig { ca_file: cert.clone(), ..Default::default() },
            server_name_override: "127.0.0.1".to_owned(),
            ..Default::default()
        };
        if shows {
            (config.common.cert_file, config.common.key_file) = (cert.clone(), key.clone());
        }
        let protocols: &[&str] = if is_http2 { &["h2"] } else { &["http/1.1"] };
        let tls = transport::tls::ClientTls::open(&config, protocols).unwrap();
        transport::client::HttpClient::new(transport::client::ClientSettings {
            dial: transport::connect::Dial {
                tls: transport::connect::UseTls::Yes(tls),
                server_name: config.server_name(),
                ..transport::connect::Dial::plain()
            },
            is_http2,
            idle_connections_max: 0,
            idle: None,
            closes_connections: false,
            keep_alive: None,
        })
    };
    for shows in [true, false] {
        let post = |at: SocketAddr, path: &str, content_type: &str, body: Bytes| {
            Request::post(format!("https://{at}{path}"))
                .header("content-type", content_type)
                .body(transport::Parts::from(body))
                .unwrap()
        };
        let request = post(receiver.http, "/v1/traces", "application/json", TRACES.into());
        let answer = client(shows, false).request(request).await;
        assert_eq!(answer.is_ok_and(|a| a.status() == StatusCode::OK), shows);
        let message = transport::grpc::frame(0, Compression::None, |out| out.extend(proto(Signal::Traces)));
        let request = post(receiver.grpc, TRACE_PATH, "application/grpc", message);
        let answer = client(shows, true).request(request).await;
        assert_eq!(answer.is_ok_and(|a| a.headers().get("grpc-status").is_none()), shows);
    }
    assert_eq!(receiver.got().len(), 2);
}
