//! Exponential histograms of numbers: blocks of a grid, threads of a block.

use std::collections::BTreeMap;

use instrumentation::TimeRange;
use opentelemetry_proto::tonic::metrics::v1::ExponentialHistogramDataPoint;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;

/// Scale of the histograms: four buckets for each doubling. Powers of two are upper bounds of buckets.
const SCALE: i32 = 2;

/// A histogram of numbers. It has at most four buckets for each of 64 doublings.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    /// Counts by OTLP's index of the bucket.
    buckets: BTreeMap<i32, u64>,
    zeroes: u64,
    count: u64,
    sum: f64,
    range: Option<(u64, u64)>,
}

impl Sizes {
    /// Adds a number that occurred `times` times.
    pub(super) fn add(&mut self, size: u64, times: u64) {
        if times == 0 {
            return;
        }
        match size {
            0 => self.zeroes += times,
            _ => *self.buckets.entry(index(size)).or_default() += times,
        }
        self.count += times;
        self.sum += size as f64 * times as f64;
        let (least, most) = self.range.unwrap_or((size, size));
        self.range = Some((least.min(size), most.max(size)));
    }

    /// Returns true if nothing was added.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the point of a cumulative metric.
    pub(super) fn point(&self, window: TimeRange) -> ExponentialHistogramDataPoint {
        let first = self.buckets.keys().next().copied().unwrap_or_default();
        let last = self.buckets.keys().next_back().copied().unwrap_or(first - 1);
        let counts = (first..=last).map(|at| self.buckets.get(&at).copied().unwrap_or_default());
        ExponentialHistogramDataPoint {
            start_time_unix_nano: window.start,
            time_unix_nano: window.time,
            count: self.count,
            sum: Some(self.sum),
            scale: SCALE,
            zero_count: self.zeroes,
            positive: Some(Buckets { offset: first, bucket_counts: counts.collect() }),
            min: self.range.map(|(least, _)| least as f64),
            max: self.range.map(|(_, most)| most as f64),
            ..ExponentialHistogramDataPoint::default()
        }
    }
}

/// Returns OTLP's index of a number's bucket, whose upper bound is inclusive.
fn index(size: u64) -> i32 {
    ((size as f64).log2() * f64::from(1 << SCALE)).ceil() as i32 - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_upper_bounds() {
        assert_eq!([1, 2, 3, 4, 5, 1 << 20].map(index), [-1, 3, 6, 7, 9, 79]);
    }

    #[test]
    fn points_have_every_size() {
        let mut sizes = Sizes::default();
        [(256, 3), (128, 2), (0, 1), (7, 0)].into_iter().for_each(|(size, times)| sizes.add(size, times));
        let point = sizes.point(TimeRange { start: 1, time: 2 });
        let buckets = point.positive.unwrap();
        assert_eq!((point.count, point.sum, point.zero_count), (6, Some(1024.0), 1));
        assert_eq!((buckets.offset, buckets.bucket_counts), (27, vec![2, 0, 0, 0, 3]));
        assert_eq!((point.min, point.max), (Some(0.0), Some(256.0)));
    }
}
