//! Putting batches together, and cutting one off the front: exactly so many items, in the order they came,
//! with everything that an item belongs to — resource, scope, metric — on both sides of the cut.
//!
//! The one idea: a batch is lists in lists, so that a cut through a list is a cut through one of its parts.

use std::sync::Arc;

use component::Data;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric,
    MetricsData, NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, Summary, SummaryDataPoint,
};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};

/// Appends `more` to `held`. Both are of one signal: a pipeline carries no other.
pub(super) fn append(held: &mut Data, more: Data) {
    match (held, more) {
        (Data::Logs(held), Data::Logs(more)) => {
            Arc::make_mut(held).resource_logs.append(&mut Arc::unwrap_or_clone(more).resource_logs);
        }
        (Data::Metrics(held), Data::Metrics(more)) => {
            Arc::make_mut(held).resource_metrics.append(&mut Arc::unwrap_or_clone(more).resource_metrics);
        }
        (Data::Traces(held), Data::Traces(more)) => {
            Arc::make_mut(held).resource_spans.append(&mut Arc::unwrap_or_clone(more).resource_spans);
        }
        (held, more) => unreachable!("{:?} in a pipeline of {:?}", more.signal(), held.signal()),
    }
}

/// Cuts off the first `items` items, of which `data` must have more.
pub(super) fn split_front(data: &mut Data, items: usize) -> Data {
    match data {
        Data::Logs(d) => {
            let resource_logs = take_front(&mut Arc::make_mut(d).resource_logs, items);
            Data::Logs(Arc::new(LogsData { resource_logs }))
        }
        Data::Metrics(d) => {
            let resource_metrics = take_front(&mut Arc::make_mut(d).resource_metrics, items);
            Data::Metrics(Arc::new(MetricsData { resource_metrics }))
        }
        Data::Traces(d) => {
            let resource_spans = take_front(&mut Arc::make_mut(d).resource_spans, items);
            Data::Traces(Arc::new(TracesData { resource_spans }))
        }
        // Profiles refer to one dictionary by index: they go out as they came in.
        Data::Profiles(d) => Data::Profiles(std::mem::take(d)),
    }
}

/// A part of a batch: an item, or what holds items.
trait Part: Sized {
    /// The items inside.
    fn items(&self) -> usize;

    /// Cuts off the first items, fewer than there are.
    fn split_front(&mut self, items: usize) -> Self;
}

/// Takes whole parts as long as they fit, then as much of the next one as still fits.
fn take_front<P: Part>(parts: &mut Vec<P>, items: usize) -> Vec<P> {
    let mut left = items;
    let fits = |part: &&P| {
        let size = part.items();
        let fits = left > 0 && size <= left;
        left -= if fits { size } else { 0 };
        fits
    };
    let whole = parts.iter().take_while(fits).count();
    let mut front: Vec<P> = parts.drain(..whole).collect();
    if left > 0
        && let Some(next) = parts.first_mut()
    {
        front.push(next.split_front(left));
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
            fn split_front(&mut self, _: usize) -> Self {
                unreachable!("a cut takes fewer items than there are")
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
            fn split_front(&mut self, items: usize) -> Self {
                $type { $list: take_front(&mut self.$list, items), $($field: self.$field.clone(),)* }
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

    fn split_front(&mut self, items: usize) -> Self {
        let Metric { name, description, unit, metadata, data } = self;
        let data = data.as_mut().map(|data| data.split_front(items));
        let (name, description, unit) = (name.clone(), description.clone(), unit.clone());
        Metric { name, description, unit, metadata: metadata.clone(), data }
    }
}

impl Part for MetricData {
    fn items(&self) -> usize {
        match self {
            MetricData::Gauge(part) => part.items(),
            MetricData::Sum(part) => part.items(),
            MetricData::Histogram(part) => part.items(),
            MetricData::ExponentialHistogram(part) => part.items(),
            MetricData::Summary(part) => part.items(),
        }
    }

    fn split_front(&mut self, items: usize) -> Self {
        match self {
            MetricData::Gauge(part) => MetricData::Gauge(part.split_front(items)),
            MetricData::Sum(part) => MetricData::Sum(part.split_front(items)),
            MetricData::Histogram(part) => MetricData::Histogram(part.split_front(items)),
            MetricData::ExponentialHistogram(part) => {
                MetricData::ExponentialHistogram(part.split_front(items))
            }
            MetricData::Summary(part) => MetricData::Summary(part.split_front(items)),
        }
    }
}

#[cfg(test)]
mod tests;
