//! One GET over a connection that stands, for the little that detectors ask: bounded, JSON in the answer.

use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};

/// The longest answer that is read.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum HttpError {
    /// It was refused, or is not there.
    #[error("GET {path}: {status}")]
    Status { path: String, status: StatusCode },
    /// The connection, or what came over it, is no good.
    #[error("GET {path}: {why}")]
    Failed { path: String, why: String },
}

impl HttpError {
    /// True where another answer needs other rights.
    pub(super) fn is_forbidden(&self) -> bool {
        let forbidden = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];
        matches!(self, HttpError::Status { status, .. } if forbidden.contains(status))
    }
}

/// Asks for `path` of `host`, and reads the answer as JSON.
pub(super) async fn get_json<T: DeserializeOwned>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    host: &str,
    path: &str,
    bearer: Option<&str>,
) -> Result<T, HttpError> {
    let failed = |e: &dyn std::fmt::Display| HttpError::Failed { path: path.to_owned(), why: e.to_string() };
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
    let connection = tokio::spawn(connection);
    let mut request = Request::get(path).header(HOST, host);
    if let Some(token) = bearer {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request.body(Empty::<Bytes>::new()).map_err(|e| failed(&e))?;
    let response = sender.send_request(request).await.map_err(|e| failed(&e))?;
    let status = response.status();
    if status != StatusCode::OK {
        return Err(HttpError::Status { path: path.to_owned(), status });
    }
    let body = Limited::new(response.into_body(), BYTES_MAX).collect().await.map_err(|e| failed(&e))?;
    connection.abort();
    serde_json::from_slice(&body.to_bytes()).map_err(|e| failed(&e))
}
