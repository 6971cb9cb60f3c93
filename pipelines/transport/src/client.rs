//! An HTTP client for HTTP/1.1 and HTTP/2 that reuses its connections.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::Parts;
use crate::connect::{Dial, StreamConnector};
use crate::proxy::Proxy;

/// Flow-control window of an HTTP/2 stream, in bytes. Responses are small.
const WINDOW_BYTES: u32 = 256 * 1024;

/// Keep-alive pings on HTTP/2 connections.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// Silence before a ping is sent.
    pub interval: Duration,
    /// Time for the answer before the connection is closed.
    pub timeout: Duration,
    /// Whether pings are also sent without active requests.
    pub while_idle: bool,
}

/// The settings of an HTTP client.
#[derive(Clone)]
pub struct ClientSettings {
    /// The target, proxy and TLS of connections.
    pub dial: Dial,
    /// Whether HTTP/2 is used even without negotiation. Otherwise TLS negotiates it, or HTTP/1.1 is used.
    pub is_http2: bool,
    /// Idle connections per host, at most.
    pub idle_connections_max: usize,
    /// Time before an idle connection is closed; `None` is unlimited.
    pub idle: Option<Duration>,
    /// Whether each connection is closed after one request.
    pub closes_connections: bool,
    /// Keep-alive pings, if enabled.
    pub keep_alive: Option<KeepAlive>,
}

impl ClientSettings {
    /// Returns settings for single requests: each connection is closed after one.
    pub fn one_shot(dial: Dial) -> Self {
        ClientSettings {
            dial,
            is_http2: false,
            idle_connections_max: 0,
            idle: None,
            closes_connections: true,
            keep_alive: None,
        }
    }
}

/// An HTTP client. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct HttpClient {
    client: Client<StreamConnector, Parts>,
    proxy: Proxy,
    closes_connections: bool,
}

impl HttpClient {
    /// Creates a client without connections.
    pub fn new(settings: ClientSettings) -> Self {
        let mut builder = Client::builder(TokioExecutor::new());
        let idle_max = if settings.closes_connections { 0 } else { settings.idle_connections_max };
        builder
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle)
            .pool_max_idle_per_host(idle_max)
            .http2_only(settings.is_http2)
            .http2_initial_stream_window_size(WINDOW_BYTES)
            .http2_initial_connection_window_size(WINDOW_BYTES * 4);
        if let Some(keep_alive) = settings.keep_alive {
            builder
                .http2_keep_alive_interval(keep_alive.interval)
                .http2_keep_alive_timeout(keep_alive.timeout)
                .http2_keep_alive_while_idle(keep_alive.while_idle);
        }
        let proxy = settings.dial.proxy.clone();
        let client = builder.build(StreamConnector::new(settings.dial));
        HttpClient { client, proxy, closes_connections: settings.closes_connections }
    }

    /// Sends a request. After an error, the server may or may not have received it.
    pub async fn request(&self, mut request: Request<Parts>) -> Result<Response<Incoming>, CallError> {
        if let Some(value) = self.proxy.authorization(request.uri()) {
            request.headers_mut().insert(header::PROXY_AUTHORIZATION, value);
        }
        if self.closes_connections {
            request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        self.client
            .request(request)
            .await
            .map_err(|e| CallError { is_connect: e.is_connect(), reason: chain(&e) })
    }
}

/// The reason why a request has no response.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("{reason}")]
pub struct CallError {
    /// Whether no connection could be opened.
    pub is_connect: bool,
    /// The error with its causes.
    pub reason: String,
}

/// Reads a response body of at most `bytes_max` bytes.
pub async fn read_body(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes, String> {
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    body.map(|body| body.to_bytes()).map_err(|e| match e.downcast_ref::<LengthLimitError>() {
        Some(_) => format!("the response is longer than {bytes_max} bytes"),
        None => format!("the response broke off: {e}"),
    })
}

/// Formats an error with its causes in one line, since the outer text of a transport error is not specific.
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
        source = cause.source();
    }
    line
}
