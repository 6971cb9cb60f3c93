//! What the user writes in the section of `otlp_grpc`: the Collector's keys, and what it refuses.

use config::{GoDuration, Headers, NullIsNone, Optional, Problems};
use http::{HeaderMap, HeaderValue};
use queue::{QueueConfig, RetryConfig};
use transport::auth::AuthConfig;
use transport::compress::Compression;
use transport::grpc;
use transport::keys::{self, Middleware};
use transport::tls::ClientTlsConfig;

config::section! {
    /// The section of the exporter.
    #[derive(Clone, Debug)]
    pub struct OtlpGrpcConfig {
        /// Address of the server: `host:port`, or with a scheme such as `https://host:port`, `dns:///host:port` or
        /// `unix:///path`.
        pub endpoint: String,
        /// TLS of the connections.
        pub tls: ClientTlsConfig,
        /// Authentication added to requests.
        pub auth: Optional<AuthConfig, NullIsNone>,
        /// Headers added to every request.
        pub headers: Headers,
        /// Longest time for one attempt. 0 is unlimited.
        pub timeout: GoDuration = GoDuration::from_secs(5),
        /// Retries of refused requests.
        pub retry_on_failure: RetryConfig,
        /// Queue of requests.
        pub sending_queue: Optional<QueueConfig> = Optional::some(QueueConfig::default()),
        /// Compression of requests: gzip, snappy, zstd or none.
        pub compression: Compression = Compression::Gzip,
        /// Distribution of requests over the addresses of a name: `round_robin` uses all of them, `pick_first` one.
        pub balancer_name: String = "round_robin".to_owned(),
        /// Value of the `:authority` header. Empty is the endpoint.
        pub authority: String,
        /// Whether a request waits for a connection until its timeout instead of failing at once.
        pub wait_for_ready: bool,
        /// Value of the `User-Agent` header. Empty is this program and its version.
        pub user_agent: String,
        /// Pings on connections without traffic.
        pub keepalive: Optional<KeepaliveConfig>,
        /// Size of the read buffer in bytes.
        pub read_buffer_size: i64 => unused "buffers are sized as needed",
        /// Size of the write buffer in bytes.
        pub write_buffer_size: i64 => unused "buffers are sized as needed",
        /// Middleware extensions. None is supported, so any entry is refused.
        pub middlewares: Vec<Middleware>,
    }

    /// The section `keepalive` of a client.
    #[derive(Clone, Debug, PartialEq)]
    pub struct KeepaliveConfig {
        /// Time without traffic after which a ping is sent, at least 10s.
        pub time: GoDuration = GoDuration::from_secs(10),
        /// Longest time for the answer to a ping, after which the connection is closed.
        pub timeout: GoDuration = GoDuration::from_secs(10),
        /// Whether pings are sent while no request is under way.
        pub permit_without_stream: bool,
    }
}

const BALANCERS: [&str; 3] = ["", "pick_first", "round_robin"];

impl OtlpGrpcConfig {
    /// Checks the values that [`super::build`] does not parse.
    pub(super) fn check(&self, problems: &mut Problems<'_>) {
        self.retry_on_failure.check(problems);
        QueueConfig::check(&self.sending_queue, problems);
        self.tls.check("tls", problems);
        let balancer = self.balancer_name.as_str();
        problems.require(BALANCERS.contains(&balancer), "balancer_name", {
            format!("invalid balancer_name: {balancer}: expected round_robin or pick_first")
        });
        Middleware::refuse(&self.middlewares, "middlewares", problems);
    }

    /// Returns the headers of every request: gRPC's, the user agent, and the configured ones.
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
