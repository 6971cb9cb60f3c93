//! What the user writes in the section of an `otlp` receiver: the Collector's keys, and what it refuses.

use component::ComponentId;
use config::{ConfigError, GoDuration, NullIsNone, Optional, Problems, Section};
use pdata::Signal;
use transport::auth::{AuthConfig, authenticator};
use transport::compress::Compression;
use transport::keys::{DialerConfig, HttpServerConfig, Middleware};
use transport::listen::Transport;
use transport::tls::ServerTlsConfig;

use crate::{Opening, Protocol};

config::section! {
    /// The section of the receiver.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OtlpConfig {
        /// Protocols to serve, at least one.
        pub protocols: Protocols,
    }

    /// The section `protocols`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Protocols {
        /// OTLP over gRPC.
        pub grpc: Optional<GrpcConfig>,
        /// OTLP over HTTP.
        pub http: Optional<HttpConfig>,
    }

    /// The section `grpc`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GrpcConfig {
        /// Address to listen on, as `host:port`: without a host, all interfaces; port 0 chooses a free port. With
        /// the transport `unix`, the path of a socket file.
        pub endpoint: String = "localhost:4317".to_owned(),
        /// Kind of address that `endpoint` is.
        pub transport: Transport = Transport::Tcp,
        /// Settings of outgoing connections.
        pub dialer: DialerConfig => unused "a server opens no connections",
        /// Largest message in MiB, before and after decompression. 0 is 4 MiB.
        pub max_recv_msg_size_mib: i64 => in 0..,
        /// Largest number of concurrent requests on one connection. 0 is the default of the HTTP/2 library.
        pub max_concurrent_streams: u32,
        /// Size of the read buffer in bytes.
        pub read_buffer_size: i64 => in 0.. => unused "buffers are sized as needed",
        /// Size of the write buffer in bytes.
        pub write_buffer_size: i64 => in 0.. => unused "buffers are sized as needed",
        /// Lifetime of connections.
        pub keepalive: Optional<KeepaliveConfig> = Optional::some(KeepaliveConfig::default()),
        /// TLS of the connections. Without this section they are not encrypted.
        pub tls: Optional<ServerTlsConfig, NullIsNone>,
        /// Authentication of requests. Without this section every request is accepted.
        pub auth: Optional<AuthConfig, NullIsNone>,
        /// Whether the headers of a request are passed on with its data.
        pub include_metadata: bool,
        /// Middleware extensions. None is supported, so any entry is refused.
        pub middlewares: Vec<Middleware>,
    }

    /// The section `http`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HttpConfig {
        ..server: HttpServerConfig = HttpServerConfig {
            endpoint: "localhost:4318".to_owned(),
            ..HttpServerConfig::default()
        },
        /// Path that traces are posted to.
        pub traces_url_path: String = pdata::otlp::http_path(Signal::Traces).to_owned(),
        /// Path that metrics are posted to.
        pub metrics_url_path: String = pdata::otlp::http_path(Signal::Metrics).to_owned(),
        /// Path that logs are posted to.
        pub logs_url_path: String = pdata::otlp::http_path(Signal::Logs).to_owned(),
    }

    /// The section `keepalive` of a server.
    #[derive(Clone, Debug, PartialEq)]
    pub struct KeepaliveConfig {
        /// Limits and pings of connections.
        pub server_parameters: Optional<ServerParameters>,
        /// Limits on the pings of clients.
        pub enforcement_policy: Optional<EnforcementPolicy>
            => unused "clients may send pings as often as they like",
    }

    /// The section `server_parameters`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ServerParameters {
        /// Time without a request after which a connection is closed. 0 is 5 minutes.
        pub max_connection_idle: GoDuration,
        /// Age after which a connection accepts no more requests. 0 is unlimited.
        pub max_connection_age: GoDuration,
        /// Longest time for the last requests of a connection that reached its age. 0 is unlimited.
        pub max_connection_age_grace: GoDuration,
        /// Time without traffic after which a ping is sent. 0 is 2h.
        pub time: GoDuration,
        /// Longest time for the answer to a ping, after which the connection is closed. 0 is 20s.
        pub timeout: GoDuration,
    }

    /// The section `enforcement_policy`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct EnforcementPolicy {
        /// Shortest interval between pings of a client.
        pub min_time: GoDuration,
        /// Whether pings are accepted while no request is under way.
        pub permit_without_stream: bool,
    }
}

const MIB: usize = 1024 * 1024;
const GRPC_BYTES_MAX: usize = 4 * MIB;
const HTTP_BYTES_MAX: usize = 20 * MIB;

/// Memory for a decoded request, by the byte of the largest body. Usual telemetry takes 2 to 6 bytes for each of its own;
/// an empty span takes a hundred, so that a small compressed body could otherwise fill gigabytes.
const DECODED_BYTES_PER_BODY_BYTE: usize = 8;

/// Returns how much memory a decoded request may take, without its texts, where bodies have at most `body_bytes_max` bytes.
pub(crate) fn decoded_bytes_max(body_bytes_max: usize) -> usize {
    body_bytes_max.saturating_mul(DECODED_BYTES_PER_BODY_BYTE)
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
        usize::try_from(self.server.max_request_body_size).ok().filter(|n| *n > 0).unwrap_or(HTTP_BYTES_MAX)
    }

    pub(crate) fn opening(&self) -> Opening<'_> {
        Opening {
            protocol: Protocol::Http,
            alpn: &["h2", "http/1.1"],
            endpoint: &self.server.endpoint,
            transport: self.server.transport,
            tls: self.server.tls.get(),
            authenticator: self
                .server
                .auth
                .get()
                .and_then(|auth| ComponentId::parse(&auth.authenticator).ok()),
            includes_metadata: self.server.include_metadata,
        }
    }

    /// Returns the path of a signal with a leading slash.
    pub(crate) fn path(&self, signal: Signal) -> String {
        let path = match signal {
            Signal::Logs => &self.logs_url_path,
            Signal::Metrics => &self.metrics_url_path,
            Signal::Traces => &self.traces_url_path,
            // The path of profiles has no key, as in the Collector.
            Signal::Profiles => pdata::otlp::http_path(signal),
        };
        if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
    }

    /// Returns the accepted compressions of requests: all if none are configured.
    pub(crate) fn compressions(&self) -> Vec<Compression> {
        match &self.server.compression_algorithms {
            None => Compression::ALL.into_iter().chain([Compression::None]).collect(),
            Some(names) => names.iter().filter_map(|name| Compression::by_name(name)).collect(),
        }
    }
}

/// Reads and checks the section.
pub(crate) fn decode(section: Section<'_>) -> Result<OtlpConfig, ConfigError> {
    let (config, mut problems) = section.read::<OtlpConfig>();
    let Protocols { grpc, http } = &config.protocols;
    if !grpc.is_some() && !http.is_some() {
        problems.add("", "must specify at least one protocol when using the OTLP receiver");
    }
    if let Some(grpc) = grpc.get() {
        grpc.check(&mut problems);
    }
    if let Some(http) = http.get() {
        http.server.check("protocols::http::", &mut problems);
        let cors = http.server.cors.get().cloned().unwrap_or_default();
        if cors.allowed_origins.is_empty() && !cors.allowed_headers.is_empty() {
            tracing::warn!("cors specifies allowed_headers but no allowed_origins, and is therefore ignored");
        }
    }
    problems.finish()?;
    Ok(config)
}
