//! One export call, and what its status means for the data.

use std::sync::Arc;
use std::time::Duration;

use component::{BoxFuture, ComponentId, Consumer, Data, Refused};
use http::uri::PathAndQuery;
use prost::Message as _;
use tonic::client::Grpc;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::OtlpGrpc;
use super::http_status::HttpStatus;
use crate::client::chain;
use crate::wire::{self, Compression, ExportResponse};
use queue::Tallies;

/// The method to call for each signal, in the order of [`Signal::STABLE`].
const PATHS: [&str; 3] = [
    "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
];

/// The codes after which the same request may be sent again, by OTLP's table. `ResourceExhausted` is one of
/// them only where the other side says when.
const RETRYABLE: [Code; 6] = [
    Code::Cancelled,
    Code::DeadlineExceeded,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unavailable,
    Code::DataLoss,
];

/// Calls the other side once.
pub(super) struct Attempt {
    id: ComponentId,
    grpc: Grpc<HttpStatus>,
    metadata: MetadataMap,
    timeout: Duration,
    tallies: Arc<Tallies>,
}

impl Attempt {
    pub(super) fn new(exporter: &OtlpGrpc, channel: HttpStatus, tallies: Arc<Tallies>) -> Self {
        let mut grpc = Grpc::new(channel).accept_compressed(CompressionEncoding::Gzip);
        if exporter.compression == Compression::Gzip {
            grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        }
        Attempt {
            id: exporter.id.clone(),
            grpc,
            metadata: exporter.metadata.clone(),
            timeout: exporter.timeout,
            tallies,
        }
    }

    async fn export(&self, data: Data) -> Result<(), Refused> {
        wire::check_size(wire::encoded_len(&data))?;
        let signal = data.signal();
        let response = match self.timeout {
            Duration::ZERO => self.call(data).await,
            timeout => match tokio::time::timeout(timeout, self.call(data)).await {
                Ok(Err(status)) if is_timeout(&status) => Err(late(timeout)),
                Ok(outcome) => outcome,
                Err(_) => Err(late(timeout)),
            },
        };
        let response = response.map_err(|status| refused(&status))?;
        wire::note_partial_success(&self.id, self.tallies.of(signal), signal, &response);
        Ok(())
    }

    async fn call(&self, data: Data) -> Result<ExportResponse, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready().await.map_err(|e| Status::unavailable(chain(&e)))?;
        let path = PathAndQuery::from_static(PATHS[data.signal() as usize]);
        let mut request = tonic::Request::new(data);
        *request.metadata_mut() = self.metadata.clone();
        if !self.timeout.is_zero() {
            request.set_timeout(self.timeout);
        }
        Ok(grpc.unary(request, path, ExportCodec).await?.into_inner())
    }
}

impl Consumer for Attempt {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(self.export(data))
    }
}

fn late(timeout: Duration) -> Status {
    Status::deadline_exceeded(format!("no answer within {timeout:?}"))
}

/// True where the channel, which keeps the time as well, was first to find that it is up.
fn is_timeout(status: &Status) -> bool {
    let mut causes = std::iter::successors(std::error::Error::source(status), |cause| cause.source());
    causes.any(|cause| cause.is::<tonic::TimeoutExpired>())
}

/// What a status that is not OK says about sending the same data again. A status with a source was made on
/// this side, of a connection that broke: the other side never answered.
fn refused(status: &Status) -> Refused {
    let broken = std::error::Error::source(status);
    let message = broken.map_or_else(|| status.message().to_owned(), chain);
    let reason = format!("rpc error: code = {:?} desc = {message}", status.code());
    let after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let told_when = status.code() == Code::ResourceExhausted && after.is_some();
    match broken.is_some() || RETRYABLE.contains(&status.code()) || told_when {
        true => Refused::Retryable { reason, after },
        false => Refused::Permanent { reason },
    }
}

/// Writes a batch as its export request, reads the answer.
struct ExportCodec;

impl Codec for ExportCodec {
    type Encode = Data;
    type Decode = ExportResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        ExportCodec
    }

    fn decoder(&mut self) -> Self {
        ExportCodec
    }
}

impl Encoder for ExportCodec {
    type Item = Data;
    type Error = Status;

    fn encode(&mut self, data: Data, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        wire::encode(&data, out);
        Ok(())
    }
}

impl Decoder for ExportCodec {
    type Item = ExportResponse;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<ExportResponse>, Status> {
        let response = ExportResponse::decode(from);
        response.map(Some).map_err(|e| Status::internal(format!("the answer is no export response: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use component::Signal;
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn every_signal_has_its_method() {
        let names = Signal::STABLE.map(Signal::name);
        for (path, name) in PATHS.iter().zip(names) {
            assert!(path.contains(&format!(".{}", name.trim_end_matches('s'))), "{path} {name}");
        }
    }

    #[test]
    fn only_the_codes_of_the_table_are_tried_again() {
        for code in (0..=16).map(Code::from_i32) {
            let is_retryable = RETRYABLE.contains(&code);
            let status = Status::new(code, "x");
            assert_eq!(refused(&status).is_retryable(), is_retryable, "{code:?}");

            let when = Duration::from_millis(1500);
            let told = Status::with_error_details(code, "x", ErrorDetails::with_retry_info(Some(when)));
            let told = refused(&told);
            assert_eq!(told.is_retryable(), is_retryable || code == Code::ResourceExhausted, "{code:?}");
            if let Refused::Retryable { after, .. } = told {
                assert_eq!(after, Some(when), "{code:?}");
            }
        }
    }
}
