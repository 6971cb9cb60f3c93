//! Attributes shared by log records and spans about collectives.

use std::time::SystemTime;

use nccl::{CommunicatorId, RankIdentity};
use opentelemetry::logs::{AnyValue, LogRecord as _, Severity};
use opentelemetry::trace::{SpanId, TraceId};
use semconv::attribute;

use instrumentation::Records;

/// Emits a log record with sorted attributes.
pub(crate) fn log(
    records: &Records,
    at: SystemTime,
    span: Option<(TraceId, SpanId)>,
    name: &'static str,
    severity: Severity,
    body: String,
    rows: impl IntoIterator<Item = (&'static str, AnyValue)>,
) {
    let mut rows: Vec<(&'static str, AnyValue)> = rows.into_iter().collect();
    rows.sort_by_key(|(key, _)| *key);
    records.log(at, span, |log| {
        log.set_event_name(name);
        log.set_severity_number(severity);
        log.set_severity_text(severity.name());
        log.set_body(body.into());
        log.add_attributes(rows);
    });
}

/// Returns the attributes of a communicator.
pub(super) fn communicator(id: CommunicatorId) -> Vec<(&'static str, AnyValue)> {
    vec![
        (attribute::NCCL_COMMUNICATOR_HASH, id.to_string().into()),
        (attribute::NCCL_COMMUNICATOR_SOURCE, id.source.name().into()),
    ]
}

/// Returns the attributes of a rank and its communicator.
pub(super) fn who(who: &RankIdentity) -> Vec<(&'static str, AnyValue)> {
    let mut rows = communicator(who.communicator);
    rows.push((attribute::NCCL_RANK_SOURCE, who.rank.source.name().into()));
    rows.extend(who.nranks.value.map(|nranks| (attribute::NCCL_NRANKS, i64::from(nranks).into())));
    rows.extend(who.rank.value.map(|rank| (attribute::NCCL_RANK, i64::from(rank).into())));
    rows
}

/// Returns a count as an attribute value.
pub(crate) fn number(count: impl TryInto<i64>) -> AnyValue {
    AnyValue::from(count.try_into().unwrap_or(i64::MAX))
}
