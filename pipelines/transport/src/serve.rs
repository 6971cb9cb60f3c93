//! Serving HTTP: a bounded number of connections at once, each ended gracefully when the server stops, when
//! it has been idle for too long, or when it is too old.
//!
//! The one idea: a component writes a [`Handler`], one request to one answer, and this file does what every
//! server needs around it. What a request means, and how large it may be, is left to the handler.

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

/// Connections at once. Beyond these, callers wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 4096;

/// How long requests that are under way may take to end after the server was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How long a caller may take to set up TLS.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The windows of HTTP/2: how much a caller may send before it hears that we took it, in bytes, of one
/// request and of all of a connection. They are what a connection may hold unread.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Answers requests.
pub trait Handler: Clone + Send + Sync + 'static {
    /// The body of an answer.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + 'static;

    /// Answers one request. An error ends the connection without an answer.
    fn handle(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
    ) -> impl Future<Output = io::Result<Response<Self::Body>>> + Send;
}

/// What connections are served by.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// What the log calls the server.
    pub name: String,
    /// True: HTTP/2 alone. False: HTTP/1.1 too, whatever a connection begins with.
    pub is_http2: bool,
    /// Requests at once on one connection of HTTP/2.
    pub streams_max: Option<u32>,
    /// Asking a silent HTTP/2 connection whether it still stands: after so long, for so long.
    pub keep_alive: Option<(Duration, Duration)>,
    /// How long the head of a request may take, of HTTP/1.1.
    pub head_max: Option<Duration>,
    /// False: a connection of HTTP/1.1 serves one request.
    pub keeps_connections: bool,
    /// A connection without a request for so long is ended.
    pub idle_max: Option<Duration>,
    /// A connection this old takes no more requests.
    pub age_max: Option<Duration>,
    /// How much longer its last requests may take; none is for ever.
    pub age_grace: Option<Duration>,
}

impl ServerSettings {
    /// Any HTTP, without limits in time.
    pub fn named(name: impl Into<String>) -> Self {
        ServerSettings {
            name: name.into(),
            is_http2: false,
            streams_max: None,
            keep_alive: None,
            head_max: None,
            keeps_connections: true,
            idle_max: None,
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

/// Accepts until `stop`, then waits for what is under way.
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
            tracing::warn!(server = %settings.name, max = CONNECTIONS_MAX, "too many connections, new ones have to wait");
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
        tracing::warn!(server = %settings.name, after = ?DRAIN_MAX, "requests are still under way, ending their connections");
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

/// Serves one connection to its end.
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
            let _under_way = UnderWay::begin(&requests);
            handler.handle(request, from).await
        }
    });
    let builder = settings.builder();
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answering));
    tokio::select! {
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        () = requests.absent_for(settings.idle_max) => connection.as_mut().graceful_shutdown(),
        () = after(settings.age_max) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                _ = connection => {}
                () = after(settings.age_grace) => {}
            }
            return;
        }
    }
    let _ = connection.await;
}

async fn after(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}

/// How many requests of a connection are under way.
#[derive(Default)]
struct Requests {
    under_way: AtomicUsize,
    changed: Notify,
}

impl Requests {
    /// Ends once there was none for so long.
    async fn absent_for(&self, idle_max: Option<Duration>) {
        let Some(idle_max) = idle_max else { return std::future::pending().await };
        let mut deadline = Instant::now() + idle_max;
        loop {
            let changed = self.changed.notified();
            let is_idle = self.under_way.load(Ordering::Acquire) == 0;
            tokio::select! {
                () = changed => deadline = Instant::now() + idle_max,
                () = tokio::time::sleep_until(deadline), if is_idle => return,
            }
        }
    }
}

struct UnderWay(Arc<Requests>);

impl UnderWay {
    fn begin(requests: &Arc<Requests>) -> Self {
        requests.under_way.fetch_add(1, Ordering::AcqRel);
        requests.changed.notify_one();
        UnderWay(requests.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
        self.0.changed.notify_one();
    }
}
