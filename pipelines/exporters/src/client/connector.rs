//! Opening a connection: a TCP stream or a socket file, with or without TLS, in the one shape that both
//! tonic and hyper connect through.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use component::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tower_service::Service;

/// When a connection is protected.
#[derive(Clone)]
pub(crate) enum UseTls {
    /// Never.
    No,
    /// Always, whatever the URI says.
    Yes(Arc<ClientConfig>),
    /// Where the URI begins with `https`.
    ForHttps(Arc<ClientConfig>),
}

/// Connects to the host and port of a URI, or to a socket file instead.
#[derive(Clone)]
pub(crate) struct Connector {
    /// The socket file, where there is one.
    pub(crate) unix: Option<PathBuf>,
    /// Whether to protect the connection.
    pub(crate) tls: UseTls,
    /// The name to ask for and to check, where it is not the host's.
    pub(crate) server_name: Option<String>,
}

impl Connector {
    async fn connect(self, uri: Uri) -> io::Result<TokioIo<Stream>> {
        let host = uri.host().ok_or_else(|| io::Error::other(format!("no host in {uri}")))?;
        let stream = self.open(&uri, host).await?;
        let tls = match self.tls {
            UseTls::Yes(tls) => tls,
            UseTls::ForHttps(tls) if uri.scheme_str() == Some("https") => tls,
            UseTls::No | UseTls::ForHttps(_) => return Ok(TokioIo::new(stream)),
        };
        let name = self.server_name.as_deref().unwrap_or(host.trim_matches(['[', ']']));
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let secured = tokio_rustls::TlsConnector::from(tls).connect(name, stream).await?;
        Ok(TokioIo::new(Stream(Box::new(secured))))
    }

    async fn open(&self, uri: &Uri, host: &str) -> io::Result<Stream> {
        if let Some(path) = &self.unix {
            return Ok(Stream(Box::new(UnixStream::connect(path).await?)));
        }
        let port = match (uri.port_u16(), uri.scheme_str()) {
            (Some(port), _) => port,
            (None, Some("https")) => 443,
            (None, _) => 80,
        };
        let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
        stream.set_nodelay(true)?;
        Ok(Stream(Box::new(stream)))
    }
}

impl Service<Uri> for Connector {
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

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection of whatever kind.
pub(crate) struct Stream(Box<dyn Io>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
