//! Connections to a host, to a Unix socket, or through a proxy, with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use component::BoxFuture;
use config::redact_url;
use http::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream};
use tower_service::Service;

use crate::proxy::{self, Proxy};
use crate::stream::Stream;
use crate::tls::ClientTls;

/// Time limit for opening a connection, including the TLS handshake; Go's default.
const CONNECT_MAX: Duration = Duration::from_secs(30);

/// When a connection uses TLS.
#[derive(Clone)]
pub enum UseTls {
    /// Plain text only.
    No,
    /// TLS for every URI.
    Yes(ClientTls),
    /// TLS for URIs with the scheme `https`.
    ForHttps(ClientTls),
}

/// The target, proxy and TLS of connections.
#[derive(Clone)]
pub struct Dial {
    /// The `host:port` to connect to, if it differs from the request's.
    pub target: Option<String>,
    /// The Unix socket to connect to instead.
    pub unix: Option<PathBuf>,
    /// The use of TLS.
    pub tls: UseTls,
    /// The server name to verify, if it differs from the request's host.
    pub server_name: Option<String>,
    /// The proxy, if any.
    pub proxy: Proxy,
}

impl Dial {
    /// Connects to the request's host, in plain text and without a proxy.
    pub fn plain() -> Self {
        Dial { target: None, unix: None, tls: UseTls::No, server_name: None, proxy: Proxy::none() }
    }
}

/// Connects to the host and port of a URI, or to the configured target. Each connection starts with another of
/// the addresses of a name and tries the rest if that one does not answer.
#[derive(Clone)]
pub struct StreamConnector {
    dial: Arc<Dial>,
    turn: Arc<AtomicUsize>,
}

impl StreamConnector {
    /// Creates a connector.
    pub fn new(dial: Dial) -> Self {
        StreamConnector { dial: Arc::new(dial), turn: Arc::default() }
    }

    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Stream>> {
        let timed_out =
            |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {CONNECT_MAX:?}"));
        tokio::time::timeout(CONNECT_MAX, self.open(&uri)).await.map_err(timed_out)?.map(TokioIo::new)
    }

    async fn open(&self, uri: &Uri) -> io::Result<Stream> {
        let tls = match &self.dial.tls {
            UseTls::Yes(tls) => Some(tls),
            UseTls::ForHttps(tls) if uri.scheme_str() == Some("https") => Some(tls),
            UseTls::No | UseTls::ForHttps(_) => None,
        };
        let stream = match &self.dial.unix {
            Some(path) => Stream::new(UnixStream::connect(path).await?),
            None => self.tcp(uri, tls.is_some()).await?,
        };
        match tls {
            None => Ok(stream),
            Some(tls) => secure(stream, self.name(uri)?, tls.current()).await,
        }
    }

    fn name(&self, uri: &Uri) -> io::Result<ServerName<'static>> {
        let host = || uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let name = self.dial.server_name.as_deref().unwrap_or_else(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| io::Error::other(format!("{name:?} is not a valid host name")))
    }

    async fn tcp(&self, uri: &Uri, is_protected: bool) -> io::Result<Stream> {
        let to = match &self.dial.target {
            Some(target) => target.clone(),
            None => host_port(uri, if is_protected { 443 } else { 80 })?,
        };
        // The target of the connection decides on the proxy, not the URI of the request.
        let scheme = if is_protected || self.dial.target.is_some() { "https" } else { "http" };
        let target = format!("{scheme}://{to}/").parse().map_err(io::Error::other)?;
        let Some(proxy) = self.dial.proxy.of(&target) else {
            return Ok(Stream::tcp(self.dial_tcp(&to).await?));
        };
        let mut stream = self.dial_tcp(&host_port(proxy.uri(), 80)?).await?;
        if scheme == "http" {
            return Ok(Stream::tcp(stream).with_proxy());
        }
        proxy::tunnel(&mut stream, &to, proxy.basic_auth()).await?;
        Ok(Stream::tcp(stream))
    }

    async fn dial_tcp(&self, to: &str) -> io::Result<TcpStream> {
        let mut addresses: Vec<SocketAddr> = tokio::net::lookup_host(to).await?.collect();
        addresses.dedup();
        if !addresses.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % addresses.len();
            addresses.rotate_left(turn);
        }
        let mut refused = io::Error::other(format!("{to} has no address"));
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(e) => refused = io::Error::new(e.kind(), format!("dial tcp {address}: {e}")),
            }
        }
        Err(refused)
    }
}

fn host_port(uri: &Uri, default: u16) -> io::Result<String> {
    let host =
        uri.host().ok_or_else(|| io::Error::other(format!("no host in {}", redact_url(&uri.to_string()))))?;
    Ok(format!("{host}:{}", uri.port_u16().unwrap_or(default)))
}

async fn secure(stream: Stream, name: ServerName<'static>, tls: Arc<ClientConfig>) -> io::Result<Stream> {
    let secured = tokio_rustls::TlsConnector::from(tls).connect(name, stream).await;
    let secured = secured.map_err(|e| io::Error::new(e.kind(), format!("TLS handshake: {e}")))?;
    let is_http2 = secured.get_ref().1.alpn_protocol() == Some(b"h2");
    let stream = Stream::new(secured);
    Ok(if is_http2 { stream.with_http2() } else { stream })
}

impl Service<Uri> for StreamConnector {
    type Response = TokioIo<Stream>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<Stream>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}
