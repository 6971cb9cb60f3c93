//! `otlp_grpc`: OTLP over gRPC.
//!
//! `sender` makes one call, `balancer` chooses its connection, and [`queue`] provides the queue and the retries.
//! Data is sent from the bytes of the shared batch, without a copy for a generated request type.

mod balancer;
mod config;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use ::config::{ConfigError, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, Running, Stability,
    StartResult,
};
use http::{HeaderMap, HeaderValue, Uri};
use pdata::Signal;
use queue::{ExporterMetrics, Server, Stages};
use tokio_util::sync::CancellationToken;
use transport::Proxy;
use transport::auth::authenticator;
use transport::client::{ClientSettings, KeepAlive};
use transport::compress::Compression;
use transport::connect::{Dial, UseTls};
use transport::endpoint::{GrpcEndpoint, split_host_port};
use transport::grpc;
use transport::tls::{ClientTls, ClientTlsConfig};

pub use self::config::{KeepaliveConfig, OtlpGrpcConfig};

use crate::otlp::Signer;
use crate::unusable::Unusable;
use balancer::Balancer;
use sender::Sender;

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "otlp_grpc",
    aliases: &["otlp"],
    signals: &Signal::ALL,
    stability: Stability::Stable,
    about: "Sends OTLP over gRPC.",
    example: "\
endpoint: gateway.example:4317
compression: zstd
tls:
  ca_pem: ${env:GATEWAY_CA:-}
retry_on_failure:
  max_elapsed_time: 10m
",
    keys: ::config::keys::<OtlpGrpcConfig>,
    build,
};

/// An exporter that has not started.
struct OtlpGrpc {
    id: ComponentId,
    endpoint: GrpcEndpoint,
    server: Server,
    /// The authority of requests.
    authority: String,
    balances: bool,
    compression: Compression,
    headers: HeaderMap,
    timeout: Duration,
    waits_for_ready: bool,
    keep_alive: Option<KeepAlive>,
    tls: ClientTlsConfig,
    authenticator: Option<ComponentId>,
    stages: Stages,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let (config, mut problems) = section.read::<OtlpGrpcConfig>();
    config.check(&mut problems);
    let mut headers = config.request_headers(context.version, &mut problems);
    let endpoint = match GrpcEndpoint::parse(&config.endpoint) {
        Err(reason) if has_port(&config.endpoint) => Ok(Err(reason)),
        parsed => parsed.map(Ok),
    };
    let endpoint = problems.take("endpoint", endpoint);
    let compression = problems.take("compression", grpc::compression(config.compression));
    if config.authority.parse::<http::uri::Authority>().is_err() && !config.authority.is_empty() {
        problems.add("authority", format!("{:?} is not a host and port", config.authority));
    }
    let auth = config.auth.get();
    let authenticator = auth.and_then(|auth| authenticator("auth", &auth.authenticator, &mut problems));
    let (Some(endpoint), Some(compression)) = (endpoint, compression) else { return Err(problems.into()) };
    problems.finish()?;
    let stages = Stages {
        queue: config.sending_queue.into_inner(),
        retry: Some(config.retry_on_failure).filter(|r| r.enabled),
    };
    let endpoint = match endpoint {
        Ok(endpoint) => endpoint,
        Err(reason) => return Ok(Unusable::boxed(context.id.clone(), &section, reason, stages)),
    };
    if let Some(name) = grpc::name(compression) {
        headers.insert(grpc::ENCODING, HeaderValue::from_static(name));
    }
    let own = Some(config.authority).filter(|a| !a.is_empty());
    Ok(Box::new(OtlpGrpc {
        id: context.id.clone(),
        server: server(&config.endpoint),
        authority: own.unwrap_or_else(|| endpoint.authority.clone()),
        balances: config.balancer_name == "round_robin" && !endpoint.is_passthrough,
        endpoint,
        compression,
        headers,
        timeout: *config.timeout,
        waits_for_ready: config.wait_for_ready,
        keep_alive: config.keepalive.get().map(keep_alive),
        tls: config.tls,
        authenticator,
        stages,
    }))
}

/// Returns whether an endpoint has a host and a port by their form, which is all that the Collector checks: the rest fails when
/// it connects.
fn has_port(endpoint: &str) -> bool {
    let rest = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    split_host_port(rest).is_ok_and(|(host, _)| !host.is_empty())
}

/// Returns the endpoint as the Collector's metrics show it: only one without a scheme is split.
fn server(endpoint: &str) -> Server {
    if endpoint.starts_with("unix:") {
        return Server { address: "unix".to_owned(), ..Server::default() };
    }
    match split_host_port(endpoint) {
        Ok((host, port)) => Server { address: host.to_owned(), port: Some(port), path: None },
        Err(_) => Server { address: endpoint.to_owned(), ..Server::default() },
    }
}

fn keep_alive(config: &KeepaliveConfig) -> KeepAlive {
    // The minimum of gRPC clients; servers may treat shorter intervals as abuse.
    const INTERVAL_MIN: Duration = Duration::from_secs(10);
    KeepAlive {
        interval: (*config.time).max(INTERVAL_MIN),
        timeout: *config.timeout,
        while_idle: config.permit_without_stream,
    }
}

impl Exporter for OtlpGrpc {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let servers = Signal::ALL.map(|_| Some(self.server.clone()));
            let metrics = ExporterMetrics::with_servers(&host, &self.id, servers);
            let signer = Signer::find(self.authenticator.as_ref(), &host)?;
            let (id, stages) = (self.id.clone(), self.stages.clone());
            let sender = Sender::new(*self, signer, metrics.clone())?;
            queue::stack(&host, &id, FACTORY.signals, &stages, Arc::new(sender), &metrics, &stop).await
        })
    }
}

impl OtlpGrpc {
    /// Returns the balancer, whose connections open with the first request.
    fn balancer(&self) -> StartResult<Balancer> {
        let tls = match self.tls.protects(self.endpoint.is_https) {
            true => UseTls::Yes(ClientTls::open(&self.tls, &["h2"])?),
            false => UseTls::No,
        };
        let settings = ClientSettings {
            dial: Dial {
                target: Some(self.endpoint.authority.clone()),
                unix: self.endpoint.unix.clone(),
                tls,
                server_name: self.tls.server_name(),
                proxy: Proxy::parse("")?,
            },
            is_http2: true,
            idle_connections_max: 1,
            idle: None,
            closes_connections: false,
            keep_alive: self.keep_alive,
        };
        Ok(Balancer::new(settings, self.balances))
    }

    /// Returns the URI of a signal.
    fn uri(&self, signal: Signal) -> StartResult<Uri> {
        let scheme = if self.tls.protects(self.endpoint.is_https) { "https" } else { "http" };
        Ok(format!("{scheme}://{}{}", self.authority, pdata::otlp::grpc_path(signal)).parse()?)
    }
}

#[cfg(test)]
mod tests;
