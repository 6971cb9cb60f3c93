//! Answers over HTTP: an empty message, or why not, as a `google.rpc.Status` in the encoding of the request.

use std::time::Duration;

use bytes::Bytes;
use component::auth::Unauthenticated;
use component::{Code, Refused};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use prost::Message as _;

use super::Encoding;

/// Why a request is refused.
#[derive(Clone, Debug)]
pub(super) struct No {
    status: StatusCode,
    code: Code,
    message: String,
    after: Option<Duration>,
}

impl No {
    fn new(status: StatusCode, code: Code, message: String) -> Self {
        No { status, code, message, after: None }
    }

    pub(super) fn bad(message: String) -> Self {
        No::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
    }

    pub(super) fn too_large(message: String) -> Self {
        No::new(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message)
    }

    pub(super) fn unauthenticated(why: Unauthenticated) -> Self {
        No::new(StatusCode::UNAUTHORIZED, Code::Unauthenticated, why.to_string())
    }

    pub(super) fn refused(refused: Refused) -> Self {
        let is_retryable = refused.is_retryable();
        let Refused { code, reason, retry_after } = refused;
        let status = StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A zero delay leaves the choice to the sender.
        let after = retry_after.filter(|delay| is_retryable && !delay.is_zero());
        No { status, code, message: reason, after }
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

/// The answer of a full success: a message with nothing set.
pub(super) fn taken(encoding: Encoding) -> Response<Full<Bytes>> {
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
