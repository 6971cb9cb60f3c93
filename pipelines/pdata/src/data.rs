//! One batch of telemetry: one OTLP request body of one signal.
//!
//! It is shared between components, copied by a component that changes it ([`Payload::make_mut`]), and decoded for a
//! component that reads it.

use opentelemetry_proto::tonic::logs::v1::LogsData;
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData};
use opentelemetry_proto::tonic::profiles::v1development::ProfilesData;
use opentelemetry_proto::tonic::trace::v1::TracesData;
use prost::bytes::{Buf, BufMut, Bytes};
use prost::{DecodeError, Message as _};

use crate::payload::Payload;
use crate::shape::{Group, Telemetry};
use crate::wire::{self, WireError};
use crate::{Signal, with_payload, with_points};

/// The reason why bytes are not data of a signal.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum DataError {
    /// The bytes are not a valid OTLP message of logs, metrics or traces.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The bytes are not a valid OTLP message of profiles.
    #[error(transparent)]
    Profiles(#[from] DecodeError),
}

impl DataError {
    /// Returns true if the data would take too much memory.
    pub fn is_too_large(&self) -> bool {
        matches!(self, DataError::Wire(WireError::TooLarge { .. }))
    }
}

/// One batch of telemetry, as OTLP's messages.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Log records by resource and scope.
    Logs(Payload<LogsData>),
    /// Metrics by resource and scope.
    Metrics(Payload<MetricsData>),
    /// Spans by resource and scope.
    Traces(Payload<TracesData>),
    /// Profiles by resource and scope, and the dictionary that they refer to.
    Profiles(Payload<ProfilesData>),
}

impl Data {
    /// Returns the signal of this data.
    pub fn signal(&self) -> Signal {
        match self {
            Data::Logs(_) => Signal::Logs,
            Data::Metrics(_) => Signal::Metrics,
            Data::Traces(_) => Signal::Traces,
            Data::Profiles(_) => Signal::Profiles,
        }
    }

    /// Takes the protobuf encoding of a signal's data or export request, which are the same. The bytes are checked now
    /// and decoded when they are first read; profiles are decoded now.
    ///
    /// # Errors
    ///
    /// If the bytes are not a valid message.
    pub fn decode(signal: Signal, bytes: impl Buf) -> Result<Data, DataError> {
        Data::decode_within(signal, bytes, usize::MAX)
    }

    /// As [`decode`](Data::decode), of bytes that may take `decoded_bytes_max` bytes of memory when they are decoded, without
    /// texts: an empty span of two bytes takes hundreds.
    ///
    /// # Errors
    ///
    /// If the bytes are not a valid message, or would take more memory ([`DataError::is_too_large`]).
    pub fn decode_within(
        signal: Signal,
        mut bytes: impl Buf,
        decoded_bytes_max: usize,
    ) -> Result<Data, DataError> {
        let bytes = bytes.copy_to_bytes(bytes.remaining());
        let items = wire::check(signal, &bytes, decoded_bytes_max)?;
        Ok(match signal {
            Signal::Logs => Data::Logs(Payload::from_wire(bytes, items)),
            Signal::Metrics => Data::Metrics(Payload::from_wire(bytes, items)),
            Signal::Traces => Data::Traces(Payload::from_wire(bytes, items)),
            Signal::Profiles => Data::Profiles(Payload::new(ProfilesData::decode(bytes)?)),
        })
    }

    /// Appends another batch to this one, as bytes if neither has been changed.
    ///
    /// # Errors
    ///
    /// Returns `more` if it is of another signal, or if both are profiles, whose dictionaries cannot be combined.
    pub fn append(&mut self, more: Data) -> Result<(), Data> {
        match (self, more) {
            (Data::Logs(d), Data::Logs(more)) => d.append(more),
            (Data::Metrics(d), Data::Metrics(more)) => d.append(more),
            (Data::Traces(d), Data::Traces(more)) => d.append(more),
            (_, more) => return Err(more),
        }
        Ok(())
    }

    /// Returns the size as protobuf, in bytes.
    pub fn encoded_len(&self) -> usize {
        with_payload!(self, d => d.encoded_len())
    }

    /// Appends the protobuf encoding to a buffer that grows as needed.
    pub fn encode(&self, out: &mut impl BufMut) {
        with_payload!(self, d => d.encode(out))
    }

    /// Returns the protobuf encoding in parts whose concatenation is the message: those that were received, if nothing
    /// was changed.
    pub fn to_parts(&self) -> Vec<Bytes> {
        with_payload!(self, d => d.to_parts())
    }

    /// Returns the number of log records, metric points, spans or profile samples.
    pub fn items(&self) -> usize {
        match self {
            Data::Logs(d) => d.items().unwrap_or_else(|| sum_items(&**d, |_| 1)),
            Data::Metrics(d) => d.items().unwrap_or_else(|| sum_items(&**d, points)),
            Data::Traces(d) => d.items().unwrap_or_else(|| sum_items(&**d, |_| 1)),
            Data::Profiles(d) => d.items().unwrap_or_else(|| sum_items(&**d, |p| p.samples.len())),
        }
    }
}

/// The type of the items of a signal.
type ItemOf<T> = <<<T as Group>::Part as Group>::Part as Group>::Part;

fn sum_items<T: Telemetry>(data: &T, count: impl Fn(&ItemOf<T>) -> usize) -> usize {
    data.parts().iter().flat_map(Group::parts).flat_map(Group::parts).map(count).sum()
}

fn points(metric: &Metric) -> usize {
    metric.data.as_ref().map_or(0, |data| with_points!(data, points => points.data_points.len()))
}
