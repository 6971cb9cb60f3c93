//! OTLP exporters of the crate `opentelemetry-otlp` over connections of `transport`, so that TLS, proxies and
//! endpoints behave as in the other exporters.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri};
use http_body_util::{BodyExt as _, Limited};
use opentelemetry_http::HttpError;
use opentelemetry_otlp::{
    Compression, ExporterBuildError, LogExporter, MetricExporter, SpanExporter, WithExportConfig as _,
    WithHttpConfig as _, WithTonicConfig as _,
};
use opentelemetry_sdk::metrics::Temporality as SdkTemporality;
use pdata::Signal;
use pdata::otlp::http_path;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use transport::Parts;
use transport::Proxy;
use transport::client::{ClientSettings, HttpClient};
use transport::connect::{Dial, StreamConnector, UseTls};
use transport::endpoint::HttpEndpoint;
use transport::tls::{ClientTls, ClientTlsConfig, CommonTlsConfig};

use crate::config::telemetry::{Otlp, Protocol, Temporality};

/// Maximum size of a response body in bytes.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of idle connections; exports run one at a time.
const IDLE_CONNECTIONS_MAX: usize = 1;
const IDLE: Duration = Duration::from_secs(90);

/// The reason why an exporter could not be created.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// The endpoint is invalid.
    #[error("{0}")]
    Endpoint(String),
    /// A header is invalid.
    #[error("header {0:?} cannot be sent: expected a valid HTTP header name and value")]
    Header(String),
    /// A TLS file is missing or invalid.
    #[error(transparent)]
    Tls(#[from] transport::tls::TlsError),
    /// The SDK refused the settings.
    #[error(transparent)]
    Build(#[from] ExporterBuildError),
}

/// Defines a constructor for one of the three exporters, whose builders are alike.
macro_rules! exporter {
    ($(#[$doc:meta])* $name:ident -> $exporter:ident, $signal:ident, |$builder:ident, $otlp:ident| $with:expr) => {
        $(#[$doc])*
        pub(super) fn $name($otlp: &Otlp) -> Result<$exporter, OtlpError> {
            let $builder = $exporter::builder();
            let builder = $with;
            Ok(match $otlp.protocol {
                Protocol::Grpc => {
                    let metadata = MetadataMap::from_headers(headers($otlp)?);
                    let builder = builder.with_tonic().with_channel(channel($otlp)?).with_metadata(metadata);
                    let builder = builder.with_timeout($otlp.timeout);
                    match $otlp.is_compressed {
                        true => builder.with_compression(Compression::Gzip).build()?,
                        false => builder.build()?,
                    }
                }
                Protocol::HttpProtobuf => {
                    let builder = builder.with_http().with_http_client(Sender::new($otlp)?).with_headers(pairs($otlp)?);
                    let endpoint = url($otlp, http_path(Signal::$signal))?.to_string();
                    let builder = builder.with_endpoint(endpoint).with_timeout($otlp.timeout);
                    match $otlp.is_compressed {
                        true => builder.with_compression(Compression::Gzip).build()?,
                        false => builder.build()?,
                    }
                }
            })
        }
    };
}

exporter! {
    /// Creates an exporter of log records. Must be called in a Tokio runtime.
    logs -> LogExporter, Logs, |builder, otlp| builder
}
exporter! {
    /// Creates an exporter of metrics. Must be called in a Tokio runtime.
    metrics -> MetricExporter, Metrics, |builder, otlp| builder.with_temporality(match otlp.temporality {
        Temporality::Cumulative => SdkTemporality::Cumulative,
        Temporality::Delta => SdkTemporality::Delta,
        Temporality::LowMemory => SdkTemporality::LowMemory,
    })
}
exporter! {
    /// Creates an exporter of spans. Must be called in a Tokio runtime.
    spans -> SpanExporter, Traces, |builder, otlp| builder
}

fn channel(otlp: &Otlp) -> Result<Channel, OtlpError> {
    let uri = HttpEndpoint::parse(&otlp.endpoint).map_err(OtlpError::Endpoint)?;
    let is_https = uri.scheme_str() == Some("https");
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    // The connector does TLS: tonic is built without it and refuses https URLs.
    let plain = Uri::builder().scheme("http").authority(authority).path_and_query("/").build();
    let plain = plain.map_err(|e| OtlpError::Endpoint(format!("endpoint {:?}: {e}", otlp.endpoint)))?;
    let dial = dial(otlp, is_https, &["h2"])?;
    Ok(Endpoint::from(plain)
        .origin(uri)
        .timeout(otlp.timeout)
        .connect_with_connector_lazy(StreamConnector::new(dial)))
}

fn dial(otlp: &Otlp, is_https: bool, protocols: &[&str]) -> Result<Dial, OtlpError> {
    let tls = match is_https {
        false => UseTls::No,
        true => UseTls::Yes(ClientTls::open(&tls(otlp), protocols)?),
    };
    // An empty URL selects the proxy variables of the environment.
    let proxy = Proxy::parse("").unwrap_or_else(|_| Proxy::none());
    Ok(Dial { tls, proxy, ..Dial::plain() })
}

fn tls(otlp: &Otlp) -> ClientTlsConfig {
    let file = |path: &Option<std::path::PathBuf>| path.clone().unwrap_or_default();
    let common = CommonTlsConfig {
        ca_file: file(&otlp.certificate),
        cert_file: file(&otlp.client_certificate),
        key_file: file(&otlp.client_key),
        ..CommonTlsConfig::default()
    };
    ClientTlsConfig { common, ..ClientTlsConfig::default() }
}

/// Returns the URL of a signal: a configured path is used unchanged.
fn url(otlp: &Otlp, path: &str) -> Result<Uri, OtlpError> {
    let uri = HttpEndpoint::parse(&otlp.endpoint).map_err(OtlpError::Endpoint)?;
    match uri.path() {
        "" | "/" => HttpEndpoint::join(&otlp.endpoint, path).map_err(OtlpError::Endpoint),
        _ => Ok(uri),
    }
}

fn pairs(otlp: &Otlp) -> Result<HashMap<String, String>, OtlpError> {
    // Checked here, since the SDK drops invalid headers silently.
    headers(otlp)?;
    Ok(written(otlp).map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn headers(otlp: &Otlp) -> Result<HeaderMap, OtlpError> {
    let mut map = HeaderMap::new();
    for (name, value) in written(otlp) {
        let refused = || OtlpError::Header(name.to_owned());
        let key = HeaderName::try_from(name).map_err(|_| refused())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| refused())?;
        value.set_sensitive(true);
        map.insert(key, value);
    }
    Ok(map)
}

/// Returns the configured headers; those of `headers_list` come first, so that `headers` overrides them.
fn written(otlp: &Otlp) -> impl Iterator<Item = (&str, &str)> {
    otlp.headers_list.iter().map(|(name, value)| (&**name, &**value)).chain(otlp.headers.iter())
}

/// An HTTP client that sends requests on the runtime, from any thread.
#[derive(Clone)]
struct Sender {
    client: HttpClient,
    runtime: tokio::runtime::Handle,
    timeout: Duration,
}

impl Sender {
    fn new(otlp: &Otlp) -> Result<Self, OtlpError> {
        let client = HttpClient::new(ClientSettings {
            dial: dial(otlp, otlp.endpoint.starts_with("https://"), &["h2", "http/1.1"])?,
            is_http2: false,
            idle_connections_max: IDLE_CONNECTIONS_MAX,
            idle: Some(IDLE),
            closes_connections: false,
            keep_alive: None,
        });
        Ok(Sender { client, runtime: tokio::runtime::Handle::current(), timeout: otlp.timeout })
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let exchange = async {
            let (head, body) = self.client.request(request.map(Parts::from)).await?.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        tokio::time::timeout(self.timeout, exchange).await?
    }
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sender").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

#[async_trait]
impl opentelemetry_http::HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sending = self.runtime.spawn(self.clone().send(request));
        sending.await?
    }
}
