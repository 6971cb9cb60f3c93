//! What is counted of a batch, and what may be configured.

use component::testing::check_problem;
use pdata::Signal;

use super::FACTORY;
use crate::testing::pass;

const SPANS: &str = r#"{"resourceSpans":[{"resource":{"attributes":[{"key":"env","value":{"stringValue":"prod"}}]},"schemaUrl":"u","scopeSpans":[
    {"scope":{"name":"lib","attributes":[{"key":"team","value":{"stringValue":"gpu"}}]},"spans":[
        {"name":"decode","kind":2,"startTimeUnixNano":"20","endTimeUnixNano":"90","status":{"code":2},
         "attributes":[{"key":"ms","value":{"intValue":"12"}},{"key":"ok","value":{"boolValue":true}}],
         "events":[{"name":"stall","timeUnixNano":"30"},{"name":"go","timeUnixNano":"40","attributes":[{"key":"env","value":{"stringValue":"test"}}]}]},
        {"name":"prefill","startTimeUnixNano":"10","endTimeUnixNano":"50","attributes":[{"key":"ms","value":{"doubleValue":3.5}}]}]}]},
    {"scopeSpans":[{"spans":[]}]}]}"#;

const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[
    {"timeUnixNano":"5","severityNumber":17,"severityText":"ERROR","body":{"stringValue":"out of memory"},"attributes":[{"key":"env","value":{"stringValue":"prod"}}]},
    {"timeUnixNano":"7","severityNumber":9,"severityText":"INFO"},
    {"timeUnixNano":"6","severityNumber":18}]}]}]}"#;

const METRICS: &str = r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[
    {"name":"a","gauge":{"dataPoints":[{"timeUnixNano":"3"},{"timeUnixNano":"4","attributes":[{"key":"k","value":{"intValue":"1"}}]}]}},
    {"name":"b","sum":{"dataPoints":[{"timeUnixNano":"9"}]}},
    {"name":"c","histogram":{"dataPoints":[{"timeUnixNano":"2"}]}},
    {"name":"d","exponentialHistogram":{"dataPoints":[{"timeUnixNano":"2"}]}},
    {"name":"e","summary":{"dataPoints":[{"timeUnixNano":"2"}]}},
    {"name":"f"}]}]}]}"#;

/// Returns the counts of a sample, each as `name{attributes}=count`.
fn counts(settings: &str, signal: Signal) -> Vec<String> {
    let sample = [LOGS, METRICS, SPANS][signal as usize];
    let made = pass(&FACTORY, settings, (signal, Signal::Metrics), sample);
    let mut found = Vec::new();
    for batch in made {
        let json: serde_json::Value = serde_json::from_str(&batch).unwrap();
        let metrics = json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap().clone();
        for metric in metrics {
            for point in metric["sum"]["dataPoints"].as_array().unwrap() {
                let pair = |a: &serde_json::Value| {
                    let value = a["value"].as_object().unwrap().values().next().unwrap().to_string();
                    format!("{}={}", a["key"].as_str().unwrap(), value.trim_matches('"'))
                };
                let attributes = point["attributes"].as_array().map_or(&[][..], |list| list);
                let attributes = attributes.iter().map(pair).collect::<Vec<_>>().join(",");
                let name = metric["name"].as_str().unwrap();
                found.push(format!("{name}{{{attributes}}}={}", point["asInt"].as_str().unwrap()));
            }
        }
    }
    found
}

#[test]
fn by_default_everything_is_counted() {
    assert_eq!(counts("null", Signal::Traces), ["trace.span.count{}=2", "trace.span.event.count{}=2"]);
    assert_eq!(counts("{}", Signal::Metrics), ["metric.count{}=6", "metric.datapoint.count{}=6"]);
    assert_eq!(counts(r#"{"logs": {}}"#, Signal::Logs), ["log.record.count{}=3"]);
}

#[test]
fn counts_are_deltas_with_the_resource_of_the_items() {
    let [made] = &pass(&FACTORY, "{}", (Signal::Traces, Signal::Metrics), SPANS)[..] else {
        panic!("one batch")
    };
    let point = |name: &str, description: &str, start: u32, time: u32| {
        format!(
            r#"{{"name":"{name}","description":"The number of {description} observed.","sum":{{"dataPoints":[{{"startTimeUnixNano":"{start}","timeUnixNano":"{time}","asInt":"2"}}],"aggregationTemporality":1,"isMonotonic":true}}}}"#
        )
    };
    let want = format!(
        r#"{{"resourceMetrics":[{{"resource":{{"attributes":[{{"key":"env","value":{{"stringValue":"prod"}}}}]}},"scopeMetrics":[{{"scope":{{"name":"github.com/open-telemetry/opentelemetry-collector-contrib/connector/countconnector"}},"metrics":[{},{}]}}]}}]}}"#,
        point("trace.span.count", "spans", 10, 90),
        point("trace.span.event.count", "span events", 30, 40),
    );
    let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    assert_eq!(value(made), value(&want));
}

#[test]
fn counts_of_zero_send_nothing() {
    let empty = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[]}]}]}"#;
    assert!(pass(&FACTORY, "{}", (Signal::Logs, Signal::Metrics), empty).is_empty());
}

#[test]
fn counts_are_grouped_by_attributes() {
    let by = |section: &str, attributes: &str| {
        format!(r#"{{"{section}": {{"n": {{"attributes": [{attributes}]}}, "all": null}}}}"#)
    };
    let events = counts(&by("spanevents", r#"{"key": "env"}, {"key": "team"}"#), Signal::Traces);
    assert_eq!(
        events,
        ["trace.span.count{}=2", "all{}=2", "n{env=prod,team=gpu}=1", "n{env=test,team=gpu}=1"]
    );
    assert_eq!(counts(&by("logs", r#"{"key": "env"}"#), Signal::Logs), ["all{}=3", "n{env=prod}=1"]);
    let with_default = by("logs", r#"{"key": "env", "default_value": "none"}"#);
    assert_eq!(counts(&with_default, Signal::Logs), ["all{}=3", "n{env=prod}=1", "n{env=none}=2"]);
    let points = counts(&by("datapoints", r#"{"key": "k", "default_value": 0}"#), Signal::Metrics);
    assert_eq!(points, ["metric.count{}=6", "all{}=6", "n{k=0}=5", "n{k=1}=1"]);
}

#[test]
fn conditions_select_counted_items() {
    for (signal, section, conditions, want) in [
        (Signal::Logs, "logs", r#"["severity_number >= SEVERITY_NUMBER_ERROR"]"#, 2),
        (Signal::Logs, "logs", r#"["log.severity_text == \"INFO\""]"#, 1),
        (Signal::Logs, "logs", r#"["attributes[\"env\"] == nil"]"#, 2),
        (Signal::Logs, "logs", r#"["IsMatch(body, \"^out of\")"]"#, 1),
        (Signal::Logs, "logs", r#"["attributes[\"env\"] == \"prod\"", "severity_number < 10"]"#, 2),
        (Signal::Logs, "logs", r#"["not (severity_number == 9 or severity_number == 17)"]"#, 1),
        (Signal::Traces, "spans", r#"["name == \"decode\" and kind == SPAN_KIND_SERVER"]"#, 1),
        (Signal::Traces, "spans", r#"["span.status.code == STATUS_CODE_ERROR"]"#, 1),
        (Signal::Traces, "spans", r#"["attributes[\"ms\"] > 3"]"#, 2),
        (Signal::Traces, "spans", r#"["attributes[\"ms\"] > 3.5"]"#, 1),
        (Signal::Traces, "spans", r#"["attributes[\"ok\"]"]"#, 1),
        (Signal::Traces, "spans", r#"["attributes[\"ms\"] == \"12\""]"#, 0),
        (Signal::Traces, "spans", r#"["attributes[\"ms\"] != \"12\""]"#, 2),
        (Signal::Traces, "spans", r#"["resource.attributes[\"env\"] == \"prod\""]"#, 2),
        (
            Signal::Traces,
            "spans",
            r#"["instrumentation_scope.name == \"lib\" and scope.attributes[\"team\"] == \"gpu\""]"#,
            2,
        ),
        (Signal::Traces, "spanevents", r#"["spanevent.attributes[\"env\"] == \"test\""]"#, 1),
        (Signal::Traces, "spanevents", r#"["span.name == \"decode\" and name == \"stall\""]"#, 1),
        (Signal::Metrics, "metrics", r#"["IsMatch(metric.name, \"[a-c]\")"]"#, 3),
        (Signal::Metrics, "datapoints", r#"["metric.name == \"a\" and attributes[\"k\"] == 1"]"#, 1),
    ] {
        let settings = format!(r#"{{"{section}": {{"n": {{"conditions": {conditions}}}}}}}"#);
        let found: usize = counts(&settings, signal)
            .iter()
            .filter_map(|count| count.strip_prefix("n{}="))
            .map(|n| n.parse::<usize>().unwrap())
            .sum();
        assert_eq!(found, want, "{conditions}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let condition =
        |text: &str| format!(r#"{{"logs": {{"n": {{"conditions": [{}]}}}}}}"#, serde_json::Value::from(text));
    let deep = "(".repeat(100);
    for (json, want) in [
        (
            r#"{"spans": {"n": {"description": "d", "attributes": [{"key": "a", "default_value": 1.5}]}}}"#
                .to_owned(),
            "",
        ),
        (r#"{"spans": {"": {}}}"#.to_owned(), "x::spans: spans: metric name missing"),
        (
            r#"{"metrics": {"n": {"attributes": [{"key": "a"}]}}}"#.to_owned(),
            "metrics attributes not supported: metric \"n\"",
        ),
        (
            r#"{"logs": {"n": {"attributes": [{"default_value": 1}]}}}"#.to_owned(),
            "x::logs::n::attributes[0]: attribute key missing",
        ),
        (
            r#"{"logs": {"n": {"attributes": [{"key": "a", "default_value": [1]}]}}}"#.to_owned(),
            "invalid default value specified for attribute a",
        ),
        (r#"{"profiles": {"n": {}}}"#.to_owned(), "x::profiles: profiles cannot be counted"),
        (r#"{"logs": {"n": {"condition": "x"}}}"#.to_owned(), "invalid keys: condition"),
        (
            condition("severity_number >"),
            "condition \"severity_number >\" ends too early: expected a value or a path",
        ),
        (condition("name == \"x\""), "expected one of log.body, log.event_name, log.severity_number"),
        (condition("span.name == \"x\""), "expected one of log.body"),
        (condition("Len(body) > 5"), "expected one of log.body"),
        (
            condition("severity_number == 1 severity_number"),
            "at \"severity_number\": expected \"and\", \"or\" or the end",
        ),
        (condition("IsMatch(body, \"(\")"), "expected a pattern, not \"(\""),
        (condition("body == \"x"), "at \"\\\"x\": expected a value or a path"),
        (condition(&deep), "expected at most 32 conditions within each other"),
    ] {
        check_problem(&FACTORY, &json, want);
    }
}
