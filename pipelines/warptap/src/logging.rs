//! The log of the collector: lines in the Collector's format at the configured level and destinations, and log records
//! for the configured exporters.
//!
//! A process has one log, whose settings are replaced when the configuration changes. [`crate::telemetry`] exports the
//! log records.

mod line;
mod sampler;
mod sink;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

use opentelemetry::Key;
use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, LoggerProvider as _, Severity};
use opentelemetry_sdk::logs::{SdkLogger, SdkLoggerProvider};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::LogLevel;
use crate::config::telemetry::Logs;
use line::{Layout, Message, Value};
use sampler::Sampler;
pub use sink::OpenError;
use sink::Sink;

/// Libraries whose debug messages are not logged, and whose messages are not exported as log records, since exporting
/// one would cause further messages.
const QUIET: [&str; 7] = ["h2", "hyper", "hyper_util", "opentelemetry", "rustls", "tonic", "tower"];

/// The log of this process, if [`begin`] installed it.
static LOG: OnceLock<reload::Handle<Log, Registry>> = OnceLock::new();

/// Starts the log with a level and default settings. Has no effect if another subscriber is installed, as in tests.
pub fn init(level: LogLevel) {
    let logs = Logs { level, sampling: None, ..Logs::default() };
    // Standard error needs no opening, and nothing else can fail here.
    _ = begin(&logs, &[], None);
}

/// Starts the log, or replaces its settings. `resource` is added to every line; `records` exports lines as log
/// records.
pub fn begin(
    logs: &Logs,
    resource: &[(String, String)],
    records: Option<&SdkLoggerProvider>,
) -> Result<(), OpenError> {
    let log = Log::new(logs, resource, records)?;
    match LOG.get() {
        Some(handle) => _ = handle.reload(log),
        None => {
            let (layer, handle) = reload::Layer::new(log);
            // Fails only if another subscriber is installed.
            if tracing_subscriber::registry().with(layer).try_init().is_ok() {
                _ = LOG.set(handle);
            }
        }
    }
    Ok(())
}

/// Lines dropped by sampling, and failed writes of lines, since the start of the process.
static SAMPLED_OUT: AtomicU64 = AtomicU64::new(0);
static NOT_WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Returns the number of dropped lines by reason.
pub fn dropped() -> [(&'static str, u64); 2] {
    [("sampled_out", &SAMPLED_OUT), ("not_written", &NOT_WRITTEN)]
        .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
}

/// The log: settings, sampler and destinations.
struct Log {
    level: LogLevel,
    layout: Layout,
    sampler: Option<Mutex<Sampler>>,
    sink: Sink,
    records: Option<SdkLogger>,
}

impl Log {
    fn new(
        logs: &Logs,
        resource: &[(String, String)],
        records: Option<&SdkLoggerProvider>,
    ) -> Result<Self, OpenError> {
        let sink = Sink::open(&logs.output_paths, &logs.error_output_paths)?;
        Ok(Log::over(logs, resource, records, sink))
    }

    fn over(
        logs: &Logs,
        resource: &[(String, String)],
        records: Option<&SdkLoggerProvider>,
        sink: Sink,
    ) -> Self {
        let mut context: Vec<(String, String)> =
            logs.initial_fields.iter().map(|(name, node)| (name.clone(), json(&node.value))).collect();
        if logs.has_resource && !resource.is_empty() {
            context.push(("resource".to_owned(), line::object(resource)));
        }
        Log {
            level: logs.level,
            layout: Layout { encoding: logs.encoding, has_caller: logs.has_caller, context },
            sampler: logs.sampling.map(|sampling| Mutex::new(Sampler::new(sampling, Instant::now()))),
            sink,
            records: records.map(|provider| provider.logger("warptap")),
        }
    }

    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        let level = level(metadata.level());
        level >= self.level && (level > LogLevel::Debug || !is_quiet(metadata.target()))
    }

    fn takes(&self, level: LogLevel, text: &str) -> bool {
        let Some(sampler) = &self.sampler else { return true };
        sampler.lock().unwrap_or_else(PoisonError::into_inner).takes(level, text, Instant::now())
    }

    fn record(&self, logger: &SdkLogger, at: SystemTime, metadata: &Metadata<'_>, message: &Message) {
        let mut record = logger.create_log_record();
        let level = level(metadata.level());
        record.set_timestamp(at);
        record.set_severity_text(line::name(level));
        record.set_severity_number(severity(level));
        record.set_body(AnyValue::from(message.text.clone()));
        if let Some(file) = metadata.file().filter(|_| self.layout.has_caller) {
            record.add_attribute("code.file.path", file.to_owned());
            record.add_attribute("code.line.number", i64::from(metadata.line().unwrap_or_default()));
            record.add_attribute("code.function.name", metadata.target().to_owned());
        }
        for (name, value) in &message.fields {
            record.add_attribute(Key::from_static_str(name), any(value));
        }
        logger.emit(record);
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.level {
            LogLevel::Debug => LevelFilter::TRACE,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Error => LevelFilter::ERROR,
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if !self.wants(metadata) {
            return;
        }
        let mut message = Message::default();
        event.record(&mut message);
        let (at, level) = (SystemTime::now(), level(metadata.level()));
        if !self.takes(level, &message.text) {
            SAMPLED_OUT.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let caller = line::caller(metadata);
        let failed = self.sink.write(&self.layout.line(at, level, caller.as_deref(), &message));
        NOT_WRITTEN.fetch_add(failed, Ordering::Relaxed);
        if let Some(logger) = self.records.as_ref().filter(|_| !is_quiet(metadata.target())) {
            self.record(logger, at, metadata, &message);
        }
    }
}

fn is_quiet(target: &str) -> bool {
    let library = target.split("::").next().unwrap_or_default();
    QUIET.contains(&library) || library.starts_with("opentelemetry")
}

fn level(level: &Level) -> LogLevel {
    match *level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        _ => LogLevel::Debug,
    }
}

fn severity(level: LogLevel) -> Severity {
    match level {
        LogLevel::Debug => Severity::Debug,
        LogLevel::Info => Severity::Info,
        LogLevel::Warn => Severity::Warn,
        LogLevel::Error => Severity::Error,
    }
}

fn any(value: &Value) -> AnyValue {
    match value {
        Value::Bool(b) => AnyValue::from(*b),
        Value::Int(i) => AnyValue::from(*i),
        // OTLP has signed integers only; larger values are exported as text.
        Value::Unsigned(i) => {
            i64::try_from(*i).map_or_else(|_| AnyValue::from(i.to_string()), AnyValue::from)
        }
        Value::Float(f) => AnyValue::from(*f),
        Value::Text(text) => AnyValue::from(text.clone()),
    }
}

/// Formats a value of the configuration as JSON.
fn json(value: &config::Value) -> String {
    use config::Value;
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(f) if f.is_finite() => f.to_string(),
        Value::Float(f) => quoted(&f.to_string()),
        Value::String(text) => quoted(text),
        Value::Sequence(items) => {
            format!("[{}]", items.iter().map(|i| json(&i.value)).collect::<Vec<_>>().join(","))
        }
        Value::Mapping(entries) => {
            let pair = |e: &config::Entry| format!("{}:{}", quoted(&e.key), json(&e.value.value));
            format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(","))
        }
    }
}

#[cfg(test)]
#[path = "logging/tests.rs"]
mod tests;
