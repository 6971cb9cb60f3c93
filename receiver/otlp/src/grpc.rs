//! OTLP over gRPC: tonic reads and writes the messages, hyper the HTTP/2 below.
//!
//! A request is decoded straight into the batch that travels on: the messages of both have the same bytes.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use component::{BoxFuture, Data, Refused, Signal};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Request, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::Sink;
use crate::config::GrpcConfig;
use crate::serve::Speak;

/// The method of each signal, in the order of [`Signal::STABLE`].
const PATHS: [&str; 3] = [
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
];

/// Speaks gRPC.
#[derive(Clone)]
pub(crate) struct Service(Arc<Inner>);

struct Inner {
    sink: Sink,
    message_bytes_max: usize,
    streams_max: Option<u32>,
}

impl Service {
    pub(crate) fn new(config: &GrpcConfig, sink: Sink) -> Self {
        let message_bytes_max = config.message_bytes_max();
        let streams_max = Some(config.max_concurrent_streams).filter(|n| *n > 0);
        Service(Arc::new(Inner { sink, message_bytes_max, streams_max }))
    }

    async fn answer(self, request: http::Request<Incoming>) -> Result<http::Response<Body>, Infallible> {
        let signal = Signal::STABLE.into_iter().find(|s| PATHS[*s as usize] == request.uri().path());
        let Some(signal) = signal.filter(|s| self.0.sink.wants(*s)) else {
            let path = request.uri().path();
            return Ok(Status::unimplemented(format!("unknown method {path}")).into_http());
        };
        let mut grpc = Grpc::new(ExportCodec(signal))
            .accept_compressed(CompressionEncoding::Gzip)
            .send_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(self.0.message_bytes_max);
        let answer = grpc.unary(Export(self.0.sink.clone()), request).await;
        Ok(too_large_is_not_to_be_retried(answer))
    }
}

impl Speak for Service {
    fn speak(&self, stream: TcpStream, stop: CancellationToken) -> BoxFuture<'static, ()> {
        let service = self.clone();
        Box::pin(async move {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.timer(TokioTimer::new());
            if let Some(streams) = service.0.streams_max {
                builder.max_concurrent_streams(streams);
            }
            let answering = service_fn(move |request| service.clone().answer(request));
            let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answering));
            tokio::select! {
                _ = connection.as_mut() => return,
                () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
            }
            let _ = connection.await;
        })
    }
}

/// tonic says OUT_OF_RANGE of a message over the limit, after which OTLP's senders try again for ever; OTLP
/// wants RESOURCE_EXHAUSTED, without a time to try again. Nothing else here says OUT_OF_RANGE.
fn too_large_is_not_to_be_retried(mut answer: http::Response<Body>) -> http::Response<Body> {
    let code = |code: Code| http::HeaderValue::from(code as i32);
    if let Some(status) = answer.headers_mut().get_mut(Status::GRPC_STATUS)
        && *status == code(Code::OutOfRange)
    {
        *status = code(Code::ResourceExhausted);
    }
    answer
}

/// Hands a decoded request on.
struct Export(Sink);

impl UnaryService<Data> for Export {
    type Response = ();
    type Future = BoxFuture<'static, Result<Response<()>, Status>>;

    fn call(&mut self, request: Request<Data>) -> Self::Future {
        let sink = self.0.clone();
        Box::pin(async move {
            let outcome = sink.take(request.into_inner()).await;
            outcome.map(Response::new).map_err(status)
        })
    }
}

/// A refusal as a status.
fn status(refused: Refused) -> Status {
    match refused {
        Refused::Permanent { reason } => Status::internal(reason),
        Refused::Retryable { reason, after: None } => Status::unavailable(reason),
        Refused::Retryable { reason, after } => {
            Status::with_error_details(Code::Unavailable, reason, ErrorDetails::with_retry_info(after))
        }
    }
}

/// Reads an export request of a signal; writes the answer of a full success, which has no bytes.
struct ExportCodec(Signal);

impl Codec for ExportCodec {
    type Encode = ();
    type Decode = Data;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        ExportCodec(self.0)
    }

    fn decoder(&mut self) -> Self {
        ExportCodec(self.0)
    }
}

impl Encoder for ExportCodec {
    type Item = ();
    type Error = Status;

    fn encode(&mut self, (): (), _: &mut EncodeBuf<'_>) -> Result<(), Status> {
        Ok(())
    }
}

impl Decoder for ExportCodec {
    type Item = Data;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Data>, Status> {
        Data::decode(self.0, from)
            .map(Some)
            .map_err(|e| Status::internal(format!("the message is no export request: {e}")))
    }
}
