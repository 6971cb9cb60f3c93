//! Requests on the wire and the handling of responses, with settings in JSON.

use component::testing::{Started, problems};
use pdata::Payload;

use component::{Code, Refused};
use pdata::{Data, Signal};

use transport::compress::{Compression, Level};

use super::FACTORY;
use crate::testing::{
    Answer, TestServer, certificate, free_address, from_tenant, signing, span, start_error, traces,
};

fn taken() -> Answer {
    Answer::http(200, &[("content-type", "application/x-protobuf")], b"")
}

/// Returns settings without a queue, so that the outcome is returned, and with retries that do not wait.
fn settings(server: &TestServer, more: &str) -> String {
    format!(
        r#"{{"endpoint": "http://{}", "sending_queue": {{"enabled": false}},
            "retry_on_failure": {{"initial_interval": "1ms", "max_interval": "2ms"}}{more}}}"#,
        server.address
    )
}

#[tokio::test]
async fn a_batch_arrives_unchanged_in_every_encoding_and_compression() {
    for (encoding, content_type) in [("proto", "application/x-protobuf"), ("json", "application/json")] {
        for compression in Compression::ALL.into_iter().chain([Compression::None]) {
            let server = TestServer::answering(vec![taken()]).await;
            let more = format!(
                r#", "encoding": "{encoding}", "compression": "{}", "headers": {{"X-Tenant": "a"}}"#,
                compression.name()
            );
            let exporter = Started::exporter(&FACTORY, &settings(&server, &more)).await;
            exporter.input.consume(span("step")).await.unwrap();
            let [seen] = &server.seen()[..] else { panic!("one request") };
            assert_eq!(seen.path, "/v1/traces");
            assert_eq!(seen.header("content-type"), content_type);
            assert_eq!(seen.header("content-encoding"), compression.name());
            assert_eq!((seen.header("user-agent"), seen.header("x-tenant")), ("warptap/1.2.3", "a"));
            let body = compression.decompress(&seen.body, 1 << 20).unwrap();
            let batch = match encoding {
                "json" => pdata::json::decode(Signal::Traces, &body).unwrap(),
                _ => traces(&body),
            };
            assert_eq!(batch, span("step"), "{encoding} {compression}");
            exporter.end().await;
        }
    }
}

#[tokio::test]
async fn every_signal_has_its_path_or_its_own_endpoint() {
    let server = TestServer::answering(vec![taken(), taken(), taken(), taken()]).await;
    let own = format!(r#", "metrics_endpoint": "http://{}/push""#, server.address);
    let exporter = Started::exporter(&FACTORY, &settings(&server, &own)).await;
    exporter.input.consume(span("step")).await.unwrap();
    exporter.input.consume(Data::Metrics(Payload::default())).await.unwrap();
    exporter.input.consume(Data::Logs(Payload::default())).await.unwrap();
    exporter.input.consume(Data::Profiles(Payload::default())).await.unwrap();
    let paths: Vec<String> = server.seen().into_iter().map(|s| s.path).collect();
    assert_eq!(paths, ["/v1/traces", "/push", "/v1/logs", "/v1development/profiles"]);

    let only_traces =
        format!(r#"{{"traces_endpoint": "http://{}/t", "sending_queue": null}}"#, server.address)
            .replace("null", r#"{"enabled": false}"#);
    let exporter = Started::exporter(&FACTORY, &only_traces).await;
    let refused = exporter.input.consume(Data::Logs(Payload::default())).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("neither endpoint nor logs_endpoint is configured"));
}

#[tokio::test]
async fn retryable_refusals_are_retried_until_accepted() {
    let server = TestServer::answering(vec![
        Answer::http(503, &[], b""),
        Answer::http(429, &[("retry-after", "0")], b"slow"),
        Answer::http(502, &[("content-type", "text/html")], b"<html>"),
        Answer::http(504, &[], b""),
        taken(),
    ])
    .await;
    let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
    exporter.input.consume(span("step")).await.unwrap();
    assert_eq!(server.seen().len(), 5);
}

#[tokio::test]
async fn permanent_refusals_are_sent_once_and_have_a_reason() {
    let json = [("content-type", "application/json")];
    let proto = [("content-type", "application/x-protobuf")];
    for (status, headers, body, why) in [
        (400, &json[..], br#"{"code":3,"message":"bad id"}"#.to_vec(), "400 Bad Request: bad id"),
        (401, &proto[..], [&[0x08, 16, 0x12, 3][..], b"who"].concat(), "401 Unauthorized: who"),
        (500, &[][..], b"<html>".to_vec(), "500 Internal Server Error"),
        (308, &[("location", "http://elsewhere/")][..], vec![], "308 Permanent Redirect"),
    ] {
        let server = TestServer::answering(vec![Answer::http(status, headers, &body), taken()]).await;
        let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
        let refused = exporter.input.consume(span("step")).await.unwrap_err();
        let address = server.address;
        let want = format!("request to http://{address}/v1/traces responded with HTTP status {why}");
        assert_eq!(refused, Refused::new(Code::from_http(status), want));
        assert!(!refused.is_retryable());
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_success_with_an_invalid_response_is_an_error() {
    let partial = br#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}"#;
    let huge = vec![0x0a; 70 * 1024];
    for (content_type, body, is_taken) in [
        ("application/json", partial.to_vec(), true),
        ("application/json", b"{}".to_vec(), true),
        ("text/plain", b"thanks".to_vec(), true),
        ("application/x-protobuf", b"thanks".to_vec(), false),
        ("application/x-protobuf", huge, false),
    ] {
        let server =
            TestServer::answering(vec![Answer::http(202, &[("content-type", content_type)], &body)]).await;
        let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
        let outcome = exporter.input.consume(span("step")).await;
        assert_eq!(outcome.is_ok(), is_taken, "{content_type} {outcome:?}");
        assert!(outcome.is_ok() || !outcome.unwrap_err().is_retryable(), "never sent again");
    }
}

#[tokio::test]
async fn timeouts_and_refused_connections_are_retryable() {
    let silent = TestServer::answering(vec![]).await;
    let gone = free_address();
    for (address, why, code) in
        [(silent.address, "within 50ms", Code::DeadlineExceeded), (gone, "refused", Code::Unavailable)]
    {
        let settings = format!(
            r#"{{"endpoint": "http://{address}", "timeout": "50ms", "sending_queue": {{"enabled": false}},
                "retry_on_failure": {{"enabled": false}}}}"#
        );
        let exporter = Started::exporter(&FACTORY, &settings).await;
        let refused = exporter.input.consume(span("step")).await.unwrap_err();
        assert_eq!((refused.code, refused.is_retryable()), (code, true));
        assert!(refused.to_string().contains(why), "{refused}");
    }
}

#[tokio::test]
async fn https_verifies_the_server() {
    let (pem, config) = certificate();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    for (tls, is_taken) in [
        (format!(r#"{{"ca_file": {ca_file:?}}}"#), true),
        (r#"{"insecure_skip_verify": true}"#.to_owned(), true),
        (format!(r#"{{"ca_file": {ca_file:?}, "server_name_override": "example.org"}}"#), false),
    ] {
        let server = TestServer::with_tls(vec![taken()], Some(config.clone())).await;
        let settings = format!(
            r#"{{"endpoint": "https://{}", "tls": {tls}, "sending_queue": {{"enabled": false}},
                "retry_on_failure": {{"enabled": false}}}}"#,
            server.address
        );
        let exporter = Started::exporter(&FACTORY, &settings).await;
        let outcome = exporter.input.consume(span("step")).await;
        assert_eq!(outcome.is_ok(), is_taken, "{tls}: {outcome:?}");
    }
}

#[tokio::test]
async fn an_exporter_with_a_placeholder_as_endpoint_starts_and_fails_its_data() {
    for endpoint in ["https://<your-endpoint>", "h:4318", "ftp://h"] {
        let settings = format!(r#"{{"endpoint": "{endpoint}", "sending_queue": {{"enabled": false}}}}"#);
        let exporter = Started::exporter(&FACTORY, &settings).await;
        let refused = exporter.input.consume(span("step")).await.unwrap_err();
        assert!(!refused.is_retryable() && refused.reason.contains(endpoint), "{refused:?}");
    }
}

#[test]
fn inconsistent_settings_are_refused() {
    assert!(FACTORY.answers_to("otlp_http") && FACTORY.answers_to("otlphttp"));
    for (json, want) in [
        (r#"{"endpoint": "http://h"}"#, vec![]),
        (r#"{"traces_endpoint": "https://h/x"}"#, vec![]),
        ("{}", vec!["x: at least one endpoint must be specified"]),
        (r#"{"endpoint": "http://h", "encoding": "yaml"}"#, vec!["yaml"]),
        (
            r#"{"endpoint": "http://h", "headers": {"a": "b\n"}}"#,
            vec![r#"value of header "a" cannot be sent"#],
        ),
        (r#"{"endpoint": "http://h", "proxy_url": "x"}"#, vec!["proxy_url \"x\" is not supported: expected"]),
        (
            r#"{"endpoint": "http://h", "compression_params": {"level": 10}}"#,
            vec!["unsupported parameters {Level:10}"],
        ),
        (
            r#"{"endpoint": "http://h", "middlewares": [{"id": "x"}]}"#,
            vec![r#"middleware "x" is not supported"#],
        ),
        (
            r#"{"endpoint": "http://h", "compression": "zstd", "compression_params": {"level": 11}, "cookies": {},
                "max_idle_conns": 1, "max_idle_conns_per_host": 1, "max_conns_per_host": 1,
                "idle_conn_timeout": "1s", "disable_keep_alives": true, "http2_read_idle_timeout": "1s",
                "http2_ping_timeout": "1s", "force_attempt_http2": false, "read_buffer_size": 1}"#,
            vec![],
        ),
    ] {
        let found = problems(&FACTORY, json);
        assert_eq!(found.len(), want.len(), "{json}: {found:?}");
        assert!(found.iter().zip(&want).all(|(f, w)| f.contains(w)), "{json}: {found:?}");
    }
}

#[tokio::test]
async fn http_2_is_negotiated_over_tls_unless_disabled() {
    let (pem, config) = certificate();
    let folder = tempfile::tempdir().unwrap();
    let ca_file = folder.path().join("ca.pem");
    std::fs::write(&ca_file, pem).unwrap();
    for tries in [true, false] {
        let server = TestServer::with_tls(vec![taken()], Some(config.clone())).await;
        let settings = format!(
            r#"{{"endpoint": "https://{}", "tls": {{"ca_file": {ca_file:?}}}, "force_attempt_http2": {tries},
                "sending_queue": {{"enabled": false}}}}"#,
            server.address
        );
        let exporter = Started::exporter(&FACTORY, &settings).await;
        exporter.input.consume(span("step")).await.unwrap();
        // HTTP/2 has a pseudo-header in place of this one.
        assert_eq!(server.seen()[0].headers.contains_key("host"), !tries);
    }
}

#[tokio::test]
async fn a_response_may_be_compressed() {
    let partial = br#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}"#;
    let gzipped = Compression::Gzip.compress(Level::default(), partial);
    let headers = [("content-type", "application/json"), ("content-encoding", "gzip")];
    let broken = Answer::http(200, &headers, partial);
    let server = TestServer::answering(vec![Answer::http(200, &headers, &gzipped), broken]).await;
    let exporter = Started::exporter(&FACTORY, &settings(&server, "")).await;
    exporter.input.consume(span("step")).await.unwrap();
    assert!(!exporter.input.consume(span("step")).await.unwrap_err().is_retryable());
    assert_eq!(server.seen()[0].header("accept-encoding"), "gzip");
}

#[tokio::test]
async fn an_extension_signs_requests() {
    let server = TestServer::answering(vec![taken()]).await;
    let settings = settings(&server, r#", "auth": {"authenticator": "signer"}"#);
    let exporter = Started::exporter_in(&signing(), &FACTORY, &settings).await.unwrap();
    let sent = component::context::scope(from_tenant("acme"), exporter.input.consume(span("step")));
    sent.await.unwrap();
    assert_eq!(server.seen()[0].header("authorization"), "Bearer acme");
    let error =
        start_error(&FACTORY, r#"{"endpoint": "http://h", "auth": {"authenticator": "ghost"}}"#).await;
    assert!(error.starts_with("failed to resolve authenticator \"ghost\": "), "{error}");
}
