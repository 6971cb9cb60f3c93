//! Data as protobuf bytes, and what requests and answers of OTLP share whatever carries them.

use bytes::BufMut;
use component::{ComponentId, Data, Refused, Signal};
use prost::Message;
use serde::Deserialize;

use queue::Tally;

/// The largest request that OTLP lets a client send, in bytes before compression.
pub(crate) const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The size of the data as protobuf, in bytes.
pub(crate) fn encoded_len(data: &Data) -> usize {
    data.encoded_len()
}

/// Appends the data as protobuf. The message of a batch and that of its export request have the same bytes.
pub(crate) fn encode(data: &Data, out: &mut impl BufMut) {
    data.encode(out);
}

/// Refuses a request that is larger than OTLP allows.
pub(crate) fn check_size(bytes: usize) -> Result<(), Refused> {
    if bytes <= REQUEST_BYTES_MAX {
        return Ok(());
    }
    Err(Refused::permanent(format!("request of {bytes} bytes is larger than OTLP's {REQUEST_BYTES_MAX}")))
}

/// The answer to an export request: the same bytes for each signal.
#[derive(Clone, Eq, Message, PartialEq)]
pub(crate) struct ExportResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) partial_success: Option<PartialSuccess>,
}

/// What the other side did not take of a request that it took.
#[derive(Clone, Eq, Message, PartialEq)]
pub(crate) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(crate) rejected: i64,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// The key `compression`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// gzip.
    Gzip,
    /// As it is.
    #[serde(alias = "")]
    None,
}

/// Tells and counts what the other side rejected of a request that it took. It must not be sent again.
pub(crate) fn note_partial_success(
    id: &ComponentId,
    tally: &Tally,
    signal: Signal,
    response: &ExportResponse,
) {
    let Some(partial) = &response.partial_success else { return };
    if partial.rejected == 0 && partial.message.is_empty() {
        return;
    }
    tally.rejected(u64::try_from(partial.rejected).unwrap_or(0));
    tracing::warn!(
        exporter = %id, signal = signal.name(), rejected = partial.rejected, message = %partial.message,
        "partial success"
    );
}
