//! B5 and B6: limits of the size of requests before and after compression, as a receiver and as an exporter.

use std::time::Duration;

use component::testing::{Sink, Started};
use otel_conformance_tests::{python_client, python_server};
use pdata::Signal;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::peer;
use crate::receiving::{Receiving, but, log_of, over_grpc, over_http, proto};

/// gRPC's code and HTTP's status of a message above the limit.
const EXHAUSTED: i64 = 8;
const TOO_LARGE: i64 = 413;

/// A request, and the expected status.
type Case = (Value, i64);

async fn check(receiving: Receiving, sink: &Sink, cases: Vec<Case>) {
    let requests: Vec<Value> = cases.iter().map(|(request, _)| request.clone()).collect();
    let Some(answers) = peer(block_in_place(|| python_client(&requests))) else { return };
    let mut taken = 0;
    for (answer, (request, want)) in answers.iter().zip(&cases) {
        let what = format!("{} {} {}", request["to"], request["compress"], request["pad"]);
        assert_eq!(answer["status"], *want, "{what}: {answer}");
        taken += usize::from([0, 200].contains(want));
        if *want == EXHAUSTED {
            assert_eq!(answer["has_retry_info"], false, "{what}: it is not to be tried again");
        } else if *want == TOO_LARGE {
            let content_type = &answer["headers"]["content-type"];
            assert_eq!(answer["error"]["code"], EXHAUSTED, "{what}: {content_type} {answer}");
        }
    }
    assert_eq!(sink.got().len(), taken);
    receiving.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_b06_limits_apply_before_and_after_decompression() {
    let sink = Sink::new();
    let receiving = Receiving::limited(&sink, 1, 100_000).await;
    let (grpc, http) = (receiving.grpc.port(), receiving.http.port());
    let http = |bytes| over_http(http, Signal::Logs, &proto(&log_of(bytes)));
    let grpc = |bytes| over_grpc(grpc, Signal::Logs, &proto(&log_of(bytes)));
    let mut cases = Vec::new();
    for compress in ["", "deflate", "gzip"] {
        let packed = |request: Value| but(request, json!({"compress": compress}));
        cases.extend([
            (packed(http(99_900)), 200),
            (packed(http(100_100)), TOO_LARGE),
            (packed(grpc(1_048_000)), 0),
            (packed(grpc(1_049_000)), EXHAUSTED),
        ]);
    }
    // A hundred megabytes, compressed to some hundred kilobytes, over HTTP in either encoding.
    for compress in ["deflate", "gzip"] {
        let bomb = json!({"compress": compress, "pad": 100_000_000});
        let as_json = json!({"headers": {"Content-Type": "application/json"}});
        cases.extend([
            (but(http(1), bomb.clone()), TOO_LARGE),
            (but(but(http(1), bomb.clone()), as_json), TOO_LARGE),
            (but(grpc(1), bomb), EXHAUSTED),
        ]);
    }
    check(receiving, &sink, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_default_limits_are_those_of_the_collector() {
    const MIB: usize = 1024 * 1024;
    let sink = Sink::new();
    let receiving = Receiving::before(&sink).await;
    let (grpc, http) = (receiving.grpc.port(), receiving.http.port());
    let http = |bytes| over_http(http, Signal::Logs, &proto(&log_of(bytes)));
    let grpc = |bytes| over_grpc(grpc, Signal::Logs, &proto(&log_of(bytes)));
    let cases = vec![
        (grpc(4 * MIB - 100), 0),
        (grpc(4 * MIB), EXHAUSTED),
        (http(20 * MIB - 100), 200),
        (http(20 * MIB), TOO_LARGE),
    ];
    check(receiving, &sink, cases).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b05_oversized_requests_are_not_sent() {
    let Some(server) = peer(python_server()) else { return };
    let large = log_of(64 * 1024 * 1024);
    for (factory, settings) in [
        (&exporters::otlp_grpc::FACTORY, json!({"endpoint": server.grpc.to_string()})),
        (&exporters::otlp_http::FACTORY, json!({"endpoint": format!("http://{}", server.http)})),
        (
            &exporters::otlp_http::FACTORY,
            json!({"endpoint": format!("http://{}", server.http), "encoding": "json"}),
        ),
    ] {
        let common = json!({"tls": {"insecure": true}, "sending_queue": {"enabled": false}});
        let exporter = Started::exporter(factory, &but(settings, common).to_string()).await;
        let refused = exporter.send(large.clone()).await.unwrap_err();
        assert!(!refused.is_retryable() && refused.to_string().contains("67108864"), "{refused}");
        assert!(server.until(Duration::ZERO).is_none());
        // Later requests are sent.
        exporter.send(log_of(5)).await.unwrap();
        assert_eq!(block_in_place(|| server.next()).data, log_of(5));
        exporter.end().await;
    }
}
