//! Accepting connections: a bounded number at once, each ended gracefully when the receiver stops.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use component::{BoxFuture, ComponentId, StartResult};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::split_endpoint;

/// Connections at once, of one protocol. Beyond these, callers wait in the kernel's backlog.
const CONNECTIONS_MAX: usize = 4096;

/// How long requests that are under way may take to end after the receiver was told to stop.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// How long accepting pauses when the system has no more file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Speaks a protocol over connections.
pub(crate) trait Speak: Send + Sync + 'static {
    /// Serves one connection to its end. On `stop` no further request is taken from it.
    fn speak(&self, stream: TcpStream, stop: CancellationToken) -> BoxFuture<'static, ()>;
}

/// Listens at `host:port`. Of a name with several addresses the first that is free is taken, IPv4 before IPv6.
pub(crate) async fn listen(endpoint: &str) -> StartResult<TcpListener> {
    let bound = async {
        let mut refused = io::Error::other("the name has no address");
        for address in addresses(endpoint).await? {
            match TcpListener::bind(address).await {
                Ok(listener) => return Ok(listener),
                Err(e) => refused = e,
            }
        }
        Err(refused)
    };
    bound.await.map_err(|e: io::Error| format!("listen tcp {endpoint}: {e}").into())
}

async fn addresses(endpoint: &str) -> io::Result<Vec<SocketAddr>> {
    let (host, port) = split_endpoint(endpoint).map_err(io::Error::other)?;
    if host.is_empty() {
        // All interfaces: of both families where the machine has both.
        return Ok(vec![([0u16; 8], port).into(), ([0u8; 4], port).into()]);
    }
    let mut found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    Ok(found)
}

/// Accepts until `stop`, then waits for what is under way.
pub(crate) async fn run(
    listener: TcpListener,
    protocol: impl Speak,
    receiver: ComponentId,
    stop: CancellationToken,
) {
    let mut connections = JoinSet::new();
    let mut is_full = false;
    loop {
        if connections.len() >= CONNECTIONS_MAX && !is_full {
            tracing::warn!(%receiver, max = CONNECTIONS_MAX, "too many connections, new ones have to wait");
        }
        is_full = connections.len() >= CONNECTIONS_MAX;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            stream = accept(&listener), if !is_full => {
                connections.spawn(protocol.speak(stream, stop.clone()));
            }
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_MAX, ended).await.is_err() {
        tracing::warn!(%receiver, after = ?DRAIN_MAX, "requests are still under way, ending their connections");
        connections.shutdown().await;
    }
}

async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                return stream;
            }
            // The caller hung up before it was accepted, or the process has no file descriptor left.
            Err(error) => {
                tracing::debug!(%error, "cannot accept a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
