//! `otlp_http`: OTLP over HTTP, by hyper.
//!
//! This file is its configuration and its start; one request and what its answer means stand in `attempt`,
//! the queue and the retries in [`queue`].

mod attempt;

use std::sync::Arc;
use std::time::Duration;

use component::config::{ConfigError, GoDuration, Headers, Optional, Problems, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Exporter, ExporterFactory, Host, Running, Signal,
    Stability, StartResult,
};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::client::{HttpEndpoint, TlsConfig};
use crate::wire::Compression;
use attempt::Attempt;
use queue::{QueueConfig, RetryConfig, Stages, Tallies};

/// The row of this exporter.
pub const FACTORY: ExporterFactory = ExporterFactory {
    kind: "otlp_http",
    aliases: &["otlphttp"],
    signals: &Signal::STABLE,
    stability: Stability::Stable,
    build,
};

/// What the user writes.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct OtlpHttpConfig {
    /// The base URL, to which `/v1/logs`, `/v1/metrics` and `/v1/traces` are appended.
    pub endpoint: String,
    /// Where logs go, in full.
    pub logs_endpoint: String,
    /// Where metrics go, in full.
    pub metrics_endpoint: String,
    /// Where traces go, in full.
    pub traces_endpoint: String,
    /// How a request is written.
    pub encoding: Encoding,
    /// How a request is compressed.
    pub compression: Compression,
    /// Sent with every request.
    pub headers: Headers,
    /// How long one attempt may take; 0 is for ever.
    pub timeout: GoDuration,
    /// Protection of the connection, of `https` endpoints.
    pub tls: TlsConfig,
    /// Retries.
    pub retry_on_failure: RetryConfig,
    /// The queue.
    pub sending_queue: Optional<QueueConfig>,
}

/// The key `encoding`.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// Protobuf.
    Proto,
    /// OTLP's JSON.
    Json,
}

impl Encoding {
    fn content_type(self) -> &'static str {
        match self {
            Encoding::Proto => "application/x-protobuf",
            Encoding::Json => "application/json",
        }
    }
}

impl Default for OtlpHttpConfig {
    fn default() -> Self {
        OtlpHttpConfig {
            endpoint: String::new(),
            logs_endpoint: String::new(),
            metrics_endpoint: String::new(),
            traces_endpoint: String::new(),
            encoding: Encoding::Proto,
            compression: Compression::Gzip,
            headers: Headers::default(),
            timeout: GoDuration::from_secs(30),
            tls: TlsConfig::default(),
            retry_on_failure: RetryConfig::default(),
            sending_queue: Optional::some(QueueConfig::default()),
        }
    }
}

/// What it runs by.
struct OtlpHttp {
    id: ComponentId,
    /// Where each signal goes, in the order of [`Signal::STABLE`].
    uris: [Option<Uri>; 3],
    encoding: Encoding,
    compression: Compression,
    /// All headers of a request.
    headers: HeaderMap,
    timeout: Duration,
    tls: TlsConfig,
    stages: Stages,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Exporter>, ConfigError> {
    let config: OtlpHttpConfig = section.decode()?;
    let mut problems = section.problems();
    config.retry_on_failure.check(&mut problems);
    QueueConfig::check(&config.sending_queue, &mut problems);
    let uris = uris(&config, &mut problems);
    let headers = headers(&config, context.version, &mut problems);
    problems.finish()?;
    Ok(Box::new(OtlpHttp {
        id: context.id.clone(),
        uris,
        encoding: config.encoding,
        compression: config.compression,
        headers,
        timeout: *config.timeout,
        tls: config.tls,
        stages: Stages {
            queue: config.sending_queue.into_inner(),
            retry: Some(config.retry_on_failure).filter(|r| r.enabled),
        },
    }))
}

fn uris(config: &OtlpHttpConfig, problems: &mut Problems<'_>) -> [Option<Uri>; 3] {
    let own = [
        ("logs_endpoint", &config.logs_endpoint),
        ("metrics_endpoint", &config.metrics_endpoint),
        ("traces_endpoint", &config.traces_endpoint),
    ];
    if config.endpoint.is_empty() && own.iter().all(|(_, url)| url.is_empty()) {
        problems.add("", "at least one endpoint must be specified");
    }
    let base = Some(&config.endpoint).filter(|url| !url.is_empty());
    let base = base.filter(|url| HttpEndpoint::parse(url).map_err(|e| problems.add("endpoint", e)).is_ok());
    Signal::STABLE.map(|signal| match (own[signal as usize], base) {
        ((_, url), Some(base)) if url.is_empty() => {
            HttpEndpoint::join(base, &format!("/v1/{}", signal.name())).ok()
        }
        ((_, url), None) if url.is_empty() => None,
        ((key, url), _) => HttpEndpoint::parse(url).map_err(|e| problems.add(key, e)).ok(),
    })
}

/// What the exporter says of itself, then what the user adds or says in its place.
fn headers(config: &OtlpHttpConfig, version: &str, problems: &mut Problems<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let user_agent = HeaderValue::try_from(format!("warptap/{version}"));
    headers.insert(header::USER_AGENT, user_agent.unwrap_or(HeaderValue::from_static("warptap")));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(config.encoding.content_type()));
    if config.compression == Compression::Gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    for (name, value) in config.headers.iter() {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => drop(headers.insert(name, value)),
            (Err(_), _) => problems.add("headers", format!("{name:?} is no name of an HTTP header")),
            (_, Err(_)) => problems.add("headers", format!("the value of header {name:?} cannot be sent")),
        }
    }
    headers
}

impl Exporter for OtlpHttp {
    fn start(
        self: Box<Self>,
        host: &Host,
        stop: CancellationToken,
    ) -> BoxFuture<'static, StartResult<(Arc<dyn Consumer>, Running)>> {
        let host = host.clone();
        Box::pin(async move {
            let tallies = Arc::new(Tallies::default());
            let (id, stages) = (self.id.clone(), self.stages.clone());
            let attempt = Attempt::new(*self, tallies.clone())?;
            queue::stack(&host, &id, FACTORY.signals, &stages, Arc::new(attempt), &tallies, &stop).await
        })
    }
}

#[cfg(test)]
mod tests;
