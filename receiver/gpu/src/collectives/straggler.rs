//! Reports of stragglers: a span for the time that the rank is late, a log record, and the state of its host.

use instrumentation::Hash;
use nccl::finding::Straggler;
use opentelemetry::logs::{AnyValue, Severity};
use opentelemetry::trace::{Span as _, SpanKind, Status, Tracer};
use opentelemetry::{Context, KeyValue, Value};
use semconv::value::NcclStragglerCause;
use semconv::{attribute, event, span};
use steps::Step;

use super::attributes::{log, number, who};
use super::emit::{Emitter, Kind};
use crate::outlier::{explanation, run_queue_s, texts};
use crate::points::seconds;
use crate::traced::Traced;

impl Emitter<'_, '_> {
    /// Counts a straggler, and logs it unless the limit of its process suppresses it.
    pub(super) fn straggler(&mut self, found: &Straggler) {
        if let Some(traced) = self.processes.get_mut(&found.who.process) {
            traced.collectives().straggler(found);
        }
        if !self.may_log(&found.who, Kind::Verdict) {
            return;
        }
        let step = self.processes.get(&found.who.process).and_then(Traced::last_step);
        let verdict = Verdict { found, step };
        let (rows, body, id) = (verdict.rows(), verdict.sentence(), verdict.id());
        let (from, to) = (self.at(found.at_ns.saturating_sub(found.behind_ns)), self.at(found.at_ns));
        let tracer = self.records.tracer(id);
        let builder = tracer.span_builder(span::NCCL_STRAGGLER).with_kind(SpanKind::Internal);
        let builder =
            builder.with_start_time(from).with_attributes(rows.iter().cloned().filter_map(key_value));
        let mut span = builder.start_with_context(tracer, &Context::new());
        span.set_status(Status::error(body.clone()));
        let ids = (span.span_context().trace_id(), span.span_context().span_id());
        span.end_with_timestamp(to);
        log(self.records, to, Some(ids), event::NCCL_STRAGGLER, Severity::Warn, body, rows);
        self.take_records(&found.who);
    }
}

/// A straggler, and the last step of its process.
struct Verdict<'a> {
    found: &'a Straggler,
    step: Option<&'a Step>,
}

impl Verdict<'_> {
    fn id(&self) -> Hash {
        let (found, process) = (self.found, self.found.who.process);
        let parts = [found.who.communicator.hash, found.seq, process.pid.into(), process.start_ns];
        parts.into_iter().fold(Hash::of("straggler"), Hash::with_word)
    }

    fn sentence(&self) -> String {
        let Straggler { who, behind_ns, rounds, late_rounds, .. } = self.found;
        let (late_ms, why) = (*behind_ns as f64 / 1e6, self.cause());
        let why = match why {
            NcclStragglerCause::Cpu => "its thread waited for a CPU",
            NcclStragglerCause::Device => "it waited for its GPU or for another communicator",
            NcclStragglerCause::Host => "its host did other work",
        };
        let rounds = format!("{late_rounds} of {rounds} collectives");
        format!("{who} of {} comes {late_ms:.1} ms behind its peers in {rounds}: {why}", who.communicator)
    }

    /// Returns the likely cause: the GPU if most of the time was waited in other calls, the scheduler if the thread
    /// was ready to run without a CPU.
    fn cause(&self) -> NcclStragglerCause {
        let half_s = seconds(self.found.behind_ns) / 2.0;
        let queued_s = self.step.and_then(run_queue_s).unwrap_or(0.0);
        if seconds(self.found.waited_ns) >= half_s {
            NcclStragglerCause::Device
        } else if queued_s >= half_s {
            NcclStragglerCause::Cpu
        } else {
            NcclStragglerCause::Host
        }
    }

    fn rows(&self) -> Vec<(&'static str, AnyValue)> {
        let found = self.found;
        let mut rows = who(&found.who);
        rows.extend([
            (attribute::GPU_EVENT_ID, format!("{:016x}", self.id().id64()).into()),
            (attribute::NCCL_STRAGGLER_LATENESS, seconds(found.behind_ns).into()),
            (attribute::NCCL_OPERATION, found.operation.name().into()),
            (attribute::NCCL_STRAGGLER_COLLECTIVES, number(found.rounds)),
            (attribute::NCCL_STRAGGLER_LATE_COLLECTIVES, number(found.late_rounds)),
            (attribute::NCCL_STRAGGLER_PEER_SPREAD, seconds(found.scatter_ns).into()),
            (attribute::NCCL_SEQUENCE, number(found.seq)),
            (attribute::NCCL_STRAGGLER_CAUSE, self.cause().as_str().into()),
            (attribute::NCCL_STRAGGLER_PRIOR_WAIT, seconds(found.waited_ns).into()),
            (attribute::THREAD_ID, number(found.who.tid)),
        ]);
        let device = u32::try_from(found.who.device).ok();
        rows.extend(device.map(|device| (attribute::CUDA_DEVICE_INDEX, number(device))));
        rows.extend(found.wait_ns.map(|ns| (attribute::NCCL_STRAGGLER_WAIT, seconds(ns).into())));
        rows.extend(found.wait_peers_ns.map(|ns| (attribute::NCCL_STRAGGLER_PEER_WAIT, seconds(ns).into())));
        rows.extend(self.step.map(step_attributes).into_iter().flatten());
        rows.sort_by_key(|(key, _)| *key);
        rows
    }
}

/// Returns the attributes of the last step.
fn step_attributes(step: &Step) -> Vec<(&'static str, AnyValue)> {
    let causes: Vec<String> = step.causes.iter().map(explanation).collect();
    let mut rows = vec![
        (attribute::GPU_STEP_DURATION, seconds(step.duration_ns).into()),
        (attribute::GPU_STEP_ENQUEUE_DURATION, seconds(step.enqueue_ns).into()),
        (attribute::GPU_STEP_HOST_BOUND_SHARE, step.host_bound_share().into()),
        (attribute::GPU_STEP_PHASE, step.phase.as_str().into()),
        (attribute::GPU_STEP_WAIT_DURATION, seconds(step.wait_ns).into()),
    ];
    rows.extend((!causes.is_empty()).then(|| (attribute::GPU_STEP_CAUSES, texts(&causes))));
    rows.extend(run_queue_s(step).map(|s| (attribute::GPU_STEP_RUN_QUEUE_DURATION, s.into())));
    rows
}

/// Converts an attribute of a log record to one of a span.
fn key_value((key, value): (&'static str, AnyValue)) -> Option<KeyValue> {
    let value: Value = match value {
        AnyValue::Int(number) => number.into(),
        AnyValue::Double(number) => number.into(),
        AnyValue::String(text) => text.into(),
        AnyValue::Boolean(truth) => truth.into(),
        AnyValue::ListAny(list) => {
            let texts = list.into_iter().filter_map(|item| match item {
                AnyValue::String(text) => Some(text),
                _ => None,
            });
            Value::Array(texts.collect::<Vec<_>>().into())
        }
        _ => return None,
    };
    Some(KeyValue::new(key, value))
}
