//! Helpers for both text forms: ids, and the buckets of exponential histograms.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;

/// Returns the natural logarithm of the base of an exponential histogram. Times an index, it is the logarithm of
/// a bound.
pub(super) fn bucket_factor(scale: i32) -> f64 {
    std::f64::consts::LN_2 * 2f64.powi(scale.saturating_neg())
}

/// Returns the index and the count of each bucket on one side of an exponential histogram.
pub(super) fn buckets(side: &Buckets) -> impl DoubleEndedIterator<Item = (f64, u64)> {
    let offset = f64::from(side.offset);
    side.bucket_counts.iter().enumerate().map(move |(i, count)| (offset + i as f64, *count))
}

/// Formats an id in hexadecimal digits.
pub(super) fn hex(id: &[u8]) -> String {
    id.iter().fold(String::with_capacity(2 * id.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
