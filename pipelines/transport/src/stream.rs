//! An open connection, whatever it runs over: TCP or a socket file, with TLS or without.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How long a TCP connection is silent before the system asks whether the other side is still there, and how
/// often it asks again; Go's default.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An open connection of whatever kind.
pub struct Stream {
    io: Box<dyn Io>,
    /// True where both sides agreed on HTTP/2 while they set up TLS.
    speaks_http2: bool,
    /// True where requests go to a proxy that is told in each whom they are for.
    is_proxied: bool,
}

impl Stream {
    pub(crate) fn new(io: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Stream { io: Box::new(io), speaks_http2: false, is_proxied: false }
    }

    pub(crate) fn tcp(stream: TcpStream) -> Self {
        // Both are improvements that a connection can do without.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(TCP_KEEPALIVE).with_interval(TCP_KEEPALIVE);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        Stream::new(stream)
    }

    pub(crate) fn speaking_http2(self) -> Self {
        Stream { speaks_http2: true, ..self }
    }

    pub(crate) fn through_proxy(self) -> Self {
        Stream { is_proxied: true, ..self }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = Connected::new().proxy(self.is_proxied);
        if self.speaks_http2 { connected.negotiated_h2() } else { connected }
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
