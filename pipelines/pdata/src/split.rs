//! Splitting data: removing a front of at most a number of items or bytes, in their order. The resource, scope and
//! metric of the items are copied to both sides.
//!
//! Data is lists within lists, so a list is split by moving its first parts and splitting at most one. Profiles cannot be
//! split: they refer to a dictionary by index.

use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, SummaryDataPoint,
};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

use crate::shape::{Group, Points};
use crate::{Data, Payload, with_points};

/// The unit of a batch's size.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Log records, metric points, spans.
    Items,
    /// Bytes as protobuf.
    Bytes,
}

impl Data {
    /// Returns true if this data can be split and appended to.
    pub fn is_divisible(&self) -> bool {
        !matches!(self, Data::Profiles(_))
    }

    /// Removes the first `most` items or bytes from this data, which is larger, and returns them. Returns one item if
    /// no item fits.
    ///
    /// # Panics
    ///
    /// If this data is not divisible.
    pub fn split_front(&mut self, most: usize, unit: Unit) -> Data {
        match self {
            Data::Logs(d) => Data::Logs(split(d, most, unit)),
            Data::Metrics(d) => Data::Metrics(split(d, most, unit)),
            Data::Traces(d) => Data::Traces(split(d, most, unit)),
            Data::Profiles(_) => unreachable!("profiles are not split"),
        }
    }
}

fn split<T: Group<Part: Part>>(payload: &mut Payload<T>, most: usize, unit: Unit) -> Payload<T> {
    let mut front = T::default();
    *front.parts_mut() = cut(payload.make_mut().parts_mut(), most, unit);
    Payload::new(front)
}

fn cut<P: Part>(parts: &mut Vec<P>, most: usize, unit: Unit) -> Vec<P> {
    let front = take_front(parts, most, unit);
    if front.is_empty() { take_front(parts, 1, Unit::Items) } else { front }
}

/// A part of a batch: an item, or a message that contains items.
trait Part: Sized {
    /// Returns the number of items.
    fn items(&self) -> usize;

    /// Returns the length of the message in bytes, without its tag and length prefix.
    fn bytes(&self) -> usize;

    /// Removes a front of at most `most`, which this part is larger than; none if no item fits.
    fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self>;

    /// Returns the size of this part within the message that contains it.
    fn size(&self, unit: Unit) -> usize {
        match unit {
            Unit::Items => self.items(),
            Unit::Bytes => framed(self.bytes()),
        }
    }
}

/// Returns the length of a message within another: a tag of one byte, the length prefix, the message.
fn framed(bytes: usize) -> usize {
    1 + prost::length_delimiter_len(bytes) + bytes
}

/// The largest length of a tag and a length prefix.
const FRAME_BYTES_MAX: usize = 6;

/// Returns how much of `most` is available for the parts of a message, of whose bytes `parts_bytes` are its parts.
fn left_for_parts(most: usize, unit: Unit, bytes: usize, parts_bytes: usize) -> Option<usize> {
    match unit {
        Unit::Items => Some(most),
        Unit::Bytes => most.checked_sub(FRAME_BYTES_MAX + bytes - parts_bytes),
    }
}

/// Removes whole parts while they fit, then as much of the next part as fits.
fn take_front<P: Part>(parts: &mut Vec<P>, most: usize, unit: Unit) -> Vec<P> {
    let mut left = most;
    let fits = |part: &&P| {
        let size = part.size(unit);
        let fits = left > 0 && size <= left;
        left -= if fits { size } else { 0 };
        fits
    };
    let whole = parts.iter().take_while(fits).count();
    let mut front: Vec<P> = parts.drain(..whole).collect();
    if left > 0
        && let Some(next) = parts.first_mut()
    {
        front.extend(next.split_front(left, unit));
    }
    front
}

macro_rules! items {
    ($($item:ident)*) => {$(
        impl Part for $item {
            fn items(&self) -> usize {
                1
            }

            fn bytes(&self) -> usize {
                self.encoded_len()
            }

            fn split_front(&mut self, _: usize, _: Unit) -> Option<Self> {
                None
            }
        }
    )*};
}

items!(LogRecord Span NumberDataPoint HistogramDataPoint ExponentialHistogramDataPoint SummaryDataPoint);

impl<G: Group<Part: Part>> Part for G {
    fn items(&self) -> usize {
        self.parts().iter().map(Part::items).sum()
    }

    fn bytes(&self) -> usize {
        self.encoded_len()
    }

    fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self> {
        let left = match unit {
            Unit::Items => most,
            Unit::Bytes => {
                let parts = self.parts().iter().map(|part| part.size(Unit::Bytes)).sum();
                left_for_parts(most, unit, self.encoded_len(), parts)?
            }
        };
        let parts = take_front(self.parts_mut(), left, unit);
        (!parts.is_empty()).then(|| {
            let mut front = self.without_parts();
            *front.parts_mut() = parts;
            front
        })
    }
}

impl Part for Metric {
    fn items(&self) -> usize {
        self.data.as_ref().map_or(0, Part::items)
    }

    fn bytes(&self) -> usize {
        self.encoded_len()
    }

    fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self> {
        let bytes = self.encoded_len();
        let data = self.data.as_mut()?;
        let left = left_for_parts(most, unit, bytes, data.size(Unit::Bytes))?;
        let front = data.split_front(left, unit)?;
        let Metric { name, description, unit, metadata, .. } = self;
        let (name, description, unit) = (name.clone(), description.clone(), unit.clone());
        Some(Metric { name, description, unit, metadata: metadata.clone(), data: Some(front) })
    }
}

impl Part for MetricData {
    fn items(&self) -> usize {
        with_points!(self, part => part.items())
    }

    fn bytes(&self) -> usize {
        with_points!(self, part => part.bytes())
    }

    fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self> {
        with_points!(self, part => part.split_front(most, unit).map(Points::into_data))
    }
}

#[cfg(test)]
mod tests;
