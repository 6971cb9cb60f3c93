//! One export call, and the refusal for its status.

use std::sync::Arc;
use std::time::Duration;

use component::{BoxFuture, Consumer, Refused, StartResult};
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri, Version};
use pdata::{Data, Signal};
use prost::Message as _;
use queue::ExporterMetrics;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;
use transport::client::{CallError, HttpClient};
use transport::{Parts, grpc};

use super::OtlpGrpc;
use super::balancer::Balancer;
use crate::otlp::{self, ExportResponse, Signer};

/// Largest response, in bytes; a longer one is a permanent error, as OTLP requires.
const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Shortest and longest delay between attempts of a request that waits for a connection.
const READY_WAIT_MIN: Duration = Duration::from_millis(50);
const READY_WAIT_MAX: Duration = Duration::from_secs(1);

/// Sends each request once.
pub(super) struct Sender {
    exporter: OtlpGrpc,
    balancer: Balancer,
    /// The URI of each signal, in the order of [`Signal::ALL`].
    uris: Vec<Uri>,
    signer: Signer,
    metrics: Arc<ExporterMetrics>,
}

impl Sender {
    pub(super) fn new(
        mut exporter: OtlpGrpc,
        signer: Signer,
        metrics: Arc<ExporterMetrics>,
    ) -> StartResult<Self> {
        if !exporter.timeout.is_zero() {
            exporter.headers.insert("grpc-timeout", HeaderValue::try_from(grpc::timeout(exporter.timeout))?);
        }
        let uris = Signal::ALL.into_iter().map(|signal| exporter.uri(signal)).collect::<Result<_, _>>()?;
        Ok(Sender { balancer: exporter.balancer()?, exporter, uris, signer, metrics })
    }

    async fn export(&self, data: Data) -> Result<(), Refused> {
        let bytes = data.encoded_len();
        otlp::check_size(bytes)?;
        let signal = data.signal();
        let mut headers = self.exporter.headers.clone();
        self.signer.sign(&mut headers)?;
        let message = grpc::frame_parts(data.to_parts(), self.exporter.compression);
        drop(data);
        let called = self.call(signal, headers, message);
        let response = match self.exporter.timeout {
            Duration::ZERO => called.await,
            timeout => {
                tokio::time::timeout(timeout, called).await.unwrap_or_else(|_| Err(timed_out(timeout)))
            }
        };
        let response = response.map_err(|status| refused(&status))?;
        otlp::record_partial_success(&self.exporter.id, self.metrics.of(signal), signal, &response);
        Ok(())
    }

    async fn call(
        &self,
        signal: Signal,
        headers: HeaderMap,
        message: Parts,
    ) -> Result<ExportResponse, Status> {
        let request = || {
            let mut request = Request::new(message.clone());
            *request.method_mut() = http::Method::POST;
            *request.uri_mut() = self.uris[signal as usize].clone();
            *request.version_mut() = Version::HTTP_2;
            *request.headers_mut() = headers.clone();
            request
        };
        let mut wait = READY_WAIT_MIN;
        loop {
            let client = self.balancer.next().await;
            match send(&client, request()).await {
                Ok(outcome) => return outcome,
                Err(e) => {
                    self.balancer.connection_failed();
                    if !(e.is_connect && self.exporter.waits_for_ready) {
                        return Err(Status::unavailable(e.reason));
                    }
                }
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(READY_WAIT_MAX);
        }
    }
}

impl Consumer for Sender {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(self.export(data))
    }
}

/// Sends a request. The outer error means that there was no response.
async fn send(
    client: &HttpClient,
    request: Request<Parts>,
) -> Result<Result<ExportResponse, Status>, CallError> {
    let (parts, body) = client.request(request).await?.into_parts();
    let is_trailers_only = parts.status != StatusCode::OK || parts.headers.contains_key(Status::GRPC_STATUS);
    if is_trailers_only {
        let status = grpc::status(parts.status, &parts.headers, &HeaderMap::new());
        return Ok(result(&status, b""));
    }
    Ok(match grpc::read(&parts.headers, body, RESPONSE_BYTES_MAX).await {
        Err(status) => Err(status),
        Ok((message, trailers)) => result(&grpc::status(parts.status, &parts.headers, &trailers), &message),
    })
}

fn result(status: &Status, message: &[u8]) -> Result<ExportResponse, Status> {
    if status.code() != Code::Ok {
        return Err(status.clone());
    }
    let response = ExportResponse::decode(message);
    response.map_err(|e| Status::internal(format!("the response is not a valid export response: {e}")))
}

fn timed_out(timeout: Duration) -> Status {
    Status::deadline_exceeded(format!("no answer within {timeout:?}"))
}

/// Converts a status other than OK. Only the status itself decides, not its message.
fn refused(status: &Status) -> Refused {
    let code = component::Code::from_grpc(status.code() as i32);
    let reason = format!("rpc error: code = {} desc = {}", code.name(), status.message());
    let retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    Refused { code, reason, retry_after }
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn every_signal_has_a_method() {
        for signal in Signal::ALL {
            let name = signal.name().trim_end_matches('s');
            assert!(pdata::otlp::grpc_path(signal).contains(&format!(".{name}")), "{signal:?}");
        }
    }

    #[test]
    fn only_the_codes_of_the_table_are_retried() {
        const RETRYABLE: [i32; 6] = [1, 4, 10, 11, 14, 15];
        for number in 1..=16 {
            let (code, is_retryable) = (Code::from_i32(number), RETRYABLE.contains(&number));
            let plain = refused(&Status::new(code, "x"));
            assert_eq!((plain.code as i32, plain.is_retryable()), (number, is_retryable));

            let delay = Some(Duration::from_millis(1500));
            let status = Status::with_error_details(code, "x", ErrorDetails::with_retry_info(delay));
            let delayed = refused(&status);
            assert_eq!(delayed.is_retryable(), is_retryable || code == Code::ResourceExhausted, "{code:?}");
            assert_eq!(delayed.retry_after, delay, "{code:?}");
        }
    }

    #[test]
    fn a_code_in_the_peers_message_is_ignored() {
        let refused = refused(&Status::internal("rpc error: code = Unavailable desc = down"));
        assert_eq!((refused.code, refused.is_retryable()), (component::Code::Internal, false));
    }
}
