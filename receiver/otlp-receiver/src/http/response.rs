//! HTTP responses: an empty message, or an error as a `google.rpc.Status`, in the encoding of the request.

use std::time::Duration;

use bytes::Bytes;
use component::auth::Unauthenticated;
use component::{Code, Refused};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use prost::Message as _;

use super::Encoding;

/// An error response.
#[derive(Clone, Debug)]
pub(super) struct HttpError {
    status: StatusCode,
    code: Code,
    message: String,
    after: Option<Duration>,
}

impl HttpError {
    fn new(status: StatusCode, code: Code, message: String) -> Self {
        HttpError { status, code, message, after: None }
    }

    pub(super) fn bad_request(message: String) -> Self {
        HttpError::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
    }

    pub(super) fn too_large(message: String) -> Self {
        HttpError::new(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message)
    }

    pub(super) fn unauthenticated(error: Unauthenticated) -> Self {
        HttpError::new(StatusCode::UNAUTHORIZED, Code::Unauthenticated, error.to_string())
    }

    pub(super) fn refused(refused: Refused) -> Self {
        let is_retryable = refused.is_retryable();
        let Refused { code, reason, retry_after } = refused;
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A zero delay leaves the choice to the sender.
        let after = retry_after.filter(|delay| is_retryable && !delay.is_zero());
        HttpError { status, code, message: reason, after }
    }

    pub(super) fn response(self, encoding: Encoding) -> Response<Full<Bytes>> {
        let body = status_body(encoding, self.code as i32, self.message);
        let mut response = respond(self.status, encoding.media_type(), body);
        if let Some(after) = self.after {
            // Whole seconds, rounded up: earlier would be too early.
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

fn status_body(encoding: Encoding, code: i32, message: String) -> Bytes {
    match encoding {
        Encoding::Json => pdata::json::to_vec(&pdata::json::Status { code, message }).into(),
        Encoding::Proto => {
            tonic_types::pb::Status { code, message, details: Vec::new() }.encode_to_vec().into()
        }
    }
}

/// Returns the response of a full success: a message without fields.
pub(super) fn success(encoding: Encoding) -> Response<Full<Bytes>> {
    let body = if encoding == Encoding::Json { "{}" } else { "" };
    respond(StatusCode::OK, encoding.media_type(), Bytes::from_static(body.as_bytes()))
}

pub(super) fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    respond(status, "text/plain", Bytes::from_static(text.as_bytes()))
}

fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
