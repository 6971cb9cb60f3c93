//! B7 and B9: the HTTP answers of our receiver compared with those of a Collector, and the use of connections by our
//! exporters.

use std::collections::BTreeSet;

use component::Refused;
use component::testing::{Sink, Started};
use otel_conformance_tests::{CollectorConfig, python_client, python_server, real_collector};
use pdata::Signal;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::common::batches_of;
use crate::peer;
use crate::receiving::{Receiving, but, log_of, over_http, proto};

const PROTO: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// Returns invalid requests without their port, each with a name.
fn wrong_requests() -> Vec<(&'static str, Value)> {
    let good = over_http(0, Signal::Logs, &proto(&log_of(3)));
    let typed = |content_type: &str| json!({"headers": {"Content-Type": content_type}});
    let garbage = |content_type: &str| but(typed(content_type), json!({"body": "//8gZ2FyYmFnZQ=="}));
    let cases = [
        ("get", json!({"method": "GET"})),
        ("put", json!({"method": "PUT"})),
        ("no content type", json!({"headers": {}})),
        ("text", typed("text/plain")),
        ("a parameter", typed("application/x-protobuf; charset=utf-8")),
        ("another case", typed("Application/X-Protobuf")),
        ("another protobuf", typed("application/protobuf")),
        ("garbage as protobuf", garbage(PROTO)),
        ("garbage as json", garbage(JSON)),
        ("json that ends too soon", but(typed(JSON), json!({"body": "eyJyZXNvdXJjZUxvZ3MiOlt7"}))),
        ("another path", json!({"path": "/v1/log"})),
        ("a path below", json!({"path": "/v1/logs/x"})),
        ("a query", json!({"path": "/v1/logs?x=1"})),
        ("no gzip", json!({"headers": {"Content-Type": PROTO, "Content-Encoding": "gzip"}})),
        ("unknown compression", json!({"headers": {"Content-Type": JSON, "Content-Encoding": "br"}})),
    ];
    cases.map(|(name, fields)| (name, but(good.clone(), fields))).to_vec()
}

/// Returns status, content type and the error code in the body, as Python's protobuf decodes it.
fn outline(answer: &Value) -> String {
    let content_type = answer["headers"]["content-type"].as_str().unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default();
    format!("{} {content_type} {}", answer["status"], answer["error"]["code"])
}

/// Differences from the Collector, with their reasons.
const DIFFERENCES: [(&str, &str); 1] =
    [("garbage as json", "its own word of what is wrong_requests is no UTF-8, so that it answers 500")];

#[tokio::test(flavor = "multi_thread")]
async fn b07_wrong_requests_are_answered_as_by_the_collector() {
    let sink = Sink::new();
    let receiving = Receiving::before(&sink).await;
    let Some(collector) = peer(real_collector(&CollectorConfig::default())) else { return };
    let [ours, theirs] = [receiving.http.port(), collector.http.port()].map(|port| {
        let requests: Vec<Value> =
            wrong_requests().into_iter().map(|(_, request)| but(request, json!({"port": port}))).collect();
        block_in_place(|| python_client(&requests))
    });
    let (Some(ours), Some(theirs)) = (peer(ours), peer(theirs)) else { return };
    let mut otherwise = Vec::new();
    for ((name, _), (ours, theirs)) in wrong_requests().iter().zip(ours.iter().zip(&theirs)) {
        let is_known = DIFFERENCES.iter().any(|(known, _)| known == name);
        if (outline(ours) != outline(theirs)) != is_known {
            otherwise.push(format!("{name}: here {} there {}: {theirs}", outline(ours), outline(theirs)));
        }
    }
    assert!(otherwise.is_empty(), "{}", otherwise.join("\n"));
    receiving.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b07_refusals_have_the_encoding_of_the_request() {
    for (refused, want) in
        [(Refused::permanent("never"), (500, 13, "never")), (Refused::retryable("full"), (503, 14, "full"))]
    {
        let sink = Sink::answering(vec![Err(refused); 2]);
        let receiving = Receiving::before(&sink).await;
        let request = over_http(receiving.http.port(), Signal::Logs, &proto(&log_of(3)));
        let json_body = base64::Engine::encode(
            &base64::engine::general_purpose::STANDARD,
            pdata::json::encode(&log_of(3)),
        );
        let as_json = json!({"headers": {"Content-Type": JSON}, "body": json_body});
        let requests = [request.clone(), but(request, as_json)];
        let Some(answers) = peer(block_in_place(|| python_client(&requests))) else { return };
        for (answer, content_type) in answers.iter().zip([PROTO, JSON]) {
            let (status, code, message) = want;
            assert_eq!(answer["headers"]["content-type"], content_type);
            assert_eq!(answer["status"], status, "{answer}");
            assert_eq!(answer["error"], json!({"code": code, "message": message}), "{content_type}");
        }
        receiving.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b09_requests_use_default_paths_and_one_connection() {
    let Some(server) = peer(python_server()) else { return };
    let http = format!("http://{}", server.http);
    // Over HTTP/1.1 a request may start before the previous connection is back in the pool: then there are two.
    for (factory, settings, connections) in [
        (&exporters::otlp_grpc::FACTORY, json!({"endpoint": server.grpc.to_string()}), 1..=1),
        (&exporters::otlp_http::FACTORY, json!({"endpoint": http}), 1..=2),
        (&exporters::otlp_http::FACTORY, json!({"endpoint": format!("{http}/")}), 1..=2),
        (&exporters::otlp_http::FACTORY, json!({"endpoint": http, "disable_keep_alives": true}), 9..=9),
    ] {
        let common = json!({"tls": {"insecure": true}, "sending_queue": {"enabled": false}});
        let exporter = Started::exporter(factory, &but(settings, common).to_string()).await;
        let mut ports = BTreeSet::new();
        for signal in Signal::STABLE {
            for data in batches_of(signal, 3) {
                exporter.send(data).await.unwrap();
                let received = block_in_place(|| server.next());
                ports.insert(received.port);
                let path = if factory.kind == "otlp_grpc" { "" } else { &format!("/v1/{}", signal.name()) };
                assert_eq!(received.path, path);
            }
        }
        assert!(connections.contains(&ports.len()), "{}: {ports:?}", factory.kind);
        exporter.end().await;
    }
}
