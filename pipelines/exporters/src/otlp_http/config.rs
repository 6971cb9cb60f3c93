//! What the user writes in the section of `otlp_http`: the Collector's keys, and what it refuses.

use config::unused::{self, Unused};
use config::{GoDuration, Headers, NullIsNone, Optional, Problems, Section};
use http::{HeaderMap, HeaderValue, Uri, header};
use pdata::Signal;
use queue::{QueueConfig, RetryConfig};
use serde::Deserialize;
use transport::auth::AuthConfig;
use transport::compress::{Compression, Level};
use transport::endpoint::HttpEndpoint;
use transport::keys::{self, Middleware};
use transport::tls::ClientTlsConfig;

use super::Encoding;

/// The section of the exporter.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct OtlpHttpConfig {
    /// The base URL, to which `/v1/logs`, `/v1/metrics`, `/v1/traces` and `/v1development/profiles` are appended.
    pub endpoint: String,
    /// Where logs go, in full.
    pub logs_endpoint: String,
    /// Where metrics go, in full.
    pub metrics_endpoint: String,
    /// Where traces go, in full.
    pub traces_endpoint: String,
    /// Where profiles go, in full.
    pub profiles_endpoint: String,
    /// How a request is written.
    pub encoding: Encoding,
    /// How a request is compressed.
    pub compression: Compression,
    /// How hard.
    pub compression_params: CompressionParams,
    /// Sent with every request.
    pub headers: Headers,
    /// How long one attempt may take; 0 is for ever.
    pub timeout: GoDuration,
    /// The proxy to go through; empty: what the environment says.
    pub proxy_url: String,
    /// Protection of the connection, of `https` endpoints.
    pub tls: ClientTlsConfig,
    /// What signs requests.
    pub auth: Optional<AuthConfig, NullIsNone>,
    /// Refused where there are any.
    pub middlewares: Vec<Middleware>,
    /// Connections that wait for their next request, at most; 0 is any number.
    pub max_idle_conns: i64,
    /// The same of one host; 0 is as many as of all.
    pub max_idle_conns_per_host: i64,
    /// Unused: as many connections as there are requests under way.
    pub max_conns_per_host: i64,
    /// How long a connection waits; 0 is for ever.
    pub idle_conn_timeout: GoDuration,
    /// True: a connection carries one request.
    pub disable_keep_alives: bool,
    /// HTTP/2: after so long a silence the other side is asked whether it is still there; 0 is never.
    pub http2_read_idle_timeout: GoDuration,
    /// How long its answer may take; 0 is 15 seconds.
    pub http2_ping_timeout: GoDuration,
    /// True: HTTP/2 where the other side speaks it over TLS.
    pub force_attempt_http2: bool,
    /// Unused: cookies are not kept.
    pub cookies: Optional<CookiesConfig>,
    /// Unused: buffers are sized as needed.
    pub read_buffer_size: i64,
    /// Unused: buffers are sized as needed.
    pub write_buffer_size: i64,
    /// Retries.
    pub retry_on_failure: RetryConfig,
    /// The queue.
    pub sending_queue: Optional<QueueConfig>,
}

/// The section `compression_params`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct CompressionParams {
    /// 1, the least effort, to 9, the most.
    pub level: Level,
}

/// The section `cookies`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct CookiesConfig {}

/// What is accepted and changes nothing.
const UNUSED: [Unused; 5] = [
    ("cookies", "cookies are not kept"),
    (
        "max_conns_per_host",
        "there are as many connections as requests under way: see sending_queue::num_consumers",
    ),
    ("read_buffer_size", "buffers are sized as needed"),
    ("tls::tpm", "keys in a TPM are not supported"),
    ("write_buffer_size", "buffers are sized as needed"),
];

impl Default for OtlpHttpConfig {
    fn default() -> Self {
        OtlpHttpConfig {
            endpoint: String::new(),
            logs_endpoint: String::new(),
            metrics_endpoint: String::new(),
            traces_endpoint: String::new(),
            profiles_endpoint: String::new(),
            encoding: Encoding::Proto,
            compression: Compression::Gzip,
            compression_params: CompressionParams::default(),
            headers: Headers::default(),
            timeout: GoDuration::from_secs(30),
            proxy_url: String::new(),
            tls: ClientTlsConfig::default(),
            auth: Optional::none(),
            middlewares: Vec::new(),
            max_idle_conns: 100,
            max_idle_conns_per_host: 0,
            max_conns_per_host: 0,
            idle_conn_timeout: GoDuration::from_secs(90),
            disable_keep_alives: false,
            http2_read_idle_timeout: GoDuration::default(),
            http2_ping_timeout: GoDuration::default(),
            force_attempt_http2: true,
            cookies: Optional::none(),
            read_buffer_size: 0,
            write_buffer_size: 0,
            retry_on_failure: RetryConfig::default(),
            sending_queue: Optional::some(QueueConfig::default()),
        }
    }
}

impl OtlpHttpConfig {
    /// Checks what [`super::build`] does not come across while it reads the values.
    pub(super) fn check(&self, section: &Section<'_>, problems: &mut Problems<'_>) {
        unused::warn(section, &UNUSED);
        self.retry_on_failure.check(problems);
        QueueConfig::check(&self.sending_queue, problems);
        self.tls.check("tls", problems);
        let level = self.compression_params.level;
        if self.compression != Compression::None
            && let Err(e) = self.compression.check_level(level)
        {
            problems.add("compression_params::level", e);
        }
        if self.compression == Compression::Zstd && level != Level::default() {
            let key = "compression_params::level";
            section.warn(key, "accepted without effect: zstd is always written at its fastest");
        }
        Middleware::refuse(&self.middlewares, "middlewares", problems);
    }

    /// Where each signal goes, in the order of [`Signal::ALL`].
    pub(super) fn uris(&self, problems: &mut Problems<'_>) -> [Option<Uri>; Signal::ALL.len()] {
        let all = [
            &self.endpoint,
            &self.logs_endpoint,
            &self.metrics_endpoint,
            &self.traces_endpoint,
            &self.profiles_endpoint,
        ];
        if all.iter().all(|url| url.is_empty()) {
            problems.add("", "at least one endpoint must be specified");
        }
        let base = Some(&self.endpoint).filter(|url| !url.is_empty());
        let base =
            base.filter(|url| HttpEndpoint::parse(url).map_err(|e| problems.add("endpoint", e)).is_ok());
        Signal::ALL.map(|signal| {
            let (key, own, path) = self.endpoint_of(signal);
            match base {
                Some(base) if own.is_empty() => HttpEndpoint::join(base, path).ok(),
                None if own.is_empty() => None,
                _ => HttpEndpoint::parse(own).map_err(|e| problems.add(key, e)).ok(),
            }
        })
    }

    /// The key of a signal's own endpoint, its value, and the path behind the common one.
    fn endpoint_of(&self, signal: Signal) -> (&'static str, &str, &'static str) {
        match signal {
            Signal::Logs => ("logs_endpoint", &self.logs_endpoint, "/v1/logs"),
            Signal::Metrics => ("metrics_endpoint", &self.metrics_endpoint, "/v1/metrics"),
            Signal::Traces => ("traces_endpoint", &self.traces_endpoint, "/v1/traces"),
            Signal::Profiles => ("profiles_endpoint", &self.profiles_endpoint, "/v1development/profiles"),
        }
    }

    /// What the exporter says of itself, then what the user adds or says in its place.
    pub(super) fn request_headers(&self, version: &str, problems: &mut Problems<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let user_agent = HeaderValue::try_from(format!("warptap/{version}"));
        headers.insert(header::USER_AGENT, user_agent.unwrap_or(HeaderValue::from_static("warptap")));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.encoding.content_type()));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(Compression::Gzip.name()));
        if self.compression != Compression::None {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(self.compression.name()));
        }
        keys::add_headers(&mut headers, &self.headers, "an HTTP", problems);
        headers
    }
}
