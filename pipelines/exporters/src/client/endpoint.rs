//! Where an exporter's `endpoint` points: the forms that the Collector takes, and what each says about TLS.

use std::path::PathBuf;

use http::Uri;

/// Where a gRPC exporter connects to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct GrpcEndpoint {
    /// `host:port`, which is also what a request says it is for. Of a socket file, `localhost`.
    pub(crate) authority: String,
    /// The socket file, of a `unix` endpoint.
    pub(crate) unix: Option<PathBuf>,
    /// True for `https://`: TLS, also where `tls::insecure` is set.
    pub(crate) is_https: bool,
}

impl GrpcEndpoint {
    /// Reads `host:port` or one of the forms with a scheme in front.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) =
            text.split_once(':').filter(|(_, rest)| rest.starts_with('/')).unwrap_or(("", text));
        let path = rest.trim_start_matches('/');
        match scheme {
            "" if text.is_empty() => Err(r#"requires a non-empty "endpoint""#.to_owned()),
            "unix" => Ok(Self::unix(text, rest)),
            "" | "http" | "dns" | "passthrough" => Self::tcp(path, false),
            "https" => Self::tcp(path, true),
            other => Err(format!(
                "unknown scheme {other:?} in endpoint {text:?}: \
                 expected host:port, or http, https, dns, passthrough or unix before it"
            )),
        }
    }

    fn unix(text: &str, rest: &str) -> Self {
        let path = rest.strip_prefix("//").unwrap_or(text.trim_start_matches("unix:"));
        GrpcEndpoint { authority: "localhost".to_owned(), unix: Some(PathBuf::from(path)), is_https: false }
    }

    fn tcp(address: &str, is_https: bool) -> Result<Self, String> {
        let address = address.trim_end_matches('/');
        let Some((host, port)) = address.rsplit_once(':').filter(|(host, _)| is_whole_host(host)) else {
            return Err(format!("address {address:?}: missing port in address"));
        };
        if port.parse::<u16>().is_err() {
            return Err(format!("invalid port {port:?} in endpoint {address:?}"));
        }
        let authority = if host.is_empty() { format!("localhost:{port}") } else { address.to_owned() };
        match authority.parse::<http::uri::Authority>() {
            Ok(_) => Ok(GrpcEndpoint { authority, unix: None, is_https }),
            Err(e) => Err(format!("endpoint {address:?} is no host and port: {e}")),
        }
    }
}

/// False inside an IPv6 address, whose colons are no port's.
fn is_whole_host(host: &str) -> bool {
    !host.contains(':') || (host.starts_with('[') && host.ends_with(']'))
}

/// Where an HTTP exporter posts one signal to.
pub(crate) struct HttpEndpoint;

impl HttpEndpoint {
    /// Reads a URL, as it is.
    pub(crate) fn parse(text: &str) -> Result<Uri, String> {
        let uri: Uri = text.parse().map_err(|e| format!("endpoint {text:?} must be a valid URL: {e}"))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(_)) => Ok(uri),
            _ => Err(format!("endpoint {text:?} must be a URL that begins with http:// or https://")),
        }
    }

    /// Reads a base URL and appends a signal's path, such as `/v1/traces`.
    pub(crate) fn join(base: &str, path: &str) -> Result<Uri, String> {
        Self::parse(&format!("{}{path}", base.trim_end_matches('/')))
    }
}
