//! Exporters of OTLP, made by the crate `opentelemetry-otlp` over connections of our own, so that TLS,
//! proxies and addresses are what they are everywhere here.

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
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use transport::Parts;
use transport::Proxy;
use transport::client::{ClientSettings, HttpClient};
use transport::connect::{Connector, Dial, UseTls};
use transport::endpoint::HttpEndpoint;
use transport::tls::{ClientTls, ClientTlsConfig, CommonTlsConfig};

use crate::config::telemetry::{Otlp, Protocol, Temporality};

/// How large an answer may be.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Connections that wait for the next export: there is one at a time.
const IDLE_CONNECTIONS_MAX: usize = 1;
const IDLE: Duration = Duration::from_secs(90);

/// An exporter that cannot be made of what the configuration says.
#[derive(Debug, thiserror::Error)]
pub enum OtlpError {
    /// Its endpoint.
    #[error("{0}")]
    Endpoint(String),
    /// Its headers.
    #[error("header {0:?} cannot be sent: expected a name and a value of HTTP")]
    Header(String),
    /// Its certificates.
    #[error(transparent)]
    Tls(#[from] transport::tls::TlsError),
    /// Anything else.
    #[error(transparent)]
    Build(#[from] ExporterBuildError),
}

/// One of the three exporters, which have the same builder three times.
macro_rules! exporter {
    ($(#[$doc:meta])* $name:ident -> $exporter:ident, $path:literal, |$builder:ident, $otlp:ident| $with:expr) => {
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
                    let endpoint = url($otlp, $path)?.to_string();
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
    /// Of log records. Needs a runtime around it.
    logs -> LogExporter, "/v1/logs", |builder, otlp| builder
}
exporter! {
    /// Of metrics. Needs a runtime around it.
    metrics -> MetricExporter, "/v1/metrics", |builder, otlp| builder.with_temporality(match otlp.temporality {
        Temporality::Cumulative => SdkTemporality::Cumulative,
        Temporality::Delta => SdkTemporality::Delta,
        Temporality::LowMemory => SdkTemporality::LowMemory,
    })
}
exporter! {
    /// Of spans. Needs a runtime around it.
    spans -> SpanExporter, "/v1/traces", |builder, otlp| builder
}

fn channel(otlp: &Otlp) -> Result<Channel, OtlpError> {
    let uri = HttpEndpoint::parse(&otlp.endpoint).map_err(OtlpError::Endpoint)?;
    let is_https = uri.scheme_str() == Some("https");
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    // TLS is the connector's: tonic, built without any, refuses to connect to what begins with https.
    let plain = Uri::builder().scheme("http").authority(authority).path_and_query("/").build();
    let plain = plain.map_err(|e| OtlpError::Endpoint(format!("endpoint {:?}: {e}", otlp.endpoint)))?;
    let dial = dial(otlp, is_https, &["h2"])?;
    Ok(Endpoint::from(plain)
        .origin(uri)
        .timeout(otlp.timeout)
        .connect_with_connector_lazy(Connector::new(dial)))
}

fn dial(otlp: &Otlp, is_https: bool, protocols: &[&str]) -> Result<Dial, OtlpError> {
    let tls = match is_https {
        false => UseTls::No,
        true => UseTls::Yes(ClientTls::open(&tls(otlp), protocols)?),
    };
    // No URL: whatever the environment says.
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

/// The URL of a signal: a path that is written is taken as it is.
fn url(otlp: &Otlp, path: &str) -> Result<Uri, OtlpError> {
    let uri = HttpEndpoint::parse(&otlp.endpoint).map_err(OtlpError::Endpoint)?;
    match uri.path() {
        "" | "/" => HttpEndpoint::join(&otlp.endpoint, path).map_err(OtlpError::Endpoint),
        _ => Ok(uri),
    }
}

fn pairs(otlp: &Otlp) -> Result<HashMap<String, String>, OtlpError> {
    // Checked here: what does not fit would be left out without a word.
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

/// Those of the list first, so that those with a name of their own win.
fn written(otlp: &Otlp) -> impl Iterator<Item = (&str, &str)> {
    otlp.headers_list.iter().map(|(name, value)| (&**name, &**value)).chain(otlp.headers.iter())
}

/// Sends requests on the runtime, whatever thread asks for it.
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
            let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
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
