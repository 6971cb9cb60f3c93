//! B8: OTLP JSON as JavaScript's SDK writes it, and as a Collector reads it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use component::testing::Sink;
use otel_conformance_tests::{CollectorConfig, javascript, normalised, python_client, real_collector};
use pdata::{Data, Signal};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::common;
use crate::peer;
use crate::receiving::{Receiving, but, over_http};

#[test]
fn b08_javascript_sends_equal_json_and_protobuf() {
    let Some((written, _)) = peer(javascript(&[])) else { return };
    for request in written {
        let signal = request.data.signal();
        let text = String::from_utf8_lossy(&request.json).into_owned();
        let read = pdata::json::decode(signal, &request.json).unwrap_or_else(|e| panic!("{e}: {text}"));
        assert!(read.items() >= 2, "{text}");
        assert_eq!(common::json(&normalised(&read)), common::json(&normalised(&request.data)), "{text}");
    }
}

/// Log records, points and spans in JSON, valid or not; the Collector determines which are accepted.
const LOGS: [&str; 14] = [
    r#"{"traceId":"5B8EFFF798038103d269b633813fc60c","spanId":"EEE19B7EC3C1B174"}"#,
    r#"{"traceId":"","spanId":""}"#,
    r#"{"traceId":"5b8e"}"#,
    r#"{"traceId":"xx8efff798038103d269b633813fc60c"}"#,
    r#"{"timeUnixNano":"1","observedTimeUnixNano":2,"flags":1}"#,
    r#"{"time_unix_nano":"1","severity_text":"x","body":{"string_value":"x"}}"#,
    r#"{"severityNumber":9,"severityText":"INFO","eventName":"e","droppedAttributesCount":3}"#,
    r#"{"body":{"kvlistValue":{"values":[{"key":"a","value":{"bytesValue":"AP8="}},{"key":"b","value":{"arrayValue":{"values":[{"boolValue":true},{"intValue":7},{"intValue":"-9223372036854775808"}]}}}]}}}"#,
    r#"{"body":{"arrayValue":{}}}"#,
    r#"{"body":{"doubleValue":"Infinity"},"attributes":[{"key":"k","value":{"doubleValue":"-Infinity"}}]}"#,
    r#"{"body":{"doubleValue":1e400}}"#,
    r#"{"body":{"intValue":"x"}}"#,
    r#"{"new":{"a":[1,{"b":[]}]},"body":{"stringValue":"kept","soon":{}},"attributes":[{"key":"k","value":{"stringValue":"v"},"later":1}]}"#,
    r#"{"body":{"stringValue":"\u00e9\ud83d\ude00"},"attributes":null}"#,
];
const POINTS: [&str; 9] = [
    r#"{"gauge":{"dataPoints":[{"asInt":"-3"},{"asInt":4},{"asDouble":0.5},{"asDouble":7},{"flags":1}]}}"#,
    r#"{"gauge":{"dataPoints":[{"asDouble":"Infinity"}]}}"#,
    r#"{"sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"startTimeUnixNano":"18446744073709551615","timeUnixNano":3,"asInt":"1","exemplars":[{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","asInt":"1","filteredAttributes":[{"key":"k","value":{"boolValue":false}}]}]}]}}"#,
    r#"{"histogram":{"aggregationTemporality":1,"dataPoints":[{"count":"3","sum":2,"bucketCounts":["1",2],"explicitBounds":[0.5],"min":0,"max":1}]}}"#,
    r#"{"exponentialHistogram":{"aggregationTemporality":1,"dataPoints":[{"count":3,"scale":-1,"zeroCount":"1","zeroThreshold":0.1,"positive":{"offset":-2,"bucketCounts":["1"]},"negative":{"bucketCounts":[1]}}]}}"#,
    r#"{"summary":{"dataPoints":[{"count":"2","sum":3,"quantileValues":[{"quantile":0.5,"value":1}]}]}}"#,
    r#"{"unit":"By","description":"d","sum":{"data_points":[],"aggregation_temporality":2}}"#,
    r#"{"gauge":{"dataPoints":[{"asInt":"1.5"}]}}"#,
    r#"{"metadata":[{"key":"k","value":{"stringValue":"v"}}],"gauge":{"dataPoints":[{"asInt":"1"}]}}"#,
];
const SPANS: [&str; 6] = [
    r#"{"traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","parentSpanId":"","kind":3,"flags":257,"traceState":"a=b"}"#,
    r#"{"kind":2,"status":{"code":2,"message":"m"},"links":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"EEE19B7EC3C1B174","flags":1,"traceState":"x=y"}]}"#,
    r#"{"events":[{"timeUnixNano":"5","name":"e","droppedAttributesCount":1}],"droppedEventsCount":2,"droppedLinksCount":3}"#,
    r#"{"status":{},"kind":0,"name":""}"#,
    r#"{"parent_span_id":"eee19b7ec3c1b174","Name":"no","name":"yes"}"#,
    r#"{"startTimeUnixNano":"0x10"}"#,
];

/// Returns requests with one item each.
fn texts() -> Vec<(Signal, String)> {
    let wrap = |signal, before: &str, items: &[&str], after: &str| {
        let with = |item: &&str| (signal, format!("{before}{item}{after}"));
        items.iter().map(with).collect::<Vec<_>>()
    };
    let named = POINTS.map(|point| format!(r#"{{"name":"m",{}"#, &point[1..]));
    let points: Vec<&str> = named.iter().map(String::as_str).collect();
    [
        wrap(Signal::Logs, r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":["#, &LOGS, "]}]}]}"),
        wrap(Signal::Metrics, r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":["#, &points, "]}]}]}"),
        wrap(Signal::Traces, r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, &SPANS, "]}]}]}"),
    ]
    .concat()
}

/// Differences from the Collector: a part of the text, and the reason.
const DIFFERENCES: [(&str, &str); 2] = [
    ("severity_text", "OTLP's names are in lowerCamelCase alone, which the Collector is not strict about"),
    ("parent_span_id", "the same"),
];

#[tokio::test(flavor = "multi_thread")]
async fn b08_json_is_decoded_as_by_the_collector() {
    let sink = Sink::new();
    let receiving = Receiving::before(&sink).await;
    let Some(collector) = peer(real_collector(&CollectorConfig::default())) else { return };
    let requests = |port: u16| -> Vec<Value> {
        let as_json = json!({"headers": {"Content-Type": "application/json"}});
        let request = |(signal, text): &(Signal, String)| {
            let body = json!({"body": STANDARD.encode(text)});
            but(but(over_http(port, *signal, b""), as_json.clone()), body)
        };
        texts().iter().map(request).collect()
    };
    let [ours, theirs] =
        [receiving.http, collector.http].map(|to| block_in_place(|| python_client(&requests(to.port()))));
    let (Some(ours), Some(theirs)) = (peer(ours), peer(theirs)) else { return };
    // Requests without items are accepted by both and not forwarded.
    let is_empty = |(signal, text): &(Signal, String)| {
        pdata::json::decode(*signal, text.as_bytes()).is_ok_and(|data| data.items() == 0)
    };
    let arrives = |(text, answer): &(&(Signal, String), &Value)| answer["status"] == 200 && !is_empty(text);
    let taken = texts().iter().zip(&theirs).filter(arrives).count();
    let written = block_in_place(|| collector.received(|got| got.len() >= taken));
    let (mut here, mut there) = (sink.got().into_iter(), written.into_iter());
    let next = |text, answer: &Value, from: &mut dyn Iterator<Item = Data>| match arrives(&(text, answer)) {
        true => common::json(&normalised(&from.next().expect("what was taken arrives"))),
        false => answer["status"].to_string(),
    };
    let mut otherwise = Vec::new();
    for (asked, (ours, theirs)) in texts().iter().zip(ours.iter().zip(&theirs)) {
        let (ours, theirs) = (next(asked, ours, &mut here), next(asked, theirs, &mut there));
        let text = &asked.1;
        let is_known = DIFFERENCES.iter().any(|(part, _)| text.contains(part));
        if (ours != theirs) != is_known {
            otherwise.push(format!("{text}\n  here  {ours}\n  there {theirs}"));
        }
    }
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
    receiving.end().await;
}
