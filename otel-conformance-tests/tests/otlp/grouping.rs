//! B10: resource, scope and item are preserved together, with the schema URLs of both.

use component::ProcessorFactory;
use otel_conformance_tests::{normalised, processed};
use pdata::{Data, Signal};
use serde_json::Value;

use crate::common::{batches_of, json};

/// Returns every item of batches with its scope and resource, sorted.
pub fn items(batches: &[Data]) -> Vec<String> {
    let mut items = Vec::new();
    for data in batches {
        let (resources, scopes, kind) = match data.signal() {
            Signal::Logs => ("resourceLogs", "scopeLogs", "logRecords"),
            Signal::Metrics => ("resourceMetrics", "scopeMetrics", "metrics"),
            _ => ("resourceSpans", "scopeSpans", "spans"),
        };
        let request: Value = serde_json::from_str(&json(&normalised(data))).unwrap();
        for mut resource in list(&request, resources) {
            let below = list(&resource, scopes);
            resource.as_object_mut().unwrap().remove(scopes);
            for mut scope in below {
                let below = list(&scope, kind);
                scope.as_object_mut().unwrap().remove(kind);
                let is_metric = data.signal() == Signal::Metrics;
                items.extend(below.into_iter().flat_map(|item| match is_metric {
                    true => points(&resource, &scope, item),
                    false => vec![format!("{resource} {scope} {item}")],
                }));
            }
        }
    }
    items.sort();
    items
}

fn list(of: &Value, key: &str) -> Vec<Value> {
    of[key].as_array().cloned().unwrap_or_default()
}

/// Returns the points of a metric with their scope. A metric without points is ignored.
fn points(resource: &Value, scope: &Value, mut metric: Value) -> Vec<String> {
    let kinds = ["gauge", "sum", "histogram", "exponentialHistogram", "summary"];
    let kind = kinds.into_iter().find(|kind| metric[kind]["dataPoints"].is_array());
    let points = kind.map(|kind| metric[kind]["dataPoints"].take()).unwrap_or_default();
    let points = points.as_array().cloned().unwrap_or_default();
    points.iter().map(|point| format!("{resource} {scope} {metric} {point}")).collect()
}

/// Checks that a processor preserves the resource and the scope of every item.
async fn check(factory: &ProcessorFactory, settings: &str) {
    for signal in Signal::STABLE {
        let sent = batches_of(signal, 40);
        let want = items(&sent);
        assert!(want.len() > 100, "{signal:?} {}", want.len());
        let got = items(&processed(factory, settings, &sent).await);
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got, want, "{} {settings} {signal:?}", factory.kind);
        }
        assert_eq!(got.len(), want.len(), "{} {settings} {signal:?}", factory.kind);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_batch_preserves_grouping() {
    check(&processors::batch::FACTORY, r#"{"timeout": "1h"}"#).await;
    let cut = r#"{"send_batch_size": 5, "send_batch_max_size": 7, "timeout": "1h"}"#;
    check(&processors::batch::FACTORY, cut).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_actions_without_effect_preserve_grouping() {
    let action = r#"[{"key": "no such key", "action": "delete"}]"#;
    check(&processors::attributes::FACTORY, &format!(r#"{{"actions": {action}}}"#)).await;
    check(&processors::resource::FACTORY, &format!(r#"{{"attributes": {action}}}"#)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_only_equal_groups_are_merged() {
    check(&processors::group_by_attrs::FACTORY, "{}").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b10_equal_resources_and_scopes_are_merged() {
    let of = |resource_schema: &str, dropped: u32, scope: &str, scope_schema: &str, body: &str| {
        let text = format!(
            r#"{{"resourceLogs":[{{"schemaUrl":"{resource_schema}","resource":{{"droppedAttributesCount":{dropped},"attributes":[{{"key":"a","value":{{"intValue":"1"}}}}]}},"scopeLogs":[{{"schemaUrl":"{scope_schema}","scope":{{"name":"{scope}"}},"logRecords":[{{"body":{{"stringValue":"{body}"}}}}]}}]}}]}}"#
        );
        pdata::json::decode(Signal::Logs, text.as_bytes()).unwrap()
    };
    let sent = [
        of("s1", 0, "x", "t1", "1"),
        of("s1", 0, "x", "t1", "2"),
        of("s1", 0, "x", "t2", "3"),
        of("s1", 0, "y", "t1", "4"),
        of("s2", 0, "x", "t1", "5"),
        of("s1", 7, "x", "t1", "6"),
    ];
    let batch = processed(&processors::batch::FACTORY, r#"{"timeout": "1h"}"#, &sent).await;
    assert_eq!(batch.len(), 1);
    let grouped = processed(&processors::group_by_attrs::FACTORY, "{}", &batch).await;
    assert_eq!(items(&grouped), items(&sent));
    let Data::Logs(logs) = &grouped[0] else { panic!("{grouped:?}") };
    let shape: Vec<Vec<usize>> = logs
        .resource_logs
        .iter()
        .map(|r| r.scope_logs.iter().map(|s| s.log_records.len()).collect())
        .collect();
    assert_eq!(shape, [vec![2, 1, 1], vec![1], vec![1]]);
}
