//! The start of an extension, and an HTTP client that is independent of ours.

use component::testing::build;
use component::{Capabilities, ExtensionFactory, Host, Running, StartResult};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

/// Starts an extension by itself.
pub(crate) async fn start(
    factory: &ExtensionFactory,
    json: &str,
    host: &Host,
) -> StartResult<(Capabilities, Running)> {
    build(factory, json)?.start(host, CancellationToken::new()).await
}

/// A response of a server.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Requests a page over its own connection.
pub(crate) async fn get(address: &str, path: &str, headers: &str) -> Response {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    read(&mut stream).await
}

/// Reads a response to its end.
pub(crate) async fn read(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Response {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Response { status, head: head.to_lowercase(), body: body.to_owned() }
}
