use std::io::{self, Write};
use std::sync::Arc;

use config::Node;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLogRecord};

use super::*;
use crate::config::telemetry::{LogEncoding, Sampling};

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the lines that a log of these settings writes during `work`, as JSON without time and caller.
fn logged(logs: Logs, work: impl FnOnce()) -> Vec<String> {
    let buffer = Buffer::default();
    let logs = Logs { encoding: LogEncoding::Json, has_caller: false, ..logs };
    let sink = Sink::over(vec![Box::new(buffer.clone())], Vec::new());
    let log = Log::over(&logs, &[("service.name".to_owned(), "x".to_owned())], None, sink);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(log), work);
    let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
    let without_time = |line: &str| {
        let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        object.remove("ts").unwrap();
        serde_json::Value::from(object).to_string()
    };
    text.lines().map(without_time).collect()
}

#[test]
fn lines_are_filtered_by_level_and_repeated_lines_are_sampled() {
    let sampling = Some(Sampling { initial: 2, thereafter: 0, ..Sampling::default() });
    let logs = Logs { level: LogLevel::Warn, has_resource: false, sampling, ..Logs::default() };
    let lines = logged(logs, || {
        tracing::info!("quiet");
        (0..3).for_each(|i| tracing::warn!(i, "again"));
        tracing::error!(target: "h2::client", error = %"why", ok = false, "loud");
    });
    assert_eq!(
        lines,
        [
            r#"{"i":0,"level":"warn","msg":"again"}"#,
            r#"{"i":1,"level":"warn","msg":"again"}"#,
            r#"{"error":"why","level":"error","msg":"loud","ok":false}"#,
        ]
    );
}

#[test]
fn every_line_has_the_initial_fields_and_the_resource() {
    let field: Node = serde_json::from_str(r#"{"a": [1, null, "x"]}"#).unwrap();
    let logs = Logs { initial_fields: vec![("zone".to_owned(), field)], ..Logs::default() };
    let lines = logged(logs, || tracing::info!("hello"));
    assert_eq!(
        lines,
        [r#"{"level":"info","msg":"hello","resource":{"service.name":"x"},"zone":{"a":[1,null,"x"]}}"#]
    );
}

#[test]
fn debug_messages_of_libraries_are_not_logged() {
    let logs = Logs { level: LogLevel::Debug, has_resource: false, ..Logs::default() };
    let lines = logged(logs, || {
        tracing::debug!(target: "hyper::proto", "theirs");
        tracing::trace!("ours");
    });
    assert_eq!(lines, [r#"{"level":"debug","msg":"ours"}"#]);
}

/// An exporter that stores the records.
#[derive(Clone, Debug, Default)]
struct Records(Arc<Mutex<Vec<SdkLogRecord>>>);

impl LogExporter for Records {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch.iter().map(|(record, _)| record.clone()));
        Ok(())
    }
}

#[test]
fn lines_are_exported_except_those_of_exporters() {
    let records = Records::default();
    let provider = SdkLoggerProvider::builder().with_simple_exporter(records.clone()).build();
    let sink = Sink::over(Vec::new(), Vec::new());
    let log = Log::over(&Logs::default(), &[], Some(&provider), sink);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(log), || {
        tracing::warn!(count = 3_u64, big = u64::MAX, "too many");
        tracing::warn!(target: "tonic::transport", "no connection");
    });
    let records = records.0.lock().unwrap();
    let [record] = records.as_slice() else { panic!("{records:?}") };
    assert_eq!(record.body(), Some(&AnyValue::from("too many")));
    assert_eq!(record.severity_number(), Some(Severity::Warn));
    let has = |key: &'static str, value: AnyValue| {
        record.attributes_iter().any(|(k, v)| k.as_str() == key && *v == value)
    };
    assert!(has("count", AnyValue::from(3)) && has("big", AnyValue::from(u64::MAX.to_string())));
    assert!(has("code.function.name", AnyValue::from(module_path!())));
}
