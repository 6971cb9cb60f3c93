//! OTLP over gRPC. The bytes of a request are those of the batch, so that they are passed on without conversion.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use component::Refused;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use pdata::{Data, Signal};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use transport::auth::metadata;
use transport::grpc::{self, ResponseBody};
use transport::serve::{BODY_MAX, Handler, IDLE_MAX, ServerSettings};

use crate::config::{GrpcConfig, ServerParameters, decoded_bytes_max};
use crate::sink::Sink;

/// gRPC's defaults for keep-alive pings of servers.
const KEEPALIVE_TIME: Duration = Duration::from_secs(2 * 60 * 60);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Returns the settings of the server.
pub(crate) fn settings(name: String, config: &GrpcConfig) -> ServerSettings {
    let parameters = config.keepalive.get().and_then(|k| k.server_parameters.get()).cloned();
    let ServerParameters { max_connection_idle, max_connection_age, max_connection_age_grace, time, timeout } =
        parameters.unwrap_or_default();
    let set = |duration: Duration| Some(duration).filter(|d| !d.is_zero());
    let keep_alive = (set(*time).unwrap_or(KEEPALIVE_TIME), set(*timeout).unwrap_or(KEEPALIVE_TIMEOUT));
    ServerSettings {
        is_http2: true,
        streams_max: Some(config.max_concurrent_streams).filter(|n| *n > 0),
        keep_alive: Some(keep_alive),
        idle_max: set(*max_connection_idle).unwrap_or(IDLE_MAX),
        age_max: set(*max_connection_age),
        age_grace: set(*max_connection_age_grace),
        ..ServerSettings::named(name)
    }
}

/// The gRPC service.
#[derive(Clone)]
pub(crate) struct Service {
    sink: Arc<Sink>,
    message_bytes_max: usize,
}

impl Service {
    pub(crate) fn new(config: &GrpcConfig, sink: Sink) -> Self {
        Service { sink: Arc::new(sink), message_bytes_max: config.message_bytes_max() }
    }

    async fn export(&self, request: Request<Incoming>, from: Option<SocketAddr>) -> Result<(), Status> {
        let (parts, body) = request.into_parts();
        let method = parts.uri.path();
        let signal =
            Signal::ALL.into_iter().find(|s| pdata::otlp::grpc_path(*s) == method && self.sink.accepts(*s));
        let unknown = || Status::unimplemented(format!("unknown method {method}"));
        let signal = signal.ok_or_else(unknown)?;
        let context = self.sink.authenticate(from, || metadata(&parts.headers));
        let context = context.map_err(|e| Status::unauthenticated(e.to_string()))?;
        let message =
            tokio::time::timeout(BODY_MAX, grpc::read(&parts.headers, body, self.message_bytes_max));
        let late = |_| Status::deadline_exceeded(format!("the message did not arrive within {BODY_MAX:?}"));
        let (message, _) = message.await.map_err(late)??;
        let data = Data::decode_within(signal, message, decoded_bytes_max(self.message_bytes_max));
        let data = data.map_err(|e| match e.is_too_large() {
            true => Status::resource_exhausted(e.to_string()),
            false => Status::internal(format!("the message is not a valid export request: {e}")),
        })?;
        self.sink.consume(context, data).await.map_err(status)
    }
}

impl Handler for Service {
    type Body = ResponseBody;

    async fn handle(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
    ) -> io::Result<Response<ResponseBody>> {
        if request.method() != Method::POST || !is_grpc(request.headers()) {
            let mut response = Response::new(ResponseBody::default());
            *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Ok(response);
        }
        let outcome = self.export(request, from).await;
        Ok(outcome.map_or_else(|status| grpc::error_response(&status), |()| grpc::response(b"")))
    }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).map(|v| v.as_bytes()).unwrap_or_default();
    let rest = value.strip_prefix(b"application/grpc");
    matches!(rest, Some([] | [b';' | b'+', ..]))
}

/// Converts a refusal to a status with the same code, and `RetryInfo` if a delay is known.
fn status(refused: Refused) -> Status {
    let code = Code::from_i32(refused.code as i32);
    match refused.retry_after {
        None => Status::new(code, refused.reason),
        after => Status::with_error_details(code, refused.reason, ErrorDetails::with_retry_info(after)),
    }
}
