//! A server of the internal metrics at `/metrics`, which collects them for each request, and adds the latest ones of a
//! Collector that runs delegated components.

mod families;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use component::status::State;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use pdata::Data;
use prometheus_text::{Families, Family, Kind, Measured, Sample, TextFormat};
use tokio_util::sync::CancellationToken;
use transport::endpoint::join_host_port;
use transport::listen::{Address, Listener, Transport};
use transport::serve::{Handler, ServerSettings};

use super::TelemetryError;
use super::meters::Source;
use crate::config::telemetry::Prometheus;

/// Maximum time to receive the head of a request, and for a connection to be idle, as in the Collector.
const HEAD_MAX: Duration = Duration::from_secs(5);
const IDLE_MAX: Duration = Duration::from_secs(120);

/// The label of metrics of a Collector that runs delegated components: some are metrics of every collector.
const CHILD: [(&str, &str); 1] = [("delegated", "true")];

/// A server that listens and does not respond yet.
pub(super) struct Server {
    listener: Listener,
    handler: MetricsHandler,
}

#[derive(Clone)]
struct MetricsHandler {
    source: Source,
    state: Arc<State>,
    settings: Arc<Prometheus>,
    failed: Arc<AtomicU64>,
}

impl Server {
    /// Binds the configured address.
    pub(super) async fn bind(
        settings: &Prometheus,
        source: Source,
        state: Arc<State>,
    ) -> Result<Self, TelemetryError> {
        let endpoint = join_host_port(&settings.host, settings.port);
        let listener = Listener::bind(&endpoint, Transport::Tcp).await;
        let listener = listener.map_err(|reason| TelemetryError::Listen { endpoint, reason })?;
        let settings = Arc::new(settings.clone());
        let handler = MetricsHandler { source, state, settings, failed: Arc::default() };
        Ok(Server { listener, handler })
    }

    /// Returns the address it listens on.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        match self.listener.address() {
            Address::Tcp(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// Responds to requests until `stop`.
    pub(super) async fn run(self, stop: CancellationToken) {
        let settings = ServerSettings {
            head_max: Some(HEAD_MAX),
            idle_max: IDLE_MAX,
            ..ServerSettings::named("service::telemetry::metrics")
        };
        transport::serve::run(self.listener, None, settings, self.handler, stop).await;
    }
}

impl Handler for MetricsHandler {
    type Body = Full<Bytes>;

    async fn handle(
        &self,
        request: Request<Incoming>,
        _: Option<SocketAddr>,
    ) -> io::Result<Response<Full<Bytes>>> {
        if request.uri().path() != "/metrics" {
            return Ok(plain(StatusCode::NOT_FOUND, "404 page not found\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, "405 method not allowed, supported: [GET]\n"));
        }
        let accept = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
        // OpenMetrics requires counters to end in `_total`, which they do only with suffixes.
        let format = TextFormat::negotiate(accept.unwrap_or_default(), self.settings.has_suffixes);
        Ok(match self.metrics(format) {
            Ok(text) => respond(StatusCode::OK, format.content_type(), text),
            Err(error) => {
                plain(StatusCode::INTERNAL_SERVER_ERROR, format!("failed to collect metrics: {error}\n"))
            }
        })
    }
}

impl MetricsHandler {
    fn metrics(&self, format: TextFormat) -> Result<String, opentelemetry_sdk::error::OTelSdkError> {
        let collected = self.source.collect().inspect_err(|_| {
            self.failed.fetch_add(1, Ordering::Relaxed);
        })?;
        let own = ExportMetricsServiceRequest::from(&collected).resource_metrics;
        let mut families = Families::new(self.settings.has_suffixes);
        families::add(&mut families, &own, &self.settings, &[]);
        if let Some(Data::Metrics(child)) = self.state.child_metrics() {
            families::add(&mut families, &child.into_inner().resource_metrics, &self.settings, &CHILD);
        }
        families.add(self.errors(), "");
        Ok(families.write(format))
    }

    /// Returns the error counters of the server under the Collector's name.
    fn errors(&self) -> Family {
        let sample = |cause: &str, count: u64| Sample {
            labels: vec![("cause".to_owned(), cause.to_owned())],
            value: Measured::Number(count as f64),
        };
        Family {
            name: "promhttp_metric_handler_errors_total".to_owned(),
            help: "Total number of internal errors encountered by the promhttp metric handler.".to_owned(),
            kind: Kind::Counter,
            // Encoding cannot fail.
            samples: vec![sample("encoding", 0), sample("gathering", self.failed.load(Ordering::Relaxed))],
        }
    }
}

fn plain(status: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    respond(status, "text/plain; charset=utf-8", text.into())
}

fn respond(status: StatusCode, content_type: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
