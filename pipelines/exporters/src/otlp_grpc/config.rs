//! What the user writes in the section of `otlp_grpc`: the Collector's keys, and what it refuses.

use config::unused::{self, Unused};
use config::{GoDuration, Headers, NullIsNone, Optional, Problems, Section};
use http::{HeaderMap, HeaderValue};
use queue::{QueueConfig, RetryConfig};
use serde::Deserialize;
use transport::auth::AuthConfig;
use transport::compress::Compression;
use transport::grpc;
use transport::keys::{self, Middleware};
use transport::tls::ClientTlsConfig;

/// The section of the exporter.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct OtlpGrpcConfig {
    /// `host:port`, or a form with a scheme.
    pub endpoint: String,
    /// How a request is compressed: gzip, snappy, zstd or none.
    pub compression: Compression,
    /// Sent with every request.
    pub headers: Headers,
    /// How long one attempt may take; 0 is for ever.
    pub timeout: GoDuration,
    /// How requests are spread over the addresses of a name: `round_robin`, or `pick_first` for no spread.
    pub balancer_name: String,
    /// Whom a request says it is for, where that is not the endpoint.
    pub authority: String,
    /// True: a request waits for a connection as long as an attempt may take, rather than to fail at once.
    pub wait_for_ready: bool,
    /// What the exporter says it is; empty: this program and its version.
    pub user_agent: String,
    /// Asking a silent connection whether it still stands; by default, it is not asked.
    pub keepalive: Optional<KeepaliveConfig>,
    /// Unused: buffers are sized as needed.
    pub read_buffer_size: i64,
    /// Unused: buffers are sized as needed.
    pub write_buffer_size: i64,
    /// Protection of the connection.
    pub tls: ClientTlsConfig,
    /// What signs requests.
    pub auth: Optional<AuthConfig, NullIsNone>,
    /// Refused where there are any.
    pub middlewares: Vec<Middleware>,
    /// Retries.
    pub retry_on_failure: RetryConfig,
    /// The queue.
    pub sending_queue: Optional<QueueConfig>,
}

/// The section `keepalive` of a client.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct KeepaliveConfig {
    /// After so long a silence.
    pub time: GoDuration,
    /// How long the answer may take.
    pub timeout: GoDuration,
    /// True: also while no request is under way.
    pub permit_without_stream: bool,
}

impl Default for KeepaliveConfig {
    fn default() -> Self {
        let ten = GoDuration::from_secs(10);
        KeepaliveConfig { time: ten, timeout: ten, permit_without_stream: false }
    }
}

/// What is accepted and changes nothing.
const UNUSED: [Unused; 3] = [
    ("read_buffer_size", "buffers are sized as needed"),
    ("tls::tpm", "keys in a TPM are not supported"),
    ("write_buffer_size", "buffers are sized as needed"),
];

const BALANCERS: [&str; 3] = ["", "pick_first", "round_robin"];

impl Default for OtlpGrpcConfig {
    fn default() -> Self {
        OtlpGrpcConfig {
            endpoint: String::new(),
            compression: Compression::Gzip,
            headers: Headers::default(),
            timeout: GoDuration::from_secs(5),
            balancer_name: "round_robin".to_owned(),
            authority: String::new(),
            wait_for_ready: false,
            user_agent: String::new(),
            keepalive: Optional::none(),
            read_buffer_size: 0,
            write_buffer_size: 0,
            tls: ClientTlsConfig::default(),
            auth: Optional::none(),
            middlewares: Vec::new(),
            retry_on_failure: RetryConfig::default(),
            sending_queue: Optional::some(QueueConfig::default()),
        }
    }
}

impl OtlpGrpcConfig {
    /// Checks what [`super::build`] does not come across while it reads the values.
    pub(super) fn check(&self, section: &Section<'_>, problems: &mut Problems<'_>) {
        unused::warn(section, &UNUSED);
        self.retry_on_failure.check(problems);
        QueueConfig::check(&self.sending_queue, problems);
        self.tls.check("tls", problems);
        let balancer = self.balancer_name.as_str();
        problems.require(BALANCERS.contains(&balancer), "balancer_name", {
            format!("invalid balancer_name: {balancer}: expected round_robin or pick_first")
        });
        Middleware::refuse(&self.middlewares, "middlewares", problems);
    }

    /// The headers of every request: gRPC's, those that say who we are, and the user's.
    pub(super) fn request_headers(&self, version: &str, problems: &mut Problems<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let user_agent = match self.user_agent.as_str() {
            "" => format!("warptap/{version}"),
            own => own.to_owned(),
        };
        match HeaderValue::try_from(user_agent) {
            Ok(value) => drop(headers.insert(http::header::USER_AGENT, value)),
            Err(_) => problems.add("user_agent", "the value cannot be sent in a header"),
        }
        keys::add_headers(&mut headers, &self.headers, "a gRPC", problems);
        headers.insert(http::header::CONTENT_TYPE, grpc::CONTENT_TYPE);
        headers.insert(http::header::TE, HeaderValue::from_static("trailers"));
        headers.insert(grpc::ACCEPT_ENCODING, grpc::ACCEPTED);
        headers
    }
}
