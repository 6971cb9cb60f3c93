//! Regrouping of items by resource.

use pdata::Signal;

use super::FACTORY;
use crate::testing::check;

const KEYS: &str = r#"{"keys": ["host", "", "rack", "host"]}"#;

fn attributes(pairs: &str) -> String {
    let pair = |p: &str| {
        let (key, value) = p.split_once('=').unwrap();
        format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#)
    };
    format!("[{}]", pairs.split_whitespace().map(pair).collect::<Vec<_>>().join(","))
}

#[test]
fn attributes_move_to_resources_and_equal_resources_merge() {
    let record = |n: u32, pairs| format!(r#"{{"severityNumber":{n},"attributes":{}}}"#, attributes(pairs));
    let resource = |pairs| format!(r#""resource":{{"attributes":{}}}"#, attributes(pairs));
    let before = format!(
        r#"{{"resourceLogs":[{{{},"scopeLogs":[{{"scope":{{"name":"s"}},"logRecords":[{},{},{}]}},{{"logRecords":[{}]}}]}}]}}"#,
        resource("job=j rack=old"),
        record(1, "host=a x=1"),
        record(2, "x=2"),
        record(3, "rack=r host=a"),
        record(4, "host=a"),
    );
    let after = format!(
        r#"{{"resourceLogs":[{{{},"scopeLogs":[{{"scope":{{"name":"s"}},"logRecords":[{}]}},{{"logRecords":[{}]}}]}},
            {{{},"scopeLogs":[{{"scope":{{"name":"s"}},"logRecords":[{}]}}]}},
            {{{},"scopeLogs":[{{"scope":{{"name":"s"}},"logRecords":[{}]}}]}}]}}"#,
        resource("job=j rack=old host=a"),
        record(1, "x=1"),
        record(4, ""),
        resource("job=j rack=old"),
        record(2, "x=2"),
        resource("job=j rack=r host=a"),
        record(3, ""),
    );
    check(&FACTORY, KEYS, Signal::Logs, &before, &after);
}

#[test]
fn without_keys_equal_groups_are_merged() {
    let metric = |name: &str, unit: &str, n: u32| {
        format!(
            r#"{{"name":"{name}","unit":"{unit}","sum":{{"isMonotonic":true,"aggregationTemporality":2,"dataPoints":[{{"timeUnixNano":"{n}"}}]}}}}"#
        )
    };
    let both = |a: u32, b: u32| {
        format!(
            r#"{{"name":"m","unit":"s","sum":{{"isMonotonic":true,"aggregationTemporality":2,"dataPoints":[{{"timeUnixNano":"{a}"}},{{"timeUnixNano":"{b}"}}]}}}}"#
        )
    };
    let resource = |url: &str, pairs: &str, scopes: &str| {
        format!(
            r#"{{"resource":{{"attributes":{}}},"schemaUrl":"{url}","scopeMetrics":[{scopes}]}}"#,
            attributes(pairs)
        )
    };
    let scope = |version: &str, metrics: &[String]| {
        format!(r#"{{"scope":{{"name":"s","version":"{version}"}},"metrics":[{}]}}"#, metrics.join(","))
    };
    let batch = |resources: &[String]| format!(r#"{{"resourceMetrics":[{}]}}"#, resources.join(","));
    let before = batch(&[
        resource("u", "a=1 b=2", &scope("1", &[metric("m", "s", 1)])),
        resource("u", "b=2 a=1", &scope("1", &[metric("m", "s", 2), metric("m", "ms", 3)])),
        resource("u", "a=1 b=2", &scope("2", &[metric("m", "s", 4)])),
        resource("v", "a=1 b=2", &scope("1", &[metric("m", "s", 5)])),
        resource("u", "a=1", &scope("1", &[metric("m", "s", 6)])),
    ]);
    let first =
        [scope("1", &[both(1, 2), metric("m", "ms", 3)]), scope("2", &[metric("m", "s", 4)])].join(",");
    let after = batch(&[
        resource("u", "a=1 b=2", &first),
        resource("v", "a=1 b=2", &scope("1", &[metric("m", "s", 5)])),
        resource("u", "a=1", &scope("1", &[metric("m", "s", 6)])),
    ]);
    check(&FACTORY, "{}", Signal::Metrics, &before, &after);
}

#[test]
fn points_of_every_kind_of_metric_move() {
    for (kind, more) in [
        ("gauge", ""),
        ("sum", r#""aggregationTemporality":1,"#),
        ("histogram", r#""aggregationTemporality":1,"#),
        ("exponentialHistogram", r#""aggregationTemporality":2,"#),
        ("summary", ""),
    ] {
        let metric = |points: &str| {
            format!(
                r#"{{"scopeMetrics":[{{"metrics":[{{"name":"m","{kind}":{{{more}"dataPoints":[{points}]}}}}]}}]"#
            )
        };
        let point =
            |n: u32, pairs: &str| format!(r#"{{"timeUnixNano":"{n}","attributes":{}}}"#, attributes(pairs));
        let before = format!(
            r#"{{"resourceMetrics":[{}}}]}}"#,
            metric(&[point(1, "host=a x=1"), point(2, "host=b"), point(3, "host=a")].join(","))
        );
        let resource =
            |host: &str| format!(r#""resource":{{"attributes":{}}}}}"#, attributes(&format!("host={host}")));
        let after = format!(
            r#"{{"resourceMetrics":[{},{},{},{}]}}"#,
            metric(&[point(1, "x=1"), point(3, "")].join(",")),
            resource("a"),
            metric(&point(2, "")),
            resource("b"),
        );
        check(&FACTORY, KEYS, Signal::Metrics, &before, &after);
    }
}

#[test]
fn spans_move_as_log_records_do() {
    let span = |pairs: &str| format!(r#"{{"name":"n","attributes":{}}}"#, attributes(pairs));
    let before = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#, span("host=a"));
    let after = format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":{}}},"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
        attributes("host=a"),
        span("")
    );
    check(&FACTORY, KEYS, Signal::Traces, &before, &after);
}
