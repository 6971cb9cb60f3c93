//! Requests on the wire and the handling of responses, with settings in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use component::testing::{Started, problems};
use component::{Code, Refused};
use pdata::Payload;
use pdata::{Data, Signal};
use prost::Message as _;
use queue::Server;
use tonic_types::{ErrorDetails, StatusExt as _};

use super::FACTORY;
use crate::otlp::{ExportResponse, PartialSuccess};
use crate::testing::{
    Answer, TestServer, certificate, free_address, from_tenant, signing, span, start_error, traces,
};

fn taken() -> Answer {
    Answer::grpc(b"")
}

/// Returns settings without a queue, so that the outcome is returned, and with retries that do not wait.
fn settings(server: &TestServer, more: &str) -> String {
    format!(
        r#"{{"endpoint": "{}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}},
            "retry_on_failure": {{"initial_interval": "1ms", "max_interval": "2ms"}}{more}}}"#,
        server.address
    )
}

#[tokio::test]
async fn a_batch_arrives_unchanged_with_headers_and_compression() {
    for (compression, flag) in [("gzip", 1), ("snappy", 1), ("zstd", 1), ("none", 0), ("", 0)] {
        let server = TestServer::answering(vec![taken()]).await;
        let more = format!(r#", "compression": "{compression}", "headers": {{"X-Tenant": "a b"}}"#);
        let exporter = Started::exporter(&FACTORY, &settings(&server, &more)).await;
        exporter.input.consume(span("step")).await.unwrap();
        let [seen] = &server.seen()[..] else { panic!("one request") };
        assert_eq!(seen.path, "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
        assert_eq!(traces(&seen.grpc_message()), span("step"));
        assert_eq!(seen.body[0], flag, "{compression:?}");
        assert_eq!(seen.header("grpc-encoding"), if flag == 1 { compression } else { "" });
        assert_eq!((seen.header("te"), seen.header("content-type")), ("trailers", "application/grpc"));
        assert_eq!(seen.header("x-tenant"), "a b");
        assert_eq!(seen.header("user-agent"), "warptap/1.2.3");
        assert_eq!(seen.authority, server.address.to_string());
        assert_eq!(seen.header("grpc-timeout"), "5000000u", "the default timeout is sent");
        exporter.end().await;
    }
}

#[tokio::test]
async fn retryable_refusals_are_retried_until_accepted() {
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
    let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
    exporter.input.consume(span("step")).await.unwrap();
    assert_eq!(server.seen().len(), 4);
}

#[tokio::test]
async fn permanent_refusals_are_sent_once() {
    for (code, name) in [(3, "InvalidArgument"), (8, "ResourceExhausted"), (16, "Unauthenticated")] {
        let server = TestServer::answering(vec![Answer::grpc_status(code, "no", ""), taken()]).await;
        let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
        let refused = exporter.input.consume(span("step")).await.unwrap_err();
        let reason = format!("rpc error: code = {name} desc = no");
        assert_eq!(refused, Refused::new(Code::from_grpc(code), reason));
        assert!(!refused.is_retryable());
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_permanent_refusal_of_a_proxy_is_permanent() {
    let server = TestServer::answering(vec![Answer::http(403, &[], b"<html>"), taken()]).await;
    let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
    let refused = exporter.input.consume(span("step")).await.unwrap_err();
    let want = "rpc error: code = PermissionDenied desc = unexpected HTTP status 403 Forbidden without a gRPC status";
    assert_eq!(refused, Refused::new(Code::PermissionDenied, want));
}

#[tokio::test]
async fn a_partial_success_is_not_retried() {
    let partial_success = Some(PartialSuccess { rejected: 1, message: "too old".to_owned() });
    let answer = Answer::grpc(&ExportResponse { partial_success }.encode_to_vec());
    let server = TestServer::answering(vec![answer, taken()]).await;
    let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
    exporter.input.consume(span("step")).await.unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_timeout_is_retryable() {
    let server = TestServer::answering(vec![]).await;
    let settings = format!(
        r#"{{"endpoint": "{}", "timeout": "50ms", "tls": {{"insecure": true}},
            "sending_queue": {{"enabled": false}}, "retry_on_failure": {{"enabled": false}}}}"#,
        server.address
    );
    let exporter = Started::exporter(&FACTORY, &settings).await;
    let refused = exporter.input.consume(span("step")).await.unwrap_err();
    let want = "rpc error: code = DeadlineExceeded desc = no answer within 50ms";
    assert_eq!(refused, Refused::new(Code::DeadlineExceeded, want));
}

#[tokio::test]
async fn a_refused_connection_is_retryable_and_has_a_reason() {
    let free = free_address();
    let settings = format!(
        r#"{{"endpoint": "{free}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}},
            "retry_on_failure": {{"enabled": false}}}}"#
    );
    let exporter = Started::exporter(&FACTORY, &settings).await;
    let refused = exporter.input.consume(span("step")).await.unwrap_err();
    assert!(refused.is_retryable() && refused.to_string().contains("refused"), "{refused}");
}

#[tokio::test]
async fn a_restarted_server_is_reconnected() {
    let first = TestServer::answering(vec![taken()]).await;
    let address = first.address;
    let exporter = Started::exporter(&FACTORY, &settings(&first, "")).await;
    exporter.input.consume(span("one")).await.unwrap();
    drop(first);
    let listener = loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let second = TestServer::on(listener, vec![taken(), taken()], None);
    exporter.input.consume(span("two")).await.unwrap();
    assert_eq!(traces(&second.seen()[0].grpc_message()), span("two"));
}

#[tokio::test]
async fn tls_is_on_by_default_and_verifies_the_server() {
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
        let exporter = Started::exporter(&FACTORY, &settings).await;
        let outcome = exporter.input.consume(span("step")).await;
        assert_eq!(outcome.is_ok(), is_taken, "{scheme} {tls}: {outcome:?}");
        assert_eq!(server.seen().len(), usize::from(is_taken), "{scheme} {tls}");
    }
}

#[tokio::test]
async fn a_missing_ca_file_fails_the_start() {
    let error = start_error(&FACTORY, r#"{"endpoint": "h:1", "tls": {"ca_file": "/nowhere/ca.pem"}}"#).await;
    assert!(error.contains("ca_file or ca_pem /nowhere/ca.pem: "), "{error}");
}

#[test]
fn factory_describes_the_exporter() {
    assert!(FACTORY.answers_to("otlp_grpc") && FACTORY.answers_to("otlp"));
    assert_eq!(FACTORY.signals, Signal::ALL);
}

#[test]
fn inconsistent_settings_are_refused() {
    for (json, want) in [
        (r#"{"endpoint": "h:1"}"#, vec![]),
        (r#"{"endpoint": "<your-endpoint>:4317"}"#, vec![]),
        (r#"{"endpoint": "<your-endpoint>"}"#, vec!["missing port in address"]),
        (r#"{"endpoint": "h:1", "sending_queue": null, "retry_on_failure": null}"#, vec![]),
        ("{}", vec![r#"x::endpoint: requires a non-empty "endpoint""#]),
        (r#"{"endpoint": "h:1", "timeout": "5"}"#, vec!["missing unit in duration"]),
        (r#"{"endpoint": "h:1", "compression": "lz4"}"#, vec![r#"unsupported compression type "lz4""#]),
        (r#"{"endpoint": "h:1", "compression": "br"}"#, vec![r#"unsupported compression type "br""#]),
        (r#"{"endpoint": "h:1", "balancer_name": "best"}"#, vec!["invalid balancer_name: best"]),
        (r#"{"endpoint": "h:1", "authority": "a b"}"#, vec![r#""a b" is not a host and port"#]),
        (r#"{"endpoint": "h:1", "auth": {"authenticator": "1"}}"#, vec!["invalid character(s) in type"]),
        (r#"{"endpoint": "h:1", "middlewares": [{"id": "x"}]}"#, vec![r#"middleware "x" is not supported"#]),
        (r#"{"endpoint": "h:1", "tls": {"cert_file": "c"}}"#, vec!["must include both certificate and key"]),
        (
            r#"{"endpoint": "h:1", "keepalive": {"time": "20s"}, "wait_for_ready": true, "user_agent": "x",
                "read_buffer_size": 1, "write_buffer_size": 2, "balancer_name": "pick_first"}"#,
            vec![],
        ),
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

#[tokio::test]
async fn a_request_has_the_authority_and_the_user_agent() {
    let server = TestServer::answering(vec![taken()]).await;
    let more = r#", "authority": "backend.example", "user_agent": "me/1""#;
    let exporter = Started::exporter(&FACTORY, &settings(&server, more)).await;
    exporter.input.consume(span("step")).await.unwrap();
    let [seen] = &server.seen()[..] else { panic!("one request") };
    assert_eq!((seen.authority.as_str(), seen.header("user-agent")), ("backend.example", "me/1"));
}

#[tokio::test]
async fn profiles_go_to_their_service() {
    let server = TestServer::answering(vec![taken()]).await;
    let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
    exporter.input.consume(Data::Profiles(Payload::default())).await.unwrap();
    let path = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";
    assert_eq!(server.seen()[0].path, path);
}

#[tokio::test]
async fn unsigned_requests_are_not_sent() {
    let server = TestServer::answering(vec![taken()]).await;
    let more = r#", "auth": {"authenticator": "signer"}, "headers": {"Authorization": "mine"}"#;
    let settings = settings(&server, more).replace("\"1ms\"", "\"1ms\", \"enabled\": false");
    let exporter = Started::exporter_in(&signing(), &FACTORY, &settings).await.unwrap();
    let sent = component::context::scope(from_tenant("acme"), exporter.input.consume(span("step")));
    sent.await.unwrap();
    assert_eq!(server.seen()[0].header("authorization"), "Bearer acme");
    let refused = exporter.input.consume(span("step")).await.unwrap_err();
    assert_eq!(refused, Refused::retryable("no tenant is known"));
    assert_eq!(server.seen().len(), 1);
}

/// The first connections are refused, since the server does not listen yet.
#[tokio::test]
async fn a_request_may_wait_for_a_connection() {
    let address = free_address();
    let settings = format!(
        r#"{{"endpoint": "{address}", "tls": {{"insecure": true}}, "wait_for_ready": true, "timeout": "30s",
            "sending_queue": {{"enabled": false}}, "retry_on_failure": {{"enabled": false}}}}"#
    );
    let exporter = Started::exporter(&FACTORY, &settings).await;
    let front = exporter.input.clone();
    let waiting = tokio::spawn(async move { front.consume(span("step")).await });
    tokio::task::yield_now().await;
    let listener = loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    let server = TestServer::on(listener, vec![taken()], None);
    waiting.await.unwrap().unwrap();
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_unix_socket_can_be_the_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("otlp.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let settings = format!(
        r#"{{"endpoint": "unix://{}", "tls": {{"insecure": true}}, "sending_queue": {{"enabled": false}}}}"#,
        path.display()
    );
    let exporter = Started::exporter(&FACTORY, &settings).await;
    let front = exporter.input.clone();
    let sending = tokio::spawn(async move { front.consume(span("step")).await });
    let server = TestServer::over(listener.accept().await.unwrap().0, vec![taken()]);
    sending.await.unwrap().unwrap();
    assert_eq!(server.seen()[0].authority, "localhost");
}

/// Both members of a headless service get requests.
#[tokio::test]
async fn requests_are_balanced_over_the_addresses_of_a_name() {
    let first = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = first.local_addr().unwrap().port();
    let found: Vec<_> = tokio::net::lookup_host(("localhost", port)).await.unwrap().collect();
    let second = tokio::net::TcpListener::bind(("::1", port)).await;
    let (Ok(second), true) = (second, found.iter().any(|a| a.is_ipv6()) && found.iter().any(|a| a.is_ipv4()))
    else {
        println!("skipped: localhost has one address here: {found:?}");
        return;
    };
    let servers = [first, second].map(|l| TestServer::on(l, vec![taken(), taken()], None));
    let settings = settings(&servers[0], "").replace("127.0.0.1", "localhost");
    let exporter = Started::exporter(&FACTORY, &settings).await;
    for _ in 0..4 {
        exporter.input.consume(span("step")).await.unwrap();
    }
    assert_eq!(servers.map(|s| s.seen().len()), [2, 2]);
}

#[tokio::test]
async fn a_missing_authenticator_fails_the_start() {
    let json = r#"{"endpoint": "h:1", "auth": {"authenticator": "ghost"}}"#;
    let error = start_error(&FACTORY, json).await;
    assert!(error.starts_with("failed to resolve authenticator \"ghost\": "), "{error}");
}

#[test]
fn metrics_have_the_collectors_server_attributes() {
    for (endpoint, address, port) in [
        ("collector:4317", "collector", Some(4317)),
        ("[::1]:4317", "::1", Some(4317)),
        ("http://collector:4317", "http://collector:4317", None),
        ("dns:///collector:4317", "dns:///collector:4317", None),
        ("unix:///run/otlp.sock", "unix", None),
    ] {
        assert_eq!(
            super::server(endpoint),
            Server { address: address.to_owned(), port, path: None },
            "{endpoint}"
        );
    }
}
