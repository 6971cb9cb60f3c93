//! Metric points that are not recorded by instruments: aggregates of the kernel, and internal telemetry.
//!
//! Each point belongs to a metric of the registry, and the metric's kind determines the type of the point.

use instrumentation::TimeRange;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, Sum, metric,
};
use probe_abi::histogram::{BUCKETS, OFFSET, SCALE, ZERO_NS};

/// Returns a string attribute.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(value.into())) };
    KeyValue { key: key.to_owned(), value: Some(value), key_strindex: 0 }
}

/// Returns an integer attribute.
pub(crate) fn integer(key: &str, value: i64) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::IntValue(value)) };
    KeyValue { key: key.to_owned(), value: Some(value), key_strindex: 0 }
}

/// Returns a boolean attribute with the value true.
pub(crate) fn truth(key: &str) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::BoolValue(true)) };
    KeyValue { key: key.to_owned(), value: Some(value), key_strindex: 0 }
}

/// Returns a sum metric with one point per attribute set.
pub(crate) fn sums(
    metric: semconv::Counter,
    window: TimeRange,
    values: Vec<(Vec<KeyValue>, Value)>,
) -> Metric {
    let data_points =
        values.into_iter().map(|(attributes, value)| number(window, attributes, value)).collect();
    let sum = Sum { data_points, aggregation_temporality: CUMULATIVE, is_monotonic: true };
    described(&metric, metric::Data::Sum(sum))
}

/// Returns a gauge metric with one point per attribute set.
pub(crate) fn gauges(
    metric: semconv::Gauge,
    window: TimeRange,
    values: Vec<(Vec<KeyValue>, Value)>,
) -> Metric {
    let now = TimeRange { start: 0, ..window };
    let data_points = values.into_iter().map(|(attributes, value)| number(now, attributes, value)).collect();
    described(&metric, metric::Data::Gauge(Gauge { data_points }))
}

/// Returns a histogram metric with one point per attribute set.
pub(crate) fn histograms(
    metric: semconv::Histogram,
    window: TimeRange,
    values: Vec<(Vec<KeyValue>, Durations)>,
) -> Metric {
    distributions(
        metric,
        values.into_iter().map(|(attributes, value)| value.point(window, attributes)).collect(),
    )
}

/// Returns a histogram metric with these points.
pub(crate) fn distributions(
    metric: semconv::Histogram,
    data_points: Vec<ExponentialHistogramDataPoint>,
) -> Metric {
    let histogram = ExponentialHistogram { data_points, aggregation_temporality: CUMULATIVE };
    described(&metric, metric::Data::ExponentialHistogram(histogram))
}

/// Returns a count as the value of a point, limited to the largest integer of OTLP.
pub(crate) fn count(value: u64) -> Value {
    Value::AsInt(i64::try_from(value).unwrap_or(i64::MAX))
}

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

fn described(metric: &semconv::Metric, data: metric::Data) -> Metric {
    Metric {
        name: metric.name().to_owned(),
        description: metric.description().to_owned(),
        unit: metric.unit().to_owned(),
        metadata: Vec::new(),
        data: Some(data),
    }
}

fn number(window: TimeRange, attributes: Vec<KeyValue>, value: Value) -> NumberDataPoint {
    NumberDataPoint {
        attributes,
        start_time_unix_nano: window.start,
        time_unix_nano: window.time,
        exemplars: Vec::new(),
        flags: 0,
        value: Some(value),
    }
}

/// Durations counted in the buckets of [`probe_abi::histogram`], with OTLP's bucket indices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Durations {
    pub(crate) sum_ns: u64,
    /// The maximum, if known.
    pub(crate) max_ns: Option<u64>,
    pub(crate) zero_count: u64,
    /// Index and count of each bucket that is not empty, sorted.
    pub(crate) buckets: Vec<(i32, u64)>,
}

impl Durations {
    /// Replaces the buckets. Indices that the kernel's histogram does not have are ignored.
    pub(crate) fn set_buckets(&mut self, buckets: &[(i32, u64)]) {
        self.buckets.clear();
        let known = OFFSET..OFFSET + BUCKETS as i32;
        let valid = buckets.iter().filter(|(index, count)| known.contains(index) && *count > 0);
        valid.for_each(|&(index, count)| self.add_to(index, count));
    }

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().fold(self.zero_count, |sum, (_, count)| sum.saturating_add(*count))
    }

    /// Returns the median in s with an error of at most 9 %: the middle of its bucket. `None` if nothing is
    /// counted.
    pub(crate) fn median_s(&self) -> Option<f64> {
        let half = self.count().checked_sub(1)? / 2;
        let mut below = self.zero_count;
        if half < below {
            return Some(0.0);
        }
        let (index, _) = self.buckets.iter().find(|(_, count)| {
            below = below.saturating_add(*count);
            half < below
        })?;
        Some(((f64::from(*index) + 0.5) * (-f64::from(SCALE)).exp2()).exp2())
    }

    /// Counts a duration.
    pub(crate) fn add(&mut self, ns: u64) {
        self.sum_ns = self.sum_ns.saturating_add(ns);
        self.max_ns = Some(self.max_ns.map_or(ns, |max| max.max(ns)));
        match probe_abi::histogram::slot(ns) {
            0 => self.zero_count += 1,
            index => self.add_to(OFFSET + index as i32 - 1, 1),
        }
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: &Durations) {
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.zero_count = self.zero_count.saturating_add(other.zero_count);
        other.buckets.iter().for_each(|&(index, count)| self.add_to(index, count));
    }

    /// Subtracts the counts of `other`. The maximum becomes unknown if it may have been one of them.
    pub(crate) fn subtract(&mut self, other: &Durations) {
        self.sum_ns = self.sum_ns.saturating_sub(other.sum_ns);
        self.max_ns = self.max_ns.filter(|max| other.max_ns.is_none_or(|theirs| theirs < *max));
        self.zero_count = self.zero_count.saturating_sub(other.zero_count);
        for &(index, count) in &other.buckets {
            if let Ok(at) = self.buckets.binary_search_by_key(&index, |b| b.0) {
                self.buckets[at].1 = self.buckets[at].1.saturating_sub(count);
            }
        }
        self.buckets.retain(|(_, count)| *count > 0);
    }

    #[inline]
    fn add_to(&mut self, index: i32, count: u64) {
        match self.buckets.binary_search_by_key(&index, |b| b.0) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (index, count)),
        }
    }

    fn point(self, window: TimeRange, attributes: Vec<KeyValue>) -> ExponentialHistogramDataPoint {
        ExponentialHistogramDataPoint {
            attributes,
            start_time_unix_nano: window.start,
            time_unix_nano: window.time,
            count: self.count(),
            sum: Some(seconds(self.sum_ns)),
            scale: SCALE,
            zero_count: self.zero_count,
            positive: Some(dense(&self.buckets)),
            negative: None,
            flags: 0,
            exemplars: Vec::new(),
            min: None,
            max: self.max_ns.map(seconds),
            zero_threshold: zero_threshold(),
        }
    }
}

/// Converts nanoseconds to seconds.
pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns the lower bound of the first bucket, 2^-24 s; [`ZERO_NS`] is the same in whole nanoseconds.
fn zero_threshold() -> f64 {
    let threshold = (-24f64).exp2();
    debug_assert_eq!((threshold * 1e9) as u64, ZERO_NS);
    threshold
}

/// Returns the buckets from the first to the last, including empty ones.
fn dense(buckets: &[(i32, u64)]) -> Buckets {
    let (Some((first, _)), Some((last, _))) = (buckets.first(), buckets.last()) else {
        return Buckets::default();
    };
    let mut bucket_counts = vec![0; (last - first) as usize + 1];
    for (index, count) in buckets {
        bucket_counts[(index - first) as usize] = *count;
    }
    Buckets { offset: *first, bucket_counts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(durations: &[u64]) -> Durations {
        let mut all = Durations::default();
        durations.iter().for_each(|ns| all.add(*ns));
        all
    }

    fn bounds(point: &ExponentialHistogramDataPoint, at: usize) -> (f64, f64) {
        let index = point.positive.as_ref().unwrap().offset + at as i32;
        let bound = |i: i32| (f64::from(i) / f64::from(1 << point.scale)).exp2();
        (bound(index), bound(index + 1))
    }

    #[test]
    fn a_duration_is_counted_in_its_bucket() {
        let durations: Vec<u64> = (0..400).map(|i| 20 + i * i * 7_919).collect();
        let point = of(&durations).point(TimeRange { start: 1, time: 2 }, Vec::new());
        let zeros = durations.iter().filter(|ns| seconds(**ns) <= point.zero_threshold).count();
        assert_eq!((point.count, point.zero_count), (400, zeros as u64));
        for (at, count) in point.positive.clone().unwrap().bucket_counts.into_iter().enumerate() {
            let (low, high) = bounds(&point, at);
            let inside = |ns: &&u64| seconds(**ns) > low && seconds(**ns) <= high;
            assert_eq!(count, durations.iter().filter(inside).count() as u64, "({low}, {high}]");
        }
        assert_eq!(point.sum, Some(durations.iter().sum::<u64>() as f64 / 1e9));
        assert_eq!(point.max, Some(seconds(*durations.last().unwrap())));
    }

    #[test]
    fn merged_counts_are_added() {
        let mut merged = of(&[10, 5_000, 70_000]);
        merged.merge(&of(&[5_001, 9_000_000]));
        assert_eq!(merged, of(&[10, 5_000, 70_000, 5_001, 9_000_000]));
    }

    #[test]
    fn subtracted_counts_leave_the_rest() {
        let mut rest = of(&[10, 5_000, 70_000, 9_000_000]);
        rest.subtract(&of(&[10, 70_000]));
        assert_eq!(rest, of(&[5_000, 9_000_000]));
        rest.subtract(&of(&[9_000_000]));
        assert_eq!(rest, Durations { max_ns: None, ..of(&[5_000]) });
    }

    #[test]
    fn the_median_is_the_middle_of_its_bucket() {
        assert_eq!(Durations::default().median_s(), None);
        assert_eq!(of(&[5, 10, 9_000_000]).median_s(), Some(0.0), "too short to tell apart");
        for (durations, middle) in
            [(&[80_000][..], 80e-6), (&[1_000, 80_000, 31_000_000], 80e-6), (&[5, 1_000, 2_000, 9_000], 1e-6)]
        {
            let median = of(durations).median_s().unwrap();
            assert!((median / middle - 1.0).abs() < 0.1, "{median} of {durations:?}");
        }
    }

    #[test]
    fn counts_are_limited_to_the_range_of_otlp() {
        assert_eq!(count(u64::MAX), Value::AsInt(i64::MAX));
    }
}
