use std::io::{self, Write};
use std::sync::Arc;

use config::Node;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter, SdkLogRecord};

use super::*;
use crate::config::telemetry::{Encoding, Sampling};

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What a log of these settings writes of what `work` says, as JSON without the time and the caller.
fn told(logs: Logs, work: impl FnOnce()) -> Vec<String> {
    let kept = Kept::default();
    let logs = Logs { encoding: Encoding::Json, tells_caller: false, ..logs };
    let sink = Sink::over(vec![Box::new(kept.clone())], Vec::new());
    let log = Log::over(&logs, &[("service.name".to_owned(), "x".to_owned())], None, sink);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(log), work);
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let bare = |line: &str| {
        let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
        object.remove("ts").unwrap();
        serde_json::Value::from(object).to_string()
    };
    text.lines().map(bare).collect()
}

#[test]
fn only_what_is_severe_enough_is_told_and_what_repeats_is_thinned_out() {
    let sampling = Some(Sampling { initial: 2, thereafter: 0, ..Sampling::default() });
    let logs = Logs { level: LogLevel::Warn, tells_resource: false, sampling, ..Logs::default() };
    let lines = told(logs, || {
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
fn every_line_says_the_initial_fields_and_the_resource() {
    let field: Node = serde_json::from_str(r#"{"a": [1, null, "x"]}"#).unwrap();
    let logs = Logs { initial_fields: vec![("zone".to_owned(), field)], ..Logs::default() };
    let lines = told(logs, || tracing::info!("hello"));
    assert_eq!(
        lines,
        [r#"{"level":"info","msg":"hello","resource":{"service.name":"x"},"zone":{"a":[1,null,"x"]}}"#]
    );
}

#[test]
fn debug_messages_of_libraries_stay_out() {
    let logs = Logs { level: LogLevel::Debug, tells_resource: false, ..Logs::default() };
    let lines = told(logs, || {
        tracing::debug!(target: "hyper::proto", "theirs");
        tracing::trace!("ours");
    });
    assert_eq!(lines, [r#"{"level":"debug","msg":"ours"}"#]);
}

/// Keeps what it is given.
#[derive(Clone, Debug, Default)]
struct Records(Arc<Mutex<Vec<SdkLogRecord>>>);

impl LogExporter for Records {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        self.0.lock().unwrap().extend(batch.iter().map(|(record, _)| record.clone()));
        Ok(())
    }
}

#[test]
fn a_line_is_a_log_record_too_unless_it_is_about_sending_one() {
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
