//! Spans and log records emitted at once: outliers, baseline shifts, coverage of processes.

use event::ProcessInfo;
use instrumentation::{Records, instant};
use opentelemetry::logs::{AnyValue, LogRecord as _, Severity};
use opentelemetry_proto::tonic::resource::v1::Resource;
use semconv::{attribute, event as event_name};
use steps::{BaselineShift, Step};

use crate::account::Account;
use crate::batch::{Sink, take_records};
use crate::clock::Clock;
use crate::outlier::{Outlier, Times, texts};
use crate::points::seconds;
use crate::traced::Traced;

/// The functions named on an outlier that it launched most.
const KERNELS_MAX: usize = 8;
/// The maximum number of allocations named on an outlier.
const OLDEST_MAX: usize = 5;

/// Emits the span and log record of an outlier, unless the limit of its process suppresses them.
pub(crate) fn outlier(
    traced: &mut Traced,
    step: &Step,
    records: &Records,
    account: &mut Account,
    clock: &Clock,
    sink: Sink<'_>,
) {
    let Some(level) = step.baseline else { return };
    if !traced.limit.take(clock.now_ns()) {
        account.suppressed += 1;
        return;
    }
    let (provider, model) = traced.serves();
    let entry_ns = step.start_ns.saturating_add(step.enqueue_ns).min(step.end_ns);
    let times = [step.start_ns, entry_ns, step.end_ns].map(|ns| clock.unix(ns));
    let outlier = Outlier {
        step,
        level,
        vendor: traced.vendor(),
        provider,
        model,
        live_bytes: traced.memory.live_bytes(),
        oldest: traced.memory.oldest(OLDEST_MAX),
        calls: traced.calls_within(step.start_ns, step.end_ns),
        kernels: [
            traced.functions.name_lanes(step.top_lanes(KERNELS_MAX)),
            traced
                .functions
                .name_lanes(step.unusual_lanes().map(|lane| (lane, step.signature.launches(lane)))),
        ],
        placement: traced.contexts.parent_and_links(
            step.thread,
            step.start_ns..=step.end_ns,
            traced.relation,
        ),
        unix: Times { first: times[0], entry: times[1], exit: times[2] },
    };
    let ids = outlier.emit(records);
    traced.point_to(step, ids, times[2]);
    take_records(traced.resource(), records, sink);
}

/// Logs that a baseline was relearned.
pub(crate) fn shift(
    traced: &Traced,
    shift: &BaselineShift,
    records: &Records,
    clock: &Clock,
    sink: Sink<'_>,
) {
    let phase = shift.phase.as_str();
    let (before, after) = (&shift.before, &shift.after);
    let body = format!(
        "{phase} steps now take {:.1} ms, {:.1} ms before: the baseline was relearned",
        after.mean_ns / 1e6,
        before.mean_ns / 1e6
    );
    let seconds = |ns: f64| AnyValue::from(ns / 1e9);
    records.log(instant(clock.unix(shift.at_ns)), None, |log| {
        log.set_event_name(event_name::GPU_STEP_BASELINE_SHIFT);
        log.set_severity_number(Severity::Info);
        log.set_severity_text("INFO");
        log.set_body(body.into());
        log.add_attributes([
            (attribute::GPU_STEP_BASELINE_MEAN, seconds(after.mean_ns)),
            (attribute::GPU_STEP_BASELINE_P95, seconds(after.p95_ns)),
            (attribute::GPU_STEP_BASELINE_PREVIOUS_MEAN, seconds(before.mean_ns)),
            (attribute::GPU_STEP_BASELINE_PREVIOUS_P95, seconds(before.p95_ns)),
            (attribute::GPU_STEP_PHASE, phase.into()),
        ]);
    });
    take_records(traced.resource(), records, sink);
}

/// Logs that records of earlier runs could not be read.
pub(crate) fn corrupted_records(
    resource: &Resource,
    count: u64,
    at_unix: u64,
    records: &Records,
    sink: Sink<'_>,
) {
    records.log(instant(at_unix), None, |log| {
        log.set_event_name(event_name::WARPTAP_PERSISTENCE_CORRUPTED);
        log.set_severity_number(Severity::Warn);
        log.set_severity_text("WARN");
        log.set_body(format!("{count} persisted records cannot be read and are discarded").into());
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        log.add_attribute(attribute::WARPTAP_PERSISTENCE_RECORDS, count);
    });
    take_records(resource, records, sink);
}

/// Logs which calls of a process are observed and which are not.
pub(crate) fn coverage(
    traced: &Traced,
    info: &ProcessInfo,
    records: &Records,
    clock: &Clock,
    sink: Sink<'_>,
) {
    let is_whole = info.gaps.is_empty() && !info.observed.is_empty();
    let (severity, text) = if is_whole { (Severity::Info, "INFO") } else { (Severity::Warn, "WARN") };
    records.log(instant(clock.unix(clock.now_ns())), None, |log| {
        log.set_event_name(event_name::WARPTAP_PROCESS_COVERAGE);
        log.set_severity_number(severity);
        log.set_severity_text(text);
        log.set_body(coverage_text(info).into());
        log.add_attribute(attribute::WARPTAP_PROCESS_COVERAGE_GAPS, texts(&info.gaps));
        log.add_attribute(attribute::WARPTAP_PROCESS_COVERAGE_OBSERVED, texts(&info.observed));
        if info.unobserved_ns > 0 {
            let unobserved_s = seconds(info.unobserved_ns);
            log.add_attribute(attribute::WARPTAP_PROCESS_COVERAGE_UNOBSERVED, unobserved_s);
        }
    });
    take_records(traced.resource(), records, sink);
}

fn coverage_text(info: &ProcessInfo) -> String {
    let mut observed = match info.observed.as_slice() {
        [] => "no calls are observed".to_owned(),
        libraries => format!("observed: {}", libraries.join(", ")),
    };
    if info.unobserved_ns > 0 {
        let unobserved_ms = info.unobserved_ns as f64 / 1e6;
        observed.push_str(&format!("; calls may be missing from {unobserved_ms:.1} ms without all probes"));
    }
    match info.gaps.as_slice() {
        [] => observed,
        gaps => format!("{observed}; not observed: {}", gaps.join(", ")),
    }
}
