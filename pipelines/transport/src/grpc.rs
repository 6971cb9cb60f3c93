//! Unary gRPC over any HTTP/2 connection: a message is a flag, a length and its bytes, and the status is in
//! trailers.
//!
//! tonic supports fewer compressions, and answers a message above the limit with a code that OTLP senders
//! retry. Only its `Status` is used.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use tonic::{Code, Status};

use crate::Parts;
use crate::compress::{Compression, DecompressError, Level};

/// The names of compressions in gRPC, where snappy means framed snappy.
const NAMES: [(Compression, &str); 4] = [
    (Compression::Deflate, "deflate"),
    (Compression::Gzip, "gzip"),
    (Compression::SnappyFramed, "snappy"),
    (Compression::Zstd, "zstd"),
];

/// The value of [`ACCEPT_ENCODING`]: all supported compressions.
pub const ACCEPTED: HeaderValue = HeaderValue::from_static("deflate,gzip,snappy,zstd,identity");
/// The header with the supported compressions.
pub const ACCEPT_ENCODING: &str = "grpc-accept-encoding";
/// The header with the compression of messages.
pub const ENCODING: &str = "grpc-encoding";
/// The content type of requests and responses.
pub const CONTENT_TYPE: HeaderValue = HeaderValue::from_static("application/grpc");

const HEAD_BYTES: usize = 5;

/// Returns the name of a compression in gRPC, if it has one.
pub fn name(compression: Compression) -> Option<&'static str> {
    NAMES.iter().find(|(c, _)| *c == compression).map(|(_, name)| *name)
}

/// Returns the compression for a value of the key `compression`. Over gRPC, snappy is framed.
pub fn compression(configured: Compression) -> Result<Compression, String> {
    match configured {
        Compression::None | Compression::Gzip | Compression::Zstd => Ok(configured),
        Compression::Snappy => Ok(Compression::SnappyFramed),
        other => Err(format!("unsupported compression type {:?}", other.name())),
    }
}

/// Frames a message that `write` appends, of about `bytes` bytes.
pub fn frame(bytes: usize, compression: Compression, write: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::with_capacity(HEAD_BYTES + bytes);
    if compression == Compression::None {
        out.extend([0; HEAD_BYTES]);
        write(&mut out);
        return with_head(0, out.len() - HEAD_BYTES, out);
    }
    write(&mut out);
    let packed = compression.compress(Level::default(), &out);
    let mut out = Vec::with_capacity(HEAD_BYTES + packed.len());
    out.extend([0; HEAD_BYTES]);
    out.extend(&packed);
    with_head(1, packed.len(), out)
}

/// Frames a message in parts, without a copy unless it is compressed.
pub fn frame_parts(parts: Vec<Bytes>, compression: Compression) -> Parts {
    let bytes = parts.iter().map(Bytes::len).sum();
    if compression != Compression::None {
        return frame(bytes, compression, |out| parts.iter().for_each(|part| out.extend(part))).into();
    }
    let head = with_head(0, bytes, vec![0; HEAD_BYTES]);
    let mut framed = Vec::with_capacity(1 + parts.len());
    framed.push(head);
    framed.extend(parts);
    framed.into()
}

/// Fills in the reserved head.
fn with_head(flag: u8, bytes: usize, mut framed: Vec<u8>) -> Bytes {
    let length = u32::try_from(bytes).expect("messages are bounded far below 4 GiB");
    framed[0] = flag;
    framed[1..HEAD_BYTES].copy_from_slice(&length.to_be_bytes());
    framed.into()
}

/// Formats a duration for the header `grpc-timeout`: at most eight digits and a unit.
pub fn timeout(duration: Duration) -> String {
    const DIGITS_MAX: u128 = 99_999_999;
    let units = [("u", duration.as_micros()), ("m", duration.as_millis()), ("S", duration.as_secs().into())];
    let found = units.into_iter().find(|(_, n)| *n <= DIGITS_MAX);
    let (unit, n) = found.unwrap_or(("S", DIGITS_MAX));
    format!("{n}{unit}")
}

/// Reads the single message of a body, of at most `bytes_max` bytes before and after decompression, and the
/// trailers.
pub async fn read<B>(headers: &HeaderMap, body: B, bytes_max: usize) -> Result<(Bytes, HeaderMap), Status>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limited = Limited::new(body, bytes_max.saturating_add(HEAD_BYTES));
    let collected = limited.collect().await.map_err(|e| match e.downcast_ref::<LengthLimitError>() {
        Some(_) => too_large(bytes_max),
        None => Status::unavailable(format!("cannot read the message: {e}")),
    })?;
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let body = collected.to_bytes();
    if body.is_empty() {
        return Ok((Bytes::new(), trailers));
    }
    Ok((unframe(headers, body, bytes_max)?, trailers))
}

fn unframe(headers: &HeaderMap, mut body: Bytes, bytes_max: usize) -> Result<Bytes, Status> {
    let Some((&[flag, ref length @ ..], _)) = body.split_first_chunk::<HEAD_BYTES>() else {
        return Err(Status::internal("the message is truncated"));
    };
    let length = u32::from_be_bytes(*length) as usize;
    let message = body.split_off(HEAD_BYTES);
    if message.len() != length {
        return Err(Status::internal(format!(
            "expected one message of {length} bytes, got {}",
            message.len()
        )));
    }
    match flag {
        0 if length > bytes_max => Err(too_large(bytes_max)),
        0 => Ok(message),
        1 => decompress(headers, &message, bytes_max),
        flag => Err(Status::internal(format!("the flag of the message is {flag}: expected 0 or 1"))),
    }
}

fn decompress(headers: &HeaderMap, message: &[u8], bytes_max: usize) -> Result<Bytes, Status> {
    let name = headers.get(ENCODING).map_or(Ok("identity"), HeaderValue::to_str).unwrap_or("?");
    if name == "identity" {
        return Err(Status::internal("the message is compressed, but grpc-encoding is not set"));
    }
    let Some((compression, _)) = NAMES.iter().find(|(_, n)| *n == name) else {
        return Err(Status::unimplemented(format!(
            "grpc-encoding {name:?} is not supported: expected deflate, gzip, snappy, zstd or identity"
        )));
    };
    compression.decompress(message, bytes_max).map(Bytes::from).map_err(|e| match e {
        DecompressError::TooLarge { .. } => too_large(bytes_max),
        broken => Status::internal(broken.to_string()),
    })
}

/// Returns the status of a message above the limit. Without a delay, senders do not retry it.
fn too_large(bytes_max: usize) -> Status {
    Status::resource_exhausted(format!("the message is larger than {bytes_max} bytes"))
}

/// The body of a response.
pub type ResponseBody = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

/// Returns the response of a successful call.
pub fn response(message: &[u8]) -> Response<ResponseBody> {
    let mut trailers = HeaderMap::new();
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    let framed = frame(message.len(), Compression::None, |out| out.extend(message));
    let body = Full::new(framed).with_trailers(std::future::ready(Some(Ok(trailers))));
    with_headers(Response::new(body.boxed_unsync()))
}

/// Returns the response of a call that failed.
pub fn error_response(status: &Status) -> Response<ResponseBody> {
    let mut response = with_headers(Response::new(Full::default().boxed_unsync()));
    if status.add_header(response.headers_mut()).is_err() {
        // The message is not a valid header value; the code always is.
        response.headers_mut().insert(Status::GRPC_STATUS, HeaderValue::from(status.code() as i32));
    }
    response
}

fn with_headers(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    response.headers_mut().insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response.headers_mut().insert(ACCEPT_ENCODING, ACCEPTED);
    response
}

/// Returns the status of a response: from its trailers, from its headers if there is no message, or from the
/// HTTP status if a proxy answered.
pub fn status(http: StatusCode, headers: &HeaderMap, trailers: &HeaderMap) -> Status {
    if let Some(status) = Status::from_header_map(trailers).or_else(|| Status::from_header_map(headers)) {
        return status;
    }
    match http {
        StatusCode::OK => Status::internal("the response has no gRPC status"),
        http => Status::new(code(http), format!("unexpected HTTP status {http} without a gRPC status")),
    }
}

/// Returns the code that gRPC defines for an HTTP status.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(encoding: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            header::HeaderName::from_static(ENCODING),
            HeaderValue::from_static(encoding),
        )])
    }

    async fn read_back(
        encoding: &'static str,
        body: Bytes,
        bytes_max: usize,
    ) -> Result<Bytes, (Code, String)> {
        let read = read(&headers(encoding), Full::new(body), bytes_max).await;
        read.map(|(message, _)| message).map_err(|s| (s.code(), s.message().to_owned()))
    }

    #[tokio::test]
    async fn messages_are_bounded_before_and_after_every_decompression() {
        let message = vec![7; 10_000];
        let too_large = |bytes_max: usize| {
            Err((Code::ResourceExhausted, format!("the message is larger than {bytes_max} bytes")))
        };
        for (compression, name) in NAMES.into_iter().chain([(Compression::None, "identity")]) {
            let body = frame(10_000, compression, |out| out.extend(&message));
            assert_eq!(read_back(name, body.clone(), 10_000).await, Ok(message.clone().into()), "{name}");
            assert_eq!(read_back(name, body.clone(), 9_999).await, too_large(9_999), "{name}");
            assert_eq!(read_back(name, body, 3).await, too_large(3), "{name}");
        }
    }

    #[tokio::test]
    async fn invalid_messages_are_errors_that_are_not_retried() {
        let gzipped = || frame(1, Compression::Gzip, |out| out.push(b'x'));
        for (encoding, body, code, want) in [
            ("gzip", Bytes::from_static(b"\0\0"), Code::Internal, "the message is truncated"),
            (
                "gzip",
                Bytes::from_static(b"\0\0\0\0\x02x"),
                Code::Internal,
                "expected one message of 2 bytes, got 1",
            ),
            ("gzip", Bytes::from_static(b"\x02\0\0\0\0"), Code::Internal, "the flag of the message is 2"),
            ("gzip", Bytes::from_static(b"\x01\0\0\0\x01x"), Code::Internal, "cannot decompress gzip"),
            ("identity", gzipped(), Code::Internal, "grpc-encoding is not set"),
            ("br", gzipped(), Code::Unimplemented, "grpc-encoding \"br\" is not supported: expected deflate"),
        ] {
            let refused = read_back(encoding, body, 100).await.unwrap_err();
            assert!(refused.0 == code && refused.1.contains(want), "{refused:?}");
        }
    }

    #[test]
    fn a_status_is_read_from_trailers_headers_or_http() {
        let status_of = |code: &'static str| {
            HeaderMap::from_iter([(
                header::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static(code),
            )])
        };
        let none = HeaderMap::new();
        for (http, headers, trailers, want) in [
            (200, &none, &status_of("0"), Code::Ok),
            (200, &status_of("14"), &none, Code::Unavailable),
            (503, &status_of("3"), &none, Code::InvalidArgument),
            (200, &none, &none, Code::Internal),
            (503, &none, &none, Code::Unavailable),
            (403, &none, &none, Code::PermissionDenied),
            (418, &none, &none, Code::Unknown),
        ] {
            let status = status(StatusCode::from_u16(http).unwrap(), headers, trailers);
            assert_eq!(status.code(), want, "{http} {headers:?} {trailers:?}");
        }
    }

    #[test]
    fn a_timeout_has_at_most_eight_digits() {
        for (millis, want) in [(5_000, "5000000u"), (200_000, "200000m"), (u64::MAX, "99999999S")] {
            assert_eq!(timeout(Duration::from_millis(millis)), want);
        }
    }

    #[test]
    fn compressions_have_the_collectors_names() {
        assert_eq!(compression(Compression::Snappy), Ok(Compression::SnappyFramed));
        assert_eq!(name(Compression::SnappyFramed), Some("snappy"));
        assert_eq!(compression(Compression::Lz4), Err(r#"unsupported compression type "lz4""#.to_owned()));
        let listed = NAMES.map(|(_, name)| name).join(",") + ",identity";
        assert_eq!(ACCEPTED.to_str().unwrap(), listed);
    }
}
