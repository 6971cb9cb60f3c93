//! Makes what the SDK collected the same each time: event time instead of the wall's, and everything in order.
//!
//! The SDK keeps attributes and series in hash maps, and takes the time where it is called.

use std::cmp::Ordering;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, Metric, NumberDataPoint, metric,
};

/// What all points of one collection share, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Since when sums add up.
    pub start: u64,
    /// The collection.
    pub time: u64,
}

/// The key of the series that stands for all that are beyond a metric's bound (metrics SDK, "Overflow attribute").
pub const OVERFLOW: &str = "otel.metric.overflow";

/// Sorts metrics, their points and their attributes, and puts them into `window`.
pub fn tidy(metrics: &mut [Metric], window: Window) {
    tidy_each(metrics, window.time, &|_, _| window.start);
}

/// The same where sums began to add up at different times: `start` says it of a series by its
/// metric and attributes.
pub fn tidy_each(metrics: &mut [Metric], time: u64, start: Start<'_>) {
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

/// Since when the sum of the series of this metric with these attributes adds up, in nanoseconds since 1970.
type Start<'a> = &'a dyn Fn(&str, &[KeyValue]) -> u64;

/// How many of the series stand for others.
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
        // Durations are never below zero; an empty half says nothing.
        point.negative.take_if(|b| *b == Buckets::default());
    }
    points.sort_by(|a, b| order(&a.attributes, &b.attributes));
}

/// By keys and values, pair by pair.
fn order(a: &[KeyValue], b: &[KeyValue]) -> Ordering {
    a.iter().map(pair).cmp(b.iter().map(pair))
}

fn pair(attribute: &KeyValue) -> (&str, &str) {
    (&attribute.key, text(attribute.value.as_ref()))
}

/// Our metrics' attributes are texts, and the overflow's `true`.
fn text(value: Option<&AnyValue>) -> &str {
    match value.and_then(|v| v.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        _ => "",
    }
}
