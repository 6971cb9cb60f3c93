//! B3 and B4: partial successes and empty requests.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use component::Refused;
use component::testing::{Sink, Started};
use otel_conformance_tests::{
    CollectorConfig, Response, javascript, python_client, python_server_answering, real_collector,
};
use pdata::Signal;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::common::batches_of;
use crate::peer;
use crate::receiving::{Receiving, but, over_grpc, over_http, proto};

#[tokio::test(flavor = "multi_thread")]
async fn b03_partially_accepted_requests_are_not_sent_again() {
    let partial = json!({"rejected": 3, "message": "too old"});
    let warning = json!({"rejected": 0, "message": "do batch"});
    for (factory, encoding) in [
        (&exporters::otlp_grpc::FACTORY, "proto"),
        (&exporters::otlp_http::FACTORY, "proto"),
        (&exporters::otlp_http::FACTORY, "json"),
    ] {
        for signal in Signal::STABLE {
            let answers = [partial.clone(), warning.clone()];
            let Some(server) = peer(python_server_answering(&answers)) else { return };
            let is_grpc = factory.kind == "otlp_grpc";
            let endpoint = if is_grpc { server.grpc.to_string() } else { format!("http://{}", server.http) };
            let more = if is_grpc { json!({}) } else { json!({"encoding": encoding}) };
            let settings = json!({
                "endpoint": endpoint, "tls": {"insecure": true}, "sending_queue": {"enabled": false},
                "retry_on_failure": {"initial_interval": "1ms"},
            });
            let exporter = Started::exporter(factory, &but(settings, more).to_string()).await;
            for data in batches_of(signal, 2) {
                exporter.send(data).await.unwrap();
                block_in_place(|| server.next());
                assert!(server.until(Duration::ZERO).is_none(), "{} {encoding}", factory.kind);
            }
            exporter.end().await;
        }
    }
}

/// Returns the requests of a body: over gRPC, and over HTTP in both encodings.
fn all_requests(receiving: &Receiving, signal: Signal, bytes: &[u8], text: &[u8]) -> [Value; 3] {
    let (grpc, http) = (receiving.grpc.port(), receiving.http.port());
    let headers = json!({"headers": {"Content-Type": "application/json"}});
    let as_json = but(over_http(http, signal, text), headers);
    [over_grpc(grpc, signal, bytes), over_http(http, signal, bytes), as_json]
}

#[tokio::test(flavor = "multi_thread")]
async fn b03_a_full_success_leaves_partial_success_unset() {
    let sink = Sink::new();
    let receiving = Receiving::before(&sink).await;
    let mut requests = Vec::new();
    for signal in Signal::STABLE {
        let data = batches_of(signal, 1).remove(0);
        requests.extend(all_requests(&receiving, signal, &proto(&data), &pdata::json::encode(&data)));
    }
    let Some(answers) = peer(block_in_place(|| python_client(&requests))) else { return };
    let mut responses = Vec::new();
    for (answers, signal) in answers.chunks(3).zip(Signal::STABLE) {
        assert_eq!((&answers[0]["status"], &answers[0]["is_partial"]), (&json!(0), &json!(false)));
        for (answer, is_json) in answers[1..].iter().zip([false, true]) {
            assert_eq!(answer["status"], 200, "{answer}");
            let body = STANDARD.decode(answer["body"].as_str().unwrap()).unwrap();
            responses.push(Response { signal, is_json, body });
        }
    }
    assert_eq!(sink.got().len(), requests.len());
    receiving.end().await;
    let Some((_, read)) = peer(block_in_place(|| javascript(&responses))) else { return };
    assert_eq!(read, vec![json!({}); responses.len()], "JavaScript finds nothing in a success");
}

#[tokio::test(flavor = "multi_thread")]
async fn b04_empty_requests_are_accepted_and_not_forwarded() {
    let sink = Sink::answering([Err(Refused::permanent("not retryable"))]);
    let receiving = Receiving::before(&sink).await;
    let mut requests = Vec::new();
    for signal in Signal::STABLE {
        let resources = ["resourceLogs", "resourceMetrics", "resourceSpans"][signal as usize];
        let empty =
            [format!(r#"{{"{resources}":[]}}"#), format!(r#"{{"{resources}":[{{"schemaUrl":"x"}}]}}"#)];
        for json in ["{}"].into_iter().chain(empty.iter().map(String::as_str)) {
            let data = pdata::json::decode(signal, json.as_bytes()).unwrap();
            requests.extend(all_requests(&receiving, signal, &proto(&data), json.as_bytes()));
        }
    }
    let Some(ours) = peer(block_in_place(|| python_client(&requests))) else { return };
    let statuses = |answers: &[Value]| answers.iter().map(|a| a["status"].clone()).collect::<Vec<_>>();
    let taken: Vec<Value> = [json!(0), json!(200), json!(200)].into_iter().cycle().take(ours.len()).collect();
    assert_eq!(statuses(&ours), taken);
    assert_eq!(sink.got(), []);
    receiving.end().await;

    let Some(collector) = peer(real_collector(&CollectorConfig::default())) else { return };
    let port = |request: &Value| match request["to"] == "grpc" {
        true => collector.grpc.port(),
        false => collector.http.port(),
    };
    let there: Vec<Value> =
        requests.iter().map(|request| but(request.clone(), json!({"port": port(request)}))).collect();
    let Some(theirs) = peer(block_in_place(|| python_client(&there))) else { return };
    assert_eq!(statuses(&theirs), taken);
}
