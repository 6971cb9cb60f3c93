//! Metrics of collectives as points.

use instrumentation::{OVERFLOW, TimeRange};
use nccl::RankState;
use nccl::operation::{datatype_name, reduction_name};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use semconv::{attribute, metric};

use super::{HANGS, Kind, Meters, Moved, NO_REDUCTION, Rank, Series, Times};
use crate::points::{self, Durations, count, integer, seconds, text, truth};

impl Meters {
    /// Returns all metrics.
    pub(super) fn metrics(&self, window: TimeRange) -> Vec<Metric> {
        let counters = [
            (metric::NCCL_COLLECTIVE_CAPTURED, self.points(captured)),
            (metric::NCCL_COLLECTIVE_COUNT, self.points(|s| moved(s, |m| m.calls))),
            (metric::NCCL_COLLECTIVE_IO, self.points(|s| moved(s, |m| m.bytes))),
            (metric::NCCL_ERRORS, self.errors()),
            (metric::NCCL_HANGS, self.points(hangs)),
            (metric::NCCL_STRAGGLERS, self.points(|s| some(s.stragglers))),
        ];
        let gauges = [
            (metric::NCCL_RANK_IDLE_DURATION, self.points(|s| state(s, |rank| Some(rank.idle_ns)))),
            (metric::NCCL_RANK_LATENESS, self.points(|s| state(s, |rank| rank.lateness_ns))),
        ];
        let histograms = [
            (metric::NCCL_COLLECTIVE_ARRIVAL_SKEW, self.times(|t| &t.skew)),
            (metric::NCCL_COLLECTIVE_BARRIER_WAIT, self.times(|t| &t.barrier_wait)),
            (metric::NCCL_COLLECTIVE_ENQUEUE_DURATION, self.times(|t| &t.enqueue)),
            (metric::NCCL_COLLECTIVE_ISSUE_GAP_DURATION, self.times(|t| &t.issue_gap)),
            (metric::NCCL_COLLECTIVE_WAIT_DURATION, self.times(|t| &t.wait)),
        ];
        let counters = counters.into_iter().filter(|(_, points)| !points.is_empty());
        let gauges = gauges.into_iter().filter(|(_, points)| !points.is_empty());
        let histograms = histograms.into_iter().filter(|(_, points)| !points.is_empty());
        let sums = counters.map(|(metric, points)| points::sums(metric, window, points));
        let levels = gauges.map(|(metric, points)| points::gauges(metric, window, points));
        let distributions = histograms.map(|(metric, points)| points::histograms(metric, window, points));
        sums.chain(levels).chain(distributions).collect()
    }

    /// Returns the points of each rank with the attributes of `of`, then the sum of the overflow series.
    fn points(&self, of: impl Fn(&Series) -> Vec<(Vec<KeyValue>, Value)>) -> Vec<(Vec<KeyValue>, Value)> {
        let mut points = Vec::new();
        for (rank, series) in &self.ranks {
            let own = of(series).into_iter();
            points.extend(own.map(|(attributes, value)| (whose(rank).chain(attributes).collect(), value)));
        }
        let beyond = of(&self.overflow).into_iter().map(|(_, value)| value).reduce(add);
        points.extend(beyond.map(|value| (vec![truth(OVERFLOW)], value)));
        points
    }

    fn times(&self, of: fn(&Times) -> &Durations) -> Vec<(Vec<KeyValue>, Durations)> {
        let mut points = Vec::new();
        for (rank, series) in &self.ranks {
            for (operation, times) in series.known_times() {
                let attributes = whose(rank).chain([text(attribute::NCCL_OPERATION, operation.name())]);
                points.push((attributes.collect(), of(times).clone()));
            }
        }
        let mut beyond = Durations::default();
        self.overflow.known_times().for_each(|(_, times)| beyond.merge(of(times)));
        points.push((vec![truth(OVERFLOW)], beyond));
        points.retain(|(_, durations)| durations.count() > 0);
        points
    }

    fn errors(&self) -> Vec<(Vec<KeyValue>, Value)> {
        let point = |((function, error), calls): (&(&'static str, &'static str), &u64)| {
            let attributes =
                vec![text(attribute::ERROR_TYPE, *error), text(attribute::NCCL_FUNCTION, *function)];
            (attributes, count(*calls))
        };
        self.errors.iter().map(point).collect()
    }
}

fn whose((communicator, rank): &Rank) -> impl Iterator<Item = KeyValue> + use<> {
    let hash = text(attribute::NCCL_COMMUNICATOR_HASH, format!("{communicator:#x}"));
    [hash].into_iter().chain(rank.map(|rank| integer(attribute::NCCL_RANK, rank.into())))
}

/// Returns one point, or none for 0.
fn some(value: u64) -> Vec<(Vec<KeyValue>, Value)> {
    if value > 0 { vec![(Vec::new(), count(value))] } else { Vec::new() }
}

fn state(series: &Series, of: impl Fn(&RankState) -> Option<u64>) -> Vec<(Vec<KeyValue>, Value)> {
    let value = series.state.as_ref().and_then(of);
    value.map(|ns| (Vec::new(), Value::AsDouble(seconds(ns)))).into_iter().collect()
}

fn captured(series: &Series) -> Vec<(Vec<KeyValue>, Value)> {
    let all = series.known_times().filter(|(_, times)| times.captured > 0);
    all.map(|(operation, times)| {
        (vec![text(attribute::NCCL_OPERATION, operation.name())], count(times.captured))
    })
    .collect()
}

fn moved(series: &Series, of: fn(&Moved) -> u64) -> Vec<(Vec<KeyValue>, Value)> {
    let point = |((operation, datatype, reduction), moved): &(Kind, Moved)| {
        let kind = [
            text(attribute::NCCL_DATATYPE, datatype_name((*datatype).into())),
            text(attribute::NCCL_OPERATION, operation.name()),
        ];
        let reduction = Some(*reduction).filter(|number| *number != NO_REDUCTION);
        let reduction = reduction.map(|r| text(attribute::NCCL_REDUCTION, reduction_name(r.into())));
        (kind.into_iter().chain(reduction).collect(), count(of(moved)))
    };
    series.moved.iter().map(point).collect()
}

fn hangs(series: &Series) -> Vec<(Vec<KeyValue>, Value)> {
    let all = HANGS.into_iter().zip(series.hangs).filter(|(_, hangs)| *hangs > 0);
    all.map(|(kind, hangs)| (vec![text(attribute::NCCL_HANG_KIND, kind.name())], count(hangs))).collect()
}

fn add(a: Value, b: Value) -> Value {
    match (a, b) {
        (Value::AsInt(a), Value::AsInt(b)) => Value::AsInt(a.saturating_add(b)),
        (a, _) => a,
    }
}
