//! The log of the collector itself: lines as the Collector's, to where the configuration says, as severe as
//! it asks for; and the same as log records for whoever it names.
//!
//! The one idea: there is one log per process, and what it does is a value that is put in place of another
//! one when the configuration changes. Where log records go is [`crate::telemetry`]'s.

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

/// Libraries whose own debug messages nobody asked for, and whose messages about sending a log record would
/// be sent as further ones.
const QUIET: [&str; 7] = ["h2", "hyper", "hyper_util", "opentelemetry", "rustls", "tonic", "tower"];

/// The log of this process, where it was begun here.
static LOG: OnceLock<reload::Handle<Log, Registry>> = OnceLock::new();

/// Begins the log with nothing but a level. A log that is there already, as in a test, stays.
pub fn init(level: LogLevel) {
    let logs = Logs { level, sampling: None, ..Logs::default() };
    // Standard error is always there, and the log of a command has nothing else to fail by.
    _ = begin(&logs, &[], None);
}

/// Begins the log, or makes it what it is to be from now on. `resource` is what every line says of the
/// collector, `records` takes lines as log records.
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
            // The only way to fail is that one is set, which is the case this documents.
            if tracing_subscriber::registry().with(layer).try_init().is_ok() {
                _ = LOG.set(handle);
            }
        }
    }
    Ok(())
}

/// Lines that were thinned out, and writes of lines that failed, since the process began.
static SAMPLED_OUT: AtomicU64 = AtomicU64::new(0);
static NOT_WRITTEN: AtomicU64 = AtomicU64::new(0);

/// How many lines were not told, by the reason.
pub fn dropped() -> [(&'static str, u64); 2] {
    [("sampled_out", &SAMPLED_OUT), ("not_written", &NOT_WRITTEN)]
        .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
}

/// What becomes of messages.
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
        if logs.tells_resource && !resource.is_empty() {
            context.push(("resource".to_owned(), line::object(resource)));
        }
        Log {
            level: logs.level,
            layout: Layout { encoding: logs.encoding, tells_caller: logs.tells_caller, context },
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
        if let Some(file) = metadata.file().filter(|_| self.layout.tells_caller) {
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
        // Beyond the integers of OTLP only the digits can be kept.
        Value::Unsigned(i) => {
            i64::try_from(*i).map_or_else(|_| AnyValue::from(i.to_string()), AnyValue::from)
        }
        Value::Float(f) => AnyValue::from(*f),
        Value::Text(text) => AnyValue::from(text.clone()),
    }
}

/// A value of the configuration as JSON.
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
