//! A configuration from a web server: one GET, bounded in time, in size and in redirects.
//!
//! It runs on a thread and a runtime of its own, since the loader is no asynchronous code and may be called
//! from some. TLS trusts the authorities of the machine.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{HOST, LOCATION, USER_AGENT};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::prepare::VERSION;

/// How long all of it may take.
const TIME_MAX: Duration = Duration::from_secs(30);
/// How often the server may send us on.
const REDIRECTS_MAX: usize = 10;

/// What the server answers for `uri`, or why there is no answer of `limit` bytes at most.
pub(super) fn get(uri: &str, limit: usize) -> Result<Vec<u8>, String> {
    let uri: Uri = uri.parse().map_err(|e| format!("no address: {e}"))?;
    let fetching = std::thread::Builder::new().name("config fetch".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
        let outcome = runtime.block_on(async { tokio::time::timeout(TIME_MAX, follow(uri, limit)).await });
        // A name that is still being looked up is not waited for.
        runtime.shutdown_background();
        outcome.unwrap_or_else(|_| Err(format!("no answer within {} s", TIME_MAX.as_secs())))
    });
    let fetching = fetching.map_err(|e| format!("cannot start a thread: {e}"))?;
    fetching.join().unwrap_or_else(|_| Err("the fetch broke off".to_owned()))
}

/// Gets the address, and the next one for as long as the server names it.
async fn follow(mut uri: Uri, limit: usize) -> Result<Vec<u8>, String> {
    for _ in 0..=REDIRECTS_MAX {
        match get_once(&uri, limit).await? {
            Answer::Body(body) => return Ok(body),
            Answer::Elsewhere(next) => uri = next,
        }
    }
    Err(format!("stopped after {REDIRECTS_MAX} redirects"))
}

enum Answer {
    Body(Vec<u8>),
    Elsewhere(Uri),
}

async fn get_once(uri: &Uri, limit: usize) -> Result<Answer, String> {
    let (is_tls, default_port) = match uri.scheme_str() {
        Some("http") => (false, 80),
        Some("https") => (true, 443),
        _ => return Err(format!("{uri} is no address of http or https")),
    };
    let host = uri.host().ok_or_else(|| format!("{uri} names no host"))?;
    // An IPv6 address stands in brackets only where a port may follow it.
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(default_port)));
    let stream = stream.await.map_err(|e| format!("cannot connect: {e}"))?;
    if !is_tls {
        return ask(stream, uri, limit).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    let stream = TlsConnector::from(trusting_machine()?).connect(name, stream).await;
    ask(stream.map_err(|e| format!("TLS: {e}"))?, uri, limit).await
}

fn trusting_machine() -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if added == 0 {
        return Err("no certificate authorities found on this machine".to_owned());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|e| e.to_string())?.with_root_certificates(roots);
    Ok(Arc::new(builder.with_no_client_auth()))
}

/// Sends the request over an open connection, and reads the answer.
async fn ask<S>(stream: S, uri: &Uri, limit: usize) -> Result<Answer, String>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| format!("cannot connect: {e}"))?;
    // It ends with its runtime at the latest.
    tokio::spawn(connection);
    let authority = uri.authority().map_or("", |a| a.as_str());
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let request = Request::get(path)
        .header(HOST, authority.rsplit('@').next().unwrap_or_default())
        .header(USER_AGENT, format!("warptap/{VERSION}"))
        .body(Empty::<Bytes>::new())
        .map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await.map_err(|e| format!("no answer: {e}"))?;
    if response.status().is_redirection() {
        return elsewhere(uri, &response).map(Answer::Elsewhere);
    }
    if !response.status().is_success() {
        return Err(format!("status code: {}", response.status().as_u16()));
    }
    let body = Limited::new(response.into_body(), limit).collect().await;
    let body = body.map_err(|e| match e.downcast_ref::<LengthLimitError>() {
        Some(_) => format!("the answer is longer than {limit} bytes"),
        None => format!("the answer broke off: {e}"),
    })?;
    Ok(Answer::Body(body.to_bytes().to_vec()))
}

/// Where the server sends us: an address, or a path on the same server. Never from TLS to none.
fn elsewhere<B>(from: &Uri, response: &Response<B>) -> Result<Uri, String> {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let status = response.status().as_u16();
    let location = location.ok_or_else(|| format!("status code: {status}, without a location"))?;
    let wrong = |e: &dyn std::fmt::Display| format!("redirect to {location:?}: {e}");
    let to = match location.starts_with('/') && !location.starts_with("//") {
        true => {
            let mut parts = from.clone().into_parts();
            parts.path_and_query = Some(location.parse().map_err(|e| wrong(&e))?);
            Uri::from_parts(parts).map_err(|e| wrong(&e))?
        }
        false => location.parse::<Uri>().map_err(|e| wrong(&e))?,
    };
    match (from.scheme_str(), to.scheme_str()) {
        (Some("https"), Some("http")) => Err(wrong(&"it leaves TLS")),
        _ => Ok(to),
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
