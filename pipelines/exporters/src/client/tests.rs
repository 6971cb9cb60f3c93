//! Which endpoints are understood, and as what.

use std::path::PathBuf;

use super::{GrpcEndpoint, HttpEndpoint};

#[test]
fn an_endpoint_of_grpc_is_a_host_and_a_port_with_or_without_a_scheme() {
    for (text, authority, is_https) in [
        ("collector:4317", "collector:4317", false),
        ("http://collector:4317", "collector:4317", false),
        ("http://collector:4317/", "collector:4317", false),
        ("https://collector:4317", "collector:4317", true),
        ("dns:///collector:4317", "collector:4317", false),
        ("passthrough:///10.0.0.1:4317", "10.0.0.1:4317", false),
        ("[::1]:4317", "[::1]:4317", false),
        (":4317", "localhost:4317", false),
    ] {
        let want = GrpcEndpoint { authority: authority.to_owned(), unix: None, is_https };
        assert_eq!(GrpcEndpoint::parse(text), Ok(want), "{text}");
    }
    for (text, path) in [("unix:///run/otlp.sock", "/run/otlp.sock"), ("unix:/run/x", "/run/x")] {
        let endpoint = GrpcEndpoint::parse(text).unwrap();
        assert_eq!(endpoint.unix, Some(PathBuf::from(path)), "{text}");
    }
}

#[test]
fn what_is_no_endpoint_of_grpc_is_refused() {
    for (text, error) in [
        ("", r#"requires a non-empty "endpoint""#),
        ("collector", r#"address "collector": missing port in address"#),
        ("https://collector", r#"address "collector": missing port in address"#),
        ("::1", r#"address "::1": missing port in address"#),
        ("collector:otlp", r#"invalid port "otlp" in endpoint "collector:otlp""#),
        ("collector:99999", r#"invalid port "99999" in endpoint "collector:99999""#),
        ("ftp://collector:1", r#"unknown scheme "ftp" in endpoint "ftp://collector:1""#),
        ("a b:4317", r#"endpoint "a b:4317" is no host and port"#),
    ] {
        let refused = GrpcEndpoint::parse(text).unwrap_err();
        assert!(refused.starts_with(error), "{text}: {refused}");
    }
}

#[test]
fn an_endpoint_of_http_is_a_base_to_which_the_path_of_a_signal_is_appended() {
    for (base, want) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("https://collector/otlp/", "https://collector/otlp/v1/traces"),
    ] {
        assert_eq!(HttpEndpoint::join(base, "/v1/traces").unwrap().to_string(), want);
    }
    for bad in ["collector:4318", "/v1", "ftp://collector", "http://", "http://a b"] {
        assert!(HttpEndpoint::join(bad, "/v1/traces").is_err(), "{bad}");
    }
}
