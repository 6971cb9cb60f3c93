//! What goes over the wire and what comes of the answers. Settings are the user's own, in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use component::{Refused, Signal};
use prost::Message as _;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::FACTORY;
use crate::testing::{Answer, Started, TestServer, certificate, problems, span, traces};
use crate::wire::{ExportResponse, PartialSuccess};

fn taken() -> Answer {
    Answer::grpc(b"")
}

/// Settings without a queue, so that the outcome comes back, and with retries that do not wait.
fn settings(server: &TestServer, more: &str) -> String {
    format!(
        r#"{{"endpoint": "{}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}},
            "retry_on_failure": {{"initial_interval": "1ms", "max_interval": "2ms"}}{more}}}"#,
        server.address
    )
}

#[tokio::test]
async fn a_batch_arrives_as_it_was_with_headers_and_in_either_compression() {
    for (compression, flag) in [("gzip", 1), ("none", 0), ("", 0)] {
        let server = TestServer::answering(vec![taken()]).await;
        let more = format!(r#", "compression": "{compression}", "headers": {{"X-Tenant": "a b"}}"#);
        let exporter = Started::by(&FACTORY, &settings(&server, &more)).await;
        exporter.front.consume(span("step")).await.unwrap();
        let [seen] = &server.seen()[..] else { panic!("one request") };
        assert_eq!(seen.path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
        assert_eq!(traces(&seen.grpc_message()), span("step"));
        assert_eq!(seen.body[0], flag, "{compression:?}");
        assert_eq!(seen.header("grpc-encoding"), if flag == 1 { "gzip" } else { "" });
        assert_eq!(seen.header("x-tenant"), "a b");
        assert!(seen.header("user-agent").starts_with("warptap/1.2.3"), "{seen:?}");
        assert_eq!(seen.header("grpc-timeout"), "5000000u", "the default timeout is told to the other side");
        exporter.end().await;
    }
}

#[tokio::test]
async fn what_is_refused_for_now_is_sent_again_until_it_is_taken() {
    let details = ErrorDetails::with_retry_info(Some(std::time::Duration::from_millis(3)));
    let throttled = tonic::Status::with_error_details(tonic::Code::ResourceExhausted, "slow down", details);
    let throttled = STANDARD_NO_PAD.encode(throttled.details());
    let answers = vec![
        Answer::grpc_status(14, "try later", ""),
        Answer::grpc_status(8, "slow down", &throttled),
        Answer::http(503, &[("content-type", "text/html")], b"a proxy that knows nothing of gRPC"),
        taken(),
    ];
    let server = TestServer::answering(answers).await;
    let exporter = Started::by(&FACTORY, &settings(&server, "")).await;
    exporter.front.consume(span("step")).await.unwrap();
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn what_is_refused_for_good_is_sent_once() {
    for (code, name) in [(3, "InvalidArgument"), (8, "ResourceExhausted"), (16, "Unauthenticated")] {
        let server = TestServer::answering(vec![Answer::grpc_status(code, "no", ""), taken()]).await;
        let exporter = Started::by(&FACTORY, &settings(&server, "")).await;
        let refused = exporter.front.consume(span("step")).await.unwrap_err();
        assert_eq!(refused, Refused::permanent(format!("rpc error: code = {name} desc = no")));
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_that_refuses_for_good_is_believed() {
    let server = TestServer::answering(vec![Answer::http(403, &[], b"<html>"), taken()]).await;
    let exporter = Started::by(&FACTORY, &settings(&server, "")).await;
    let refused = exporter.front.consume(span("step")).await.unwrap_err();
    let want = "rpc error: code = PermissionDenied desc = unexpected HTTP status 403 Forbidden without a gRPC status";
    assert_eq!(refused, Refused::permanent(want));
}

#[tokio::test]
async fn a_partial_success_is_a_success_and_is_not_sent_again() {
    let partial_success = Some(PartialSuccess { rejected: 1, message: "too old".to_owned() });
    let answer = Answer::grpc(&ExportResponse { partial_success }.encode_to_vec());
    let server = TestServer::answering(vec![answer, taken()]).await;
    let exporter = Started::by(&FACTORY, &settings(&server, "")).await;
    exporter.front.consume(span("step")).await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn silence_is_a_refusal_for_now() {
    let server = TestServer::answering(vec![]).await;
    let settings = format!(
        r#"{{"endpoint": "{}", "timeout": "50ms", "tls": {{"insecure": true}},
            "sending_queue": {{"enabled": false}}, "retry_on_failure": {{"enabled": false}}}}"#,
        server.address
    );
    let exporter = Started::by(&FACTORY, &settings).await;
    let refused = exporter.front.consume(span("step")).await.unwrap_err();
    let want = "rpc error: code = DeadlineExceeded desc = no answer within 50ms";
    assert_eq!(refused, Refused::retryable(want));
}

#[tokio::test]
async fn nobody_there_is_a_refusal_for_now_and_says_why() {
    let free = TestServer::answering(vec![]).await.address;
    let settings = format!(
        r#"{{"endpoint": "{free}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}},
            "retry_on_failure": {{"enabled": false}}}}"#
    );
    let exporter = Started::by(&FACTORY, &settings).await;
    let refused = exporter.front.consume(span("step")).await.unwrap_err();
    assert!(refused.is_retryable() && refused.to_string().contains("refused"), "{refused}");
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let first = TestServer::answering(vec![taken()]).await;
    let address = first.address;
    let exporter = Started::by(&FACTORY, &settings(&first, "")).await;
    exporter.front.consume(span("one")).await.unwrap();
    drop(first);
    let listener = loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let second = TestServer::on(listener, vec![taken(), taken()], None);
    exporter.front.consume(span("two")).await.unwrap();
    assert_eq!(traces(&second.seen()[0].grpc_message()), span("two"));
}

#[tokio::test]
async fn tls_is_on_unless_switched_off_and_checks_who_is_there() {
    let (pem, config) = certificate();
    let folder = tempfile::tempdir().unwrap();
    let (ca_file, other) = (folder.path().join("ca.pem"), folder.path().join("other.pem"));
    std::fs::write(&ca_file, pem).unwrap();
    std::fs::write(&other, certificate().0).unwrap();
    for (tls, scheme, is_taken) in [
        (format!(r#"{{"ca_file": {ca_file:?}}}"#), "", true),
        (format!(r#"{{"ca_file": {ca_file:?}, "insecure": true}}"#), "https://", true),
        (format!(r#"{{"ca_file": {ca_file:?}}}"#), "http://", true),
        (format!(r#"{{"ca_file": {other:?}}}"#), "", false),
        (r#"{"insecure_skip_verify": true}"#.to_owned(), "", true),
        (format!(r#"{{"ca_file": {ca_file:?}, "server_name_override": "example.org"}}"#), "", false),
        (format!(r#"{{"ca_file": {ca_file:?}, "server_name_override": "localhost"}}"#), "", true),
        (r#"{"insecure": true}"#.to_owned(), "http://", false),
    ] {
        let server = TestServer::with_tls(vec![taken()], Some(config.clone())).await;
        let settings = format!(
            r#"{{"endpoint": "{scheme}{}", "tls": {tls}, "sending_queue": {{"enabled": false}},
                "retry_on_failure": {{"enabled": false}}}}"#,
            server.address
        );
        let exporter = Started::by(&FACTORY, &settings).await;
        let outcome = exporter.front.consume(span("step")).await;
        assert_eq!(outcome.is_ok(), is_taken, "{scheme} {tls}: {outcome:?}");
        assert_eq!(server.seen().len(), usize::from(is_taken), "{scheme} {tls}");
    }
}

#[tokio::test]
async fn a_file_of_authorities_that_is_missing_stops_the_start() {
    use component::config::{Node, Section};
    let node: Node =
        serde_json::from_str(r#"{"endpoint": "h:1", "tls": {"ca_file": "/nowhere/ca.pem"}}"#).unwrap();
    let context =
        component::BuildContext { id: component::ComponentId::parse("otlp").unwrap(), version: "1.2.3" };
    let exporter = (FACTORY.build)(&context, Section::new("x", &node)).unwrap();
    let Err(error) = exporter.start(&component::Host::detached(), Default::default()).await else {
        panic!("it started")
    };
    assert!(error.to_string().starts_with("tls::ca_file \"/nowhere/ca.pem\": "), "{error}");
}

#[test]
fn the_row_says_what_it_is() {
    assert!(FACTORY.answers_to("otlp_grpc") && FACTORY.answers_to("otlp"));
    assert_eq!(FACTORY.signals, Signal::STABLE);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (json, want) in [
        (r#"{"endpoint": "h:1"}"#, vec![]),
        (r#"{"endpoint": "h:1", "sending_queue": null, "retry_on_failure": null}"#, vec![]),
        ("{}", vec![r#"x::endpoint: requires a non-empty "endpoint""#]),
        (r#"{"endpoint": "h:1", "timeout": "5"}"#, vec!["missing unit in duration"]),
        (r#"{"endpoint": "h:1", "compression": "snappy"}"#, vec!["snappy"]),
        (r#"{"endpoint": "h:1", "tls": {"insecur": true}}"#, vec!["invalid keys: insecur"]),
        (r#"{"endpoint": "h:1", "headers": {"a b": "c"}}"#, vec![r#"x::headers: "a b" is no name"#]),
        (r#"{"endpoint": "h:1", "headers": {"a": "b\n"}}"#, vec![r#"value of header "a" cannot be sent"#]),
        (
            r#"{"endpoint": "h", "sending_queue": {"queue_size": -1}}"#,
            vec!["x::sending_queue::queue_size: ", "x::endpoint: address"],
        ),
    ] {
        let found = problems(&FACTORY, json);
        assert_eq!(found.len(), want.len(), "{json}: {found:?}");
        assert!(found.iter().zip(&want).all(|(f, w)| f.contains(w)), "{json}: {found:?}");
    }
}
