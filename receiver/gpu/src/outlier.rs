//! The telemetry of an outlier: a span with two children and one for each of its longest recorded calls, and a log
//! record.
//!
//! All values are known when the step ends. Span, log record and exemplar refer to each other by the ids of the
//! span; span and log record also have a common event id.

mod calls;

use instrumentation::{Hash, Records, instant};
use opentelemetry::logs::{AnyValue, LogRecord as _, Severity};
use opentelemetry::trace::{
    Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceId, Tracer,
};
use opentelemetry::{Context, KeyValue, StringValue, Value};
use opentelemetry_sdk::logs::SdkLogRecord;
use opentelemetry_sdk::trace::SdkTracer;
use probe_abi::fold::Counter;
use probe_abi::thread_counter::ThreadCounter;
use semconv::value::{GpuApiVendor, GpuStepPhase};
use semconv::{attribute, event, span};
use steps::{BaselineLevel, Phase, Step};

use crate::contexts::SpanPlacement;
use crate::memory::Piece;
use crate::memory::emit::{ages, sizes};
use crate::points::seconds;

pub(crate) use calls::Inside;

/// A step that took far longer than its baseline, and its context.
#[derive(Debug)]
pub(crate) struct Outlier<'a> {
    pub(crate) step: &'a Step,
    /// Baseline that the step exceeded.
    pub(crate) level: BaselineLevel,
    pub(crate) vendor: GpuApiVendor,
    pub(crate) model: Option<&'a str>,
    pub(crate) provider: Option<&'a str>,
    pub(crate) live_bytes: u64,
    /// The oldest allocations, oldest first.
    pub(crate) oldest: Vec<Piece>,
    /// The longest recorded calls.
    pub(crate) calls: Vec<Inside>,
    /// Functions that the step launched most, and those that are unusual in its phase, with their launches.
    pub(crate) kernels: [Vec<String>; 2],
    /// The parent and the links of the span.
    pub(crate) placement: SpanPlacement,
    pub(crate) unix: Times,
}

/// The times of a step in ns since 1970: first work enqueued, sync call entered, sync call returned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) first: u64,
    pub(crate) entry: u64,
    pub(crate) exit: u64,
}

/// The ids with which an exemplar refers to the span.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanIds {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
}

impl Outlier<'_> {
    /// Emits the span, its children and the log record.
    pub(crate) fn emit(&self, records: &Records) -> SpanIds {
        let seed = Hash::of("step").with_word(self.step.id.0).with_word(self.unix.exit);
        let ids = self.spans(records.tracer(seed));
        records.log(instant(self.unix.exit), Some((ids.trace, ids.span)), |log| self.fill(log));
        ids
    }

    fn spans(&self, tracer: &SdkTracer) -> SpanIds {
        let name = format!("{}.{}", span::INFER_OUTLIER, self.step.outlier.as_str());
        let builder = tracer.span_builder(name).with_kind(SpanKind::Internal);
        let builder = builder.with_start_time(instant(self.unix.first)).with_attributes(self.attributes());
        let builder = builder.with_links(self.placement.links.clone());
        let mut root = builder.start_with_context(tracer, &self.placement.parent);
        root.set_status(Status::error(self.status_text()));
        let context = Context::new().with_span(root);
        let ids = ids(context.span().span_context());
        context.span().end_with_timestamp(instant(self.unix.exit));
        let (enqueue, wait) = (self.of_child(self.step.first_thread), self.of_child(self.step.thread));
        child(tracer, &context, span::GPU_STEP_ENQUEUE, enqueue, self.unix.first, self.unix.entry);
        child(tracer, &context, span::GPU_STEP_WAIT, wait, self.unix.entry, self.unix.exit);
        self.calls.iter().for_each(|call| self.call(tracer, &context, call));
        ids
    }

    /// Returns the body of the log record.
    fn body(&self) -> String {
        let evidence = self.step.causes.first().map(|cause| cause.evidence.clone());
        let evidence: Vec<String> = evidence.into_iter().chain(self.slowest_call()).collect();
        match evidence.is_empty() {
            true => self.status_text(),
            false => format!("{}: {}", self.status_text(), evidence.join("; ")),
        }
    }

    /// Returns the status of the span.
    fn status_text(&self) -> String {
        let phase = match self.step.phase {
            GpuStepPhase::Unknown => "a",
            phase => phase.as_str(),
        };
        let (took, p95) = (self.step.duration_ns as f64 / 1e6, self.level.p95_ns / 1e6);
        let ratio = self.step.ratio;
        format!("{phase} step took {took:.1} ms, {ratio:.1} times the 95th percentile of {p95:.1} ms")
    }

    fn attributes(&self) -> Vec<KeyValue> {
        let step = self.step;
        let work = |counter: Counter| Some(integer(step.work.of(counter)));
        let in_graphs = |counter| work(counter).filter(|_| step.work.knows_graphs());
        let device = (step.device >= 0).then(|| Value::I64(step.device.into()));
        let (end_ns, oldest) = (step.end_ns, self.oldest.as_slice());
        let of_decode = (step.phase == Phase::Decode && !oldest.is_empty()).then_some(oldest);
        let collective = step.collective_wait_ns.map(|ns| seconds(ns).into());
        let causes: Vec<StringValue> = step.causes.iter().map(|cause| explanation(cause).into()).collect();
        let reasons: Option<Vec<StringValue>> =
            reasons(step).map(|all| all.into_iter().map(Into::into).collect());
        let [kernels, unusual] = self.kernels.each_ref().map(|all| {
            let all: Vec<StringValue> = all.iter().map(|kernel| kernel.clone().into()).collect();
            (!all.is_empty()).then(|| Value::Array(all.into()))
        });
        let rows: [(&'static str, Option<Value>); 44] = [
            (attribute::CUDA_DEVICE_INDEX, device),
            (attribute::GEN_AI_PROVIDER_NAME, self.provider.map(|p| p.to_owned().into())),
            (attribute::GEN_AI_REQUEST_MODEL, self.model.map(|m| m.to_owned().into())),
            (attribute::GPU_API_VENDOR, Some(self.vendor.as_str().into())),
            (attribute::GPU_EVENT_ID, Some(step.id.to_string().into())),
            (attribute::GPU_MEMORY_LIVE, Some(integer(self.live_bytes))),
            (attribute::GPU_MEMORY_OLDEST_AGE, ages(oldest, end_ns).first().map(|age| (*age).into())),
            (attribute::GPU_MEMORY_OLDEST_AGES, of_decode.map(|o| Value::Array(ages(o, end_ns).into()))),
            (attribute::GPU_MEMORY_OLDEST_SIZES, of_decode.map(|o| Value::Array(sizes(o).into()))),
            (attribute::GPU_STEP_BASELINE_MEAN, Some((self.level.mean_ns / 1e9).into())),
            (attribute::GPU_STEP_BASELINE_P95, Some((self.level.p95_ns / 1e9).into())),
            (attribute::GPU_STEP_BYTES_FILLED, work(Counter::BytesFilled)),
            (attribute::GPU_STEP_BYTES_FROM_DEVICE, work(Counter::BytesFromDevice)),
            (attribute::GPU_STEP_BYTES_ON_DEVICE, work(Counter::BytesOnDevice)),
            (attribute::GPU_STEP_BYTES_OTHER, work(Counter::BytesElsewhere)),
            (attribute::GPU_STEP_BYTES_TO_DEVICE, work(Counter::BytesToDevice)),
            (attribute::GPU_STEP_CAUSE, Some(step.cause().as_str().into())),
            (attribute::GPU_STEP_CAUSES, (!causes.is_empty()).then(|| Value::Array(causes.into()))),
            (attribute::GPU_STEP_COLLECTIVE_WAIT_DURATION, collective),
            (attribute::GPU_STEP_CONFIDENCE, Some(step.confidence.into())),
            (attribute::GPU_STEP_COPIES, work(Counter::Copies)),
            (attribute::GPU_STEP_DURATION, Some(seconds(step.duration_ns).into())),
            (attribute::GPU_STEP_GPU_CERTAINTY, certainty(step).map(Value::from)),
            (attribute::GPU_STEP_GRAPH_BYTES, in_graphs(Counter::GraphBytes)),
            (attribute::GPU_STEP_GRAPH_COLLECTIVES, in_graphs(Counter::GraphCollectives)),
            (attribute::GPU_STEP_GRAPH_KERNELS, in_graphs(Counter::GraphKernels)),
            (attribute::GPU_STEP_GRAPH_LAUNCHES, work(Counter::GraphLaunches)),
            (attribute::GPU_STEP_GRAPH_THREADS, in_graphs(Counter::GraphThreads)),
            (attribute::GPU_STEP_HOST_BOUND_SHARE, Some(step.host_bound_share().into())),
            (attribute::GPU_STEP_KERNELS, kernels),
            (attribute::GPU_STEP_LAUNCHES, work(Counter::Launches)),
            (attribute::GPU_STEP_OUTLIER, Some(step.outlier.as_str().into())),
            (attribute::GPU_STEP_PHASE, Some(step.phase.as_str().into())),
            (attribute::GPU_STEP_RATIO, Some(step.ratio.into())),
            (attribute::GPU_STEP_SEGMENTS, Some(Value::I64(step.segments.into()))),
            (attribute::GPU_STEP_SEQUENCE, Some(integer(step.sequence))),
            (attribute::GPU_STEP_THREADS, work(Counter::Threads)),
            (attribute::GPU_STEP_THROTTLE_DURATION, throttled_s(step).map(Value::from)),
            (attribute::GPU_STEP_THROTTLE_REASONS, reasons.map(|r| Value::Array(r.into()))),
            (attribute::GPU_STEP_THROTTLE_SHARE, throttled_share(step).map(Value::from)),
            (attribute::GPU_STEP_UNUSUAL_KERNELS, unusual),
            (attribute::GPU_STREAM_ORDINAL, Some(Value::I64(step.stream.into()))),
            (attribute::HW_ID, step.gpu.as_ref().map(|gpu| gpu.id.clone().into())),
            (attribute::THREAD_ID, Some(Value::I64(step.thread.into()))),
        ];
        rows.into_iter().filter_map(|(key, value)| Some(KeyValue::new(key, value?))).collect()
    }

    /// Returns the attributes of a child span.
    fn of_child(&self, thread: u32) -> Vec<KeyValue> {
        vec![
            KeyValue::new(attribute::GPU_EVENT_ID, self.step.id.to_string()),
            KeyValue::new(attribute::THREAD_ID, i64::from(thread)),
        ]
    }

    fn fill(&self, log: &mut SdkLogRecord) {
        let step = self.step;
        log.set_event_name(event::GPU_STEP_OUTLIER);
        log.set_severity_number(Severity::Warn);
        log.set_severity_text("WARN");
        log.set_body(self.body().into());
        let causes: Vec<String> = step.causes.iter().map(explanation).collect();
        let gap = (step.gap_ns > 0).then(|| seconds(step.gap_ns).into());
        let collective = step.collective_wait_ns.map(|ns| seconds(ns).into());
        let [kernels, unusual] = self.kernels.each_ref().map(|all| (!all.is_empty()).then(|| texts(all)));
        let rows: [(&'static str, Option<AnyValue>); 24] = [
            (attribute::GPU_EVENT_ID, Some(step.id.to_string().into())),
            (attribute::GPU_STEP_BASELINE_MEAN, Some((self.level.mean_ns / 1e9).into())),
            (attribute::GPU_STEP_BASELINE_P95, Some((self.level.p95_ns / 1e9).into())),
            (attribute::GPU_STEP_CALLS, self.longest_calls().map(|calls| texts(&calls))),
            (attribute::GPU_STEP_CAUSE, Some(step.cause().as_str().into())),
            (attribute::GPU_STEP_CAUSES, (!causes.is_empty()).then(|| texts(&causes))),
            (attribute::GPU_STEP_COLLECTIVE_WAIT_DURATION, collective),
            (attribute::GPU_STEP_CONFIDENCE, Some(step.confidence.into())),
            (attribute::GPU_STEP_DURATION, Some(seconds(step.duration_ns).into())),
            (attribute::GPU_STEP_ENQUEUE_DURATION, Some(seconds(step.enqueue_ns).into())),
            (attribute::GPU_STEP_GAP_DURATION, gap),
            (attribute::GPU_STEP_GPU_CERTAINTY, certainty(step).map(AnyValue::from)),
            (attribute::GPU_STEP_HOST_BOUND_SHARE, Some(step.host_bound_share().into())),
            (attribute::GPU_STEP_KERNELS, kernels),
            (attribute::GPU_STEP_OUTLIER, Some(step.outlier.as_str().into())),
            (attribute::GPU_STEP_PHASE, Some(step.phase.as_str().into())),
            (attribute::GPU_STEP_RATIO, Some(step.ratio.into())),
            (attribute::GPU_STEP_RUN_QUEUE_DURATION, run_queue_s(step).map(AnyValue::from)),
            (attribute::GPU_STEP_THROTTLE_DURATION, throttled_s(step).map(AnyValue::from)),
            (attribute::GPU_STEP_THROTTLE_REASONS, reasons(step).map(|all| texts(&all))),
            (attribute::GPU_STEP_THROTTLE_SHARE, throttled_share(step).map(AnyValue::from)),
            (attribute::GPU_STEP_UNUSUAL_KERNELS, unusual),
            (attribute::GPU_STEP_WAIT_DURATION, Some(seconds(step.wait_ns).into())),
            (attribute::HW_ID, step.gpu.as_ref().map(|gpu| gpu.id.clone().into())),
        ];
        log.add_attributes(rows.into_iter().filter_map(|(key, value)| Some((key, value?))));
    }
}

/// Returns how the GPU of the step is known.
fn certainty(step: &Step) -> Option<&'static str> {
    step.gpu.as_ref().map(|gpu| gpu.certainty.as_str())
}

/// Returns the reasons for which the clocks of its GPU were throttled, longest first.
fn reasons(step: &Step) -> Option<Vec<String>> {
    let all = step.throttled.iter().map(|throttled| throttled.reason.as_str().to_owned());
    (!step.throttled.is_empty()).then(|| all.collect())
}

/// Returns the time for which the first reason applied.
fn throttled_s(step: &Step) -> Option<f64> {
    step.throttled.first().map(|longest| seconds(longest.ns))
}

/// Returns that time as a share of the step.
fn throttled_share(step: &Step) -> Option<f64> {
    let share = |longest: &steps::Throttled| longest.ns as f64 / (step.duration_ns as f64).max(1.0);
    step.throttled.first().map(|longest| share(longest).min(1.0))
}

/// Returns a cause as a status_text.
pub(crate) fn explanation(cause: &steps::Cause) -> String {
    let (percent, kind, severity) = (cause.share * 100.0, cause.kind.as_str(), cause.severity.name());
    format!("{percent:.0} % {kind} ({severity}): {}; {}", cause.evidence, cause.advice)
}

/// Returns the time that the threads of the step waited for a CPU; `None` if the kernel does not measure it.
pub(crate) fn run_queue_s(step: &Step) -> Option<f64> {
    let waited = step.increase(ThreadCounter::RunQueue);
    let seen = [waited.gap, waited.enqueue, waited.wait].into_iter().flatten();
    seen.reduce(u64::saturating_add).map(seconds)
}

/// Returns texts as an array value.
pub(crate) fn texts(texts: &[String]) -> AnyValue {
    AnyValue::ListAny(Box::new(texts.iter().map(|text| text.clone().into()).collect()))
}

fn child(
    tracer: &SdkTracer,
    parent: &Context,
    name: &'static str,
    attributes: Vec<KeyValue>,
    from: u64,
    to: u64,
) {
    let builder = tracer.span_builder(name).with_kind(SpanKind::Internal).with_attributes(attributes);
    let mut span = builder.with_start_time(instant(from)).start_with_context(tracer, parent);
    span.end_with_timestamp(instant(to));
}

fn ids(context: &SpanContext) -> SpanIds {
    SpanIds { trace: context.trace_id(), span: context.span_id() }
}

fn integer(value: u64) -> Value {
    Value::I64(i64::try_from(value).unwrap_or(i64::MAX))
}
