//! Putting batches together, and cutting one off the front: exactly so many items, or at most so many bytes,
//! in the order they came, with everything that an item belongs to — resource, scope, metric — on both sides
//! of the cut.
//!
//! The one idea: a batch is lists in lists, so that a cut through a list is a cut through one of its parts.
//! Profiles are neither joined nor cut: what they hold are numbers in a dictionary of their own.

use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use pdata::Data;
use pdata::Payload;
use prost::Message;

/// What a cut counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Log records, metric points, spans.
    Items,
    /// Bytes as protobuf.
    Bytes,
}

/// True for data that can be joined and cut.
pub fn is_divisible(data: &Data) -> bool {
    !matches!(data, Data::Profiles(_))
}

/// Appends `more` to `held`. Both are of one signal, and can be joined. What nobody looked into stays bytes.
pub fn append(held: &mut Data, more: Data) {
    let Err(more) = held.join(more) else { return };
    match (held, more) {
        (Data::Logs(held), Data::Logs(more)) => {
            held.make_mut().resource_logs.append(&mut more.into_inner().resource_logs);
        }
        (Data::Metrics(held), Data::Metrics(more)) => {
            held.make_mut().resource_metrics.append(&mut more.into_inner().resource_metrics);
        }
        (Data::Traces(held), Data::Traces(more)) => {
            held.make_mut().resource_spans.append(&mut more.into_inner().resource_spans);
        }
        (held, more) => unreachable!("{:?} cannot be joined to {:?}", more.signal(), held.signal()),
    }
}

/// Cuts off the first `items` items, of which `data` must have more.
pub fn split_front(data: &mut Data, items: usize) -> Data {
    split_front_by(data, items, Unit::Items)
}

/// Cuts off a front of at most `most`, which `data` must be larger than; of one item where not even that fits.
pub fn split_front_by(data: &mut Data, most: usize, unit: Unit) -> Data {
    match data {
        Data::Logs(d) => {
            let resource_logs = cut(&mut d.make_mut().resource_logs, most, unit);
            Data::Logs(Payload::new(LogsData { resource_logs }))
        }
        Data::Metrics(d) => {
            let resource_metrics = cut(&mut d.make_mut().resource_metrics, most, unit);
            Data::Metrics(Payload::new(MetricsData { resource_metrics }))
        }
        Data::Traces(d) => {
            let resource_spans = cut(&mut d.make_mut().resource_spans, most, unit);
            Data::Traces(Payload::new(TracesData { resource_spans }))
        }
        Data::Profiles(_) => unreachable!("profiles are not cut"),
    }
}

fn cut<P: Part>(parts: &mut Vec<P>, most: usize, unit: Unit) -> Vec<P> {
    let front = take_front(parts, most, unit);
    if front.is_empty() { take_front(parts, 1, Unit::Items) } else { front }
}

/// A part of a batch: an item, or what holds items.
trait Part: Sized {
    /// The items inside.
    fn items(&self) -> usize;

    /// The bytes of it, without what frames it in what holds it.
    fn bytes(&self) -> usize;

    /// Cuts off a front of at most `most`, which this is larger than; none where no item fits.
    fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self>;

    /// What it takes of a cut.
    fn cost(&self, unit: Unit) -> usize {
        match unit {
            Unit::Items => self.items(),
            Unit::Bytes => framed(self.bytes()),
        }
    }
}

/// A message within another: its tag, which is one byte for every field here, its length, itself.
fn framed(bytes: usize) -> usize {
    1 + prost::length_delimiter_len(bytes) + bytes
}

/// The most bytes that frame a message.
const FRAME_BYTES_MAX: usize = 6;

/// What is left of `most` for the parts of a holder of so many bytes, of which so many are its parts.
fn left_for_parts(most: usize, unit: Unit, holder_bytes: usize, parts_bytes: usize) -> Option<usize> {
    match unit {
        Unit::Items => Some(most),
        Unit::Bytes => most.checked_sub(FRAME_BYTES_MAX + holder_bytes - parts_bytes),
    }
}

/// Takes whole parts as long as they fit, then as much of the next one as still fits.
fn take_front<P: Part>(parts: &mut Vec<P>, most: usize, unit: Unit) -> Vec<P> {
    let mut left = most;
    let fits = |part: &&P| {
        let cost = part.cost(unit);
        let fits = left > 0 && cost <= left;
        left -= if fits { cost } else { 0 };
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

/// An item: it is not cut.
macro_rules! item {
    ($($type:ty)*) => {$(
        impl Part for $type {
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

/// What holds a list of parts: the list is cut, everything else stands on both sides.
macro_rules! holder {
    ($($type:ident . $list:ident, copying $($field:ident)*;)*) => {$(
        impl Part for $type {
            fn items(&self) -> usize {
                self.$list.iter().map(Part::items).sum()
            }
            fn bytes(&self) -> usize {
                self.encoded_len()
            }
            fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self> {
                let parts = || self.$list.iter().map(|part| part.cost(Unit::Bytes)).sum();
                let left = match unit {
                    Unit::Items => most,
                    Unit::Bytes => left_for_parts(most, unit, self.encoded_len(), parts())?,
                };
                let front = take_front(&mut self.$list, left, unit);
                (!front.is_empty()).then(|| $type { $list: front, $($field: self.$field.clone(),)* })
            }
        }
    )*};
}

item!(LogRecord Span NumberDataPoint HistogramDataPoint ExponentialHistogramDataPoint SummaryDataPoint);
holder! {
    ResourceLogs.scope_logs, copying resource schema_url;
    ScopeLogs.log_records, copying scope schema_url;
    ResourceMetrics.scope_metrics, copying resource schema_url;
    ScopeMetrics.metrics, copying scope schema_url;
    Gauge.data_points, copying;
    Sum.data_points, copying aggregation_temporality is_monotonic;
    Histogram.data_points, copying aggregation_temporality;
    ExponentialHistogram.data_points, copying aggregation_temporality;
    Summary.data_points, copying;
    ResourceSpans.scope_spans, copying resource schema_url;
    ScopeSpans.spans, copying scope schema_url;
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
        let left = left_for_parts(most, unit, bytes, data.cost(Unit::Bytes))?;
        let front = data.split_front(left, unit)?;
        let Metric { name, description, unit, metadata, .. } = self;
        let (name, description, unit) = (name.clone(), description.clone(), unit.clone());
        Some(Metric { name, description, unit, metadata: metadata.clone(), data: Some(front) })
    }
}

/// Calls the same on whatever kind of metric it is.
macro_rules! of_kind {
    ($data:expr, $part:ident => $call:expr) => {
        match $data {
            MetricData::Gauge($part) => $call,
            MetricData::Sum($part) => $call,
            MetricData::Histogram($part) => $call,
            MetricData::ExponentialHistogram($part) => $call,
            MetricData::Summary($part) => $call,
        }
    };
}

impl Part for MetricData {
    fn items(&self) -> usize {
        of_kind!(self, part => part.items())
    }

    fn bytes(&self) -> usize {
        of_kind!(self, part => part.bytes())
    }

    fn split_front(&mut self, most: usize, unit: Unit) -> Option<Self> {
        Some(match self {
            MetricData::Gauge(part) => MetricData::Gauge(part.split_front(most, unit)?),
            MetricData::Sum(part) => MetricData::Sum(part.split_front(most, unit)?),
            MetricData::Histogram(part) => MetricData::Histogram(part.split_front(most, unit)?),
            MetricData::ExponentialHistogram(part) => {
                MetricData::ExponentialHistogram(part.split_front(most, unit)?)
            }
            MetricData::Summary(part) => MetricData::Summary(part.split_front(most, unit)?),
        })
    }
}

#[cfg(test)]
mod tests;
