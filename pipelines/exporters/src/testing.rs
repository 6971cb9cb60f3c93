//! A test server on loopback with scripted responses, over HTTP/1.1 and HTTP/2, optionally with TLS, that stores
//! the requests. gRPC is written out here without tonic, so that a misunderstanding in our code shows.

use pdata::Payload;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use component::auth::ClientAuth;
use component::context::{Context, Metadata};
use component::testing::Started;
use component::{Capabilities, ComponentId, ExporterFactory, Host};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use pdata::Data;
use prost::Message as _;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use transport::compress::Compression;

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    /// The authority of the request.
    pub(crate) authority: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }

    /// Returns the message in a gRPC body: a flag, a length, the bytes.
    pub(crate) fn grpc_message(&self) -> Vec<u8> {
        let (flag, rest) = self.body.split_first().unwrap();
        let (length, message) = rest.split_first_chunk::<4>().unwrap();
        assert_eq!(u32::from_be_bytes(*length) as usize, message.len());
        let compression = match self.header("grpc-encoding") {
            // What gRPC calls snappy is framed.
            "snappy" => Compression::SnappyFramed,
            name => Compression::by_name(name).unwrap(),
        };
        if *flag == 1 { compression.decompress(message, 1 << 20).unwrap() } else { message.to_vec() }
    }
}

/// A scripted response. Without one left, the server never responds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    status: u16,
    headers: HeaderMap,
    body: Bytes,
    trailers: Option<HeaderMap>,
}

impl Answer {
    pub(crate) fn http(status: u16, headers: &[(&'static str, &str)], body: &[u8]) -> Self {
        Answer { status, headers: map(headers), body: Bytes::copy_from_slice(body), trailers: None }
    }

    /// Returns a gRPC response with a message.
    pub(crate) fn grpc(message: &[u8]) -> Self {
        let mut body = vec![0];
        body.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
        body.extend(message);
        let headers = map(&[("content-type", "application/grpc")]);
        Answer { status: 200, headers, body: body.into(), trailers: Some(map(&[("grpc-status", "0")])) }
    }

    /// Returns a gRPC response without a message; `details` is the base64 of a `google.rpc.Status`.
    pub(crate) fn grpc_status(code: i32, message: &str, details: &str) -> Self {
        let mut headers = map(&[("content-type", "application/grpc")]);
        headers.extend(map(&[("grpc-status", &code.to_string()), ("grpc-message", message)]));
        if !details.is_empty() {
            headers.extend(map(&[("grpc-status-details-bin", details)]));
        }
        Answer { status: 200, headers, ..Answer::default() }
    }
}

fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_str(v).unwrap())).collect()
}

/// A server with scripted responses.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accepting: tokio::task::JoinHandle<()>,
}

impl TestServer {
    pub(crate) async fn answering(answers: Vec<Answer>) -> Self {
        Self::with_tls(answers, None).await
    }

    pub(crate) async fn with_tls(answers: Vec<Answer>, tls: Option<Arc<ServerConfig>>) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), answers, tls)
    }

    pub(crate) fn on(listener: TcpListener, answers: Vec<Answer>, tls: Option<Arc<ServerConfig>>) -> Self {
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script = Script { answers: Arc::new(Mutex::new(answers.into())), seen: seen.clone() };
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (script, tls) = (script.clone(), tls.clone());
                connections.spawn(async move {
                    match tls {
                        None => script.serve(stream).await,
                        Some(tls) => {
                            let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await else { return };
                            script.serve(stream).await;
                        }
                    }
                });
            }
        });
        TestServer { address, seen, accepting }
    }

    /// Returns a server for one connection that is already open.
    pub(crate) fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        answers: Vec<Answer>,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let script = Script { answers: Arc::new(Mutex::new(answers.into())), seen: seen.clone() };
        let accepting = tokio::spawn(async move { script.serve(stream).await });
        TestServer { address: ([0, 0, 0, 0], 0).into(), seen, accepting }
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Clone)]
struct Script {
    answers: Arc<Mutex<VecDeque<Answer>>>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Script {
    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) {
        let service = service_fn(move |request| self.clone().answer(request));
        let builder = auto::Builder::new(TokioExecutor::new());
        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
    }

    async fn answer(
        self,
        request: Request<Incoming>,
    ) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let host = parts.headers.get("host").map_or("", |v| v.to_str().unwrap());
        let authority = parts.uri.authority().map_or(host.to_owned(), ToString::to_string);
        let seen = Seen { path: parts.uri.path().to_owned(), authority, headers: parts.headers, body };
        self.seen.lock().unwrap().push(seen);
        let answer = self.answers.lock().unwrap().pop_front();
        let Some(answer) = answer else { return std::future::pending().await };
        let body = Full::new(answer.body);
        let body = match answer.trailers {
            None => body.boxed(),
            Some(trailers) => body.with_trailers(std::future::ready(Some(Ok(trailers)))).boxed(),
        };
        let mut response = Response::builder().status(answer.status).body(body).unwrap();
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}

/// Returns an address without a listener.
pub(crate) fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Returns a host with an extension `signer` that adds the tenant of the data, if there is one.
pub(crate) fn signing() -> Host {
    let capabilities = Capabilities { client_auth: Some(Arc::new(Tenant)), ..Capabilities::default() };
    Host::detached().with_extension(ComponentId::parse("signer").unwrap(), capabilities)
}

struct Tenant;

impl ClientAuth for Tenant {
    fn headers(&self, context: &Context) -> Result<Vec<(String, String)>, String> {
        let tenant = context.metadata.get("tenant").first().ok_or("no tenant is known")?;
        Ok(vec![("authorization".to_owned(), format!("Bearer {tenant}"))])
    }
}

/// Returns the context of a request from a tenant.
pub(crate) fn from_tenant(name: &str) -> Context {
    let mut metadata = Metadata::default();
    metadata.add("tenant", name);
    Context { metadata: Arc::new(metadata), ..Context::default() }
}

/// Returns a self-signed certificate for `localhost` and 127.0.0.1, and the configuration of a server with it.
pub(crate) fn certificate() -> (String, Arc<ServerConfig>) {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (made.cert.pem(), Arc::new(config))
}

/// Returns a batch with one span of this name.
pub(crate) fn span(name: &str) -> Data {
    let value = Some(AnyValue { value: Some(any_value::Value::IntValue(7)) });
    let attributes = vec![KeyValue { key: "k".to_owned(), value, ..KeyValue::default() }];
    let span = Span {
        trace_id: vec![1; 16],
        span_id: vec![2; 8],
        name: name.to_owned(),
        attributes,
        ..Span::default()
    };
    let scope_spans = vec![ScopeSpans { spans: vec![span], ..ScopeSpans::default() }];
    let resource = ResourceSpans { scope_spans, ..ResourceSpans::default() };
    Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }))
}

/// Decodes the batch of a request.
pub(crate) fn traces(bytes: &[u8]) -> Data {
    Data::Traces(Payload::new(TracesData::decode(bytes).unwrap()))
}

/// Returns the error with which an exporter fails to start.
pub(crate) async fn start_error(factory: &ExporterFactory, settings: &str) -> String {
    let started = Started::exporter_in(&Host::detached(), factory, settings).await;
    started.err().expect("it started").to_string()
}
