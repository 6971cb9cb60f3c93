//! The exact output. The texts in `expected` were written by the Collector's debug exporter (v0.159) for the same
//! data; the conformance tests compare more.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use component::ComponentId;
use component::testing::{Started, check_problem};
use pdata::{Data, Signal};

use super::output::Output;
use super::{DebugConfig, FACTORY, Printer, Verbosity};

const LOGS: &str = r#"{"resourceLogs":[{"resource":{"attributes":[{"key":"host.name","value":{"stringValue":"n1"}}]},
    "schemaUrl":"https://r","scopeLogs":[{"scope":{"name":"lib","version":"1.2"},"schemaUrl":"https://s",
    "logRecords":[{"timeUnixNano":"1700000000123000000","severityNumber":14,"severityText":"WARN","eventName":"outlier",
    "body":{"stringValue":"slow step"},"attributes":[{"key":"n","value":{"intValue":"3"}}],
    "traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","flags":1}]}]}]}"#;

const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"scope":{},"metrics":[
    {"name":"calls","unit":"{call}","description":"d","sum":{"isMonotonic":true,"aggregationTemporality":2,
     "dataPoints":[{"asInt":"7","timeUnixNano":"1","attributes":[{"key":"k","value":{"boolValue":true}}],
      "exemplars":[{"asDouble":0.5,"spanId":"eee19b7ec3c1b174"}]}]}},
    {"name":"time","histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"3","sum":4.5,"min":1,
      "bucketCounts":["1","2"],"explicitBounds":[2]}]}},
    {"name":"exp","exponentialHistogram":{"aggregationTemporality":2,"dataPoints":[{"count":"6","scale":0,"zeroCount":"1",
      "negative":{"offset":0,"bucketCounts":["1","2"]},"positive":{"offset":-1,"bucketCounts":["2"]}}]}},
    {"name":"old","summary":{"dataPoints":[{"count":"2","sum":3,"quantileValues":[{"quantile":0.99,"value":2.5}]}]}},
    {"name":"none","metadata":[{"key":"m","value":{"stringValue":"x"}}]}]}]}]}"#;

const TRACES: &str = r#"{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"gpu"},"spans":[{
    "traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","parentSpanId":"eee19b7ec3c1b173",
    "name":"decode","kind":2,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000001500000000",
    "attributes":[{"key":"a","value":{"doubleValue":1.5}},{"key":"b","value":{"arrayValue":{}}}],
    "events":[{"name":"e","timeUnixNano":"1","attributes":[{"key":"x","value":{"stringValue":"y"}}]}],
    "links":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b173"}],
    "status":{"code":2,"message":"late"}}]}]}]}"#;

fn data(signal: Signal) -> Data {
    let json = [LOGS, METRICS, TRACES][signal as usize];
    pdata::json::decode(signal, json.as_bytes()).unwrap()
}

/// A writer whose content can be read.
#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Checks the plain text for the sample of `signal`.
#[track_caller]
fn check(verbosity: Verbosity, signal: Signal, want: &str) {
    assert_eq!(print(verbosity, &data(signal), None), want);
}

fn print(verbosity: Verbosity, data: &Data, log_of: Option<ComponentId>) -> String {
    let page = Page::default();
    let output = Output::over(vec![Box::new(page.clone())], log_of, &DebugConfig::default());
    Printer { verbosity, output }.print(data).unwrap();
    let bytes = page.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn basic_counts() {
    check(Verbosity::Basic, Signal::Logs, "Logs\t{\"resource logs\": 1, \"log records\": 1}\n");
    check(
        Verbosity::Basic,
        Signal::Metrics,
        "Metrics\t{\"resource metrics\": 1, \"metrics\": 5, \"data points\": 4}\n",
    );
    check(Verbosity::Basic, Signal::Traces, "Traces\t{\"resource spans\": 1, \"spans\": 1}\n");
}

#[test]
fn profiles_are_written_at_every_verbosity() {
    let json = r#"{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":[{},{}]}]}]}]}"#;
    let profiles = pdata::json::decode(Signal::Profiles, json.as_bytes()).unwrap();
    for verbosity in [Verbosity::Basic, Verbosity::Normal, Verbosity::Detailed] {
        let text = print(verbosity, &profiles, None);
        let summary = "Profiles\t{\"resource profiles\": 1, \"samples\": 2}\n";
        assert!(text.starts_with(summary), "{verbosity:?}: {text}");
    }
}

#[test]
fn log_lines_have_the_time_and_the_exporter() {
    let id = ComponentId::parse("debug/x").unwrap();
    let line = print(Verbosity::Basic, &data(Signal::Traces), Some(id));
    let (time, rest) = line.split_once('\t').unwrap();
    assert_eq!((time.len(), time.as_bytes()[10], time.ends_with('Z')), (24, b'T', true), "{time}");
    let want = "info\tTraces\t{\"otelcol.component.id\": \"debug/x\", \"otelcol.component.kind\": \"exporter\", \
                \"otelcol.signal\": \"traces\", \"resource spans\": 1, \"spans\": 1}\n";
    assert_eq!(rest, want);
}

#[test]
fn normal_is_a_line_for_each_item() {
    check(
        Verbosity::Normal,
        Signal::Logs,
        "Logs\t{\"resource logs\": 1, \"log records\": 1}\n\
         ResourceLog #0 [https://r] host.name=n1\n\
         ScopeLog #0 lib@1.2 [https://s]\n\
         slow step n=3\n\n",
    );
    check(
        Verbosity::Normal,
        Signal::Metrics,
        "Metrics\t{\"resource metrics\": 1, \"metrics\": 5, \"data points\": 4}\n\
         ResourceMetrics #0\n\
         ScopeMetrics #0\n\
         calls{k=true} 7\n\
         time{} count=3 sum=4.5 min=1 le2=1 2\n\
         exp{} count=6 le-2=2 le-1=1 zero=1 le1=2\n\
         old{} count=2 sum=3.000000 q0.99=2.5\n\n",
    );
    check(
        Verbosity::Normal,
        Signal::Traces,
        "Traces\t{\"resource spans\": 1, \"spans\": 1}\n\
         ResourceTraces #0\n\
         ScopeTraces #0 gpu\n\
         decode 5b8efff798038103d269b633813fc60c eee19b7ec3c1b174 a=1.5 b=[]\n\n",
    );
}

#[test]
fn detailed_is_a_line_for_each_field() {
    check(Verbosity::Detailed, Signal::Logs, include_str!("expected/logs.txt"));
    check(Verbosity::Detailed, Signal::Metrics, include_str!("expected/metrics.txt"));
    check(Verbosity::Detailed, Signal::Traces, include_str!("expected/traces.txt"));
}

#[tokio::test]
async fn files_are_opened_by_their_paths() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("debug.txt");
    let settings = format!(r#"{{"use_internal_logger": false, "output_paths": [{path:?}]}}"#);
    let exporter = Started::exporter(&FACTORY, &settings).await;
    exporter.input.consume(data(Signal::Logs)).await.unwrap();
    exporter.input.consume(data(Signal::Traces)).await.unwrap();
    exporter.end().await;
    let want =
        "Logs\t{\"resource logs\": 1, \"log records\": 1}\nTraces\t{\"resource spans\": 1, \"spans\": 1}\n";
    assert_eq!(std::fs::read_to_string(path).unwrap(), want);
}

#[test]
fn inconsistent_settings_are_refused() {
    for (json, want) in [
        ("{}", ""),
        (r#"{"verbosity": "detailed", "sampling_initial": 5, "sending_queue": {"queue_size": 1}}"#, ""),
        (r#"{"verbosity": "none"}"#, "none"),
        (r#"{"loglevel": "debug"}"#, "invalid keys: loglevel"),
        (r#"{"output_paths": ["stdout"]}"#, "x::output_paths: output_paths is not supported when"),
        (
            r#"{"use_internal_logger": false, "output_paths": []}"#,
            "x::output_paths: output_paths must not be",
        ),
        (r#"{"sending_queue": {"queue_size": 0}}"#, "x::sending_queue::queue_size: "),
    ] {
        check_problem(&FACTORY, json, want);
    }
}
