//! The difference of two points of a series: numbers, histograms, and exponential histograms of any scale.

use std::mem::take;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::{
    DataPointFlags, ExponentialHistogramDataPoint, HistogramDataPoint, NumberDataPoint,
};

use super::series::Point;

/// The reason why a point is dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DropReason {
    /// The value is less than the previous one.
    Reset,
    /// The first point of its series.
    Initial,
    /// The bucket bounds differ from those of the previous point.
    BucketMismatch,
    /// The limit of series is reached.
    Full,
}

impl DropReason {
    /// Returns the value of the attribute `reason` of the counters.
    pub(super) fn reason(self) -> &'static str {
        match self {
            DropReason::Reset => "reset",
            DropReason::Initial => "initial",
            DropReason::BucketMismatch => "bucket_mismatch",
            DropReason::Full => "series_limit",
        }
    }
}

/// The stored state of a point.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Last {
    Int(i64),
    Double(f64),
    Histogram(Histogram),
    Exponential(Box<Exponential>),
}

impl Last {
    /// Returns the kind of value, which is a part of the series' identity.
    pub(super) fn kind(&self) -> u8 {
        match self {
            Last::Int(_) => 0,
            Last::Double(_) => 1,
            Last::Histogram(_) => 2,
            Last::Exponential(_) => 3,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Histogram {
    count: u64,
    sum: Option<f64>,
    bounds: Vec<f64>,
    counts: Vec<u64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Exponential {
    count: u64,
    sum: Option<f64>,
    scale: i32,
    zero_count: u64,
    zero_threshold: f64,
    positive: Buckets,
    negative: Buckets,
}

fn has_no_value(flags: u32) -> bool {
    flags & DataPointFlags::NoRecordedValueMask as u32 != 0
}

impl Point for NumberDataPoint {
    const KIND: &'static str = "sum";

    fn attributes(&self) -> &[KeyValue] {
        &self.attributes
    }

    fn times(&mut self) -> (&mut u64, u64) {
        (&mut self.start_time_unix_nano, self.time_unix_nano)
    }

    fn has_no_value(&self) -> bool {
        has_no_value(self.flags)
    }

    fn value(&self) -> Option<Last> {
        match self.value? {
            NumberValue::AsInt(n) => Some(Last::Int(n)),
            NumberValue::AsDouble(v) => (!v.is_nan()).then_some(Last::Double(v)),
        }
    }

    fn subtract(&mut self, last: &Last) -> Result<(), DropReason> {
        let difference = match (self.value, last) {
            (Some(NumberValue::AsInt(n)), Last::Int(last)) if n >= *last => {
                NumberValue::AsInt(n.checked_sub(*last).ok_or(DropReason::Reset)?)
            }
            (Some(NumberValue::AsDouble(v)), Last::Double(last)) if v >= *last => {
                NumberValue::AsDouble(v - last)
            }
            _ => return Err(DropReason::Reset),
        };
        self.value = Some(difference);
        Ok(())
    }

    fn remove_extremes(&mut self) {}
}

impl Point for HistogramDataPoint {
    const KIND: &'static str = "histogram";

    fn attributes(&self) -> &[KeyValue] {
        &self.attributes
    }

    fn times(&mut self) -> (&mut u64, u64) {
        (&mut self.start_time_unix_nano, self.time_unix_nano)
    }

    fn has_no_value(&self) -> bool {
        has_no_value(self.flags)
    }

    fn value(&self) -> Option<Last> {
        Some(Last::Histogram(Histogram {
            count: self.count,
            sum: self.sum,
            bounds: self.explicit_bounds.clone(),
            counts: self.bucket_counts.clone(),
        }))
    }

    fn subtract(&mut self, last: &Last) -> Result<(), DropReason> {
        let Last::Histogram(last) = last else { return Err(DropReason::BucketMismatch) };
        if self.explicit_bounds != last.bounds || self.bucket_counts.len() != last.counts.len() {
            return Err(DropReason::BucketMismatch);
        }
        self.count = less(self.count, last.count)?;
        for (count, last) in self.bucket_counts.iter_mut().zip(&last.counts) {
            *count = less(*count, *last)?;
        }
        self.sum = sum_difference(self.sum, last.sum);
        Ok(())
    }

    fn remove_extremes(&mut self) {
        (self.min, self.max) = (None, None);
    }
}

fn less(count: u64, last: u64) -> Result<u64, DropReason> {
    count.checked_sub(last).ok_or(DropReason::Reset)
}

/// Returns the difference of two sums; `None` if either is unknown.
fn sum_difference(sum: Option<f64>, last: Option<f64>) -> Option<f64> {
    Some(sum? - last?).filter(|difference| !difference.is_nan())
}

impl Point for ExponentialHistogramDataPoint {
    const KIND: &'static str = "exponential_histogram";

    fn attributes(&self) -> &[KeyValue] {
        &self.attributes
    }

    fn times(&mut self) -> (&mut u64, u64) {
        (&mut self.start_time_unix_nano, self.time_unix_nano)
    }

    fn has_no_value(&self) -> bool {
        has_no_value(self.flags)
    }

    fn value(&self) -> Option<Last> {
        Some(Last::Exponential(Box::new(Exponential {
            count: self.count,
            sum: self.sum,
            scale: self.scale,
            zero_count: self.zero_count,
            zero_threshold: self.zero_threshold,
            positive: self.positive.clone().unwrap_or_default(),
            negative: self.negative.clone().unwrap_or_default(),
        })))
    }

    /// Subtracts the previous point. A histogram may become coarser, and its zero bucket wider, without a restart;
    /// the previous point is converted to the same resolution first.
    fn subtract(&mut self, last: &Last) -> Result<(), DropReason> {
        let Last::Exponential(last) = last else { return Err(DropReason::BucketMismatch) };
        let mut last = Exponential::clone(last);
        if self.scale > last.scale || self.zero_threshold < last.zero_threshold {
            return Err(DropReason::Reset);
        }
        last.widen_zero(self.zero_threshold);
        last.coarsen(self.scale);
        self.count = less(self.count, last.count)?;
        self.zero_count = less(self.zero_count, last.zero_count)?;
        for (ours, last) in [(&mut self.positive, last.positive), (&mut self.negative, last.negative)] {
            let difference = buckets_difference(&take(ours).unwrap_or_default(), &last)?;
            *ours = Some(difference);
        }
        self.sum = sum_difference(self.sum, last.sum);
        Ok(())
    }

    fn remove_extremes(&mut self) {
        (self.min, self.max) = (None, None);
    }
}

impl Exponential {
    /// Moves buckets within a wider zero threshold to the zero bucket.
    fn widen_zero(&mut self, threshold: f64) {
        if threshold <= self.zero_threshold {
            return;
        }
        // Bucket i counts values above base^i; base is 2^(2^-scale).
        let above = threshold.log2() * f64::from(self.scale).exp2();
        #[expect(clippy::cast_possible_truncation, reason = "to the nearest that fits")]
        let first_kept = above.ceil() as i32;
        for buckets in [&mut self.positive, &mut self.negative] {
            let within = usize::try_from(i64::from(first_kept) - i64::from(buckets.offset)).unwrap_or(0);
            let within = within.min(buckets.bucket_counts.len());
            self.zero_count += buckets.bucket_counts.drain(..within).sum::<u64>();
            buckets.offset = buckets.offset.saturating_add(i32::try_from(within).unwrap_or(i32::MAX));
        }
    }

    /// Merges buckets until the scale is `scale`.
    fn coarsen(&mut self, scale: i32) {
        let by = u32::try_from(i64::from(self.scale) - i64::from(scale)).unwrap_or(0).min(31);
        if by == 0 {
            return;
        }
        self.scale = scale;
        for buckets in [&mut self.positive, &mut self.negative] {
            let before = take(buckets);
            buckets.offset = before.offset >> by;
            for (index, count) in indexed(&before) {
                let at = usize::try_from((index >> by) - i64::from(buckets.offset)).unwrap_or(0);
                if buckets.bucket_counts.len() <= at {
                    buckets.bucket_counts.resize(at + 1, 0);
                }
                buckets.bucket_counts[at] += count;
            }
        }
    }
}

/// Returns the index and the count of every bucket.
fn indexed(buckets: &Buckets) -> impl Iterator<Item = (i64, u64)> {
    (i64::from(buckets.offset)..).zip(buckets.bucket_counts.iter().copied())
}

/// Returns the increase of each bucket, from the first to the last that increased.
fn buckets_difference(now: &Buckets, last: &Buckets) -> Result<Buckets, DropReason> {
    let at = |buckets: &Buckets, index: i64| -> u64 {
        let place = usize::try_from(index - i64::from(buckets.offset)).ok();
        place.and_then(|place| buckets.bucket_counts.get(place).copied()).unwrap_or(0)
    };
    if indexed(last).any(|(index, count)| at(now, index) < count) {
        return Err(DropReason::Reset);
    }
    let mut grown: Vec<(i64, u64)> =
        indexed(now).map(|(index, count)| (index, count - at(last, index))).collect();
    let end = grown.iter().rposition(|(_, count)| *count > 0).map_or(0, |last| last + 1);
    grown.truncate(end);
    let begin = grown.iter().position(|(_, count)| *count > 0).unwrap_or(0);
    let offset = grown.get(begin).and_then(|(index, _)| i32::try_from(*index).ok()).unwrap_or(0);
    Ok(Buckets { offset, bucket_counts: grown[begin..].iter().map(|(_, count)| *count).collect() })
}
