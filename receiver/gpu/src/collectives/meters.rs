//! Metrics of the collectives of one process: counts, bytes and times by communicator and rank.
//!
//! Recording a collective costs some 100 ns: two look-ups in short lists and a bucket for each of its times. Lists suffice,
//! because most processes have one rank each in a few communicators and call a few kinds of operations.
//!
//! Bounded: [`Meters::new`] takes the maximum number of ranks with their own series. Further ranks share the overflow series
//! of OpenTelemetry (`otel.metric.overflow`) until a rank ends, whose series are freed by the collection of their last values.

mod metrics;

use std::collections::BTreeMap;

use instrumentation::TimeRange;
use nccl::finding::{Arrived, Completed, Enqueued, Hang, HangKind, Straggler};
use nccl::operation::{DATATYPES, REDUCTIONS};
use nccl::{Op, Operation, RankIdentity, RankState};
use opentelemetry_proto::tonic::metrics::v1::Metric;

use crate::points::Durations;

/// The maximum number of kinds of operations of one rank (operation, datatype and reduction). Further ones are in the overflow
/// series.
const KINDS_MAX: usize = 64;
const OPERATIONS: usize = Operation::ALL.len();
const HANGS: [HangKind; 3] = [HangKind::Missing, HangKind::Peer, HangKind::Stuck];

/// A rank: the hash of its communicator, and its number if known.
type Rank = (u64, Option<u32>);
/// Operation, datatype and reduction; the latter two as numbers, limited to those with names.
type Kind = (Operation, u8, u8);

/// Larger numbers share one name.
const DATATYPE_MAX: u32 = DATATYPES.len() as u32;
const REDUCTION_MAX: u32 = REDUCTIONS.len() as u32;
/// An operation without a reduction.
const NO_REDUCTION: u8 = u8::MAX;

/// Calls and bytes of one kind of operation.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    calls: u64,
    bytes: u64,
}

/// The times of one type of operation.
#[derive(Clone, Debug, Default)]
struct Times {
    enqueue: Durations,
    issue_gap: Durations,
    wait: Durations,
    barrier_wait: Durations,
    skew: Durations,
    captured: u64,
}

/// All series of one rank.
#[derive(Clone, Debug, Default)]
struct Series {
    /// In the order of their first calls.
    moved: Vec<(Kind, Moved)>,
    times: [Option<Box<Times>>; OPERATIONS],
    stragglers: u64,
    hangs: [u64; HANGS.len()],
    /// Its state at the last collection; `None` if it had ended.
    state: Option<RankState>,
}

/// The metrics of one process.
#[derive(Clone, Debug)]
pub(crate) struct Meters {
    ranks_max: usize,
    /// Series by rank, sorted.
    ranks: Vec<(Rank, Box<Series>)>,
    /// The index of the last rank found.
    last: usize,
    /// Series of ranks above the bound.
    overflow: Series,
    /// Failed calls, by function and error.
    errors: BTreeMap<(&'static str, &'static str), u64>,
}

impl Meters {
    /// Creates empty metrics with series for at most `ranks_max` ranks.
    pub(crate) fn new(ranks_max: usize) -> Meters {
        let overflow = Series::default();
        Meters { ranks_max, ranks: Vec::new(), last: 0, overflow, errors: BTreeMap::new() }
    }

    /// Admits a rank; returns false if it has no series of its own.
    pub(crate) fn admit(&mut self, who: &RankIdentity) -> bool {
        self.index(who).is_some()
    }

    /// Records an enqueued operation.
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

    /// Records an operation that a rank has waited for.
    pub(crate) fn completed(&mut self, completed: &Completed) {
        let times = self.series(&completed.who).0.times(completed.op.operation);
        times.issue_gap.add(completed.issue_gap_ns);
        times.wait.add(completed.wait_ns);
        times.barrier_wait.add(completed.barrier_wait_ns);
    }

    /// Records the skew of a collective whose last rank is in this process.
    pub(crate) fn arrived(&mut self, arrived: &Arrived) {
        self.series(&arrived.last).0.times(arrived.operation).skew.add(arrived.skew_ns);
    }

    /// Counts a straggler verdict.
    pub(crate) fn straggler(&mut self, straggler: &Straggler) {
        self.series(&straggler.who).0.stragglers += 1;
    }

    /// Counts a hang of a rank.
    pub(crate) fn hang(&mut self, hang: &Hang, who: &RankIdentity) {
        let at = HANGS.iter().position(|kind| *kind == hang.kind).unwrap_or(0);
        self.series(who).0.hangs[at] += 1;
    }

    /// Counts a failed call.
    pub(crate) fn error(&mut self, function: &'static str, error: &'static str) {
        *self.errors.entry((function, error)).or_default() += 1;
    }

    /// Stores the state of a rank for the next collection.
    pub(crate) fn set_state(&mut self, state: RankState) {
        if let Ok(at) = self.search(&rank(&state.who)) {
            self.ranks[at].1.state = Some(state);
        }
    }

    /// Returns all metrics, and whether series ended: those of ranks whose state [`Meters::set_state`] did not store.
    pub(crate) fn collect(&mut self, window: TimeRange) -> (Vec<Metric>, bool) {
        let metrics = self.metrics(window);
        let before = self.ranks.len();
        self.last = 0;
        self.ranks.retain_mut(|(_, series)| series.state.take().is_some());
        (metrics, self.ranks.len() < before)
    }

    /// Returns the series of a rank, and the overflow series unless those are the series of the rank.
    fn series(&mut self, who: &RankIdentity) -> (&mut Series, Option<&mut Series>) {
        match self.index(who) {
            Some(at) => (&mut self.ranks[at].1, Some(&mut self.overflow)),
            None => (&mut self.overflow, None),
        }
    }

    /// Returns the index of a rank's series, which are created below the bound.
    fn index(&mut self, who: &RankIdentity) -> Option<usize> {
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

fn rank(who: &RankIdentity) -> Rank {
    (who.communicator.hash, who.rank.value)
}
