//! OTLP over HTTP/1.1: a POST per batch, in protobuf or in JSON, answered in the same.

use std::convert::Infallible;
use std::io::Read;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use component::{BoxFuture, Data, Refused, Signal};
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use prost::Message as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::Sink;
use crate::config::HttpConfig;
use crate::serve::Speak;

/// Speaks HTTP.
#[derive(Clone)]
pub(crate) struct Service(Arc<Inner>);

struct Inner {
    sink: Sink,
    /// The path of each signal, in the order of [`Signal::STABLE`].
    paths: [String; 3],
    body_bytes_max: usize,
}

impl Service {
    pub(crate) fn new(config: &HttpConfig, sink: Sink) -> Self {
        let (paths, body_bytes_max) = (config.paths(), config.body_bytes_max());
        Service(Arc::new(Inner { sink, paths, body_bytes_max }))
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
        let signal = Signal::STABLE.into_iter().find(|s| self.0.paths[*s as usize] == request.uri().path());
        let Some(signal) = signal.filter(|s| self.0.sink.wants(*s)) else {
            return Ok(text(StatusCode::NOT_FOUND, "404 page not found"));
        };
        if request.method() != Method::POST {
            let why = "405 method not allowed, supported: [POST]";
            return Ok(text(StatusCode::METHOD_NOT_ALLOWED, why));
        }
        let Some(encoding) = Encoding::of(request.headers()) else {
            let why = "415 unsupported media type, supported: [application/json, application/x-protobuf]";
            return Ok(text(StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
        };
        let outcome = self.export(signal, encoding, request).await;
        Ok(outcome.map_or_else(|no| no.response(encoding), |()| taken(encoding)))
    }

    async fn export(&self, signal: Signal, encoding: Encoding, request: Request<Incoming>) -> Result<(), No> {
        let compression = Compression::of(request.headers())?;
        let body = self.body(request).await?;
        let body = compression.undo(body, self.0.body_bytes_max)?;
        let data = encoding.decode(signal, &body)?;
        drop(body);
        self.0.sink.take(data).await.map_err(No::refused)
    }

    async fn body(&self, request: Request<Incoming>) -> Result<Bytes, No> {
        let max = self.0.body_bytes_max;
        let body = Limited::new(request.into_body(), max).collect().await;
        body.map(|body| body.to_bytes()).map_err(|e| match e.downcast_ref::<LengthLimitError>() {
            Some(_) => No::too_large(max),
            None => No::bad(format!("cannot read the body: {e}")),
        })
    }
}

impl Speak for Service {
    fn speak(&self, stream: TcpStream, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let service = self.clone();
        Box::pin(async move {
            let answering = service_fn(move |request| service.clone().answer(request));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answering);
            let mut connection = pin!(connection);
            tokio::select! {
                _ = connection.as_mut() => return,
                () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        })
    }
}

/// How a request is written, and its answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Encoding {
    Proto,
    Json,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Option<Self> {
        let media_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?.split(';').next()?.trim();
        let known = [Encoding::Proto, Encoding::Json];
        known.into_iter().find(|e| e.media_type().eq_ignore_ascii_case(media_type))
    }

    fn media_type(self) -> &'static str {
        match self {
            Encoding::Proto => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }

    fn decode(self, signal: Signal, body: &[u8]) -> Result<Data, No> {
        match self {
            Encoding::Json => otlp_json::decode(signal, body)
                .map_err(|e| No::bad(format!("the body is no OTLP JSON of {}: {e}", signal.name()))),
            Encoding::Proto => Data::decode(signal, body)
                .map_err(|e| No::bad(format!("the body is no OTLP protobuf of {}: {e}", signal.name()))),
        }
    }
}

/// How a request is compressed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Compression {
    No,
    Gzip,
    /// What HTTP calls deflate, and the Collector zlib as well.
    Zlib,
}

impl Compression {
    fn of(headers: &HeaderMap) -> Result<Self, No> {
        let name = headers.get(header::CONTENT_ENCODING).map_or(Ok(""), HeaderValue::to_str);
        match name.unwrap_or("?").trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Compression::No),
            "gzip" => Ok(Compression::Gzip),
            "deflate" | "zlib" => Ok(Compression::Zlib),
            name => Err(No::bad(format!(
                "unsupported \"Content-Encoding\": {name}: expected gzip, deflate, zlib or identity"
            ))),
        }
    }

    /// The body as it was before compression, up to a size: a few kilobytes can stand for gigabytes.
    fn undo(self, body: Bytes, bytes_max: usize) -> Result<Bytes, No> {
        match self {
            Compression::No => Ok(body),
            Compression::Gzip => read_up_to(bytes_max, MultiGzDecoder::new(&body[..])),
            Compression::Zlib => read_up_to(bytes_max, ZlibDecoder::new(&body[..])),
        }
    }
}

fn read_up_to(bytes_max: usize, decoder: impl Read) -> Result<Bytes, No> {
    let mut out = Vec::new();
    let one_more = (bytes_max as u64).saturating_add(1);
    let read = decoder.take(one_more).read_to_end(&mut out);
    read.map_err(|e| No::bad(format!("cannot decompress the body: {e}")))?;
    if out.len() > bytes_max { Err(No::too_large(bytes_max)) } else { Ok(out.into()) }
}

/// Why a request is refused.
#[derive(Clone, Debug)]
struct No {
    status: StatusCode,
    code: Code,
    message: String,
    after: Option<Duration>,
}

impl No {
    fn new(status: StatusCode, code: Code, message: String) -> Self {
        No { status, code, message, after: None }
    }

    fn bad(message: String) -> Self {
        No::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, message)
    }

    fn too_large(bytes_max: usize) -> Self {
        let message = format!("the body is larger than {bytes_max} bytes");
        No::new(StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted, message)
    }

    fn refused(refused: Refused) -> Self {
        match refused {
            Refused::Permanent { reason } => {
                No::new(StatusCode::INTERNAL_SERVER_ERROR, Code::Internal, reason)
            }
            Refused::Retryable { reason, after } => {
                No { after, ..No::new(StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable, reason) }
            }
        }
    }

    fn response(self, encoding: Encoding) -> Response<Full<Bytes>> {
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
        Encoding::Json => otlp_json::to_vec(&otlp_json::Status { code, message }).into(),
        Encoding::Proto => {
            tonic_types::pb::Status { code, message, details: Vec::new() }.encode_to_vec().into()
        }
    }
}

/// The answer of a full success: a message with nothing set.
fn taken(encoding: Encoding) -> Response<Full<Bytes>> {
    let body = if encoding == Encoding::Json { "{}" } else { "" };
    respond(StatusCode::OK, encoding.media_type(), Bytes::from_static(body.as_bytes()))
}

fn text(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    respond(status, "text/plain", Bytes::from_static(text.as_bytes()))
}

fn respond(status: StatusCode, media_type: &'static str, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}
