//! What is recorded of one process's collectives: counts, bytes, times, by communicator and rank.
//!
//! The one idea: a collective is a few additions to sums that are at hand, and becomes points when they are collected:
//! two look-ups in short lists and a bucket for each of its times, some 100 ns. Lists, since most processes have one
//! rank each in a few communicators, and call a few kinds of operations.
//!
//! Bounded: [`Meters::new`] is told how many ranks of communicators a process has series for. Those beyond share the
//! series that OpenTelemetry has for such (`otel.metric.overflow`) until one that is gone makes room, which it does with
//! the collection that told its last values.

use std::collections::BTreeMap;

use nccl::finding::{Arrived, Completed, Enqueued, Hang, HangKind, Straggler};
use nccl::operation::{DATATYPES, REDUCTIONS, datatype_name, reduction_name};
use nccl::{Op, Operation, RankState, Who};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use semconv::{attribute, metric};

use crate::points::{self, Durations, count, integer, seconds, text, truth};
use sdk::OVERFLOW;
use sdk::Window;

/// Kinds of operations of one rank: operation, datatype and reduction. Programs use a handful. Full: further ones go
/// to the overflow.
const KINDS_MAX: usize = 64;
const OPERATIONS: usize = Operation::ALL.len();
const HANGS: [HangKind; 3] = [HangKind::Missing, HangKind::Peer, HangKind::Stuck];

/// A rank of a communicator: its name and its number, where that is known.
type Rank = (u64, Option<u32>);
/// Operation, datatype, reduction; the latter two by their numbers, as far as these have names.
type Kind = (Operation, u8, u8);

/// All numbers from here on are called the same.
const DATATYPE_MAX: u32 = DATATYPES.len() as u32;
const REDUCTION_MAX: u32 = REDUCTIONS.len() as u32;
/// The operation has none.
const NO_REDUCTION: u8 = u8::MAX;

/// What was moved.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    calls: u64,
    bytes: u64,
}

/// The times of one operation.
#[derive(Clone, Debug, Default)]
struct Times {
    enqueue: Durations,
    issue_gap: Durations,
    wait: Durations,
    barrier_wait: Durations,
    skew: Durations,
    captured: u64,
}

/// Everything of one rank.
#[derive(Clone, Debug, Default)]
struct Series {
    /// In the order of their first calls.
    moved: Vec<(Kind, Moved)>,
    times: [Option<Box<Times>>; OPERATIONS],
    stragglers: u64,
    hangs: [u64; HANGS.len()],
    /// As the last collection found it; `None` where it was gone by then.
    state: Option<RankState>,
}

/// What is recorded of one process.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    ranks_max: usize,
    /// Sorted.
    ranks: Vec<(Rank, Box<Series>)>,
    /// Where the last one was found.
    last: usize,
    /// Of those beyond the bound.
    overflow: Series,
    /// Failed calls, by function and error.
    errors: BTreeMap<(&'static str, &'static str), u64>,
}

impl Meters {
    /// Nothing is recorded yet, and series are kept for so many ranks.
    pub(crate) fn new(ranks_max: usize) -> Meters {
        let overflow = Series::default();
        Meters { ranks_max, ranks: Vec::new(), last: 0, overflow, errors: BTreeMap::new() }
    }

    /// A rank came. False where there is no room for series of its own.
    pub(crate) fn admit(&mut self, who: &Who) -> bool {
        self.place(who).is_some()
    }

    /// An operation was enqueued.
    pub(crate) fn enqueued(&mut self, enqueued: &Enqueued) {
        let op = &enqueued.op;
        let (series, overflow) = self.series(&enqueued.who);
        let times = series.times(op.operation);
        if enqueued.is_captured {
            times.captured += 1;
            return;
        }
        times.enqueue.add(op.enqueue_ns);
        let kind = kind(op);
        let known = series.moved.iter().position(|(known, _)| *known == kind);
        let moved = match (known, overflow) {
            (Some(at), _) => &mut series.moved[at].1,
            (None, Some(overflow)) if series.moved.len() >= KINDS_MAX => overflow.moved_of(kind),
            (None, _) => series.moved_of(kind),
        };
        moved.calls += 1;
        moved.bytes = moved.bytes.saturating_add(enqueued.bytes.unwrap_or(0));
    }

    /// A rank has waited for an operation.
    pub(crate) fn completed(&mut self, completed: &Completed) {
        let times = self.series(&completed.who).0.times(completed.op.operation);
        times.issue_gap.add(completed.issue_gap_ns);
        times.wait.add(completed.wait_ns);
        times.barrier_wait.add(completed.barrier_wait_ns);
    }

    /// A rank of this process came last to a collective.
    pub(crate) fn arrived(&mut self, arrived: &Arrived) {
        self.series(&arrived.last).0.times(arrived.operation).skew.add(arrived.skew_ns);
    }

    /// A rank of this process is late, again and again.
    pub(crate) fn straggler(&mut self, straggler: &Straggler) {
        self.series(&straggler.who).0.stragglers += 1;
    }

    /// A communicator hangs, as far as this rank of it is concerned.
    pub(crate) fn hang(&mut self, hang: &Hang, who: &Who) {
        let at = HANGS.iter().position(|kind| *kind == hang.kind).unwrap_or(0);
        self.series(who).0.hangs[at] += 1;
    }

    /// A call failed.
    pub(crate) fn error(&mut self, function: &'static str, error: &'static str) {
        *self.errors.entry((function, error)).or_default() += 1;
    }

    /// How a rank is at a collection.
    pub(crate) fn see(&mut self, state: RankState) {
        if let Ok(at) = self.search(&rank(&state.who)) {
            self.ranks[at].1.state = Some(state);
        }
    }

    /// Everything recorded so far. Series of ranks that [`Meters::see`] was not told of end with it; true where some do.
    pub(crate) fn collect(&mut self, window: Window) -> (Vec<Metric>, bool) {
        let metrics = self.metrics(window);
        let before = self.ranks.len();
        self.last = 0;
        self.ranks.retain_mut(|(_, series)| series.state.take().is_some());
        (metrics, self.ranks.len() < before)
    }

    /// The series of a rank, and beside it the overflow, unless that is what the rank has.
    fn series(&mut self, who: &Who) -> (&mut Series, Option<&mut Series>) {
        match self.place(who) {
            Some(at) => (&mut self.ranks[at].1, Some(&mut self.overflow)),
            None => (&mut self.overflow, None),
        }
    }

    /// Where a rank's series are, which it gets where there is room.
    fn place(&mut self, who: &Who) -> Option<usize> {
        let rank = rank(who);
        if self.ranks.get(self.last).is_some_and(|(known, _)| *known == rank) {
            return Some(self.last);
        }
        let at = match self.search(&rank) {
            Ok(at) => at,
            Err(_) if self.ranks.len() >= self.ranks_max => return None,
            Err(at) => {
                self.ranks.insert(at, (rank, Box::default()));
                at
            }
        };
        self.last = at;
        Some(at)
    }

    fn search(&self, rank: &Rank) -> Result<usize, usize> {
        self.ranks.binary_search_by(|(known, _)| known.cmp(rank))
    }

    fn metrics(&self, window: Window) -> Vec<Metric> {
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

    /// The points of each rank, each with what `of` says beyond whose it is; then the sum of those beyond the bound.
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

impl Series {
    fn moved_of(&mut self, kind: Kind) -> &mut Moved {
        let at = self.moved.iter().position(|(known, _)| *known == kind).unwrap_or_else(|| {
            self.moved.push((kind, Moved::default()));
            self.moved.len() - 1
        });
        &mut self.moved[at].1
    }

    fn times(&mut self, operation: Operation) -> &mut Times {
        self.times[operation as usize].get_or_insert_default()
    }

    fn known_times(&self) -> impl Iterator<Item = (Operation, &Times)> {
        let all = Operation::ALL.into_iter().zip(&self.times);
        all.filter_map(|(operation, times)| Some((operation, times.as_deref()?)))
    }
}

fn kind(op: &Op) -> Kind {
    let reduction = if op.operation.reduces() { op.reduction.min(REDUCTION_MAX) as u8 } else { NO_REDUCTION };
    (op.operation, op.datatype.min(DATATYPE_MAX) as u8, reduction)
}

fn rank(who: &Who) -> Rank {
    (who.communicator.hash, who.rank.value)
}

fn whose((communicator, rank): &Rank) -> impl Iterator<Item = KeyValue> + use<> {
    let hash = text(attribute::NCCL_COMMUNICATOR_HASH, hash_text(*communicator));
    [hash].into_iter().chain(rank.map(|rank| integer(attribute::NCCL_RANK, rank.into())))
}

/// A communicator's hash as NCCL's logs write it.
pub(super) fn hash_text(hash: u64) -> String {
    format!("{hash:#x}")
}

/// One point, or none where there is nothing to tell.
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
