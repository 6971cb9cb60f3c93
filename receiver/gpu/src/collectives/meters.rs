//! What is recorded of one process's collectives: counts, bytes, times, by communicator and rank.
//!
//! The one idea: a collective is a few additions to sums that are at hand, and becomes points when they are collected:
//! two look-ups in short lists and a bucket for each of its times, some 100 ns. Lists, since most processes have one
//! rank each in a few communicators, and call a few kinds of operations.
//!
//! Bounded: [`Meters::new`] is told how many ranks of communicators a process has series for. Those beyond share the
//! series that OpenTelemetry has for such (`otel.metric.overflow`) until one that is gone makes room, which it does with
//! the collection that told its last values.

mod metrics;

use std::collections::BTreeMap;

use instrumentation::TimeRange;
use nccl::finding::{Arrived, Completed, Enqueued, Hang, HangKind, Straggler};
use nccl::operation::{DATATYPES, REDUCTIONS};
use nccl::{Op, Operation, RankState, Who};
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::points::Durations;

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
        let moved = match overflow {
            Some(overflow) if series.is_full_for(kind) => overflow.moved_of(kind),
            _ => series.moved_of(kind),
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
    pub(crate) fn collect(&mut self, window: TimeRange) -> (Vec<Metric>, bool) {
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
}

impl Series {
    fn is_full_for(&self, kind: Kind) -> bool {
        self.moved.len() >= KINDS_MAX && self.moved.iter().all(|(known, _)| *known != kind)
    }

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
