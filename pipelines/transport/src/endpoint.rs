//! The forms of an `endpoint` that the Collector supports.

use std::path::PathBuf;

use config::redact_url;
use http::Uri;

/// The target of a gRPC client.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct GrpcEndpoint {
    /// `host:port`, also the authority of requests; `localhost` for a Unix socket.
    pub authority: String,
    /// The Unix socket, for the scheme `unix`.
    pub unix: Option<PathBuf>,
    /// Whether the scheme is `https`: TLS even if `tls::insecure` is set.
    pub is_https: bool,
    /// Whether the scheme is `passthrough`: no client-side load balancing.
    pub is_passthrough: bool,
}

impl GrpcEndpoint {
    /// Parses `host:port`, optionally with a scheme.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) =
            text.split_once(':').filter(|(_, rest)| rest.starts_with('/')).unwrap_or(("", text));
        let path = rest.trim_start_matches('/');
        match scheme {
            "" if text.is_empty() => Err(r#"requires a non-empty "endpoint""#.to_owned()),
            "unix" => Self::unix(text, rest),
            "" | "http" => Self::tcp(path),
            // The authority of such a URI is a resolver: `dns://8.8.8.8/host:port`.
            "dns" => Self::tcp(target(rest)),
            "passthrough" => Ok(GrpcEndpoint { is_passthrough: true, ..Self::tcp(target(rest))? }),
            "https" => Ok(GrpcEndpoint { is_https: true, ..Self::tcp(path)? }),
            other => Err(format!(
                "unknown scheme {other:?} in endpoint {text:?}: \
                 expected host:port, or http, https, dns, passthrough or unix before it"
            )),
        }
    }

    fn unix(text: &str, rest: &str) -> Result<Self, String> {
        let path = rest.strip_prefix("//").unwrap_or(text.trim_start_matches("unix:"));
        if path.is_empty() {
            return Err("unix socket path cannot be empty".to_owned());
        }
        let authority = "localhost".to_owned();
        Ok(GrpcEndpoint {
            authority,
            unix: Some(PathBuf::from(path)),
            is_https: false,
            is_passthrough: false,
        })
    }

    fn tcp(address: &str) -> Result<Self, String> {
        let address = address.trim_end_matches('/');
        let Some((host, port)) = address.rsplit_once(':').filter(|(host, _)| is_whole_host(host)) else {
            return Err(format!("address {:?}: missing port in address", redact_url(address)));
        };
        if port.parse::<u16>().is_err() {
            return Err(invalid_port(address));
        }
        let authority = if host.is_empty() { format!("localhost:{port}") } else { address.to_owned() };
        match authority.parse::<http::uri::Authority>() {
            Ok(_) => Ok(GrpcEndpoint { authority, unix: None, is_https: false, is_passthrough: false }),
            Err(e) => Err(format!("endpoint {:?} is not a host and a port: {e}", redact_url(address))),
        }
    }
}

/// Returns the address in `///host:port` or `//resolver/host:port`.
fn target(rest: &str) -> &str {
    match rest.strip_prefix("//").and_then(|rest| rest.split_once('/')) {
        Some((_, target)) => target,
        None => rest.trim_start_matches('/'),
    }
}

/// Returns false for a part of an IPv6 address that was split at one of its colons.
fn is_whole_host(host: &str) -> bool {
    !host.contains(':') || (host.starts_with('[') && host.ends_with(']'))
}

/// Splits `host:port`. The host may be empty.
pub fn split_host_port(endpoint: &str) -> Result<(&str, u16), String> {
    let Some((host, port)) = endpoint.rsplit_once(':').filter(|(host, _)| is_whole_host(host)) else {
        return Err(format!(
            "address {:?}: missing port in address: expected host:port",
            redact_url(endpoint)
        ));
    };
    let port = port.parse().map_err(|_| invalid_port(endpoint))?;
    Ok((host.trim_matches(['[', ']']), port))
}

fn invalid_port(endpoint: &str) -> String {
    let endpoint = redact_url(endpoint);
    let port = endpoint.rsplit(':').next().unwrap_or_default();
    format!("invalid port {port:?} in endpoint {endpoint:?}")
}

/// Joins a host and a port, with brackets around an IPv6 address.
pub fn join_host_port(host: &str, port: u16) -> String {
    match host.trim_matches(['[', ']']) {
        address if address.contains(':') => format!("[{address}]:{port}"),
        name => format!("{name}:{port}"),
    }
}

/// The URL of an HTTP client.
pub struct HttpEndpoint;

impl HttpEndpoint {
    /// Parses a URL.
    pub fn parse(text: &str) -> Result<Uri, String> {
        let uri: Uri =
            text.parse().map_err(|e| format!("endpoint {:?} must be a valid URL: {e}", redact_url(text)))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(_)) => Ok(uri),
            _ => Err(format!(
                "endpoint {:?} must be a URL that begins with http:// or https://",
                redact_url(text)
            )),
        }
    }

    /// Parses a base URL and appends a path such as `/v1/traces`.
    pub fn join(base: &str, path: &str) -> Result<Uri, String> {
        Self::parse(&format!("{}{path}", base.trim_end_matches('/')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_contain_the_secrets_of_an_endpoint() {
        let url = |text: &str| HttpEndpoint::parse(text).err();
        let host_port = |text: &str| split_host_port(text).err();
        let grpc = |text: &str| GrpcEndpoint::tcp(text).err();
        for error in [
            url("ftp://user:secret@host/?key=secret"),
            url("http://user:secret@ho st/?key=secret"),
            host_port("user:secret@host"),
            host_port("user:secret@host:port"),
            grpc("user:secret@host"),
            grpc("user:secret@host:port"),
        ] {
            let error = error.unwrap();
            assert!(error.contains("[REDACTED]") && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn hosts_and_ports_are_joined_with_brackets_if_needed() {
        for (host, want) in
            [("h", "h:80"), ("::1", "[::1]:80"), ("[::1]", "[::1]:80"), ("1.2.3.4", "1.2.3.4:80")]
        {
            assert_eq!(join_host_port(host, 80), want);
        }
    }

    #[test]
    fn a_grpc_endpoint_may_have_a_scheme() {
        for (text, authority, is_https, is_passthrough) in [
            ("collector:4317", "collector:4317", false, false),
            ("http://collector:4317", "collector:4317", false, false),
            ("http://collector:4317/", "collector:4317", false, false),
            ("https://collector:4317", "collector:4317", true, false),
            ("dns:///collector:4317", "collector:4317", false, false),
            ("dns://8.8.8.8/collector:4317", "collector:4317", false, false),
            ("passthrough:///10.0.0.1:4317", "10.0.0.1:4317", false, true),
            ("[::1]:4317", "[::1]:4317", false, false),
            (":4317", "localhost:4317", false, false),
        ] {
            let authority = authority.to_owned();
            let want = GrpcEndpoint { authority, unix: None, is_https, is_passthrough };
            assert_eq!(GrpcEndpoint::parse(text), Ok(want), "{text}");
        }
        for (text, path) in [("unix:///run/otlp.sock", "/run/otlp.sock"), ("unix:/run/x", "/run/x")] {
            let endpoint = GrpcEndpoint::parse(text).unwrap();
            assert_eq!(endpoint.unix, Some(PathBuf::from(path)), "{text}");
        }
    }

    #[test]
    fn invalid_grpc_endpoints_are_errors() {
        for (text, error) in [
            ("", r#"requires a non-empty "endpoint""#),
            ("unix://", "unix socket path cannot be empty"),
            ("collector", r#"address "collector": missing port in address"#),
            ("https://collector", r#"address "collector": missing port in address"#),
            ("::1", r#"address "::1": missing port in address"#),
            ("collector:otlp", r#"invalid port "otlp" in endpoint "collector:otlp""#),
            ("collector:99999", r#"invalid port "99999" in endpoint "collector:99999""#),
            ("ftp://collector:1", r#"unknown scheme "ftp" in endpoint "ftp://collector:1""#),
            ("a b:4317", r#"endpoint "a b:4317" is not a host and a port"#),
        ] {
            let refused = GrpcEndpoint::parse(text).unwrap_err();
            assert!(refused.starts_with(error), "{text}: {refused}");
        }
    }

    #[test]
    fn a_signals_path_is_appended_to_an_http_endpoint() {
        for (base, want) in [
            ("http://h:4318", Ok("http://h:4318/v1/traces")),
            ("https://h/", Ok("https://h/v1/traces")),
            ("https://h/otlp//", Ok("https://h/otlp/v1/traces")),
            ("h:4318", Err("must be a")),
            ("ftp://h", Err("must be a URL that begins with http:// or https://")),
        ] {
            match (HttpEndpoint::join(base, "/v1/traces"), want) {
                (Ok(uri), Ok(want)) => assert_eq!(uri.to_string(), want),
                (Err(error), Err(want)) => assert!(error.contains(want), "{base}: {error}"),
                (got, _) => panic!("{base}: {got:?}"),
            }
        }
    }

    #[test]
    fn a_host_may_be_empty_but_not_a_port() {
        assert_eq!(split_host_port(":4317"), Ok(("", 4317)));
        assert_eq!(split_host_port("[::1]:0"), Ok(("::1", 0)));
        assert!(split_host_port("localhost").unwrap_err().contains("missing port in address"));
        assert!(split_host_port("localhost:http").unwrap_err().contains("invalid port \"http\""));
    }
}
