//! One POST, and the refusal for its response.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use component::{BoxFuture, Code, Consumer, Refused, StartResult};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use hyper::body::Incoming;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use opentelemetry_proto::tonic::collector::profiles::v1development::ExportProfilesServiceResponse;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use pdata::{Data, Signal};
use prost::Message as _;
use queue::ExporterMetrics;
use transport::Parts;
use transport::client::{HttpClient, read_body};
use transport::compress::Compression;

use super::{OtlpHttp, PayloadEncoding};
use crate::otlp::{self, ExportResponse, PartialSuccess, Signer};

/// The statuses whose `Retry-After` is used.
const THROTTLING: [StatusCode; 2] = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];

/// Largest response, in bytes.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;

/// Posts each request once.
pub(super) struct Sender {
    exporter: OtlpHttp,
    client: HttpClient,
    signer: Signer,
    metrics: Arc<ExporterMetrics>,
}

impl Sender {
    pub(super) fn new(
        exporter: OtlpHttp,
        signer: Signer,
        metrics: Arc<ExporterMetrics>,
    ) -> StartResult<Self> {
        Ok(Sender { client: exporter.client()?, exporter, signer, metrics })
    }

    async fn export(&self, data: Data) -> Result<(), Refused> {
        let signal = data.signal();
        let Some(uri) = &self.exporter.uris[signal as usize] else {
            let name = signal.name();
            return Err(Refused::permanent(format!("neither endpoint nor {name}_endpoint is configured")));
        };
        let posted = self.post(uri, signal, &data);
        let response = match self.exporter.timeout {
            Duration::ZERO => posted.await,
            timeout => tokio::time::timeout(timeout, posted).await.unwrap_or_else(|_| {
                let reason = format!("no response from {} within {timeout:?}", shown(uri));
                Err(Refused::new(Code::DeadlineExceeded, reason))
            }),
        }?;
        otlp::record_partial_success(&self.exporter.id, self.metrics.of(signal), signal, &response);
        Ok(())
    }

    async fn post(&self, uri: &Uri, signal: Signal, data: &Data) -> Result<ExportResponse, Refused> {
        let mut request = Request::post(uri.clone())
            .body(self.body(data)?)
            .map_err(|e| Refused::permanent(format!("cannot create a request for {}: {e}", shown(uri))))?;
        *request.headers_mut() = self.exporter.headers.clone();
        self.signer.sign(request.headers_mut())?;
        let response = self.client.request(request).await.map_err(|e| {
            Refused::retryable(format!("failed to make an HTTP request to {}: {}", shown(uri), e.reason))
        })?;
        let (status, headers) = (response.status(), response.headers().clone());
        let encoding = encoding_of(&headers);
        let body = read(response).await;
        if status.is_success() {
            let decoded = body.and_then(|bytes| decode(encoding, signal, &bytes));
            return decoded
                .map_err(|e| Refused::permanent(format!("{} responded with {status}, but {e}", shown(uri))));
        }
        let message = body.ok().and_then(|bytes| message(encoding, &bytes)).unwrap_or_default();
        Err(refused(uri, status, &headers, &message))
    }

    fn body(&self, data: &Data) -> Result<Parts, Refused> {
        let (parts, bytes) = match self.exporter.encoding {
            PayloadEncoding::Json => {
                let json = Bytes::from(pdata::json::encode(data));
                (vec![json.clone()], json.len())
            }
            PayloadEncoding::Proto => (data.to_parts(), data.encoded_len()),
        };
        otlp::check_size(bytes)?;
        Ok(match self.exporter.compression {
            Compression::None => parts.into(),
            compression => Bytes::from(compression.compress(self.exporter.level, &parts.concat())).into(),
        })
    }
}

impl Consumer for Sender {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(self.export(data))
    }
}

fn encoding_of(headers: &HeaderMap) -> Option<PayloadEncoding> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    let media_type = value.split(';').next().unwrap_or_default().trim();
    [PayloadEncoding::Proto, PayloadEncoding::Json]
        .into_iter()
        .find(|e| e.content_type().eq_ignore_ascii_case(media_type))
}

async fn read(response: Response<Incoming>) -> Result<Bytes, String> {
    let name = response.headers().get(header::CONTENT_ENCODING).map_or(Ok(""), HeaderValue::to_str);
    let compression = name.ok().and_then(Compression::by_name);
    let body = read_body(response, RESPONSE_BYTES_MAX).await?;
    match compression {
        Some(Compression::None) => Ok(body),
        Some(compression) => {
            compression.decompress(&body, RESPONSE_BYTES_MAX).map(Bytes::from).map_err(|e| e.to_string())
        }
        None => Err("the compression of the response is unknown".to_owned()),
    }
}

/// Decodes the response of a success. As in the Collector, a response in an unknown encoding is ignored.
fn decode(encoding: Option<PayloadEncoding>, signal: Signal, bytes: &[u8]) -> Result<ExportResponse, String> {
    match encoding {
        _ if bytes.is_empty() => Ok(ExportResponse::default()),
        None => Ok(ExportResponse::default()),
        Some(PayloadEncoding::Proto) => {
            ExportResponse::decode(bytes).map_err(|e| format!("the response is not valid OTLP protobuf: {e}"))
        }
        Some(PayloadEncoding::Json) => {
            let partial_success = partial_success(signal, bytes);
            let partial_success =
                partial_success.map_err(|e| format!("the response is not valid OTLP JSON: {e}"))?;
            Ok(ExportResponse { partial_success })
        }
    }
}

/// Decodes a partial success from JSON, where each signal has another name for the rejected items.
fn partial_success(signal: Signal, json: &[u8]) -> Result<Option<PartialSuccess>, pdata::json::JsonError> {
    let counts = match signal {
        Signal::Logs => pdata::json::from_slice::<ExportLogsServiceResponse>(json)?
            .partial_success
            .map(|p| (p.rejected_log_records, p.error_message)),
        Signal::Metrics => pdata::json::from_slice::<ExportMetricsServiceResponse>(json)?
            .partial_success
            .map(|p| (p.rejected_data_points, p.error_message)),
        Signal::Traces => pdata::json::from_slice::<ExportTraceServiceResponse>(json)?
            .partial_success
            .map(|p| (p.rejected_spans, p.error_message)),
        Signal::Profiles => pdata::json::from_slice::<ExportProfilesServiceResponse>(json)?
            .partial_success
            .map(|p| (p.rejected_profiles, p.error_message)),
    };
    Ok(counts.map(|(rejected, message)| PartialSuccess { rejected, message }))
}

/// Returns the message of the status in an error response.
fn message(encoding: Option<PayloadEncoding>, bytes: &[u8]) -> Option<String> {
    let message = match encoding? {
        PayloadEncoding::Proto => tonic_types::pb::Status::decode(bytes).ok()?.message,
        PayloadEncoding::Json => pdata::json::from_slice::<pdata::json::Status>(bytes).ok()?.message,
    };
    Some(message).filter(|m| !m.is_empty())
}

/// Returns a URL without its secrets.
fn shown(uri: &Uri) -> String {
    config::redact_url(&uri.to_string()).into_owned()
}

/// Converts a response without success. A 429 without `Retry-After` gets a zero delay, which makes it retryable.
fn refused(uri: &Uri, status: StatusCode, headers: &HeaderMap, message: &str) -> Refused {
    let colon = if message.is_empty() { "" } else { ": " };
    let reason = format!("request to {} responded with HTTP status {status}{colon}{message}", shown(uri));
    let value = headers.get(header::RETRY_AFTER).filter(|_| THROTTLING.contains(&status));
    let delay = value.and_then(|value| retry_after(value.to_str().ok()?, SystemTime::now()));
    let is_throttled = status == StatusCode::TOO_MANY_REQUESTS;
    let retry_after = delay.or_else(|| is_throttled.then_some(Duration::ZERO));
    Refused { code: Code::from_http(status.as_u16()), reason, retry_after }
}

/// Parses `Retry-After`: seconds, or a date, which may be in the past.
fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: header::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn only_the_statuses_of_the_table_are_retried() {
        let uri = Uri::from_static("http://h:1/v1/traces");
        for (delay, seconds) in [(HeaderMap::new(), None), (headers(header::RETRY_AFTER, "7"), Some(7))] {
            for code in (100..600).filter(|c| !(200..300).contains(c)) {
                let refused = refused(&uri, StatusCode::from_u16(code).unwrap(), &delay, "");
                assert_eq!(refused.is_retryable(), [429, 502, 503, 504].contains(&code), "{refused}");
                let want = match code {
                    429 => seconds.or(Some(0)),
                    503 => seconds,
                    _ => None,
                };
                assert_eq!(refused.retry_after, want.map(Duration::from_secs), "{code}");
            }
        }
    }

    #[test]
    fn errors_do_not_contain_the_secrets_of_the_url() {
        let uri = Uri::from_static("http://user:secret@h:1/v1/traces?key=secret");
        let refused = refused(&uri, StatusCode::BAD_REQUEST, &HeaderMap::new(), "");
        let expected = "http://[REDACTED]@h:1/v1/traces?key=[REDACTED]";
        assert!(refused.reason.contains(expected) && !refused.reason.contains("secret"), "{refused}");
    }

    #[test]
    fn a_status_becomes_the_collectors_code() {
        let uri = Uri::from_static("http://h:1/v1/traces");
        for (status, code) in [
            (400, Code::InvalidArgument),
            (413, Code::Unknown),
            (429, Code::ResourceExhausted),
            (500, Code::Unknown),
            (503, Code::Unavailable),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            let refused = refused(&uri, status, &HeaderMap::new(), "rpc error: code = Aborted");
            assert_eq!(refused.code, code, "{status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (value, want) in [
            ("120", Some(120)),
            ("0", Some(0)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun, 06 Nov 1994 08:49:30 GMT", Some(0)),
            ("-5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(retry_after(value, now), want.map(Duration::from_secs), "{value:?}");
        }
    }

    #[test]
    fn a_response_is_decoded_by_its_content_type() {
        let rejected = |encoding, bytes: &[u8]| {
            decode(encoding, Signal::Logs, bytes).map(|r| r.partial_success.map(|p| (p.rejected, p.message)))
        };
        let json = br#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"no"}}"#;
        assert_eq!(rejected(Some(PayloadEncoding::Json), json), Ok(Some((3, "no".to_owned()))));
        assert_eq!(rejected(Some(PayloadEncoding::Json), b"{}"), Ok(None));
        let proto = [0x0a, 6, 0x08, 3, 0x12, 2, b'n', b'o'];
        assert_eq!(rejected(Some(PayloadEncoding::Proto), &proto), Ok(Some((3, "no".to_owned()))));
        assert_eq!(rejected(None, b"<html>"), Ok(None));
        assert_eq!(rejected(Some(PayloadEncoding::Proto), b""), Ok(None));
        assert!(rejected(Some(PayloadEncoding::Proto), b"<html>").is_err());
        assert!(rejected(Some(PayloadEncoding::Json), b"<html>").is_err());
    }

    #[test]
    fn a_content_type_may_have_parameters() {
        let of = |value| encoding_of(&headers(header::CONTENT_TYPE, value));
        assert_eq!(of("application/json; charset=utf-8"), Some(PayloadEncoding::Json));
        assert_eq!(of("Application/X-Protobuf"), Some(PayloadEncoding::Proto));
        assert_eq!(of("text/html"), None);
    }
}
