//! Calling: requests over connections that are kept and opened as needed, in HTTP/1.1 or HTTP/2.

use std::error::Error;
use std::time::Duration;

use http::{HeaderValue, Request, Response, header};

use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::Parts;
use crate::connect::{Connector, Dial};
use crate::proxy::Proxy;

/// The windows of HTTP/2: how much the other side may send before it hears that we took it, in bytes. Answers
/// are small.
const WINDOW_BYTES: u32 = 256 * 1024;

/// Asking a silent HTTP/2 connection whether it still stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct KeepAlive {
    /// After so much silence.
    pub interval: Duration,
    /// How long the answer may take before the connection is given up.
    pub timeout: Duration,
    /// True: also while no request is under way.
    pub while_idle: bool,
}

/// What requests go out by.
#[derive(Clone)]
pub struct ClientSettings {
    /// How connections are opened.
    pub dial: Dial,
    /// True: HTTP/2, also without TLS to agree on it. False: what both sides agree on, else HTTP/1.1.
    pub is_http2: bool,
    /// How many connections to one host wait for their next request, at most.
    pub idle_connections_max: usize,
    /// How long they wait; none is for ever.
    pub idle: Option<Duration>,
    /// True: a connection serves one request.
    pub closes_connections: bool,
    /// Asking silent connections.
    pub keep_alive: Option<KeepAlive>,
}

/// A client. Cheap to clone; clones share connections.
#[derive(Clone)]
pub struct HttpClient {
    client: Client<Connector, Parts>,
    proxy: Proxy,
    closes_connections: bool,
}

impl HttpClient {
    /// A client that has opened nothing yet.
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
        let client = builder.build(Connector::new(settings.dial));
        HttpClient { client, proxy, closes_connections: settings.closes_connections }
    }

    /// Sends a request. The error says that it cannot be known whether the other side got it.
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

/// A request without an answer.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
#[error("{reason}")]
pub struct CallError {
    /// True where there was no connection to send it over.
    pub is_connect: bool,
    /// What went wrong, and why.
    pub reason: String,
}

/// An error and what it came from, in one line: the outer text of a transport error alone says nothing.
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
