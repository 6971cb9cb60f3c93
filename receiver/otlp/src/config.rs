//! What the user writes in the section of an `otlp` receiver: the Collector's keys, as far as they are there.

use component::config::{ConfigError, Optional, Problems, Section};
use serde::Deserialize;

/// The section of the receiver.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct OtlpConfig {
    /// What to speak; at least one.
    pub protocols: Protocols,
}

/// The section `protocols`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct Protocols {
    /// gRPC.
    pub grpc: Optional<GrpcConfig>,
    /// HTTP.
    pub http: Optional<HttpConfig>,
}

impl Default for Protocols {
    fn default() -> Self {
        Protocols { grpc: Optional::none(), http: Optional::none() }
    }
}

/// The section `grpc`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct GrpcConfig {
    /// The host and the port to listen at; without a host, all interfaces; port 0 is any free one.
    pub endpoint: String,
    /// The largest message, in MiB, before and after decompression; 0 is 4 MiB.
    pub max_recv_msg_size_mib: u32,
    /// Requests at once on one connection; 0 is as many as the HTTP/2 library allows.
    pub max_concurrent_streams: u32,
}

/// The section `http`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct HttpConfig {
    /// The host and the port to listen at; without a host, all interfaces; port 0 is any free one.
    pub endpoint: String,
    /// Where traces are posted to.
    pub traces_url_path: String,
    /// Where metrics are posted to.
    pub metrics_url_path: String,
    /// Where logs are posted to.
    pub logs_url_path: String,
    /// The largest body, in bytes, before and after decompression; 0 is 20 MiB.
    pub max_request_body_size: u64,
}

const MIB: usize = 1024 * 1024;
const GRPC_BYTES_MAX: usize = 4 * MIB;
const HTTP_BYTES_MAX: usize = 20 * MIB;

impl Default for GrpcConfig {
    fn default() -> Self {
        GrpcConfig {
            endpoint: "localhost:4317".to_owned(),
            max_recv_msg_size_mib: 0,
            max_concurrent_streams: 0,
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            endpoint: "localhost:4318".to_owned(),
            traces_url_path: "/v1/traces".to_owned(),
            metrics_url_path: "/v1/metrics".to_owned(),
            logs_url_path: "/v1/logs".to_owned(),
            max_request_body_size: 0,
        }
    }
}

impl GrpcConfig {
    pub(crate) fn message_bytes_max(&self) -> usize {
        match self.max_recv_msg_size_mib as usize {
            0 => GRPC_BYTES_MAX,
            mib => mib.saturating_mul(MIB),
        }
    }
}

impl HttpConfig {
    pub(crate) fn body_bytes_max(&self) -> usize {
        match self.max_request_body_size {
            0 => HTTP_BYTES_MAX,
            bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }

    /// The path of each signal, in the order of `Signal::STABLE`, with a slash in front.
    pub(crate) fn paths(&self) -> [String; 3] {
        [&self.logs_url_path, &self.metrics_url_path, &self.traces_url_path]
            .map(|path| if path.starts_with('/') { path.clone() } else { format!("/{path}") })
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
        check_endpoint("protocols::grpc::endpoint", &grpc.endpoint, &mut problems);
    }
    if let Some(http) = http.get() {
        check_endpoint("protocols::http::endpoint", &http.endpoint, &mut problems);
    }
    problems.finish()?;
    Ok(config)
}

fn check_endpoint(key: &str, endpoint: &str, problems: &mut Problems<'_>) {
    if let Err(e) = split_endpoint(endpoint) {
        problems.add(key, e);
    }
}

/// The host, which may be empty, and the port.
pub(crate) fn split_endpoint(endpoint: &str) -> Result<(&str, u16), String> {
    let is_whole = |host: &str| !host.contains(':') || (host.starts_with('[') && host.ends_with(']'));
    let Some((host, port)) = endpoint.rsplit_once(':').filter(|(host, _)| is_whole(host)) else {
        return Err(format!("address {endpoint:?}: missing port in address: expected host:port"));
    };
    let port = port.parse().map_err(|_| format!("invalid port {port:?} in endpoint {endpoint:?}"))?;
    Ok((host.trim_matches(['[', ']']), port))
}
