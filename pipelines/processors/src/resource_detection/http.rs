//! A client of local APIs: GET requests with JSON responses of bounded size.

use http::header::{AUTHORIZATION, HeaderValue};
use http::{Request, StatusCode};
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
    #[error("GET {path}: {status}")]
    Status { path: String, status: StatusCode },
    /// The connection failed, or the response is invalid.
    #[error("GET {path}: {reason}")]
    Failed { path: String, reason: String },
}

impl ApiError {
    /// Returns true if the request needs other credentials.
    pub(super) fn is_forbidden(&self) -> bool {
        let forbidden = [StatusCode::FORBIDDEN, StatusCode::UNAUTHORIZED];
        matches!(self, ApiError::Status { status, .. } if forbidden.contains(status))
    }
}

/// An HTTP API whose responses are JSON.
pub(super) struct Api {
    client: HttpClient,
    base: String,
    authorization: Option<HeaderValue>,
}

impl Api {
    /// Creates a client of the API at `base`, such as `http://host:port`. Each request has its own connection.
    pub(super) fn new(dial: Dial, base: String, authorization: Option<HeaderValue>) -> Self {
        Api { client: HttpClient::new(ClientSettings::one_shot(dial)), base, authorization }
    }

    /// Returns the response to a GET of `path`.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        let failed = |reason: String| ApiError::Failed { path: path.to_owned(), reason };
        let request = Request::get(format!("{}{path}", self.base)).body(Parts::default());
        let mut request = request.map_err(|e| failed(e.to_string()))?;
        if let Some(authorization) = &self.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let response = self.client.request(request).await.map_err(|e| failed(e.reason))?;
        if response.status() != StatusCode::OK {
            return Err(ApiError::Status { path: path.to_owned(), status: response.status() });
        }
        let body = read_body(response, BYTES_MAX).await.map_err(failed)?;
        serde_json::from_slice(&body).map_err(|e| failed(e.to_string()))
    }
}
