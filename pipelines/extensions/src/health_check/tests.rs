//! Responses over real sockets.

use std::sync::Arc;

use component::auth::{Identity, ServerAuth, Unauthenticated};
use component::context::Metadata;
use component::testing::{build, problems};
use component::{Capabilities, ComponentId, Host};
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::testing::{Response, get, read};

/// Serves with a section in JSON, at a free port.
async fn serve(json: &str, host: &Host) -> (String, DropGuard) {
    let node: Node = serde_json::from_str(json).unwrap();
    let mut config: HealthCheckConfig = Section::new("", &node).decode().unwrap();
    config.server.endpoint = "127.0.0.1:0".to_owned();
    let bound = Bound::open(&config.server, "health_check", host).await.unwrap();
    let (address, stop) = (bound.address(), CancellationToken::new());
    tokio::spawn(bound.run(HealthPage { config, host: host.clone() }, stop.clone()));
    (address, stop.drop_guard())
}

/// Returns the response for `path` of a collector that is ready or not.
async fn check(json: &str, is_ready: bool, path: &str) -> Response {
    let host = Host::detached();
    host.state().set_ready(is_ready);
    let (address, _running) = serve(json, &host).await;
    get(&address, path, "").await
}

#[tokio::test]
async fn the_response_is_the_collectors_and_follows_readiness() {
    let host = Host::detached();
    let (address, _running) = serve("{}", &host).await;
    let before = get(&address, "/", "").await;
    assert_eq!(before.status, 503);
    let never = r#"{"status":"Server not available","upSince":"0001-01-01T00:00:00Z","uptime":""}"#;
    assert_eq!(before.body, never);
    host.state().set_ready(true);
    let after = get(&address, "/any/path?x", "").await;
    assert_eq!(after.status, 200);
    assert!(after.head.contains("content-type: application/json"), "{}", after.head);
    let body: serde_json::Value = serde_json::from_str(&after.body).unwrap();
    assert_eq!(body["status"], "Server available");
    assert!(body["upSince"].as_str().is_some_and(|at| at.starts_with("20") && at.ends_with('Z')), "{body}");
    assert!(body["uptime"].as_str().is_some_and(|d| d.ends_with('s')), "{body}");
    // Set again, as by a reload, readiness keeps its start.
    host.state().set_ready(true);
    let again: serde_json::Value = serde_json::from_str(&get(&address, "/", "").await.body).unwrap();
    assert_eq!(again["upSince"], body["upSince"]);
    host.state().set_ready(false);
    assert_eq!(get(&address, "/", "").await.status, 503);
}

#[tokio::test]
async fn the_body_can_be_configured() {
    let json = r#"{"response_body": {"healthy": "all fine", "unhealthy": "not yet"}}"#;
    let (up, down) = (check(json, true, "/").await, check(json, false, "/").await);
    assert_eq!((up.status, up.body.as_str()), (200, "all fine"));
    assert_eq!((down.status, down.body.as_str()), (503, "not yet"));
    assert_eq!(check(r#"{"response_body": {}}"#, true, "/").await.body, "");
}

#[tokio::test]
async fn only_the_configured_path_is_served() {
    for (path, asked, status) in [
        ("/", "/", 200),
        ("/", "/x", 200),
        ("/health", "/health", 200),
        ("/health", "/health?verbose", 200),
        ("/health", "/", 404),
        ("/health", "/health/x", 404),
        ("/health/", "/health/x", 200),
        ("/health/", "/other", 404),
    ] {
        let answer = check(&format!(r#"{{"path": "{path}"}}"#), true, asked).await;
        assert_eq!(answer.status, status, "{path} asked for {asked}");
    }
}

#[tokio::test]
async fn configured_headers_are_in_every_response() {
    let answer = check(r#"{"response_headers": {"X-Node": "a1"}}"#, true, "/").await;
    assert!(answer.head.contains("x-node: a1"), "{}", answer.head);
}

/// Accepts requests with `x-key: 1`.
struct Key;

impl ServerAuth for Key {
    fn authenticate(&self, headers: &Metadata) -> Result<Identity, Unauthenticated> {
        match headers.get("x-key") {
            [key] if key == "1" => Ok(Identity::default()),
            _ => Err(Unauthenticated("no key".to_owned())),
        }
    }
}

#[tokio::test]
async fn an_authenticator_rejects_other_requests() {
    let id = ComponentId::parse("key").unwrap();
    let capabilities = Capabilities { server_auth: Some(Arc::new(Key)), ..Capabilities::default() };
    let host = Host::detached().with_extension(id, capabilities);
    host.state().set_ready(true);
    let (address, _running) =
        serve(r#"{"auth": {"authenticator": "key", "request_params": ["x-key"]}}"#, &host).await;
    let out = get(&address, "/", "").await;
    assert_eq!((out.status, out.body.as_str()), (401, "no key\n"));
    assert_eq!(get(&address, "/", "x-key: 1\r\n").await.status, 200);
    assert_eq!(get(&address, "/?x-key=1", "").await.status, 200);
    assert_eq!(get(&address, "/?key=1", "").await.status, 401);
    let error = crate::testing::start(
        &FACTORY,
        r#"{"endpoint": "127.0.0.1:0", "auth": {"authenticator": "other"}}"#,
        &host,
    );
    assert!(error.await.err().unwrap().to_string().starts_with("extension \"other\" does not run"));
}

#[tokio::test]
async fn pages_are_served_over_tls() {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls =
        serde_json::json!({"tls": {"cert_pem": own.cert.pem(), "key_pem": own.signing_key.serialize_pem()}});
    let host = Host::detached();
    host.state().set_ready(true);
    let (address, _running) = serve(&tls.to_string(), &host).await;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own.cert.der().clone()).unwrap();
    let client =
        rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
    let stream = TcpStream::connect(&address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(client)).connect(name, stream).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
    assert_eq!(read(&mut stream).await.status, 200);
}

#[tokio::test]
async fn a_taken_address_fails_the_start() {
    let (address, _running) = serve("{}", &Host::detached()).await;
    let json = format!(r#"{{"endpoint": "{address}"}}"#);
    let error = crate::testing::start(&FACTORY, &json, &Host::detached()).await.err().unwrap().to_string();
    assert!(error.starts_with(&format!("listen tcp {address}: ")), "{error}");
}

#[test]
fn sections_of_the_collector_load() {
    for json in [
        "{}",
        "null",
        r#"{"endpoint": "0.0.0.0:13133"}"#,
        r#"{"check_collector_pipeline": {"enabled": true, "interval": "5m", "exporter_failure_threshold": 5}}"#,
        r#"{"check_collector_pipeline": null, "tls": null, "response_body": null}"#,
        r#"{"endpoint": "h:1", "cors": {"allowed_origins": ["*"]}, "idle_timeout": "1m"}"#,
        r#"{"endpoint": "/run/health.sock", "transport": "unix", "component_health": {}}"#,
    ] {
        assert!(build(&FACTORY, json).is_ok(), "{json}: {:?}", problems(&FACTORY, json));
    }
}

#[test]
fn problems_have_the_collectors_words() {
    for (json, want) in [
        (r#"{"endpoint": ""}"#, "x::endpoint: address \"\": missing port in address: expected host:port"),
        (r#"{"path": "health"}"#, "x::path: path must start with /"),
        (r#"{"use_v2": true}"#, "x::use_v2: must specify at least one protocol"),
        (r#"{"port": 1}"#, "x: has invalid keys: port"),
        (
            r#"{"endpoint": "localhost"}"#,
            "x::endpoint: address \"localhost\": missing port in address: expected host:port",
        ),
        (
            r#"{"middlewares": [{"id": "x"}]}"#,
            "x::middlewares: middleware \"x\" is not supported: expected none",
        ),
    ] {
        assert_eq!(problems(&FACTORY, json), [want], "{json}");
    }
    let v2 = problems(&FACTORY, r#"{"http": {"endpoint": "localhost:1"}}"#);
    assert!(v2[0].contains("v2 healthcheck configuration (http/grpc fields) detected"), "{v2:?}");
}
