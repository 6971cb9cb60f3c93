//! What the user writes in the section of an `otlp` receiver: the Collector's keys, and what it refuses.

use component::ComponentId;
use config::unused::{self, Unused};
use config::{ConfigError, GoDuration, Headers, NullIsNone, Optional, Problems, Section};
use pdata::Signal;
use serde::Deserialize;
use transport::auth::{AuthConfig, HttpAuthConfig, authenticator};
use transport::compress::Compression;
use transport::keys::{self, CorsConfig, DialerConfig, Middleware};
use transport::listen::Transport;
use transport::tls::ServerTlsConfig;

use crate::{Opening, Protocol};

/// The section of the receiver.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct OtlpConfig {
    /// What to speak; at least one.
    pub protocols: Protocols,
}

/// The section `protocols`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Protocols {
    /// gRPC.
    pub grpc: Optional<GrpcConfig>,
    /// HTTP.
    pub http: Optional<HttpConfig>,
}

/// The section `grpc`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct GrpcConfig {
    /// The host and the port to listen at; without a host, all interfaces; port 0 is any free one. Of the
    /// transport `unix`, a socket file.
    pub endpoint: String,
    /// What to listen at.
    pub transport: Transport,
    /// Unused: it is a client's.
    pub dialer: DialerConfig,
    /// The largest message, in MiB, before and after decompression; 0 is 4 MiB.
    pub max_recv_msg_size_mib: i64,
    /// Requests at once on one connection; 0 is as many as the HTTP/2 library allows.
    pub max_concurrent_streams: u32,
    /// Unused: buffers are sized as needed.
    pub read_buffer_size: i64,
    /// Unused: buffers are sized as needed.
    pub write_buffer_size: i64,
    /// How long connections last.
    pub keepalive: Optional<KeepaliveConfig>,
    /// Protection of the connections.
    pub tls: Optional<ServerTlsConfig, NullIsNone>,
    /// Who may send.
    pub auth: Optional<AuthConfig, NullIsNone>,
    /// True: the headers of a request travel with its data.
    pub include_metadata: bool,
    /// Refused where there are any.
    pub middlewares: Vec<Middleware>,
}

/// The section `http`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct HttpConfig {
    /// The host and the port to listen at; without a host, all interfaces; port 0 is any free one. Of the
    /// transport `unix`, a socket file.
    pub endpoint: String,
    /// What to listen at.
    pub transport: Transport,
    /// Unused: it is a client's.
    pub dialer: DialerConfig,
    /// Where traces are posted to.
    pub traces_url_path: String,
    /// Where metrics are posted to.
    pub metrics_url_path: String,
    /// Where logs are posted to.
    pub logs_url_path: String,
    /// The largest body, in bytes, before and after decompression; 0 is 20 MiB.
    pub max_request_body_size: i64,
    /// The compressions to understand, by their names in `Content-Encoding`; an empty name is none.
    pub compression_algorithms: Option<Vec<String>>,
    /// Which pages of other sites may send.
    pub cors: Optional<CorsConfig, NullIsNone>,
    /// Headers of every answer.
    pub response_headers: Headers,
    /// How long a request may take to arrive; 0 is for ever.
    pub read_timeout: GoDuration,
    /// How long its head may take; 0 is for ever.
    pub read_header_timeout: GoDuration,
    /// How long its answer may take; 0 is for ever.
    pub write_timeout: GoDuration,
    /// How long a connection may wait for its next request; 0 is for ever.
    pub idle_timeout: GoDuration,
    /// False: a connection serves one request.
    pub keep_alives_enabled: bool,
    /// Protection of the connections.
    pub tls: Optional<ServerTlsConfig, NullIsNone>,
    /// Who may send.
    pub auth: Optional<HttpAuthConfig, NullIsNone>,
    /// True: the headers of a request travel with its data.
    pub include_metadata: bool,
    /// Refused where there are any.
    pub middlewares: Vec<Middleware>,
}

/// The section `keepalive` of a server.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct KeepaliveConfig {
    /// How long connections last.
    pub server_parameters: Optional<ServerParameters>,
    /// How often callers may ask whether we are still there.
    pub enforcement_policy: Optional<EnforcementPolicy>,
}

/// The section `server_parameters`; 0 is what gRPC has by default.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct ServerParameters {
    /// A connection without a request for so long is ended; 0 is never.
    pub max_connection_idle: GoDuration,
    /// A connection this old takes no more requests; 0 is never.
    pub max_connection_age: GoDuration,
    /// How much longer its last requests may take; 0 is for ever.
    pub max_connection_age_grace: GoDuration,
    /// After so long a silence the other side is asked whether it is still there; 0 is two hours.
    pub time: GoDuration,
    /// How long its answer may take; 0 is 20 seconds.
    pub timeout: GoDuration,
}

/// The section `enforcement_policy`: unused, since what would enforce it does not see these questions.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct EnforcementPolicy {
    /// Unused.
    pub min_time: GoDuration,
    /// Unused.
    pub permit_without_stream: bool,
}

/// What is accepted and changes nothing, by its path in the section of the receiver.
const UNUSED: [Unused; 7] = [
    ("protocols::grpc::dialer", "it is a client's"),
    (
        "protocols::grpc::keepalive::enforcement_policy",
        "callers may ask whether we are there as often as they like",
    ),
    ("protocols::grpc::read_buffer_size", "buffers are sized as needed"),
    ("protocols::grpc::write_buffer_size", "buffers are sized as needed"),
    ("protocols::http::dialer", "it is a client's"),
    ("protocols::http::tls::tpm", "keys in a TPM are not supported"),
    ("protocols::grpc::tls::tpm", "keys in a TPM are not supported"),
];

const MIB: usize = 1024 * 1024;
const GRPC_BYTES_MAX: usize = 4 * MIB;
const HTTP_BYTES_MAX: usize = 20 * MIB;

/// Where profiles are posted to: the one path that is not configured, as in the Collector.
const PROFILES_URL_PATH: &str = "/v1development/profiles";

impl Default for GrpcConfig {
    fn default() -> Self {
        GrpcConfig {
            endpoint: "localhost:4317".to_owned(),
            transport: Transport::Tcp,
            dialer: DialerConfig::default(),
            max_recv_msg_size_mib: 0,
            max_concurrent_streams: 0,
            read_buffer_size: 0,
            write_buffer_size: 0,
            keepalive: Optional::some(KeepaliveConfig::default()),
            tls: Optional::none(),
            auth: Optional::none(),
            include_metadata: false,
            middlewares: Vec::new(),
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            endpoint: "localhost:4318".to_owned(),
            transport: Transport::Tcp,
            dialer: DialerConfig::default(),
            traces_url_path: pdata::otlp::http_path(Signal::Traces).to_owned(),
            metrics_url_path: pdata::otlp::http_path(Signal::Metrics).to_owned(),
            logs_url_path: pdata::otlp::http_path(Signal::Logs).to_owned(),
            max_request_body_size: 0,
            compression_algorithms: None,
            cors: Optional::none(),
            response_headers: Headers::default(),
            read_timeout: GoDuration::default(),
            read_header_timeout: GoDuration::default(),
            write_timeout: GoDuration::default(),
            idle_timeout: GoDuration::default(),
            keep_alives_enabled: true,
            tls: Optional::none(),
            auth: Optional::none(),
            include_metadata: false,
            middlewares: Vec::new(),
        }
    }
}

impl GrpcConfig {
    pub(crate) fn message_bytes_max(&self) -> usize {
        match usize::try_from(self.max_recv_msg_size_mib) {
            Ok(0) | Err(_) => GRPC_BYTES_MAX,
            Ok(mib) => mib.saturating_mul(MIB),
        }
    }

    pub(crate) fn opening(&self) -> Opening<'_> {
        Opening {
            protocol: Protocol::Grpc,
            alpn: &["h2"],
            endpoint: &self.endpoint,
            transport: self.transport,
            tls: self.tls.get(),
            authenticator: self.auth.get().and_then(|auth| ComponentId::parse(&auth.authenticator).ok()),
            includes_metadata: self.include_metadata,
        }
    }

    fn check(&self, problems: &mut Problems<'_>) {
        let key = |key: &str| format!("protocols::grpc::{key}");
        self.transport.check(&key("endpoint"), &self.endpoint, problems);
        let size = self.max_recv_msg_size_mib;
        problems.require(size >= 0, &key("max_recv_msg_size_mib"), {
            format!(
                "invalid max_recv_msg_size_mib value, must be between 1 and {}: {size}",
                i64::MAX / MIB as i64
            )
        });
        for (name, size) in
            [("read_buffer_size", self.read_buffer_size), ("write_buffer_size", self.write_buffer_size)]
        {
            problems.require(size >= 0, &key(name), format!("invalid {name} value: {size}"));
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

impl HttpConfig {
    pub(crate) fn body_bytes_max(&self) -> usize {
        usize::try_from(self.max_request_body_size).ok().filter(|n| *n > 0).unwrap_or(HTTP_BYTES_MAX)
    }

    pub(crate) fn opening(&self) -> Opening<'_> {
        Opening {
            protocol: Protocol::Http,
            alpn: &["h2", "http/1.1"],
            endpoint: &self.endpoint,
            transport: self.transport,
            tls: self.tls.get(),
            authenticator: self.auth.get().and_then(|auth| ComponentId::parse(&auth.authenticator).ok()),
            includes_metadata: self.include_metadata,
        }
    }

    /// The path of a signal, with a slash in front.
    pub(crate) fn path(&self, signal: Signal) -> String {
        let path = match signal {
            Signal::Logs => &self.logs_url_path,
            Signal::Metrics => &self.metrics_url_path,
            Signal::Traces => &self.traces_url_path,
            Signal::Profiles => PROFILES_URL_PATH,
        };
        if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
    }

    /// What requests may be compressed by. Without a list, by anything.
    pub(crate) fn compressions(&self) -> Vec<Compression> {
        match &self.compression_algorithms {
            None => Compression::ALL.into_iter().chain([Compression::None]).collect(),
            Some(names) => names.iter().filter_map(|name| Compression::by_name(name)).collect(),
        }
    }

    fn check(&self, problems: &mut Problems<'_>) {
        let key = |key: &str| format!("protocols::http::{key}");
        self.transport.check(&key("endpoint"), &self.endpoint, problems);
        for name in self.compression_algorithms.iter().flatten() {
            problems.require(Compression::by_name(name).is_some(), &key("compression_algorithms"), {
                let names = Compression::ALL.map(Compression::name).join(", ");
                format!("unknown compression {name:?}: expected {names} or an empty name")
            });
        }
        for (name, value) in self.response_headers.iter() {
            let fits = keys::header(name, value).is_some();
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

/// Reads and checks the section.
pub(crate) fn decode(section: Section<'_>) -> Result<OtlpConfig, ConfigError> {
    let config: OtlpConfig = section.decode()?;
    let mut problems = section.problems();
    let Protocols { grpc, http } = &config.protocols;
    if !grpc.is_some() && !http.is_some() {
        problems.add("", "must specify at least one protocol when using the OTLP receiver");
    }
    if let Some(grpc) = grpc.get() {
        grpc.check(&mut problems);
    }
    if let Some(http) = http.get() {
        http.check(&mut problems);
        let cors = http.cors.get().cloned().unwrap_or_default();
        if cors.allowed_origins.is_empty() && !cors.allowed_headers.is_empty() {
            tracing::warn!("cors specifies allowed_headers but no allowed_origins, and is therefore ignored");
        }
    }
    problems.finish()?;
    unused::warn(&section, &UNUSED);
    Ok(config)
}
