//! `otlp_http`: OTLP over HTTP.
//!
//! `sender` makes one request, and [`queue`] provides the queue and the retries.

mod config;
mod sender;

use std::sync::Arc;
use std::time::Duration;

use ::config::{ConfigError, GoDuration, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, Running, Stability,
    StartResult,
};
use http::{HeaderMap, Uri};
use pdata::Signal;
use queue::{ExporterMetrics, Server, Stages};
use tokio_util::sync::CancellationToken;
use transport::Proxy;
use transport::auth::authenticator;
use transport::client::{ClientSettings, HttpClient, KeepAlive};
use transport::compress::{Compression, Level};
use transport::connect::{Dial, UseTls};
use transport::keys::HttpClientConfig;
use transport::tls::{ClientTls, ClientTlsConfig};

pub use self::config::OtlpHttpConfig;

use crate::otlp::Signer;
use crate::unusable::Unusable;
use sender::Sender;

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "otlp_http",
    aliases: &["otlphttp"],
    signals: &Signal::ALL,
    stability: Stability::Stable,
    about: "Sends OTLP over HTTP, as protobuf or JSON.",
    example: "\
endpoint: https://otlp.example
headers:
  x-api-key: ${env:BACKEND_KEY:-none}
sending_queue:
  batch:
",
    keys: ::config::keys::<OtlpHttpConfig>,
    build,
};

::config::choice! {
    /// The key `encoding`.
    pub enum PayloadEncoding {
        /// Protobuf.
        Proto = "proto",
        /// OTLP's JSON.
        Json = "json",
    }
}

impl PayloadEncoding {
    fn content_type(self) -> &'static str {
        match self {
            PayloadEncoding::Proto => pdata::otlp::PROTOBUF,
            PayloadEncoding::Json => pdata::otlp::JSON,
        }
    }
}

/// An exporter that has not started.
struct OtlpHttp {
    id: ComponentId,
    /// The URI of each signal, in the order of [`Signal::ALL`].
    uris: [Option<Uri>; Signal::ALL.len()],
    encoding: PayloadEncoding,
    compression: Compression,
    level: Level,
    /// The headers of every request.
    headers: HeaderMap,
    timeout: Duration,
    connections: Connections,
    tls: ClientTlsConfig,
    proxy: Proxy,
    authenticator: Option<ComponentId>,
    stages: Stages,
}

/// The settings of connections.
struct Connections {
    idle_max: usize,
    idle: Option<Duration>,
    close: bool,
    tries_http2: bool,
    keep_alive: Option<KeepAlive>,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let (config, mut problems) = section.read::<OtlpHttpConfig>();
    config.check(&section, &mut problems);
    let uris = config.uris(&mut problems);
    let headers = config.request_headers(context.version, &mut problems);
    let proxy = problems.take("proxy_url", Proxy::parse(&config.client.proxy_url));
    let auth = config.client.auth.get();
    let authenticator = auth.and_then(|auth| authenticator("auth", &auth.authenticator, &mut problems));
    let Some(proxy) = proxy else { return Err(problems.into()) };
    problems.finish()?;
    let id = context.id.clone();
    let stages = Stages {
        queue: config.sending_queue.into_inner(),
        retry: Some(config.retry_on_failure).filter(|r| r.enabled),
    };
    let uris = match uris {
        Ok(uris) => uris,
        Err(reason) => return Ok(Unusable::boxed(id, &section, reason, stages)),
    };
    Ok(Box::new(OtlpHttp {
        id,
        uris,
        encoding: config.encoding,
        compression: config.client.compression,
        level: config.client.compression_params.level,
        headers,
        timeout: *config.client.timeout,
        connections: connections(&config.client),
        tls: config.client.tls,
        proxy,
        authenticator,
        stages,
    }))
}

fn connections(config: &HttpClientConfig) -> Connections {
    /// Go's default timeout of an HTTP/2 ping.
    const PING_TIMEOUT: Duration = Duration::from_secs(15);
    let set = |duration: GoDuration| Some(*duration).filter(|d| !d.is_zero());
    let number = |n: i64| usize::try_from(n).ok().filter(|n| *n > 0).unwrap_or(usize::MAX);
    let keep_alive = set(config.http2_read_idle_timeout).map(|interval| KeepAlive {
        interval,
        timeout: set(config.http2_ping_timeout).unwrap_or(PING_TIMEOUT),
        while_idle: true,
    });
    Connections {
        idle_max: number(config.max_idle_conns).min(number(config.max_idle_conns_per_host)),
        idle: set(config.idle_conn_timeout),
        close: config.disable_keep_alives,
        tries_http2: config.force_attempt_http2,
        keep_alive,
    }
}

impl Exporter for OtlpHttp {
    fn accepts(&self, signal: Signal) -> Result<(), String> {
        match &self.uris[signal as usize] {
            Some(_) => Ok(()),
            None => Err(format!("either endpoint or {}_endpoint must be specified", signal.name())),
        }
    }

    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let servers = self.uris.each_ref().map(|uri| uri.as_ref().map(server));
            let metrics = ExporterMetrics::with_servers(&host, &self.id, servers);
            let signer = Signer::find(self.authenticator.as_ref(), &host)?;
            let (id, stages) = (self.id.clone(), self.stages.clone());
            let sender = Sender::new(*self, signer, metrics.clone())?;
            queue::stack(&host, &id, FACTORY.signals, &stages, Arc::new(sender), &metrics, &stop).await
        })
    }
}

fn server(uri: &Uri) -> Server {
    let address = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    Server { address, port: uri.port_u16(), path: Some(uri.path().to_owned()) }
}

impl OtlpHttp {
    /// Returns the client, whose connections open with the first request.
    fn client(&self) -> StartResult<HttpClient> {
        let protocols: &[&str] =
            if self.connections.tries_http2 { &["h2", "http/1.1"] } else { &["http/1.1"] };
        let is_https = self.uris.iter().flatten().any(|uri| uri.scheme_str() == Some("https"));
        let tls = match is_https {
            true => UseTls::ForHttps(ClientTls::open(&self.tls, protocols)?),
            false => UseTls::No,
        };
        let server_name = self.tls.server_name();
        Ok(HttpClient::new(ClientSettings {
            dial: Dial { target: None, unix: None, tls, server_name, proxy: self.proxy.clone() },
            is_http2: false,
            idle_connections_max: self.connections.idle_max,
            idle: self.connections.idle,
            closes_connections: self.connections.close,
            keep_alive: self.connections.keep_alive,
        }))
    }
}

#[cfg(test)]
mod tests;
