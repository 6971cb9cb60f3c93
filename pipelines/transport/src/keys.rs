//! Sections and keys that the Collector gives to every HTTP server, to every HTTP client, or to both.

use config::{GoDuration, Headers, NullIsNone, Optional, Problems};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::auth::{AuthConfig, HttpAuthConfig, authenticator};
use crate::compress::{Compression, Level};
use crate::listen::Transport;
use crate::tls::{ClientTlsConfig, ServerTlsConfig};

config::section! {
    /// The keys of every HTTP server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HttpServerConfig {
        /// Address to listen on, as `host:port`: without a host, all interfaces; port 0 chooses a free port. With
        /// the transport `unix`, the path of a socket file.
        pub endpoint: String,
        /// Kind of address that `endpoint` is.
        pub transport: Transport = Transport::Tcp,
        /// Settings of outgoing connections.
        pub dialer: DialerConfig => unused "a server opens no connections",
        /// TLS of the connections. Without this section they are not encrypted.
        pub tls: Optional<ServerTlsConfig, NullIsNone>,
        /// Authentication of requests. Without this section every request is accepted.
        pub auth: Optional<HttpAuthConfig, NullIsNone>,
        /// Cross-origin requests that browsers may send.
        pub cors: Optional<CorsConfig, NullIsNone>,
        /// Largest request body in bytes, before and after decompression. 0 is 20 MiB.
        pub max_request_body_size: i64,
        /// Compressions accepted in `Content-Encoding`; an empty name is an uncompressed body. Unset accepts all.
        pub compression_algorithms: Option<Vec<String>>,
        /// Headers added to every response.
        pub response_headers: Headers,
        /// Longest time for a whole request to arrive. 0 is 5 minutes for the body.
        pub read_timeout: GoDuration,
        /// Longest time for the headers of a request to arrive. 0 is the value of `read_timeout`.
        pub read_header_timeout: GoDuration,
        /// Longest time for a response to be sent. 0 is unlimited.
        pub write_timeout: GoDuration,
        /// Longest time a connection waits for its next request and its headers. 0 is 5 minutes.
        pub idle_timeout: GoDuration,
        /// Whether a connection serves more than one request.
        pub keep_alives_enabled: bool = true,
        /// Whether the headers of a request are passed on with its data.
        pub include_metadata: bool,
        /// Middleware extensions. None is supported, so any entry is refused.
        pub middlewares: Vec<Middleware>,
    }

    /// The keys of every HTTP client.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HttpClientConfig {
        /// Base URL of the server.
        pub endpoint: String,
        /// Proxy to connect through. Empty uses `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment.
        pub proxy_url: String,
        /// TLS of connections to `https` endpoints.
        pub tls: ClientTlsConfig,
        /// Authentication added to requests.
        pub auth: Optional<AuthConfig, NullIsNone>,
        /// Headers added to every request.
        pub headers: Headers,
        /// Longest time for one attempt. 0 is unlimited.
        pub timeout: GoDuration,
        /// Compression of request bodies.
        pub compression: Compression,
        /// Parameters of the compression.
        pub compression_params: CompressionParams,
        /// Largest number of idle connections. 0 is unlimited.
        pub max_idle_conns: i64 = 100,
        /// Largest number of idle connections to one host. 0 is the value of `max_idle_conns`.
        pub max_idle_conns_per_host: i64,
        /// Largest number of connections to one host.
        pub max_conns_per_host: i64
            => unused "there are as many connections as requests under way: see sending_queue::num_consumers",
        /// Longest time a connection stays idle. 0 is unlimited.
        pub idle_conn_timeout: GoDuration = GoDuration::from_secs(90),
        /// Whether every request opens a connection of its own.
        pub disable_keep_alives: bool,
        /// HTTP/2: time without traffic after which a ping is sent. 0 sends none.
        pub http2_read_idle_timeout: GoDuration,
        /// HTTP/2: longest time for the answer to a ping. 0 is 15s.
        pub http2_ping_timeout: GoDuration,
        /// Whether HTTP/2 is used where a server supports it over TLS.
        pub force_attempt_http2: bool = true,
        /// Storage of cookies.
        pub cookies: Optional<CookiesConfig> => unused "cookies are not stored",
        /// Size of the read buffer in bytes.
        pub read_buffer_size: i64 => unused "buffers are sized as needed",
        /// Size of the write buffer in bytes.
        pub write_buffer_size: i64 => unused "buffers are sized as needed",
        /// Middleware extensions. None is supported, so any entry is refused.
        pub middlewares: Vec<Middleware>,
    }

    /// The section `compression_params`.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct CompressionParams {
        /// Effort of gzip, zlib and deflate, from 1 (fastest) to 9 (smallest). 0 and -1 are the default of the
        /// compression. zstd is always written at its fastest level.
        pub level: Level,
    }

    /// The section `cookies`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CookiesConfig {}

    /// The section `cors`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CorsConfig {
        /// Origins whose pages may send requests; `*` matches any text. Empty disables the section.
        pub allowed_origins: Vec<String>,
        /// Request headers allowed in addition to the safelisted ones; `*` allows all.
        pub allowed_headers: Vec<String>,
        /// Response headers that pages may read.
        pub exposed_headers: Vec<String>,
        /// Number of seconds a browser may cache the answer to a preflight request. 0 leaves it to the browser.
        pub max_age: i64,
    }

    /// The section `dialer`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct DialerConfig {
        /// Longest time for a connection to be established. 0 is unlimited.
        pub timeout: GoDuration,
    }

    /// An item of the list `middlewares`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Middleware {
        /// Id of the extension.
        pub id: String,
    }
}

impl HttpServerConfig {
    /// Checks the values of the section at `path`, which is empty or ends in `::`.
    pub fn check(&self, path: &str, problems: &mut Problems<'_>) {
        let key = |key: &str| format!("{path}{key}");
        self.transport.check(&key("endpoint"), &self.endpoint, problems);
        for name in self.compression_algorithms.iter().flatten() {
            problems.require(Compression::by_name(name).is_some(), &key("compression_algorithms"), {
                let names = Compression::ALL.map(Compression::name).join(", ");
                format!("unknown compression {name:?}: expected {names} or an empty name")
            });
        }
        for (name, value) in self.response_headers.iter() {
            let fits = header(name, value).is_some();
            problems.require(fits, &key("response_headers"), format!("header {name:?} cannot be sent"));
        }
        if let Some(tls) = self.tls.get() {
            tls.check(&key("tls"), problems);
        }
        if let Some(auth) = self.auth.get() {
            authenticator(&key("auth"), &auth.authenticator, problems);
        }
        Middleware::refuse(&self.middlewares, &key("middlewares"), problems);
    }
}

impl Middleware {
    /// Adds a problem for each item of the list at `path`: no middleware is supported.
    pub fn refuse(list: &[Middleware], path: &str, problems: &mut Problems<'_>) {
        for Middleware { id } in list {
            problems.add(path, format!("middleware {id:?} is not supported: expected none"));
        }
    }
}

/// Adds the headers of the key `headers` to those of every request. `kind` names the protocol in problems.
pub fn add_headers(into: &mut HeaderMap, from: &Headers, kind: &str, problems: &mut Problems<'_>) {
    for (name, value) in from.iter() {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => drop(into.insert(name, value)),
            (Err(_), _) => problems.add("headers", format!("{name:?} is no name of {kind} header")),
            (_, Err(_)) => problems.add("headers", format!("the value of header {name:?} cannot be sent")),
        }
    }
}

/// Returns a header in the form in which it is sent; `None` if its name or value is invalid.
pub fn header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
}
