//! Comparison of our components with the Collector's, with equal settings and data: the output of the `debug`
//! exporter, and of `attributes`, `resource` and `batch`.

mod common;

use common::{batches, batches_of, json};
use component::ProcessorFactory;
use component::testing::Started;
use otel_conformance_tests::{CollectorConfig, normalised, peer, processed, real_collector};
use pdata::{Data, Signal};

/// Sends batches to a Collector one after the other; each waits for its answer.
async fn send(collector: &otel_conformance_tests::Collector, batches: &[Data]) {
    let settings = format!(
        r#"{{"endpoint": "{}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}}}}"#,
        collector.grpc
    );
    let exporter = Started::exporter(&exporters::otlp_grpc::FACTORY, &settings).await;
    for data in batches {
        exporter.send(data.clone()).await.expect("the Collector takes it");
    }
    exporter.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn debug_prints_the_same_as_the_collector() {
    for verbosity in ["basic", "normal", "detailed"] {
        let settings = format!(
            r#"{{"verbosity": "{verbosity}", "use_internal_logger": false, "output_paths": ["${{folder}}/debug.txt"]}}"#
        );
        let config = CollectorConfig { exporters: vec![("debug", settings.clone())], ..Default::default() };
        let Some(collector) = peer(real_collector(&config)) else { return };
        // The Collector prints nothing for a list or map that contains a number without a JSON form.
        let is_printable = |data: &Data| !json(data).contains(r#""doubleValue":""#);
        let sent: Vec<Data> = batches(60).iter().filter(|d| is_printable(d)).map(normalised).collect();
        assert!(sent.len() > 20, "{}", sent.len());
        send(&collector, &sent).await;
        let theirs = std::fs::read_to_string(collector.folder().join("debug.txt")).unwrap();

        let folder = tempfile::tempdir().unwrap();
        let ours = settings.replace("${folder}", folder.path().to_str().unwrap());
        let exporter = Started::exporter(&exporters::debug::FACTORY, &ours).await;
        for data in sent {
            exporter.send(data).await.unwrap();
        }
        exporter.end().await;
        let ours = std::fs::read_to_string(folder.path().join("debug.txt")).unwrap();
        for (number, (ours, theirs)) in ours.lines().zip(theirs.lines()).enumerate() {
            assert_eq!(ours, theirs, "{verbosity}, line {}", number + 1);
        }
        assert_eq!(ours.lines().count(), theirs.lines().count());
    }
}

/// Checks that our processor and the Collector's have equal output for equal batches.
async fn check(factory: &ProcessorFactory, settings: &str, sent: &[Data]) {
    let processors = vec![(factory.kind, settings.to_owned())];
    // The Collector checks a selection against the signal of each pipeline.
    let only = sent.first().map(Data::signal);
    let Some(collector) = peer(real_collector(&CollectorConfig { processors, only, ..Default::default() }))
    else {
        return;
    };
    send(&collector, sent).await;
    let ours = processed(factory, settings, sent).await;
    let theirs = tokio::task::block_in_place(|| collector.received(|got| got.len() >= ours.len()));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(json(&normalised(ours)), json(&normalised(theirs)), "{settings}");
    }
    assert_eq!(ours.len(), theirs.len(), "{settings}");
}

/// Returns batches with the attributes of the actions below, with values of every kind.
fn keyed() -> Vec<Data> {
    let values = [
        r#"{"stringValue":"12"}"#,
        r#"{"stringValue":"http://h/x?y"}"#,
        r#"{"stringValue":""}"#,
        r#"{"boolValue":true}"#,
        r#"{"intValue":"-7"}"#,
        r#"{"doubleValue":2.75}"#,
        r#"{"doubleValue":1e-7}"#,
        r#"{"bytesValue":"AQI="}"#,
        r#"{"arrayValue":{"values":[{"intValue":"1"},{"stringValue":"a<b"}]}}"#,
        r#"{"kvlistValue":{"values":[{"key":"z","value":{"doubleValue":0.5}},{"key":"y","value":{}}]}}"#,
        "{}",
    ];
    let of = |value: &str| {
        let attributes = format!(
            r#"[{{"key":"a","value":{value}}},{{"key":"ab","value":{value}}},{{"key":"c","value":{{"intValue":"1"}}}}]"#
        );
        let spans = format!(
            r#"{{"resourceSpans":[{{"resource":{{"attributes":{attributes}}},"scopeSpans":[{{"scope":{{"name":"s"}},"spans":[{{"name":"decode","kind":2,"attributes":{attributes}}},{{"name":"prefill","attributes":{attributes}}}]}}]}}]}}"#
        );
        pdata::json::decode(Signal::Traces, spans.as_bytes()).expect("it is written as OTLP")
    };
    values.map(of).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn actions_have_the_output_of_the_collector() {
    let actions = r#"[
        {"key": "new", "action": "insert", "from_attribute": "a"},
        {"key": "a", "action": "insert", "value": "kept"},
        {"key": "c", "action": "update", "value": {"k": [1, 2.5, "x", true]}},
        {"key": "d", "action": "update", "value": "never"},
        {"key": "d", "action": "upsert", "from_attribute": "missing", "default_value": 7},
        {"key": "hashed", "action": "insert", "from_attribute": "a"},
        {"key": "hashed", "action": "hash"},
        {"key": "text", "action": "insert", "from_attribute": "a"},
        {"key": "text", "action": "convert", "converted_type": "string"},
        {"key": "int", "action": "insert", "from_attribute": "a"},
        {"key": "int", "action": "convert", "converted_type": "int"},
        {"key": "double", "action": "insert", "from_attribute": "a"},
        {"key": "double", "action": "convert", "converted_type": "double"},
        {"key": "a", "action": "extract", "pattern": "^(?P<scheme>[^:]*)://(?P<host>[^/]*)(?P<port>:[0-9]+)?"},
        {"pattern": "^ab", "action": "hash"},
        {"pattern": "^c$", "action": "delete"}
    ]"#;
    check(&processors::resource::FACTORY, &format!(r#"{{"attributes": {actions}}}"#), &keyed()).await;
    let selection = r#""include": {"match_type": "regexp", "span_names": ["^d", "x"]},
                       "exclude": {"match_type": "strict", "attributes": [{"key": "a", "value": true}]}"#;
    let settings = format!(r#"{{{selection}, "actions": {actions}}}"#);
    check(&processors::attributes::FACTORY, &settings, &keyed()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_are_split_as_by_the_collector() {
    let settings = r#"{"send_batch_size": 5, "send_batch_max_size": 7, "timeout": "1h"}"#;
    for signal in Signal::STABLE {
        let processors = vec![("batch", settings.to_owned())];
        let config = CollectorConfig { processors, only: Some(signal), ..Default::default() };
        let Some(collector) = peer(real_collector(&config)) else { return };
        // The Collector loses the metadata of a metric that it splits; everything else must be equal.
        let sent: Vec<Data> = batches_of(signal, 40).iter().map(without_metadata).collect();
        send(&collector, &sent).await;
        let mut ours = processed(&processors::batch::FACTORY, settings, &sent).await;
        // An incomplete batch is sent when the processor stops, which the Collector does not do in this test.
        if ours.last().is_some_and(|last| last.items() < 5) {
            ours.pop();
        }
        assert!(ours.len() > 10, "{signal:?} {}", ours.len());
        let theirs = tokio::task::block_in_place(|| collector.received(|got| got.len() >= ours.len()));
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(json(&normalised(ours)), json(&normalised(theirs)), "{signal:?}");
        }
        assert_eq!(ours.len(), theirs.len(), "{signal:?}");
    }
}

fn without_metadata(data: &Data) -> Data {
    let mut data = data.clone();
    if let Data::Metrics(metrics) = &mut data {
        let metrics = metrics.make_mut();
        let scopes = metrics.resource_metrics.iter_mut().flat_map(|r| &mut r.scope_metrics);
        scopes.flat_map(|s| &mut s.metrics).for_each(|m| m.metadata.clear());
    }
    data
}
