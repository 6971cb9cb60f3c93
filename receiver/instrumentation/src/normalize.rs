//! Normalization of collected metrics: event time in place of wall-clock time, and a stable order.
//!
//! The SDK stores attributes and series in hash maps and reads the wall clock, so that its output differs between runs.

use std::cmp::Ordering;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, Metric, NumberDataPoint, metric,
};

/// Start and end time of the points of one collection, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct TimeRange {
    /// Start time of sums.
    pub start: u64,
    /// Time of the collection.
    pub time: u64,
}

/// Attribute of the series that replaces those above a metric's cardinality limit (metrics SDK, "Overflow attribute").
pub const OVERFLOW: &str = "otel.metric.overflow";

/// Sorts metrics, points and attributes, and sets the times of all points to `range`.
pub fn normalize(metrics: &mut [Metric], range: TimeRange) {
    normalize_with_start(metrics, range.time, &|_, _| range.start);
}

/// Sorts metrics, points and attributes, and sets the times of all points: the end to `time`, the start of a sum to
/// what `start` returns for its metric and attributes.
pub fn normalize_with_start(metrics: &mut [Metric], time: u64, start: Start<'_>) {
    metrics.sort_by(|a, b| a.name.cmp(&b.name));
    for metric in metrics {
        let start = |attributes: &[KeyValue]| start(&metric.name, attributes);
        match metric.data.as_mut() {
            Some(metric::Data::Gauge(gauge)) => numbers(&mut gauge.data_points, time, &|_| 0),
            Some(metric::Data::Sum(sum)) => numbers(&mut sum.data_points, time, &start),
            Some(metric::Data::ExponentialHistogram(h)) => distributions(&mut h.data_points, time, &start),
            _ => {}
        }
    }
}

/// Returns the start time of a series, in nanoseconds since 1970, from its metric name and attributes.
type Start<'a> = &'a dyn Fn(&str, &[KeyValue]) -> u64;

/// Returns the number of overflow series.
pub fn overflowing(metrics: &[Metric]) -> u64 {
    let overflows = |attributes: &[KeyValue]| attributes.iter().any(|a| a.key == OVERFLOW);
    let count = |metric: &Metric| match metric.data.as_ref() {
        Some(metric::Data::Gauge(g)) => g.data_points.iter().filter(|p| overflows(&p.attributes)).count(),
        Some(metric::Data::Sum(s)) => s.data_points.iter().filter(|p| overflows(&p.attributes)).count(),
        Some(metric::Data::ExponentialHistogram(h)) => {
            h.data_points.iter().filter(|p| overflows(&p.attributes)).count()
        }
        _ => 0,
    };
    metrics.iter().map(|m| count(m) as u64).sum()
}

fn numbers(points: &mut [NumberDataPoint], time: u64, start: &dyn Fn(&[KeyValue]) -> u64) {
    for point in points.iter_mut() {
        point.attributes.sort_by(|a, b| a.key.cmp(&b.key));
        (point.start_time_unix_nano, point.time_unix_nano) = (start(&point.attributes), time);
    }
    points.sort_by(|a, b| order(&a.attributes, &b.attributes));
}

fn distributions(
    points: &mut [ExponentialHistogramDataPoint],
    time: u64,
    start: &dyn Fn(&[KeyValue]) -> u64,
) {
    for point in points.iter_mut() {
        point.attributes.sort_by(|a, b| a.key.cmp(&b.key));
        (point.start_time_unix_nano, point.time_unix_nano) = (start(&point.attributes), time);
        // Durations are never negative.
        point.negative.take_if(|b| *b == Buckets::default());
    }
    points.sort_by(|a, b| order(&a.attributes, &b.attributes));
}

/// Compares attributes by keys and values.
fn order(a: &[KeyValue], b: &[KeyValue]) -> Ordering {
    a.iter().map(pair).cmp(b.iter().map(pair))
}

fn pair(attribute: &KeyValue) -> (&str, &str) {
    (&attribute.key, text(attribute.value.as_ref()))
}

/// Returns the text of a value; attributes of the registry are texts, except that the overflow attribute is `true`.
fn text(value: Option<&AnyValue>) -> &str {
    match value.and_then(|v| v.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        _ => "",
    }
}
