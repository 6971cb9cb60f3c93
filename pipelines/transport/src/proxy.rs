//! The choice of a proxy for a connection: that of `proxy_url`, otherwise those of the environment variables
//! `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, as in Go. Connections to this machine never use a proxy.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use config::redact_url;
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Largest head of a proxy's response, in bytes.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The choice of a proxy by URI.
#[derive(Clone, Debug)]
pub struct Proxy(Option<Arc<Matcher>>);

impl Proxy {
    /// Returns settings that never use a proxy.
    pub fn none() -> Self {
        Proxy(None)
    }

    /// Uses the proxy of a configured URL, or those of the environment if the URL is empty.
    pub fn parse(proxy_url: &str) -> Result<Self, String> {
        if proxy_url.is_empty() {
            return Ok(Proxy(Some(Arc::new(Matcher::from_env()))));
        }
        let uri: Result<Uri, _> = proxy_url.parse();
        match uri.as_ref().map(|uri| (uri.scheme_str(), uri.host())) {
            Ok((Some("http"), Some(_))) => {
                Ok(Proxy(Some(Arc::new(Matcher::builder().all(proxy_url).build()))))
            }
            _ => Err(format!(
                "proxy_url {:?} is not supported: expected http://host:port",
                redact_url(proxy_url)
            )),
        }
    }

    /// Returns the proxy for requests to `uri`, if any.
    pub(crate) fn of(&self, uri: &Uri) -> Option<Intercept> {
        let host = uri.host()?.trim_matches(['[', ']']);
        let is_local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        self.0.as_ref().filter(|_| !is_local)?.intercept(uri)
    }

    /// Returns true if connections to `host:port` use a proxy.
    pub fn applies_to(&self, host_port: &str) -> bool {
        format!("https://{host_port}/").parse().is_ok_and(|uri| self.of(&uri).is_some())
    }

    /// Returns the header that authorizes a plain request at the proxy.
    pub(crate) fn authorization(&self, uri: &Uri) -> Option<HeaderValue> {
        self.of(uri).filter(|_| uri.scheme_str() == Some("http"))?.basic_auth().cloned()
    }
}

/// Requests a tunnel to `host:port` from the proxy.
pub(crate) async fn tunnel(
    stream: &mut TcpStream,
    to: &str,
    authorization: Option<&HeaderValue>,
) -> io::Result<()> {
    let mut request = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n").into_bytes();
    if let Some(value) = authorization {
        request.extend([b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    stream.write_all(&request).await?;
    let head = head(stream).await?;
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        _ => Err(io::Error::other(format!("the proxy answered {line:?} to CONNECT {to}"))),
    }
}

/// Reads the head of a response byte by byte: the bytes after it belong to the tunnel.
async fn head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == HEAD_BYTES_MAX {
            return Err(io::Error::other("the head of the proxy's response is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_used_for_remote_hosts_only() {
        let proxy = Proxy::parse("http://user:secret@proxy:3128").unwrap();
        let of = |uri: &'static str| proxy.of(&Uri::from_static(uri)).map(|p| p.uri().to_string());
        assert_eq!(of("https://backend:443/v1").as_deref(), Some("http://proxy:3128/"));
        assert_eq!(of("http://backend/v1").as_deref(), Some("http://proxy:3128/"));
        for local in ["http://localhost:1/", "http://127.0.0.2:1/", "http://[::1]:1/"] {
            assert_eq!(of(local), None, "{local}");
        }
        assert!(proxy.authorization(&Uri::from_static("http://backend/")).is_some());
        assert!(
            proxy.authorization(&Uri::from_static("https://backend/")).is_none(),
            "sent to open the tunnel"
        );
        assert!(Proxy::none().of(&Uri::from_static("http://backend/")).is_none());
        for wrong in ["socks5://h:1", "proxy", "http://"] {
            assert!(Proxy::parse(wrong).unwrap_err().contains("expected http://host:port"), "{wrong}");
        }
    }
}
