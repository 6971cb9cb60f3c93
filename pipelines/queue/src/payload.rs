//! The stored form of a request.
//!
//! ```text
//!  byte 0      the version of this format: 1
//!  1..5        the length of the context, little endian
//!  ..          the context, a protobuf message: metadata as names, each with its values
//!  ..          the data, a protobuf message of OTLP, of the signal that the queue is for
//! ```
//! The identity of the sender is not stored, to keep authentication data out of files.

use pdata::DataError;
use std::sync::Arc;

use component::context::{Context, Metadata};
use pdata::{Data, Signal};
use prost::Message;

const VERSION: u8 = 1;

/// Number of bytes before the context.
const HEAD_BYTES: usize = 5;

/// The reason why stored bytes cannot be read as a request.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub(crate) enum PayloadError {
    /// The bytes have another format, or an unknown version.
    #[error("a stored request begins with {0:?}: expected version {VERSION}")]
    Version(Option<u8>),
    /// The bytes end too early.
    #[error("a stored request of {0} bytes is truncated")]
    Short(usize),
    /// The context is not valid protobuf.
    #[error("the context of a stored request cannot be decoded: {0}")]
    Context(#[from] prost::DecodeError),
    /// The data is not valid.
    #[error("a stored request cannot be decoded: {0}")]
    Data(#[from] DataError),
}

#[derive(Clone, Message, PartialEq)]
struct StoredContext {
    #[prost(message, repeated, tag = "1")]
    metadata: Vec<StoredHeader>,
}

#[derive(Clone, Message, PartialEq)]
struct StoredHeader {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, repeated, tag = "2")]
    values: Vec<String>,
}

/// Encodes a request.
pub(crate) fn encode(data: &Data, context: &Context) -> Vec<u8> {
    let header =
        |(name, values): (&str, &[String])| StoredHeader { name: name.to_owned(), values: values.to_vec() };
    let stored = StoredContext { metadata: context.metadata.iter().map(header).collect() };
    let context_bytes = stored.encoded_len();
    let mut out = Vec::with_capacity(HEAD_BYTES + context_bytes + data.encoded_len());
    out.push(VERSION);
    out.extend(u32::try_from(context_bytes).unwrap_or(0).to_le_bytes());
    stored.encode_raw(&mut out);
    data.encode(&mut out);
    out
}

/// Decodes a request.
pub(crate) fn decode(signal: Signal, bytes: &[u8]) -> Result<(Data, Context), PayloadError> {
    let short = || PayloadError::Short(bytes.len());
    match bytes.first() {
        Some(&VERSION) => {}
        other => return Err(PayloadError::Version(other.copied())),
    }
    let length = bytes.get(1..HEAD_BYTES).and_then(|b| b.try_into().ok()).ok_or_else(short)?;
    let data_begins = HEAD_BYTES.saturating_add(u32::from_le_bytes(length) as usize);
    let stored = StoredContext::decode(bytes.get(HEAD_BYTES..data_begins).ok_or_else(short)?)?;
    let mut metadata = Metadata::default();
    for header in stored.metadata {
        header.values.into_iter().for_each(|value| metadata.add(&header.name, value));
    }
    let data = Data::decode(signal, &bytes[data_begins..])?;
    Ok((data, Context { metadata: Arc::new(metadata), ..Context::default() }))
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::logs::v1::{LogsData, ResourceLogs};
    use pdata::Payload;

    use super::*;

    fn request() -> (Data, Context) {
        let resource = ResourceLogs { schema_url: "a".to_owned(), ..ResourceLogs::default() };
        let mut metadata = Metadata::default();
        metadata.add("tenant", "a");
        metadata.add("tenant", "b");
        metadata.add("x", "");
        let data = Data::Logs(Payload::new(LogsData { resource_logs: vec![resource] }));
        (data, Context { metadata: Arc::new(metadata), ..Context::default() })
    }

    #[test]
    fn a_request_and_its_metadata_survive_a_round_trip() {
        let (data, context) = request();
        assert_eq!(decode(Signal::Logs, &encode(&data, &context)), Ok((data, context)));
    }

    #[test]
    fn invalid_bytes_are_an_error_and_never_a_panic() {
        let (data, context) = request();
        let whole = encode(&data, &context);
        assert_eq!(decode(Signal::Logs, b""), Err(PayloadError::Version(None)));
        assert_eq!(decode(Signal::Logs, b"\x02abcd"), Err(PayloadError::Version(Some(2))));
        assert_eq!(decode(Signal::Logs, b"\x01\xff\xff\xff\xff"), Err(PayloadError::Short(5)));
        for end in 0..whole.len() {
            let _ = decode(Signal::Logs, &whole[..end]);
        }
    }
}
