//! B11 and B12: two readers of Python's SDK read the same instruments, one with cumulative and one with delta
//! temporality. Our deltas of the former equal the latter, and the sum of the deltas equals the former.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    metric::Data as Points,
};
use otel_conformance_tests::{processed, python_temporality};
use pdata::Data;

use crate::peer;

/// Returns for each round: Python's cumulative points, Python's deltas, and our deltas of the former.
async fn rounds() -> Option<Vec<[BTreeMap<String, Points>; 3]>> {
    let theirs = peer(tokio::task::block_in_place(python_temporality))?;
    let cumulative: Vec<Data> = theirs.iter().map(|[cumulative, _]| cumulative.clone()).collect();
    let settings = r#"{"initial_value": "keep"}"#;
    let ours = processed(&processors::cumulative_to_delta::FACTORY, settings, &cumulative).await;
    assert_eq!(ours.len(), theirs.len());
    let three = |([cumulative, delta], ours): ([Data; 2], Data)| [cumulative, delta, ours].map(by_name);
    Some(theirs.into_iter().zip(ours).map(three).collect())
}

/// Returns the metrics of a batch by name.
fn by_name(data: Data) -> BTreeMap<String, Points> {
    let Data::Metrics(metrics) = data else { panic!("{data:?}") };
    let metrics = metrics.into_inner();
    let all = metrics.resource_metrics.into_iter().flat_map(|r| r.scope_metrics).flat_map(|s| s.metrics);
    all.map(|Metric { name, data, .. }| (name, data.unwrap())).collect()
}

/// The values of points by series, without times.
type Parts = BTreeMap<String, String>;

fn key(attributes: &[KeyValue]) -> String {
    format!("{attributes:?}")
}

fn number(point: &NumberDataPoint) -> String {
    match point.value {
        // Nine decimal places hide rounding errors.
        Some(Value::AsDouble(value)) => format!("{value:.9}"),
        other => format!("{other:?}"),
    }
}

fn histogram(point: &HistogramDataPoint) -> String {
    let HistogramDataPoint { count, sum, bucket_counts, explicit_bounds, .. } = point;
    format!("{count} {:.6} {bucket_counts:?} {explicit_bounds:?}", sum.unwrap())
}

/// Returns an exponential histogram of a scale with counts by index.
fn exponential(point: &ExponentialHistogramDataPoint, scale: i32) -> String {
    let side = |buckets: &Option<Buckets>| by_index(buckets, point.scale - scale);
    let (positive, negative) = (side(&point.positive), side(&point.negative));
    format!("{} {:.6} {} {positive:?} {negative:?}", point.count, point.sum.unwrap(), point.zero_count)
}

/// Returns the counts by index after halving the resolution `halvings` times.
fn by_index(buckets: &Option<Buckets>, halvings: i32) -> BTreeMap<i32, u64> {
    let mut counts = BTreeMap::new();
    for (index, count) in buckets.iter().flat_map(|b| (b.offset..).zip(&b.bucket_counts)) {
        if *count > 0 {
            *counts.entry(index >> halvings).or_default() += count;
        }
    }
    counts
}

/// Returns the values of the points of a metric; exponential ones at the coarser of both scales.
fn values(points: &Points, other: &Points) -> Parts {
    match (points, other) {
        (Points::Sum(s), _) => s.data_points.iter().map(|p| (key(&p.attributes), number(p))).collect(),
        (Points::Histogram(h), _) => {
            h.data_points.iter().map(|p| (key(&p.attributes), histogram(p))).collect()
        }
        (Points::ExponentialHistogram(h), Points::ExponentialHistogram(other)) => {
            let scale = h.data_points.iter().chain(&other.data_points).map(|p| p.scale).min().unwrap();
            h.data_points.iter().map(|p| (key(&p.attributes), exponential(p, scale))).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Returns start and time of every point by series.
fn times(points: &Points) -> BTreeMap<String, (u64, u64)> {
    macro_rules! of {
        ($points:expr) => {
            $points.iter().map(|p| (key(&p.attributes), (p.start_time_unix_nano, p.time_unix_nano))).collect()
        };
    }
    match points {
        Points::Sum(s) => of!(s.data_points),
        Points::Histogram(h) => of!(h.data_points),
        Points::ExponentialHistogram(h) => of!(h.data_points),
        other => panic!("{other:?}"),
    }
}

fn temporality(points: &Points) -> i32 {
    match points {
        Points::Sum(s) => s.aggregation_temporality,
        Points::Histogram(h) => h.aggregation_temporality,
        Points::ExponentialHistogram(h) => h.aggregation_temporality,
        other => panic!("{other:?}"),
    }
}

const CONVERTED: [&str; 4] = ["buckets", "exponential", "part", "whole"];

#[tokio::test(flavor = "multi_thread")]
async fn b11_b12_deltas_equal_those_of_the_python_sdk() {
    let Some(rounds) = rounds().await else { return };
    for (number, [_, theirs, ours]) in rounds.iter().enumerate() {
        for name in CONVERTED {
            let (ours, theirs) = (&ours[name], &theirs[name]);
            assert_eq!(temporality(ours), AggregationTemporality::Delta as i32);
            assert_eq!(values(ours, theirs), values(theirs, ours), "{name} in round {number}");
        }
    }
    // Sums that are not monotonic are not converted by either.
    for [cumulative, theirs, ours] in &rounds {
        assert_eq!(ours["both"], cumulative["both"]);
        assert_eq!(temporality(&theirs["both"]), AggregationTemporality::Cumulative as i32);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b11_deltas_are_contiguous_from_the_start() {
    let Some(rounds) = rounds().await else { return };
    for name in CONVERTED {
        for (key, (start, time)) in times(&rounds[0][2][name]) {
            assert_eq!((start, time), times(&rounds[0][0][name])[&key], "{name}: the first is as it came");
        }
        for pair in rounds.windows(2) {
            for (key, (start, time)) in times(&pair[1][2][name]) {
                assert_eq!(start, times(&pair[0][0][name])[&key].1, "{name}");
                assert_eq!(time, times(&pair[1][0][name])[&key].1, "{name}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b12_merged_deltas_equal_the_cumulative_histogram() {
    let Some(rounds) = rounds().await else { return };
    let point = |points: &Points| match points {
        Points::ExponentialHistogram(h) => h.data_points[0].clone(),
        other => panic!("{other:?}"),
    };
    let scales: Vec<i32> =
        rounds.iter().map(|[cumulative, ..]| point(&cumulative["exponential"]).scale).collect();
    assert!(scales.windows(2).any(|pair| pair[1] < pair[0]), "it has to become coarser: {scales:?}");
    let (mut count, mut zero, mut merged) = (0, 0, BTreeMap::<(i32, i32), u64>::new());
    for (number, [cumulative, _, ours]) in rounds.iter().enumerate() {
        let (whole, delta) = (point(&cumulative["exponential"]), point(&ours["exponential"]));
        let within = by_index(&delta.positive, 0).values().sum::<u64>()
            + by_index(&delta.negative, 0).values().sum::<u64>();
        assert_eq!(delta.count, delta.zero_count + within, "round {number}");
        (count, zero) = (count + delta.count, zero + delta.zero_count);
        for (index, n) in by_index(&delta.positive, 0) {
            *merged.entry((delta.scale, index)).or_default() += n;
        }
        let mut coarse = BTreeMap::<i32, u64>::new();
        for ((scale, index), n) in &merged {
            *coarse.entry(index >> (scale - whole.scale)).or_default() += n;
        }
        assert_eq!((count, zero), (whole.count, whole.zero_count), "round {number}");
        assert_eq!(coarse, by_index(&whole.positive, 0), "round {number}");
    }
}
