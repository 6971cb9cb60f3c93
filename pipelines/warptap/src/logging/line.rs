//! The format of a log line, as the Collector's logger zap writes it: columns followed by the fields as JSON, or one
//! JSON object.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use go_format::iso8601_millis;
use tracing::Metadata;
use tracing::field::{Field, Visit};

use crate::config::LogLevel;
use crate::config::telemetry::LogEncoding;
use crate::printable::printable;

/// A message and its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Message {
    /// The text of the message.
    pub(super) text: String,
    /// The names and values of the fields, in order.
    pub(super) fields: Vec<(&'static str, Value)>,
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    Int(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_owned()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Int(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::Float(value));
    }
}

impl Message {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::Text(text)) => self.text = text,
            (name, value) => self.fields.push((name, value)),
        }
    }
}

/// The format of all lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Layout {
    pub(super) encoding: LogEncoding,
    pub(super) has_caller: bool,
    /// The fields of every line: names, and values in JSON.
    pub(super) context: Vec<(String, String)>,
}

impl Layout {
    /// Formats a line, including the line feed.
    pub(super) fn line(
        &self,
        at: SystemTime,
        level: LogLevel,
        caller: Option<&str>,
        message: &Message,
    ) -> String {
        let caller = caller.filter(|_| self.has_caller);
        let (time, level) = (iso8601_millis(at), name(level));
        let mut line = String::with_capacity(256);
        match self.encoding {
            LogEncoding::Console => {
                let caller = caller.map(|caller| format!("{caller}\t")).unwrap_or_default();
                let _ = write!(line, "{time}\t{level}\t{caller}{}", printable(&message.text));
                let mut fields = Fields { out: String::new(), colon: ": ", comma: ", " };
                self.fields(&mut fields, message);
                if !fields.out.is_empty() {
                    let _ = write!(line, "\t{{{}}}", fields.out);
                }
            }
            LogEncoding::Json => {
                let mut fields = Fields { out: String::new(), colon: ":", comma: "," };
                fields.text("level", level);
                fields.text("ts", &time);
                caller.inspect(|caller| fields.text("caller", caller));
                fields.text("msg", &message.text);
                self.fields(&mut fields, message);
                let _ = write!(line, "{{{}}}", fields.out);
            }
        }
        line.push('\n');
        line
    }

    fn fields(&self, fields: &mut Fields, message: &Message) {
        for (name, json) in &self.context {
            fields.raw(name, if fields.colon == ":" { compact(json) } else { json.clone() });
        }
        for (name, value) in &message.fields {
            match value {
                Value::Bool(b) => fields.raw(name, b.to_string()),
                Value::Int(i) => fields.raw(name, i.to_string()),
                Value::Unsigned(i) => fields.raw(name, i.to_string()),
                // JSON has no number for infinity and NaN.
                Value::Float(f) if !f.is_finite() => fields.text(name, &f.to_string()),
                Value::Float(f) => fields.raw(name, f.to_string()),
                Value::Text(text) => fields.text(name, text),
            }
        }
    }
}

/// Formats a resource as a JSON object with spaces, as the console shows it.
pub(super) fn object(pairs: &[(String, String)]) -> String {
    let mut fields = Fields { out: String::new(), colon: ": ", comma: ", " };
    pairs.iter().for_each(|(name, text)| fields.text(name, text));
    format!("{{{}}}", fields.out)
}

fn compact(json: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(json) {
        Ok(value) => value.to_string(),
        Err(_) => json.to_owned(),
    }
}

/// The members of a JSON object under construction.
struct Fields {
    out: String,
    colon: &'static str,
    comma: &'static str,
}

impl Fields {
    fn raw(&mut self, name: &str, json: impl fmt::Display) {
        let comma = if self.out.is_empty() { "" } else { self.comma };
        let _ = write!(self.out, "{comma}{}{}{json}", quoted(name), self.colon);
    }

    fn text(&mut self, name: &str, text: &str) {
        self.raw(name, quoted(text));
    }
}

/// Returns a JSON string, without characters that a terminal obeys.
fn quoted(text: &str) -> String {
    printable(&serde_json::Value::from(text).to_string()).into_owned()
}

/// Returns the name of a level.
pub(super) fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    }
}

/// Returns the folder, file and line of a message. A folder `src` is replaced by its parent.
pub(super) fn caller(metadata: &Metadata<'_>) -> Option<String> {
    let (file, line) = (metadata.file()?, metadata.line()?);
    let mut parts = file.rsplit('/');
    let file = parts.next()?;
    match parts.find(|part| *part != "src") {
        Some(folder) => Some(format!("{folder}/{file}:{line}")),
        None => Some(format!("{file}:{line}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_line_has_the_format_of_the_collector() {
        let at = UNIX_EPOCH + Duration::from_millis(1_795_274_035_365);
        let text = || "Starting \"HTTP\" server".to_owned();
        let fields = vec![
            ("otelcol.component.id", Value::Text("otlp".to_owned())),
            ("resource spans", Value::Int(1)),
            ("share", Value::Float(0.5)),
            ("odd", Value::Float(f64::NAN)),
            ("path", Value::Text("a\\b\n\u{1b}\u{9b}".to_owned())),
        ];
        let message = Message { text: text(), fields };
        let without_fields = Message { text: text(), fields: Vec::new() };
        let resource =
            object(&[("service.name".to_owned(), "x".to_owned()), ("v".to_owned(), String::new())]);
        let context = vec![("zone".to_owned(), "3".to_owned()), ("resource".to_owned(), resource)];
        let console = Layout { encoding: LogEncoding::Console, has_caller: true, context };
        let json = Layout { encoding: LogEncoding::Json, ..console.clone() };
        let silent = Layout { has_caller: false, context: Vec::new(), ..console.clone() };
        for (layout, message, want) in [
            (
                &console,
                &message,
                concat!(
                    "2026-11-21T15:13:55.365Z\twarn\totlp/lib.rs:120\tStarting \"HTTP\" server\t",
                    r#"{"zone": 3, "resource": {"service.name": "x", "v": ""}, "otelcol.component.id": "otlp", "#,
                    r#""resource spans": 1, "share": 0.5, "odd": "NaN", "path": "a\\b\n\u001b\u009b"}"#,
                    "\n"
                ),
            ),
            (
                &json,
                &message,
                concat!(
                    r#"{"level":"warn","ts":"2026-11-21T15:13:55.365Z","caller":"otlp/lib.rs:120","#,
                    r#""msg":"Starting \"HTTP\" server","zone":3,"resource":{"service.name":"x","v":""},"#,
                    r#""otelcol.component.id":"otlp","resource spans":1,"share":0.5,"odd":"NaN","path":"a\\b\n\u001b\u009b"}"#,
                    "\n"
                ),
            ),
            (&silent, &without_fields, "2026-11-21T15:13:55.365Z\twarn\tStarting \"HTTP\" server\n"),
        ] {
            assert_eq!(layout.line(at, LogLevel::Warn, Some("otlp/lib.rs:120"), message), want);
        }
    }
}
