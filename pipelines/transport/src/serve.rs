//! An HTTP server with a bounded number of connections, each closed gracefully when the server stops, or when
//! it is idle or too old.
//!
//! A component implements [`Handler`], which maps a request to a response and limits the size of requests.

use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::listen::Listener;
use crate::stream::Stream;
use crate::tls::ServerTls;

/// Connections at once, at most. Further clients wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 4096;

/// Time limit for active requests after the server was asked to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Time without active requests after which a connection that is to be closed is closed, although its client has not agreed.
const FAREWELL_MAX: Duration = Duration::from_secs(1);

/// Time limit for a TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Time without requests after which a connection is closed by default, so that clients who send nothing, or never the whole
/// head of a request, do not use up the connections.
pub const IDLE_MAX: Duration = Duration::from_secs(300);

/// Longest time for the body of a request to arrive by default: 20 MiB at 0.6 Mbit/s.
pub const BODY_MAX: Duration = Duration::from_secs(300);

/// HTTP/2 flow-control windows of a stream and of a connection, in bytes. They bound the unread bytes in memory.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Maps requests to responses.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The body of a response.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Handles one request. An error closes the connection without a response.
    fn handle(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
    ) -> impl Future<Output = io::Result<Response<Self::Body>>> + Send;
}

/// The settings of an HTTP server.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The server's name in the log.
    pub name: String,
    /// Whether only HTTP/2 is served. Otherwise the protocol is detected from the first bytes.
    pub is_http2: bool,
    /// Concurrent requests of an HTTP/2 connection, at most.
    pub streams_max: Option<u32>,
    /// Interval and timeout of HTTP/2 keep-alive pings.
    pub keep_alive: Option<(Duration, Duration)>,
    /// Time limit for the head of an HTTP/1.1 request.
    pub head_max: Option<Duration>,
    /// Whether HTTP/1.1 connections serve more than one request.
    pub keeps_connections: bool,
    /// Time without a request that is handled, from the end of its head on, after which a connection is closed.
    pub idle_max: Duration,
    /// Age after which a connection accepts no more requests.
    pub age_max: Option<Duration>,
    /// Time limit for its last requests; `None` is unlimited.
    pub age_grace: Option<Duration>,
}

impl ServerSettings {
    /// Returns settings for any HTTP version, without time limits other than [`IDLE_MAX`].
    pub fn named(name: impl Into<String>) -> Self {
        ServerSettings {
            name: name.into(),
            is_http2: false,
            streams_max: None,
            keep_alive: None,
            head_max: None,
            keeps_connections: true,
            idle_max: IDLE_MAX,
            age_max: None,
            age_grace: None,
        }
    }

    fn builder(&self) -> auto::Builder<TokioExecutor> {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        if self.is_http2 {
            builder = builder.http2_only();
        }
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_max)
            .keep_alive(self.keeps_connections);
        let mut http2 = builder.http2();
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        if let Some(streams) = self.streams_max {
            http2.max_concurrent_streams(streams);
        }
        if let Some((interval, timeout)) = self.keep_alive {
            http2.keep_alive_interval(interval).keep_alive_timeout(timeout);
        }
        builder
    }
}

/// Accepts connections until `stop`, then waits for the active requests.
pub async fn run(
    listener: Listener,
    tls: Option<ServerTls>,
    settings: ServerSettings,
    handler: impl Handler,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    let settings = Arc::new(settings);
    let mut is_full = false;
    loop {
        if connections.len() >= CONNECTIONS_MAX && !is_full {
            tracing::warn!(server = %settings.name, max = CONNECTIONS_MAX, "too many connections, new ones wait");
        }
        is_full = connections.len() >= CONNECTIONS_MAX;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            (stream, from) = listener.accept(), if !is_full => {
                let (tls, settings) = (tls.clone(), settings.clone());
                let (handler, stop) = (handler.clone(), stop.clone());
                connections.spawn(async move {
                    match secured(stream, tls).await {
                        Ok(stream) => serve(stream, from, &settings, handler, stop).await,
                        Err(error) => tracing::debug!(server = %settings.name, ?from, %error, "TLS failed"),
                    }
                });
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, ended).await.is_err() {
        tracing::warn!(server = %settings.name, after = ?DRAIN_MAX, "closing connections with active requests");
        connections.shutdown().await;
    }
}

async fn secured(stream: Stream, tls: Option<ServerTls>) -> io::Result<Stream> {
    let Some(tls) = tls else { return Ok(stream) };
    let handshake = TlsAcceptor::from(tls.current()).accept(stream);
    match tokio::time::timeout(HANDSHAKE_MAX, handshake).await {
        Ok(secured) => secured.map(Stream::new),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Serves one connection until it ends.
async fn serve(
    stream: Stream,
    from: Option<SocketAddr>,
    settings: &ServerSettings,
    handler: impl Handler,
    stop: CancellationToken,
) {
    let requests = Arc::new(Requests::default());
    let answering = service_fn(|request| {
        let (handler, requests) = (handler.clone(), requests.clone());
        async move {
            let _active = ActiveRequest::begin(&requests);
            handler.handle(request, from).await
        }
    });
    let builder = settings.builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answering));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
        () = requests.idle_for(settings.idle_max) => {}
        () = after(settings.age_max) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = connection => {}
                () = after(settings.age_grace) => {}
            }
            return;
        }
    }
    connection.as_mut().graceful_shutdown();
    tokio::select! {
        _ = connection => {}
        () = requests.idle_for(FAREWELL_MAX) => {}
    }
}

async fn after(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// The active requests of a connection.
#[derive(Default)]
struct Requests {
    active: AtomicUsize,
    changed: Notify,
}

impl Requests {
    /// Waits until there was no request for `idle_max`.
    async fn idle_for(&self, idle_max: Duration) {
        let mut deadline = Instant::now() + idle_max;
        loop {
            let changed = self.changed.notified();
            let is_idle = self.active.load(Ordering::Acquire) == 0;
            tokio::select! {
                () = changed => deadline = Instant::now() + idle_max,
                () = tokio::time::sleep_until(deadline), if is_idle => return,
            }
        }
    }
}

struct ActiveRequest(Arc<Requests>);

impl ActiveRequest {
    fn begin(requests: &Arc<Requests>) -> Self {
        requests.active.fetch_add(1, Ordering::AcqRel);
        requests.changed.notify_one();
        ActiveRequest(requests.clone())
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.active.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}
