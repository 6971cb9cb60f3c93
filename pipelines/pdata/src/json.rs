//! OTLP's JSON encoding, directly between bytes and the protobuf message types.
//!
//! Every message is a table of rows `"jsonName": Kind = field`, in the order of the protobuf field numbers. The rows are
//! both the encoder and the decoder, so that the two agree. OTLP departs from protobuf's own JSON mapping (ids are hex,
//! enums are numbers, unknown fields are ignored), so no general mapping fits.

mod kinds;
pub mod plain;
mod profiles;
mod reader;
mod tables;
mod writer;

use crate::{Data, Payload, Signal};

pub use reader::JsonError;
pub use tables::Status;

/// A message that has a table of JSON rows.
pub trait Message: Default {
    /// Appends `"name":value` for every field that is set, in the order of the table.
    #[doc(hidden)]
    fn write_fields(&self, out: &mut Vec<u8>);

    /// Reads the value of the field called `name`; returns false if the table has no such row.
    #[doc(hidden)]
    fn read_field(&mut self, name: &str, reader: &mut JsonReader<'_>) -> Result<bool, JsonError>;
}

#[doc(hidden)]
pub use reader::JsonReader;

/// Encodes one message as JSON, on one line.
pub fn to_vec<M: Message>(message: &M) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    writer::message(message, &mut out);
    out
}

/// Decodes the message in `bytes`, which contain one JSON object.
///
/// # Errors
///
/// If the bytes are not JSON, or a field has a value of another type.
pub fn from_slice<M: Message>(bytes: &[u8]) -> Result<M, JsonError> {
    from_slice_within(bytes, usize::MAX)
}

fn from_slice_within<M: Message>(bytes: &[u8], decoded_bytes_max: usize) -> Result<M, JsonError> {
    let mut reader = JsonReader::over(bytes, decoded_bytes_max);
    let message = reader.message()?;
    reader.end()?;
    Ok(message)
}

/// Encodes a batch as the JSON of its signal's export request, on one line.
pub fn encode(data: &Data) -> Vec<u8> {
    match data {
        Data::Logs(d) => to_vec(&**d),
        Data::Metrics(d) => to_vec(&**d),
        Data::Traces(d) => to_vec(&**d),
        Data::Profiles(d) => to_vec(&**d),
    }
}

/// Decodes a batch from the JSON of an export request of `signal`.
///
/// # Errors
///
/// If the bytes are not such a request.
pub fn decode(signal: Signal, bytes: &[u8]) -> Result<Data, JsonError> {
    decode_within(signal, bytes, usize::MAX)
}

/// As [`decode`], of a request whose messages may take `decoded_bytes_max` bytes of memory, without their texts.
///
/// # Errors
///
/// If the bytes are not such a request, or would take more memory ([`JsonError::is_too_large`]).
pub fn decode_within(signal: Signal, bytes: &[u8], decoded_bytes_max: usize) -> Result<Data, JsonError> {
    Ok(match signal {
        Signal::Logs => Data::Logs(Payload::new(from_slice_within(bytes, decoded_bytes_max)?)),
        Signal::Metrics => Data::Metrics(Payload::new(from_slice_within(bytes, decoded_bytes_max)?)),
        Signal::Traces => Data::Traces(Payload::new(from_slice_within(bytes, decoded_bytes_max)?)),
        Signal::Profiles => Data::Profiles(Payload::new(from_slice_within(bytes, decoded_bytes_max)?)),
    })
}

#[cfg(test)]
mod tests;
