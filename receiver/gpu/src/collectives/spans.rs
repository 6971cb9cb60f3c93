//! Spans of collectives: one trace for each collective, with ids that every rank and node derives independently.
//!
//! ```text
//! nccl.collective.AllReduce      of rank 0, from the first arrival on this node
//! `- nccl.rank.AllReduce         of each rank
//!    |- nccl.rank.enqueue
//!    `- nccl.rank.wait
//!
//! nccl.rank.Send                 of the rank that sends; a message has only its two sides
//! |- nccl.rank.enqueue, nccl.rank.wait
//! `- nccl.rank.Recv              of the rank that receives
//!    `- nccl.rank.enqueue, nccl.rank.wait
//! ```
//!
//! Collectives selected by their hash are traced on every node. Those selected for a large skew are rate-limited, by
//! collective and not by rank, so that their traces are complete.

use std::collections::VecDeque;

use instrumentation::{Limit, Records, instant};
use nccl::finding::{Completed, Traced};
use nccl::operation::{datatype_name, reduction_name};
use nccl::trace::Chosen;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, KeyValue, Value};
use probe_abi::nccl::Peer;
use semconv::{attribute, span};

use crate::clock::Clock;
use crate::points::seconds;

/// The number of recent decisions that later ranks of a collective reuse. When full, the oldest is evicted.
const REMEMBERED_MAX: usize = 256;

/// Selects the collectives of a large skew to trace.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    limit: Limit,
    /// Trace id and decision.
    remembered: VecDeque<(u128, bool)>,
}

impl Selection {
    /// Creates a selection with a burst and a rate per minute.
    pub(super) fn new(per_minute: u32, burst: u32) -> Selection {
        Selection { limit: Limit::new(per_minute, burst), remembered: VecDeque::new() }
    }

    /// Returns whether the collective is traced; equal for all its ranks.
    pub(super) fn takes(&mut self, traced: &Traced, now_ns: u64) -> bool {
        if traced.chosen == Chosen::Rate {
            return true;
        }
        let trace_id = traced.ids.trace_id;
        let known = self.remembered.iter().rev().find(|(id, _)| *id == trace_id);
        if let Some((_, is_taken)) = known {
            return *is_taken;
        }
        if self.remembered.len() == REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        let is_taken = self.limit.take(now_ns);
        self.remembered.push_back((trace_id, is_taken));
        is_taken
    }
}

/// Records the spans of a rank, and the span of the collective if this rank sends it.
pub(super) fn emit(completed: &Completed, traced: &Traced, clock: &Clock, records: &Records) {
    let part = Part { completed, traced, clock, records };
    let (is_collective, no_parent) = (completed.op.operation.is_collective(), Context::new());
    if traced.is_root && is_collective {
        let first_ns = completed.op.arrival_ns.saturating_sub(completed.behind_first_ns.unwrap_or(0));
        let name = format!("{}.{}", span::NCCL_COLLECTIVE, completed.op.operation.name());
        part.span(
            traced.ids.root_span_id,
            name,
            &no_parent,
            part.of_collective(),
            first_ns,
            completed.end_ns,
        );
    }
    let (op, end_ns) = (&completed.op, completed.end_ns);
    let name = format!("{}.{}", span::NCCL_RANK, op.operation.name());
    let (id, parent) = match traced.is_root && !is_collective {
        true => (traced.ids.root_span_id, no_parent),
        false => (traced.ids.span_id, part.context(traced.ids.root_span_id)),
    };
    part.span(id, name, &parent, part.of_rank(), op.entry_ns, end_ns);
    let own = part.context(id);
    let thread = |tid: u32| vec![KeyValue::new(attribute::THREAD_ID, i64::from(tid))];
    let (enqueue, wait) = (traced.ids.enqueue_span_id, traced.ids.wait_span_id);
    let waited_ns = end_ns.saturating_sub(completed.wait_ns);
    let name = span::NCCL_RANK_ENQUEUE.to_owned();
    part.span(enqueue, name, &own, thread(completed.who.tid), op.arrival_ns, op.enqueued_ns);
    let name = span::NCCL_RANK_WAIT.to_owned();
    part.span(wait, name, &own, thread(completed.sync_tid), waited_ns, end_ns);
}

/// The participation of a rank in a collective.
struct Part<'a> {
    completed: &'a Completed,
    traced: &'a Traced,
    clock: &'a Clock,
    records: &'a Records,
}

impl Part<'_> {
    fn trace_id(&self) -> TraceId {
        TraceId::from(self.traced.ids.trace_id)
    }

    /// Returns a parent context, whose span another process may send.
    fn context(&self, span_id: u64) -> Context {
        let (trace, span) = (self.trace_id(), SpanId::from(span_id));
        let parent = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE);
        Context::new().with_remote_span_context(parent)
    }

    fn span(
        &self,
        id: u64,
        name: String,
        parent: &Context,
        attributes: Vec<KeyValue>,
        from_ns: u64,
        to_ns: u64,
    ) {
        let at = |ns: u64| instant(self.clock.unix(ns));
        let tracer = self.records.tracer_of(self.trace_id(), SpanId::from(id));
        let builder = tracer.span_builder(name).with_kind(SpanKind::Internal);
        let builder = builder.with_start_time(at(from_ns)).with_attributes(attributes);
        builder.start_with_context(tracer, parent).end_with_timestamp(at(to_ns));
    }

    /// Returns the attributes common to all ranks.
    fn rows(&self) -> Vec<(&'static str, Option<Value>)> {
        let Completed { who, op, skew_ns, .. } = self.completed;
        vec![
            (attribute::NCCL_COMMUNICATOR_HASH, Some(who.communicator.to_string().into())),
            (attribute::NCCL_COMMUNICATOR_SOURCE, Some(who.communicator.source.name().into())),
            (attribute::NCCL_NRANKS, who.nranks.value.map(integer)),
            (attribute::NCCL_OPERATION, Some(op.operation.name().into())),
            (attribute::NCCL_SEQUENCE, Some(number(op.seq))),
            (attribute::NCCL_SKEW, skew_ns.map(|ns| seconds(ns).into())),
            (attribute::NCCL_TRACE_REASON, Some(self.traced.chosen.name().into())),
        ]
    }

    fn of_collective(&self) -> Vec<KeyValue> {
        key_values(self.rows())
    }

    fn of_rank(&self) -> Vec<KeyValue> {
        let Completed { who, op, behind_first_ns, .. } = self.completed;
        let bytes = op.bytes().map(number);
        let reduction = op.operation.reduces().then(|| reduction_name(op.reduction).into());
        let mut rows = self.rows();
        rows.extend([
            (attribute::CUDA_DEVICE_INDEX, (who.device >= 0).then(|| Value::I64(who.device.into()))),
            (attribute::NCCL_BYTES, bytes),
            (attribute::NCCL_DATATYPE, Some(datatype_name(op.datatype).into())),
            (attribute::NCCL_MESSAGE_SEQUENCE, self.completed.message.map(number)),
            (attribute::NCCL_PEER, (op.operation.peer() == Peer::Other).then(|| Value::I64(op.peer.into()))),
            (attribute::NCCL_RANK, who.rank.value.map(integer)),
            (attribute::NCCL_RANK_SOURCE, Some(who.rank.source.name().into())),
            (attribute::NCCL_REDUCTION, reduction),
            (attribute::NCCL_ARRIVAL_DELAY, behind_first_ns.map(|ns| seconds(ns).into())),
            (attribute::THREAD_ID, Some(integer(who.tid))),
        ]);
        key_values(rows)
    }
}

fn key_values(mut rows: Vec<(&'static str, Option<Value>)>) -> Vec<KeyValue> {
    rows.sort_by_key(|(key, _)| *key);
    rows.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?))).collect()
}

fn number(count: u64) -> Value {
    Value::I64(i64::try_from(count).unwrap_or(i64::MAX))
}

fn integer(value: u32) -> Value {
    Value::I64(value.into())
}
