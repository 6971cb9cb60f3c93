//! Log records about collectives: stragglers, hangs, mismatches, ends.
//!
//! A record has the resource of the process that the finding is about. Each process has two limits, and suppressed records are
//! counted: one for verdicts, which can repeat on a busy machine, and a wide one for hangs, ends and flight records, which only
//! a process that creates and aborts communicators in a loop exceeds.

use std::collections::BTreeMap;
use std::time::SystemTime;

use event::ProcessId;
use instrumentation::{Limit, Records, Sink, instant, take_records};
use nccl::finding::{Absent, Completed, Disagreement, Dispute, Ended, Hang, HangOver, Mismatch, Recovered};
use nccl::{Engine, Finding, RankIdentity};
use opentelemetry::logs::{AnyValue, Severity};
use semconv::{attribute, event as event_name};

use super::attributes::{communicator, log, number, who};
use super::dump::{Dump, called};
use super::spans::{self, Selection};
use crate::account::Account;
use crate::clock::Clock;
use crate::outlier::texts;
use crate::points::seconds;
use crate::traced::Traced;

/// The maximum number of flight records logged for one hang; enough for a large node.
const DUMPS_MAX: usize = 64;
/// The burst of log records about hangs and ends of a process; more than it has communicators.
const ENDS_BURST: u32 = 256;
/// The rate of log records about hangs and ends of a process.
const ENDS_PER_MINUTE: u32 = 60;

/// The limits of log records about the collectives of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    verdicts: Limit,
    ends: Limit,
}

impl Limits {
    /// Creates limits; the limit of verdicts is configurable.
    pub(crate) fn new(per_minute: u32, burst: u32) -> Limits {
        Limits { verdicts: Limit::new(per_minute, burst), ends: Limit::new(ENDS_PER_MINUTE, ENDS_BURST) }
    }
}

/// The type of a log record, which selects its limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// A rank is late, or differs from its peers.
    Verdict,
    /// A communicator hangs, or a rank ended.
    End,
}

/// Emits findings about collectives as metrics, spans and log records.
pub(crate) struct Emitter<'a, 'b> {
    pub(crate) processes: &'a mut BTreeMap<ProcessId, Traced>,
    pub(crate) records: &'a Records,
    pub(crate) account: &'a mut Account,
    pub(crate) clock: &'a Clock,
    /// The engine of steps, which records waits for peers.
    pub(crate) steps: &'a mut steps::Engine,
    pub(crate) sink: Sink<'b>,
}

impl Emitter<'_, '_> {
    /// Returns the process of a rank; counts the event if the process has ended.
    pub(super) fn process(&mut self, who: &RankIdentity) -> Option<&mut Traced> {
        let found = self.processes.get_mut(&who.process);
        self.account.orphaned += u64::from(found.is_none());
        found
    }

    /// Records the metrics and spans of an operation.
    pub(super) fn usual(&mut self, finding: &Finding, selection: &mut Selection) {
        let who = match finding {
            Finding::Enqueued(found) => &found.who,
            Finding::Completed(found) => &found.who,
            Finding::Arrived(found) => &found.last,
            _ => return,
        };
        let Some(traced) = self.process(who) else { return };
        match finding {
            Finding::Enqueued(found) => traced.collectives().enqueued(found),
            Finding::Completed(found) => {
                traced.collectives().completed(found);
                self.completed(found, selection);
            }
            Finding::Arrived(found) => traced.collectives().arrived(found),
            _ => {}
        }
    }

    /// Records a peer wait for the step of a completed operation, and traces the operation if selected.
    fn completed(&mut self, found: &Completed, selection: &mut Selection) {
        if let Some((from_ns, to_ns)) = peer_wait(found) {
            self.steps.record_peer_wait(found.who.process, from_ns, to_ns);
        }
        let Some(trace) = &found.trace else { return };
        if !selection.takes(trace, self.clock.now_ns()) {
            self.account.collectives.untraced += 1;
            return;
        }
        spans::emit(found, trace, self.clock, self.records);
        self.take_records(&found.who);
    }

    /// Admits a new rank to its own series, or counts it for the overflow series.
    pub(super) fn rank(&mut self, who: &RankIdentity) {
        let Some(traced) = self.process(who) else { return };
        let is_admitted = traced.collectives().admit(who);
        self.account.collectives.folded += u64::from(!is_admitted);
    }

    /// Returns whether the limit of the process allows one more log record; counts it as suppressed otherwise.
    pub(super) fn may_log(&mut self, who: &RankIdentity, kind: Kind) -> bool {
        let now_ns = self.clock.now_ns();
        let Some(traced) = self.process(who) else { return false };
        let is_free = match kind {
            Kind::Verdict => traced.limits.verdicts.take(now_ns),
            Kind::End => traced.limits.ends.take(now_ns),
        };
        self.account.collectives.suppressed_logs += u64::from(!is_free);
        is_free
    }

    pub(super) fn at(&self, ns: u64) -> SystemTime {
        instant(self.clock.unix(ns))
    }

    /// Sends the recorded spans and log records with the resource of the rank's process.
    pub(super) fn take_records(&mut self, who: &RankIdentity) {
        if let Some(traced) = self.processes.get(&who.process) {
            take_records(traced.resource(), self.records, self.sink);
        }
    }

    /// Logs that a straggler is no longer late.
    pub(super) fn recovered(&mut self, found: &Recovered) {
        if !self.may_log(&found.who, Kind::Verdict) {
            return;
        }
        let body = format!("{} of {} is no longer late", found.who, found.who.communicator);
        let rows = who(&found.who).into_iter().chain([(attribute::NCCL_SEQUENCE, number(found.seq))]);
        let (at, name) = (self.at(found.at_ns), event_name::NCCL_STRAGGLER_RECOVERED);
        log(self.records, at, None, name, Severity::Info, body, rows);
        self.take_records(&found.who);
    }

    /// Logs a hang and the flight records of its ranks.
    pub(super) fn hang(&mut self, hang: &Hang, engine: &Engine) {
        let Some(blamed) = self.blamed(hang) else {
            self.account.orphaned += 1;
            return;
        };
        if let Some(traced) = self.processes.get_mut(&blamed.process) {
            traced.collectives().hang(hang, &blamed);
        }
        if !self.may_log(&blamed, Kind::End) {
            return;
        }
        let at = self.at(hang.at_ns);
        log(self.records, at, None, event_name::NCCL_HANG, Severity::Error, hang_text(hang), rows(hang));
        self.take_records(&blamed);
        let absent = hang.missing.iter().filter(|absent| absent.end.is_none()).map(|absent| absent.who);
        for rank in absent.chain(hang.waiting.iter().copied()).take(DUMPS_MAX) {
            self.dump(&rank, engine, at);
        }
    }

    /// Returns the rank whose process a hang is logged for: a missing one, otherwise a waiting one.
    fn blamed(&self, hang: &Hang) -> Option<RankIdentity> {
        let all = hang.missing.iter().map(|absent| &absent.who).chain(&hang.waiting);
        all.copied().find(|who| self.processes.contains_key(&who.process))
    }

    fn dump(&mut self, rank: &RankIdentity, engine: &Engine, at: SystemTime) {
        let Some(record) = engine.flight_record(rank.process) else { return };
        if !self.may_log(rank, Kind::End) {
            return;
        }
        let is_same = |who: &RankIdentity| who.communicator == rank.communicator && who.rank == rank.rank;
        for found in record.ranks.iter().filter(|found| is_same(&found.who)) {
            Dump::of_record(&record, found).log_pending(at, self.records);
        }
        self.take_records(rank);
    }

    /// Logs the end of a hang, for the first rank of the communicator.
    pub(super) fn hang_over(&mut self, over: &HangOver, engine: &Engine) {
        let ranks = engine.ranks().map(|rank| rank.who).filter(|who| who.communicator == over.communicator);
        let Some(first) = ranks.min_by_key(|who| (who.rank.value, who.process)) else { return };
        if !self.may_log(&first, Kind::End) {
            return;
        }
        let hung_s = seconds(over.duration_ns);
        let body = format!("{} continues after a hang of {hung_s:.1} s in #{}", over.communicator, over.seq);
        let own =
            [(attribute::NCCL_HANG_DURATION, hung_s.into()), (attribute::NCCL_SEQUENCE, number(over.seq))];
        let rows = communicator(over.communicator).into_iter().chain(own);
        log(
            self.records,
            self.at(over.at_ns),
            None,
            event_name::NCCL_HANG_RECOVERED,
            Severity::Info,
            body,
            rows,
        );
        self.take_records(&first);
    }

    /// Logs that ranks made different calls at one sequence number.
    pub(super) fn mismatch(&mut self, found: &Mismatch) {
        if !self.may_log(&found.who, Kind::Verdict) {
            return;
        }
        let (own, first) = (called(found.called), called(found.first));
        let body = format!(
            "{} of {} called {own} where another called {first}, at #{}",
            found.who, found.who.communicator, found.seq
        );
        let own = [
            (attribute::NCCL_CALL, own.into()),
            (attribute::NCCL_FIRST_RANK_CALL, first.into()),
            (attribute::NCCL_SEQUENCE, number(found.seq)),
        ];
        let (at, rows) = (self.at(self.clock.now_ns()), who(&found.who).into_iter().chain(own));
        log(self.records, at, None, event_name::NCCL_MISMATCH, Severity::Error, body, rows);
        self.take_records(&found.who);
    }

    /// Logs that two sources reported different values for a field of a communicator.
    pub(super) fn disagreement(&mut self, found: &Disagreement) {
        if !self.may_log(&found.who, Kind::Verdict) {
            return;
        }
        let about = dispute(found.about);
        let value = found.rejected.map_or("another value".to_owned(), |value| value.to_string());
        let body =
            format!("{} of {}: {value} was also reported for {about}", found.who, found.who.communicator);
        let value =
            found.rejected.map(|value| (attribute::NCCL_DISPUTE_VALUE, AnyValue::from(i64::from(value))));
        let own = [(attribute::NCCL_DISPUTE_FIELD, about.into())].into_iter().chain(value);
        let (at, rows) = (self.at(found.at_ns), who(&found.who).into_iter().chain(own));
        log(self.records, at, None, event_name::NCCL_DISPUTE, Severity::Warn, body, rows);
        self.take_records(&found.who);
    }

    /// Logs that a rank was aborted or its process ended.
    pub(super) fn ended(&mut self, ended: &Ended) {
        if self.may_log(&ended.who, Kind::End) {
            Dump::of_ended(ended).log_end(ended.end, self.at(ended.at_ns), self.records);
            self.take_records(&ended.who);
        }
    }
}

/// Returns the part of a wait before the last rank of this node arrived, if known.
fn peer_wait(found: &Completed) -> Option<(u64, u64)> {
    let last_ns = found.op.arrival_ns.saturating_add(found.skew_ns?.saturating_sub(found.behind_first_ns?));
    let (from_ns, to_ns) = (found.end_ns.saturating_sub(found.wait_ns), last_ns.min(found.end_ns));
    Some((from_ns, to_ns.max(from_ns)))
}

fn dispute(about: Dispute) -> &'static str {
    match about {
        Dispute::Nranks => "nranks",
        Dispute::Rank => "rank",
        Dispute::SameRank => "same_rank",
    }
}

fn hang_text(hang: &Hang) -> String {
    let what = format!("{} hangs in {} #{}", hang.communicator, hang.operation.name(), hang.seq);
    let waiting = match hang.waiting.len() {
        1 => "1 rank waits".to_owned(),
        many => format!("{many} ranks wait"),
    };
    let whom = match (hang.missing.as_slice(), hang.peer) {
        ([first, rest @ ..], _) => {
            let others = if rest.is_empty() { String::new() } else { format!(", and {} more", rest.len()) };
            format!("{waiting} for {}{others}", absent(first))
        }
        ([], Some(peer)) => format!("{waiting} for rank {peer}"),
        ([], None) => format!("{waiting}, and all ranks of this node have joined"),
    };
    let mismatch = if hang.is_mismatched { "; ranks called different operations before" } else { "" };
    format!("{what}: {whom}{mismatch}")
}

/// Returns a hang_text about a missing rank.
fn absent(absent: &Absent) -> String {
    match absent.end {
        Some(end) => format!("{}, which ended: {end}", absent.who),
        None => format!("{}, which enqueued nothing for {:.1} s", absent.who, seconds(absent.idle_ns)),
    }
}

fn rows(hang: &Hang) -> Vec<(&'static str, AnyValue)> {
    let missing: Vec<String> = hang.missing.iter().map(absent).collect();
    let waiting: Vec<String> = hang.waiting.iter().map(|who| who.to_string()).collect();
    let mut rows = communicator(hang.communicator);
    rows.extend([
        (attribute::NCCL_HANG_DURATION, seconds(hang.at_ns.saturating_sub(hang.since_ns)).into()),
        (attribute::NCCL_HANG_KIND, hang.kind.name().into()),
        (attribute::NCCL_HANG_MISSING_RANKS, texts(&missing)),
        (attribute::NCCL_HANG_WAITING_RANKS, texts(&waiting)),
        (attribute::NCCL_OPERATION, hang.operation.name().into()),
        (attribute::NCCL_SEQUENCE, number(hang.seq)),
    ]);
    rows.extend(hang.nranks.map(|nranks| (attribute::NCCL_NRANKS, i64::from(nranks).into())));
    rows.extend(hang.peer.map(|peer| (attribute::NCCL_PEER, i64::from(peer).into())));
    rows
}
