//! OTLP over HTTP: a POST per batch in protobuf or JSON, with a response in the same encoding.

mod cors;
mod response;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use component::context::{Context, Metadata};
use config::{GoDuration, Headers};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use pdata::{Data, Signal};
use transport::auth::metadata;
use transport::compress::{Compression, DecompressError};
use transport::query::parameters;
use transport::serve::{BODY_MAX, Handler, IDLE_MAX, ServerSettings};

use crate::config::{HttpConfig, decoded_bytes_max};
use crate::sink::Sink;
use cors::Cors;
use response::{HttpError, success, text};

/// Returns the settings of the server.
pub(crate) fn settings(name: String, config: &HttpConfig) -> ServerSettings {
    ServerSettings {
        head_max: set(config.server.read_header_timeout).or(set(config.server.read_timeout)),
        idle_max: set(config.server.idle_timeout).unwrap_or(IDLE_MAX),
        keeps_connections: config.server.keep_alives_enabled,
        ..ServerSettings::named(name)
    }
}

fn set(duration: GoDuration) -> Option<Duration> {
    Some(*duration).filter(|d| !d.is_zero())
}

/// The HTTP service.
#[derive(Clone)]
pub(crate) struct Service(Arc<Inner>);

struct Inner {
    sink: Sink,
    /// The path of each signal, in the order of [`Signal::ALL`].
    paths: [String; Signal::ALL.len()],
    body_bytes_max: usize,
    compressions: Vec<Compression>,
    cors: Option<Cors>,
    response_headers: HeaderMap,
    request_params: Vec<String>,
    /// Longest time for a body to arrive.
    body_max: Duration,
    write_max: Option<Duration>,
}

impl Service {
    pub(crate) fn new(config: &HttpConfig, sink: Sink) -> Self {
        Service(Arc::new(Inner {
            sink,
            paths: Signal::ALL.map(|signal| config.path(signal)),
            body_bytes_max: config.body_bytes_max(),
            compressions: config.compressions(),
            cors: config.server.cors.get().and_then(Cors::new),
            response_headers: response_headers(&config.server.response_headers),
            request_params: config
                .server
                .auth
                .get()
                .map(|auth| auth.request_params.clone())
                .unwrap_or_default(),
            body_max: set(config.server.read_timeout).unwrap_or(BODY_MAX),
            write_max: set(config.server.write_timeout),
        }))
    }
}

fn response_headers(configured: &Headers) -> HeaderMap {
    let headers = configured.iter().filter_map(|(name, value)| {
        Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
    });
    headers.collect()
}

impl Handler for Service {
    type Body = Full<Bytes>;

    async fn handle(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
    ) -> io::Result<Response<Full<Bytes>>> {
        let answer = self.0.answer_cors(request, from);
        match self.0.write_max {
            None => Ok(answer.await),
            Some(max) => tokio::time::timeout(max, answer).await.map_err(|_| io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Inner {
    async fn answer_cors(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
    ) -> Response<Full<Bytes>> {
        let Some(cors) = &self.cors else { return self.answer_headers(request, from).await };
        if let Some(answer) = cors.preflight(request.method(), request.headers()) {
            return self.with_headers(answer);
        }
        let allowed = cors.headers(request.headers());
        let mut answer = self.answer_headers(request, from).await;
        answer.headers_mut().extend(allowed);
        answer
    }

    async fn answer_headers(
        &self,
        request: Request<Incoming>,
        from: Option<SocketAddr>,
    ) -> Response<Full<Bytes>> {
        self.with_headers(self.answer(request, from).await)
    }

    fn with_headers(&self, mut answer: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
        for (name, value) in &self.response_headers {
            answer.headers_mut().entry(name).or_insert_with(|| value.clone());
        }
        answer
    }

    async fn answer(&self, request: Request<Incoming>, from: Option<SocketAddr>) -> Response<Full<Bytes>> {
        let signal = Signal::ALL.into_iter().find(|s| self.paths[*s as usize] == request.uri().path());
        let Some(signal) = signal.filter(|s| self.sink.accepts(*s)) else {
            return text(StatusCode::NOT_FOUND, "404 page not found");
        };
        let encoding = Encoding::of(request.headers());
        let (parts, body) = request.into_parts();
        let context = match self.authenticate(from, &parts.uri, &parts.headers) {
            Ok(context) => context,
            Err(error) => return error.response(encoding.unwrap_or(Encoding::Json)),
        };
        if parts.method != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed, supported: [POST]");
        }
        let Some(encoding) = encoding else {
            let why = "415 unsupported media type, supported: [application/json, application/x-protobuf]";
            return text(StatusCode::UNSUPPORTED_MEDIA_TYPE, why);
        };
        let outcome = self.export(signal, encoding, &parts.headers, body, context).await;
        outcome.map_or_else(|error| error.response(encoding), |()| success(encoding))
    }

    fn authenticate(
        &self,
        from: Option<SocketAddr>,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Result<Context, HttpError> {
        let attributes = || {
            let mut attributes = Metadata::default();
            // A parameter of the query overrides the header of its name.
            let query = parameters(uri.query().unwrap_or_default());
            let query: Vec<_> = query.filter(|(name, _)| self.request_params.contains(name)).collect();
            for (name, value) in &query {
                attributes.add(name, value.as_str());
            }
            for (name, values) in metadata(headers).iter() {
                if !query.iter().any(|(overridden, _)| overridden.eq_ignore_ascii_case(name)) {
                    values.iter().for_each(|value| attributes.add(name, value));
                }
            }
            attributes
        };
        self.sink.authenticate(from, attributes).map_err(HttpError::unauthenticated)
    }

    async fn export(
        &self,
        signal: Signal,
        encoding: Encoding,
        headers: &HeaderMap,
        body: Incoming,
        context: Context,
    ) -> Result<(), HttpError> {
        let compression = self.compression(headers)?;
        let (max, late) = (self.body_max, format!("the body did not arrive within {:?}", self.body_max));
        let body = tokio::time::timeout(max, self.body(body)).await;
        let body = body.map_err(|_| HttpError::bad_request(late))??;
        let body = match compression {
            Compression::None => body,
            compression => {
                compression.decompress(&body, self.body_bytes_max).map_err(HttpError::decompress)?.into()
            }
        };
        let data = encoding.decode(signal, body, decoded_bytes_max(self.body_bytes_max))?;
        self.sink.consume(context, data).await.map_err(HttpError::refused)
    }

    fn compression(&self, headers: &HeaderMap) -> Result<Compression, HttpError> {
        let name = headers.get(header::CONTENT_ENCODING).map_or(Ok(""), HeaderValue::to_str).unwrap_or("?");
        let known = Compression::by_name(name).filter(|c| self.compressions.contains(c));
        known.ok_or_else(|| {
            let names: Vec<_> = self.compressions.iter().map(|c| c.name()).collect();
            HttpError::bad_request(format!(
                "unsupported \"Content-Encoding\": {name}: expected one of {names:?}"
            ))
        })
    }

    async fn body(&self, body: Incoming) -> Result<Bytes, HttpError> {
        let body = Limited::new(body, self.body_bytes_max).collect().await;
        body.map(|body| body.to_bytes()).map_err(|e| match e.downcast_ref::<LengthLimitError>() {
            Some(_) => HttpError::too_large(format!("the body is larger than {} bytes", self.body_bytes_max)),
            None => HttpError::bad_request(format!("cannot read the body: {e}")),
        })
    }
}

/// The encoding of a request and its response.
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
            Encoding::Proto => pdata::otlp::PROTOBUF,
            Encoding::Json => pdata::otlp::JSON,
        }
    }

    fn decode(self, signal: Signal, body: Bytes, decoded_bytes_max: usize) -> Result<Data, HttpError> {
        let name = signal.name();
        let (decoded, format) = match self {
            Encoding::Json => {
                let data = pdata::json::decode_within(signal, &body, decoded_bytes_max);
                (data.map_err(|e| (e.is_too_large(), e.to_string())), "JSON")
            }
            Encoding::Proto => {
                let data = Data::decode_within(signal, body, decoded_bytes_max);
                (data.map_err(|e| (e.is_too_large(), e.to_string())), "protobuf")
            }
        };
        decoded.map_err(|(is_too_large, why)| match is_too_large {
            true => HttpError::too_large(why),
            false => HttpError::bad_request(format!("the body is not valid OTLP {format} of {name}: {why}")),
        })
    }
}

impl HttpError {
    fn decompress(error: DecompressError) -> Self {
        match error {
            DecompressError::TooLarge { .. } => HttpError::too_large(error.to_string()),
            DecompressError::Broken { .. } => HttpError::bad_request(error.to_string()),
        }
    }
}
