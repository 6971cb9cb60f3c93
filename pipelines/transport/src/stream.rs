//! An open connection over TCP or a Unix socket, with or without TLS.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Idle time before TCP keep-alive probes, and their interval; Go's default.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection.
pub struct Stream {
    io: Box<dyn Io>,
    /// Whether TLS negotiated HTTP/2.
    is_http2: bool,
    /// Whether the peer is a proxy that needs absolute URIs in requests.
    is_proxied: bool,
}

impl Stream {
    pub(crate) fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Stream { io: Box::new(io), is_http2: false, is_proxied: false }
    }

    pub(crate) fn tcp(stream: TcpStream) -> Self {
        // Both are optimizations; a connection works without them.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        Stream::new(stream)
    }

    pub(crate) fn with_http2(self) -> Self {
        Stream { is_http2: true, ..self }
    }

    pub(crate) fn with_proxy(self) -> Self {
        Stream { is_proxied: true, ..self }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.is_proxied);
        if self.is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
