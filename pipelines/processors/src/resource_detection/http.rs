//! A client of local APIs: requests with responses of bounded size, in JSON or as text.

use http::header::{AUTHORIZATION, HeaderValue};
use http::{HeaderMap, Method, Request, StatusCode};
use serde::de::DeserializeOwned;
use transport::Parts;
use transport::client::{ClientSettings, HttpClient, read_body};
use transport::connect::Dial;

/// Maximum size of a response, in bytes.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The reason why a request has no usable response.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The status is not 200.
    #[error("{method} {path}: {status}")]
    Status { method: Method, path: String, status: StatusCode },
    /// The connection failed, or the response is invalid.
    #[error("{method} {path}: {reason}")]
    Failed { method: Method, path: String, reason: String },
}

impl ApiError {
    /// Returns the error of a request that could not be made.
    pub(super) fn failed(method: Method, path: &str, reason: String) -> Self {
        ApiError::Failed { method, path: path.to_owned(), reason }
    }

    /// Returns true if the request needs other credentials.
    pub(super) fn is_forbidden(&self) -> bool {
        let forbidden = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];
        matches!(self, ApiError::Status { status, .. } if forbidden.contains(status))
    }
}

/// An HTTP API.
pub(super) struct Api {
    client: HttpClient,
    base: String,
    /// The headers of every request.
    headers: HeaderMap,
}

impl Api {
    /// Creates a client of the API at `base`, such as `http://host:port`. Each request has its own connection.
    pub(super) fn new(dial: Dial, base: String, authorization: Option<HeaderValue>) -> Self {
        let headers = authorization.into_iter().map(|value| (AUTHORIZATION, value)).collect();
        Api::with_headers(dial, base, headers)
    }

    /// Creates a client that sends these headers.
    pub(super) fn with_headers(dial: Dial, base: String, headers: HeaderMap) -> Self {
        Api { client: HttpClient::new(ClientSettings::one_shot(dial)), base, headers }
    }

    /// Returns the JSON response to a GET of `path`.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let body = self.request(Method::GET, path).await?;
        serde_json::from_slice(&body).map_err(|e| ApiError::failed(Method::GET, path, e.to_string()))
    }

    /// Returns the response to a GET of `path` as text.
    pub(super) async fn text(&self, path: &str) -> Result<String, ApiError> {
        let body = self.request(Method::GET, path).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Returns the response to a PUT of `path` without a body, as text.
    pub(super) async fn put(&self, path: &str) -> Result<String, ApiError> {
        let body = self.request(Method::PUT, path).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    async fn request(&self, method: Method, path: &str) -> Result<Vec<u8>, ApiError> {
        let failed = |reason: String| ApiError::failed(method.clone(), path, reason);
        let request = Request::builder().method(method.clone()).uri(format!("{}{path}", self.base));
        let mut request = request.body(Parts::default()).map_err(|e| failed(e.to_string()))?;
        request.headers_mut().extend(self.headers.clone());
        let response = self.client.request(request).await.map_err(|e| failed(e.reason))?;
        if response.status() != StatusCode::OK {
            return Err(ApiError::Status { method, path: path.to_owned(), status: response.status() });
        }
        Ok(read_body(response, BYTES_MAX).await.map_err(failed)?.into())
    }
}
