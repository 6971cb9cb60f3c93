//! `otlp_grpc`: OTLP over gRPC, by tonic.
//!
//! This file is its configuration and its start; one call and what its status means stand in `attempt`, the
//! queue and the retries in [`queue`]. Data is encoded straight from the shared batch: no copy of it
//! is made to fit a generated request type.

mod attempt;
mod http_status;

use std::sync::Arc;
use std::time::Duration;

use component::config::{ConfigError, GoDuration, Headers, Optional, Problems, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, Running, Signal,
    Stability, StartResult,
};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};
use tonic::transport::{Channel, Endpoint};

use crate::client::{Connector, GrpcEndpoint, TlsConfig, UseTls};
use crate::wire::Compression;
use attempt::Attempt;
use http_status::HttpStatus;
use queue::{QueueConfig, RetryConfig, Stages, Tallies};

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "otlp_grpc",
    aliases: &["otlp"],
    signals: &Signal::STABLE,
    stability: Stability::Stable,
    build,
};

/// What the user writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct OtlpGrpcConfig {
    /// `host:port`, or a form with a scheme.
    pub endpoint: String,
    /// How a request is compressed.
    pub compression: Compression,
    /// Sent with every request.
    pub headers: Headers,
    /// How long one attempt may take; 0 is for ever.
    pub timeout: GoDuration,
    /// Protection of the connection.
    pub tls: TlsConfig,
    /// Retries.
    pub retry_on_failure: RetryConfig,
    /// The queue.
    pub sending_queue: Optional<QueueConfig>,
}

impl Default for OtlpGrpcConfig {
    fn default() -> Self {
        OtlpGrpcConfig {
            endpoint: String::new(),
            compression: Compression::Gzip,
            headers: Headers::default(),
            timeout: GoDuration::from_secs(5),
            tls: TlsConfig::default(),
            retry_on_failure: RetryConfig::default(),
            sending_queue: Optional::some(QueueConfig::default()),
        }
    }
}

/// What it runs by.
struct OtlpGrpc {
    id: ComponentId,
    user_agent: String,
    endpoint: GrpcEndpoint,
    compression: Compression,
    metadata: MetadataMap,
    timeout: Duration,
    tls: TlsConfig,
    stages: Stages,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let config: OtlpGrpcConfig = section.decode()?;
    let mut problems = section.problems();
    config.retry_on_failure.check(&mut problems);
    QueueConfig::check(&config.sending_queue, &mut problems);
    let metadata = metadata(&config.headers, &mut problems);
    let endpoint = GrpcEndpoint::parse(&config.endpoint).map_err(|e| problems.add("endpoint", e));
    problems.finish()?;
    Ok(Box::new(OtlpGrpc {
        id: context.id.clone(),
        user_agent: format!("warptap/{}", context.version),
        endpoint: endpoint.expect("a problem would have been found"),
        compression: config.compression,
        metadata,
        timeout: *config.timeout,
        tls: config.tls,
        stages: Stages {
            queue: config.sending_queue.into_inner(),
            retry: Some(config.retry_on_failure).filter(|r| r.enabled),
        },
    }))
}

fn metadata(headers: &Headers, problems: &mut Problems<'_>) -> MetadataMap {
    let mut metadata = MetadataMap::new();
    for (name, value) in headers.iter() {
        let key = AsciiMetadataKey::from_bytes(name.to_ascii_lowercase().as_bytes());
        match (key, AsciiMetadataValue::try_from(value)) {
            (Ok(key), Ok(value)) => drop(metadata.insert(key, value)),
            (Err(_), _) => problems.add("headers", format!("{name:?} is no name of a gRPC header")),
            (_, Err(_)) => problems.add("headers", format!("the value of header {name:?} cannot be sent")),
        }
    }
    metadata
}

impl Exporter for OtlpGrpc {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let tallies = Arc::new(Tallies::default());
            let channel = self.channel()?;
            let attempt = Attempt::new(&self, HttpStatus(channel), tallies.clone());
            let stages = &self.stages;
            queue::stack(&host, &self.id, FACTORY.signals, stages, Arc::new(attempt), &tallies, &stop).await
        })
    }
}

impl OtlpGrpc {
    /// True unless plain text was asked for; `https` wins over `tls::insecure`.
    fn is_protected(&self) -> bool {
        self.endpoint.is_https || !self.tls.insecure
    }

    /// A channel that connects with the first request, and again whenever it has to.
    fn channel(&self) -> StartResult<Channel> {
        let tls = if self.is_protected() { UseTls::Yes(self.tls.open("h2")?) } else { UseTls::No };
        let server_name = self.tls.server_name();
        let connector = Connector { unix: self.endpoint.unix.clone(), tls, server_name };
        let authority = &self.endpoint.authority;
        let scheme = if self.is_protected() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("http://{authority}"))?
            .origin(format!("{scheme}://{authority}").parse()?)
            .user_agent(self.user_agent.as_str())?;
        if !self.timeout.is_zero() {
            endpoint = endpoint.connect_timeout(self.timeout);
        }
        Ok(endpoint.connect_with_connector_lazy(connector))
    }
}

#[cfg(test)]
mod tests;
