//! Spans and log records of the OpenTelemetry SDK, collected in lists when they end.
//!
//! There is no batch processor, no thread and no randomness: ids are hashes of the event that a record is about, so that
//! the same recording gives the same ids. The caller that takes the records adds their resource.

use std::mem::take;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opentelemetry::logs::{LogRecord as _, Logger as _, LoggerProvider as _};
use opentelemetry::trace::{SpanId, TraceId, TracerProvider as _};
use opentelemetry::{Context, InstrumentationScope, TraceFlags};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span as EncodedSpan;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord, SdkLogger, SdkLoggerProvider};
use opentelemetry_sdk::trace::{
    IdGenerator, Sampler, SdkTracer, SdkTracerProvider, Span, SpanData, SpanProcessor,
};

use crate::ids::Hash;

/// Maximum number of attributes of a span: more than the registry declares.
const ATTRIBUTES_MAX: u32 = 128;

/// A tracer, a logger, and their finished spans and log records.
#[derive(Debug)]
pub struct Records {
    scope: InstrumentationScope,
    tracer: SdkTracer,
    logger: SdkLogger,
    spans: Arc<Mutex<Vec<SpanData>>>,
    logs: Arc<Mutex<Vec<SdkLogRecord>>>,
    ids: Ids,
    _providers: (SdkTracerProvider, SdkLoggerProvider),
}

impl Records {
    /// Returns providers for `scope`, without a resource.
    pub fn new(scope: InstrumentationScope) -> Records {
        let (spans, logs, ids) = (Arc::default(), Arc::default(), Ids::default());
        let tracers = SdkTracerProvider::builder()
            .with_span_processor(Spans(Arc::clone(&spans)))
            .with_id_generator(ids.clone())
            .with_sampler(Sampler::AlwaysOn)
            .with_max_attributes_per_span(ATTRIBUTES_MAX)
            .with_resource(Resource::builder_empty().build())
            .build();
        let loggers = SdkLoggerProvider::builder()
            .with_log_processor(Logs(Arc::clone(&logs)))
            .with_resource(Resource::builder_empty().build())
            .build();
        let tracer = tracers.tracer_with_scope(scope.clone());
        let logger = loggers.logger_with_scope(scope.clone());
        Records { scope, tracer, logger, spans, logs, ids, _providers: (tracers, loggers) }
    }

    /// Returns the instrumentation scope of the records.
    pub fn scope(&self) -> &InstrumentationScope {
        &self.scope
    }

    /// Returns the tracer; its next ids are derived from `seed`.
    pub fn tracer(&self, seed: Hash) -> &SdkTracer {
        *lock(&self.ids.0) = Next::Derived(seed, 0);
        &self.tracer
    }

    /// Returns the tracer; its next span has these ids, unless a parent determines the trace.
    pub fn tracer_of(&self, trace: TraceId, span: SpanId) -> &SdkTracer {
        *lock(&self.ids.0) = Next::Given(trace, span);
        &self.tracer
    }

    /// Emits a log record at `at`, with the trace context of `span`.
    pub fn log(&self, at: SystemTime, span: Option<(TraceId, SpanId)>, fill: impl FnOnce(&mut SdkLogRecord)) {
        let mut record = self.logger.create_log_record();
        record.set_timestamp(at);
        record.set_observed_timestamp(at);
        if let Some((trace, span)) = span {
            record.set_trace_context(trace, span, Some(TraceFlags::SAMPLED));
        }
        fill(&mut record);
        self.logger.emit(record);
    }

    /// Takes the spans that ended since the last call, in the order of their ends.
    pub fn take_spans(&self) -> Vec<EncodedSpan> {
        take(&mut *lock(&self.spans)).into_iter().map(EncodedSpan::from).collect()
    }

    /// Takes the log records emitted since the last call, in order.
    pub fn take_logs(&self) -> Vec<LogRecord> {
        take(&mut *lock(&self.logs)).iter().map(LogRecord::from).collect()
    }
}

/// Converts nanoseconds since 1970 to a time of the SDK.
pub fn instant(unix_ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(unix_ns)
}

/// Converts a time of the SDK to nanoseconds since 1970; earlier times give 0.
pub fn unix_ns(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Locks a list, also after a panic of another holder: each push leaves it valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Source of the next ids.
#[derive(Clone, Copy, Debug)]
enum Next {
    /// Derived from a seed and the number of spans made from it so far.
    Derived(Hash, u64),
    /// Given by the caller.
    Given(TraceId, SpanId),
}

#[derive(Clone, Debug)]
struct Ids(Arc<Mutex<Next>>);

impl Default for Ids {
    fn default() -> Self {
        Ids(Arc::new(Mutex::new(Next::Derived(Hash::of("span"), 0))))
    }
}

impl IdGenerator for Ids {
    fn new_trace_id(&self) -> TraceId {
        match &*lock(&self.0) {
            Next::Derived(seed, _) => TraceId::from(seed.id128()),
            Next::Given(trace, _) => *trace,
        }
    }

    fn new_span_id(&self) -> SpanId {
        match &mut *lock(&self.0) {
            Next::Derived(seed, made) => {
                *made += 1;
                SpanId::from(seed.with_word(*made).id64())
            }
            Next::Given(_, span) => *span,
        }
    }
}

#[derive(Debug)]
struct Spans(Arc<Mutex<Vec<SpanData>>>);

impl SpanProcessor for Spans {
    fn on_start(&self, _span: &mut Span, _context: &Context) {}

    fn on_end(&self, span: SpanData) {
        lock(&self.0).push(span);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[derive(Debug)]
struct Logs(Arc<Mutex<Vec<SdkLogRecord>>>);

impl LogProcessor for Logs {
    fn emit(&self, record: &mut SdkLogRecord, _scope: &InstrumentationScope) {
        lock(&self.0).push(record.clone());
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }
}
