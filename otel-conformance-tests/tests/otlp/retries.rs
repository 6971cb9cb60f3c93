//! B1 and B2: which failures are retried, and when: those of Python's server by our exporters, and ours by other
//! senders.

use std::time::Duration;

use component::testing::{Sink, Started};
use component::{ExporterFactory, Refused};
use otel_conformance_tests::{
    CollectorConfig, PythonServer, python_sdk, python_server_answering, real_collector,
};
use pdata::Signal;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::common::batches_of;
use crate::peer;
use crate::receiving::{Receiving, but, log_of};

/// gRPC codes after which a request is always retryable.
const RETRYABLE: [i64; 6] = [1, 4, 10, 11, 14, 15];
/// The code that is retryable only with a retry delay.
const RESOURCE_EXHAUSTED: i64 = 8;

/// Returns an exporter that retries immediately, and returns when it has finished.
async fn retrying(factory: &ExporterFactory, endpoint: String) -> Started {
    let settings = json!({
        "endpoint": endpoint, "tls": {"insecure": true}, "sending_queue": {"enabled": false},
        "retry_on_failure": {"initial_interval": "1ms", "max_interval": "1ms"},
    });
    Started::exporter(factory, &settings.to_string()).await
}

/// Sends a batch for each answer; checks whether it is retried, and not before the delay in the answer.
async fn check(exporter: &Started, server: &PythonServer, cases: &[(Value, Option<Duration>)]) {
    for (answer, again) in cases {
        let outcome = exporter.send(log_of(3)).await;
        assert_eq!(outcome.is_ok(), again.is_some(), "{answer}: {outcome:?}");
        let first = block_in_place(|| server.next());
        if let Some(least) = again {
            let waited = block_in_place(|| server.next()).at - first.at;
            assert!(waited >= *least, "{answer}: {waited:?}");
        }
        assert!(server.until(Duration::ZERO).is_none(), "{answer}: one time too many");
    }
}

/// Returns the answers, each retryable one followed by a success.
fn script(cases: &[(Value, Option<Duration>)]) -> Vec<Value> {
    let with_success = |(answer, again): &(Value, Option<Duration>)| {
        std::iter::once(answer.clone()).chain(again.map(|_| json!({}))).collect::<Vec<_>>()
    };
    cases.iter().flat_map(with_success).collect()
}

async fn check_grpc(after: Option<Duration>) {
    let case = |code: i64| {
        let is_again = RETRYABLE.contains(&code) || (code == RESOURCE_EXHAUSTED && after.is_some());
        let delay = after.map_or(json!({}), |after| json!({"after_ms": after.as_millis() as u64}));
        (but(json!({"code": code}), delay), is_again.then_some(after.unwrap_or_default()))
    };
    let cases: Vec<_> = (1..=16).map(case).collect();
    let Some(server) = peer(python_server_answering(&script(&cases))) else { return };
    let exporter = retrying(&exporters::otlp_grpc::FACTORY, server.grpc.to_string()).await;
    check(&exporter, &server, &cases).await;
    exporter.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_only_listed_codes_are_retried_over_grpc() {
    check_grpc(None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b02_retry_info_is_the_minimum_delay() {
    check_grpc(Some(Duration::from_millis(70))).await;
}

async fn check_http(cases: Vec<(Value, Option<Duration>)>) {
    let Some(server) = peer(python_server_answering(&script(&cases))) else { return };
    let exporter = retrying(&exporters::otlp_http::FACTORY, format!("http://{}", server.http)).await;
    check(&exporter, &server, &cases).await;
    exporter.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_only_listed_statuses_are_retried_over_http() {
    let statuses = [400, 401, 403, 404, 405, 408, 409, 413, 415, 422, 429, 431, 500, 501, 502, 503, 504, 505];
    let case = |status: i64| {
        let is_again = [429, 502, 503, 504].contains(&status);
        (json!({"status": status}), is_again.then_some(Duration::ZERO))
    };
    check_http(statuses.map(case).to_vec()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b02_retry_after_is_the_minimum_delay() {
    let second = Some(Duration::from_secs(1));
    check_http(vec![
        (json!({"status": 429, "after": 1}), second),
        (json!({"status": 503, "after": 1}), second),
        // A date has whole seconds, so this one is more than one second in the future.
        (json!({"status": 503, "after_date": 2}), second),
        (json!({"status": 503, "after": "soon"}), Some(Duration::ZERO)),
        (json!({"status": 400, "after": 1}), None),
    ])
    .await;
}

/// The retry delay of our receiver's refusals.
const AFTER: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread")]
async fn b01_b02_collector_retries_our_retryable_refusals_only() {
    for way in ["otlp_grpc", "otlp_http", "otlp_http json"] {
        let later = Refused::retryable("busy").with_retry_after(AFTER);
        let answers = [Err(Refused::retryable("full")), Err(later), Ok(()), Err(Refused::permanent("never"))];
        let sink = Sink::answering(answers);
        let receiving = Receiving::before(&sink).await;
        let endpoint = match way {
            "otlp_grpc" => receiving.grpc.to_string(),
            _ => format!("http://{}", receiving.http),
        };
        let settings = json!({
            "endpoint": endpoint, "tls": {"insecure": true}, "sending_queue": {"enabled": false},
            "retry_on_failure": {"initial_interval": "1ms", "max_interval": "1ms"},
        });
        let encoding = if way.ends_with("json") { json!({"encoding": "json"}) } else { json!({}) };
        let kind = if way == "otlp_grpc" { "otlp_grpc/ours" } else { "otlp_http/ours" };
        let exporters = vec![(kind, but(settings, encoding).to_string())];
        let config = CollectorConfig { exporters, only: Some(Signal::Logs), ..CollectorConfig::default() };
        let Some(collector) = peer(real_collector(&config)) else { return };
        let exporter = Started::exporter(&exporters::otlp_grpc::FACTORY, &once(collector.grpc)).await;
        exporter.send(log_of(3)).await.unwrap();
        let times: Vec<_> = sink.deliveries().iter().map(|delivery| delivery.at).collect();
        assert_eq!(times.len(), 3, "{way}");
        assert!(times[2] - times[1] >= AFTER, "{way}: {:?}", times[2] - times[1]);
        exporter.send(log_of(3)).await.unwrap_err();
        assert_eq!(sink.got().len(), 4, "{way}: what is refused for good is not sent again");
        exporter.end().await;
        drop(collector);
        receiving.end().await;
    }
}

/// Returns the settings of an exporter without retries.
fn once(to: std::net::SocketAddr) -> String {
    json!({
        "endpoint": to.to_string(), "tls": {"insecure": true}, "timeout": "30s",
        "sending_queue": {"enabled": false}, "retry_on_failure": {"enabled": false},
    })
    .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn b01_b02_python_sdk_retries_our_retryable_refusals_only() {
    let later = || Err(Refused::retryable("busy").with_retry_after(AFTER));
    let never = || Err(Refused::permanent("never"));
    // Each of its exporters is refused once, then accepted.
    let (ways, rounds) = (5, [(vec![later(), Ok(())], true), (vec![never()], false)]);
    for (answers, is_sent) in rounds {
        let tries = answers.len();
        let sink = Sink::answering(std::iter::repeat_n(answers, ways).flatten());
        let receiving = Receiving::before(&sink).await;
        let Some(exported) = peer(block_in_place(|| python_sdk(true, receiving.grpc, receiving.http))) else {
            return;
        };
        assert_eq!(exported.iter().map(|e| e.is_sent).collect::<Vec<_>>(), vec![is_sent; ways]);
        let got = sink.deliveries();
        assert_eq!(got.len(), ways * tries);
        for pair in got.chunks(tries).filter(|pair| pair.len() == 2) {
            assert!(pair[1].at - pair[0].at >= AFTER, "{:?}", pair[1].at - pair[0].at);
            assert_eq!(pair[1].data, pair[0].data, "the same again");
        }
        receiving.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b02_other_signals_are_retried_unchanged() {
    for signal in Signal::STABLE {
        let Some(server) = peer(python_server_answering(&[json!({"code": 14}), json!({"code": 14})])) else {
            return;
        };
        let exporter = retrying(&exporters::otlp_grpc::FACTORY, server.grpc.to_string()).await;
        let data = batches_of(signal, 1).remove(0);
        exporter.send(data.clone()).await.unwrap();
        for _ in 0..3 {
            let received = block_in_place(|| server.next());
            assert_eq!(crate::common::json(&received.data), crate::common::json(&data));
        }
        exporter.end().await;
    }
}
