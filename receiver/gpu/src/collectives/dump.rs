//! The flight record of a rank as a log record: its operations in progress and the last completed ones.
//!
//! The text is the same for a rank that ended, a rank of a hanging communicator, and a rank from an earlier run.
//! Times are relative to the time of the record, so no clock is needed. `nccl` bounds all lists.

use std::time::SystemTime;

use instrumentation::Records;
use nccl::finding::Ended;
use nccl::observe::StepNote;
use nccl::operation::{datatype_name, reduction_name};
use nccl::record::RankRecord;
use nccl::{FlightRecord, Op, Operation, RankEnd, RankIdentity};
use opentelemetry::logs::{AnyValue, Severity};
use semconv::{attribute, event};

use super::attributes::{log, who};
use crate::outlier::texts;

/// The state of a rank at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dump<'a> {
    /// Time of the state, CLOCK_MONOTONIC ns.
    at_ns: u64,
    who: &'a RankIdentity,
    outstanding: &'a [Op],
    outstanding_count: u64,
    recent: &'a [Op],
    steps: &'a [StepNote],
}

impl<'a> Dump<'a> {
    /// Returns the state of a rank when it ended.
    pub(crate) fn of_ended(ended: &'a Ended) -> Dump<'a> {
        Dump {
            at_ns: ended.at_ns,
            who: &ended.who,
            outstanding: &ended.outstanding,
            outstanding_count: ended.outstanding_count,
            recent: &ended.recent,
            steps: &ended.steps,
        }
    }

    /// Returns the state of a rank in a persisted record.
    pub(crate) fn of_record(record: &'a FlightRecord, rank: &'a RankRecord) -> Dump<'a> {
        Dump {
            at_ns: record.at_ns,
            who: &rank.who,
            outstanding: &rank.outstanding,
            outstanding_count: rank.outstanding_count,
            recent: &rank.recent,
            steps: &record.steps,
        }
    }

    /// Logs the end of the rank.
    pub(crate) fn log_end(&self, end: RankEnd, at: SystemTime, records: &Records) {
        let is_usual = matches!(end, RankEnd::Exited(None | Some(0))) && self.outstanding_count == 0;
        let severity = if is_usual { Severity::Info } else { Severity::Error };
        let was = if matches!(end, RankEnd::Exited(_)) { "" } else { "was " };
        let body = format!("{} of {} {was}{end} {}", self.who, self.who.communicator, self.under_way());
        let rows = self.rows().into_iter().chain(end_attributes(end));
        log(records, at, None, event::NCCL_RANK_ENDED, severity, body, rows);
    }

    /// Logs the operations in progress of a rank of a hanging communicator.
    pub(crate) fn log_pending(&self, at: SystemTime, records: &Records) {
        let body = format!("{} of {} {}", self.who, self.who.communicator, self.under_way());
        log(records, at, None, event::NCCL_FLIGHT_RECORD, Severity::Info, body, self.rows());
    }

    /// Logs the operations in progress of a rank whose process ended while the agent was not running.
    pub(crate) fn log_ended_process(&self, at: SystemTime, records: &Records) {
        let severity = if self.outstanding_count == 0 { Severity::Info } else { Severity::Error };
        let (who, communicator) = (self.who, self.who.communicator);
        let body = format!(
            "{who} of {communicator} ended while the agent was not running, last seen {}",
            self.under_way()
        );
        log(records, at, None, event::NCCL_FLIGHT_RECORD, severity, body, self.rows());
    }

    fn under_way(&self) -> String {
        match self.outstanding {
            [] => "with nothing under way".to_owned(),
            [first, ..] => {
                format!("with {} under way, first {}", self.outstanding_count, described(first, self.at_ns))
            }
        }
    }

    fn rows(&self) -> Vec<(&'static str, AnyValue)> {
        let ops = |ops: &[Op]| texts(&ops.iter().map(|op| described(op, self.at_ns)).collect::<Vec<_>>());
        let steps: Vec<String> = self.steps.iter().map(|step| self.step(step)).collect();
        let count = i64::try_from(self.outstanding_count).unwrap_or(i64::MAX);
        let own = [
            (attribute::NCCL_OUTSTANDING, ops(self.outstanding)),
            (attribute::NCCL_OUTSTANDING_COUNT, AnyValue::from(count)),
            (attribute::NCCL_RECENT_OPERATIONS, ops(self.recent)),
            (attribute::NCCL_RECENT_STEPS, texts(&steps)),
        ];
        who(self.who).into_iter().chain(own).collect()
    }

    fn step(&self, step: &StepNote) -> String {
        let (took_ms, before_s) = (step.duration_ns as f64 / 1e6, before_s(step.end_ns, self.at_ns));
        format!("step {} took {took_ms:.1} ms, over {before_s:.3} s before", step.sequence)
    }
}

/// Returns the attributes of the end of a rank.
fn end_attributes(end: RankEnd) -> Vec<(&'static str, AnyValue)> {
    let mut rows = vec![(attribute::NCCL_END_REASON, end.name().into())];
    match end {
        RankEnd::Exited(Some(code)) => rows.push((attribute::PROCESS_EXIT_CODE, i64::from(code).into())),
        RankEnd::Killed(signal) => rows.push((attribute::NCCL_END_SIGNAL, i64::from(signal).into())),
        _ => {}
    }
    rows
}

/// Describes an operation.
fn described(op: &Op, at_ns: u64) -> String {
    let call = called((op.operation, op.datatype, op.count));
    let reduction = if op.operation.reduces() { reduction_name(op.reduction) } else { "" };
    let peer = if op.peer >= 0 { format!("peer {}", op.peer) } else { String::new() };
    let details = [reduction, &peer].into_iter().filter(|part| !part.is_empty());
    let details: String = details.map(|part| format!(", {part}")).collect();
    format!("#{} {call}{details}, enqueued {:.3} s before", op.seq, before_s(op.enqueued_ns, at_ns))
}

/// Describes a call: operation, data type and number of elements.
pub(super) fn called((operation, datatype, count): (Operation, u32, u64)) -> String {
    format!("{} of {count} {}", operation.name(), datatype_name(datatype))
}

fn before_s(then_ns: u64, at_ns: u64) -> f64 {
    at_ns.saturating_sub(then_ns) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_described() {
        let op =
            Op { datatype: 7, count: 1024, peer: -1, seq: 42, enqueued_ns: 500_000_000, ..Op::default() };
        let at_ns = 2_000_000_000;
        assert_eq!(described(&op, at_ns), "#42 AllReduce of 1024 float32, sum, enqueued 1.500 s before");
        let send = Op { operation: Operation::Send, peer: 3, ..op };
        assert_eq!(described(&send, at_ns), "#42 Send of 1024 float32, peer 3, enqueued 1.500 s before");
    }
}
