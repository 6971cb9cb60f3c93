//! Answers that are no gRPC: a proxy in between refuses in plain HTTP, and its body is no message. tonic would
//! read the body and call it broken, which sounds permanent; gRPC's own rule goes by the status.

use std::task::{Context, Poll};

use component::BoxFuture;
use http::{HeaderValue, Request, Response, StatusCode};
use tonic::body::Body;
use tonic::transport::{Channel, Error};
use tonic::{Code, Status};
use tower_service::Service;

/// A channel whose answers are gRPC.
#[derive(Clone)]
pub(super) struct HttpStatus(pub(super) Channel);

impl Service<Request<Body>> for HttpStatus {
    type Response = Response<Body>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<Body>, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.call(request);
        Box::pin(async move { answer.await.map(as_grpc) })
    }
}

fn as_grpc(answer: Response<Body>) -> Response<Body> {
    let status = answer.status();
    if status == StatusCode::OK || answer.headers().contains_key(Status::GRPC_STATUS) {
        return answer;
    }
    let message = format!("unexpected HTTP status {status} without a gRPC status");
    let mut answer = Status::new(code(status), message).into_http();
    answer.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    answer
}

/// gRPC's table of what an HTTP status means.
fn code(status: StatusCode) -> Code {
    match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502 | 503 | 504 => Code::Unavailable,
        _ => Code::Unknown,
    }
}
