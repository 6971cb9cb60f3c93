//! The log of the child, whose lines are lines of this collector's log.

use serde_json::{Map, Value};
use tracing::{debug, error, info, warn};

/// What the Collector logs when its pipelines run.
const READY: &str = "Everything is ready. Begin running and processing data.";

/// A line of the log of a Collector: one JSON object, or another text, such as that of a panic.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line {
    level: String,
    message: String,
    component: Option<String>,
    /// Further fields as JSON; empty if there are none.
    details: String,
}

/// Fields of a line that have another place in ours, or say of the process what is known.
const OMITTED: [&str; 4] = ["ts", "caller", "resource", "stacktrace"];

impl Line {
    pub(super) fn parse(text: &str) -> Self {
        let Ok(mut fields) = serde_json::from_str::<Map<String, Value>>(text) else {
            return Line { level: "warn".to_owned(), message: text.to_owned(), ..Line::default() };
        };
        let mut text = |key: &str| match fields.remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (level, message) = (text("level").unwrap_or_default(), text("msg").unwrap_or_default());
        let component = text("otelcol.component.id");
        fields.retain(|key, _| !OMITTED.contains(&key.as_str()));
        let details = if fields.is_empty() { String::new() } else { Value::Object(fields).to_string() };
        Line { level, message, component, details }
    }

    /// Returns whether the line says that all pipelines run.
    pub(super) fn is_ready(&self) -> bool {
        self.message == READY
    }

    /// Returns the message and its fields, for an error.
    pub(super) fn text(&self) -> String {
        match self.details.as_str() {
            "" => self.message.clone(),
            details => format!("{} {details}", self.message),
        }
    }

    /// Logs the line at its level.
    pub(super) fn log(&self) {
        let Line { level, message, component, details } = self;
        let component = component.as_deref();
        let details = Some(details.as_str()).filter(|details| !details.is_empty());
        match level.as_str() {
            "debug" => debug!(component, details, child = true, "{message}"),
            "info" => info!(component, details, child = true, "{message}"),
            "warn" => warn!(component, details, child = true, "{message}"),
            _ => error!(component, details, child = true, "{message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_objects_or_texts() {
        let text = r#"{"level":"info","ts":"2026-01-01T00:00:00Z","caller":"a.go:1","msg":"Started","resource":{"a":"b"},"otelcol.component.id":"zipkin","port":9411}"#;
        let line = Line::parse(text);
        assert_eq!((line.level.as_str(), line.message.as_str()), ("info", "Started"));
        assert_eq!((line.component.as_deref(), line.details.as_str()), (Some("zipkin"), r#"{"port":9411}"#));
        assert_eq!(line.text(), r#"Started {"port":9411}"#);
        let line = Line::parse("panic: no");
        assert_eq!((line.level.as_str(), line.text().as_str()), ("warn", "panic: no"));
        assert!(!line.is_ready());
        assert!(Line::parse(&format!(r#"{{"level":"info","msg":"{READY}"}}"#)).is_ready());
    }
}
