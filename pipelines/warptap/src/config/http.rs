//! Configurations from web servers: one GET request, with limits of time, size and redirects.
//!
//! It runs on its own thread and runtime, because the loader is synchronous and may be called from asynchronous
//! code. It trusts the authorities of the machine and uses the proxies of the environment.

use std::time::Duration;

use http::header::{LOCATION, USER_AGENT};
use http::{Request, Response, Uri};
use transport::client::{ClientSettings, HttpClient, read_body};
use transport::connect::{Dial, UseTls};
use transport::tls::{ClientTls, ClientTlsConfig};
use transport::{Parts, Proxy};

use crate::prepare::VERSION;

/// Time limit for the whole operation.
const TIME_MAX: Duration = Duration::from_secs(30);
/// The maximum number of redirects.
const REDIRECTS_MAX: usize = 10;

/// Returns the body at `uri`, of at most `limit` bytes.
pub(super) fn get(uri: &str, limit: usize) -> Result<Vec<u8>, String> {
    let uri: Uri = uri.parse().map_err(|e| format!("no address: {e}"))?;
    let fetching = std::thread::Builder::new().name("config fetch".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("cannot start the runtime: {e}"))?;
        let outcome = runtime.block_on(async { tokio::time::timeout(TIME_MAX, follow(uri, limit)).await });
        // Shuts down without waiting for a pending name lookup.
        runtime.shutdown_background();
        outcome.unwrap_or_else(|_| Err(format!("no answer within {} s", TIME_MAX.as_secs())))
    });
    let fetching = fetching.map_err(|e| format!("cannot start a thread: {e}"))?;
    fetching.join().unwrap_or_else(|_| Err("the fetch broke off".to_owned()))
}

/// Requests a URI and follows redirects.
async fn follow(mut uri: Uri, limit: usize) -> Result<Vec<u8>, String> {
    for _ in 0..=REDIRECTS_MAX {
        match get_once(&uri, limit).await? {
            Answer::Body(body) => return Ok(body),
            Answer::Redirect(next) => uri = next,
        }
    }
    Err(format!("stopped after {REDIRECTS_MAX} redirects"))
}

enum Answer {
    Body(Vec<u8>),
    Redirect(Uri),
}

async fn get_once(uri: &Uri, limit: usize) -> Result<Answer, String> {
    let request = Request::get(uri.clone())
        .header(USER_AGENT, format!("warptap/{VERSION}"))
        .body(Parts::default())
        .map_err(|e| e.to_string())?;
    let response = client(uri)?.request(request).await.map_err(|e| match e.is_connect {
        true => format!("cannot connect: {e}"),
        false => format!("no answer: {e}"),
    })?;
    if response.status().is_redirection() {
        return redirect(uri, &response).map(Answer::Redirect);
    }
    if !response.status().is_success() {
        return Err(format!("status code: {}", response.status().as_u16()));
    }
    read_body(response, limit).await.map(|body| Answer::Body(body.to_vec()))
}

/// Returns a client for one request. The authorities of the machine are loaded for `https` only.
fn client(uri: &Uri) -> Result<HttpClient, String> {
    let tls = match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => UseTls::No,
        (Some("https"), Some(_)) => {
            let tls = ClientTls::open(&ClientTlsConfig::default(), &["http/1.1"]);
            UseTls::Yes(tls.map_err(|e| e.to_string())?)
        }
        _ => return Err(format!("{uri} is no address of http or https")),
    };
    let proxy = Proxy::parse("")?;
    Ok(HttpClient::new(ClientSettings::one_shot(Dial { tls, proxy, ..Dial::plain() })))
}

/// Returns the target of a redirect: a URI, or a path on the same server. A redirect from TLS to plain text is an
/// error.
fn redirect<B>(from: &Uri, response: &Response<B>) -> Result<Uri, String> {
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
