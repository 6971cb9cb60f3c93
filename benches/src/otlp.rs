//! OTLP over gRPC for measuring: a load that is built once and sent many times, and a sink that counts items.
//!
//! Neither takes part in what is measured, which is the process between; both are kept lean all the same, since they
//! share its machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_client::TraceServiceClient;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

/// Data points or spans of one request.
pub const ITEMS: usize = 1000;
/// Senders at once, each with a connection of its own.
const SENDERS: usize = 4;

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Gauges: 100 of 10 points with 5 attributes.
    Metrics,
    /// Spans with 10 attributes.
    Traces,
}

impl Load {
    /// What an item is called.
    pub fn noun(self) -> &'static str {
        match self {
            Load::Metrics => "data points",
            Load::Traces => "spans",
        }
    }
}

fn attributes(count: usize, item: usize) -> Vec<KeyValue> {
    let value = |i| any_value::Value::StringValue(format!("value-{i}-of-{item}"));
    let attribute = |i| KeyValue {
        key: format!("attribute.number.{i}"),
        value: Some(AnyValue { value: Some(value(i)) }),
        ..KeyValue::default()
    };
    (0..count).map(attribute).collect()
}

fn resource() -> Option<Resource> {
    Some(Resource { attributes: attributes(5, 0), ..Resource::default() })
}

fn scope() -> Option<InstrumentationScope> {
    Some(InstrumentationScope { name: "benches".to_owned(), ..InstrumentationScope::default() })
}

const TIME: u64 = 1_700_000_000_000_000_000;

fn metrics() -> ExportMetricsServiceRequest {
    let point = |item| NumberDataPoint {
        attributes: attributes(5, item),
        start_time_unix_nano: TIME,
        time_unix_nano: TIME + item as u64,
        value: Some(number_data_point::Value::AsDouble(item as f64)),
        ..NumberDataPoint::default()
    };
    let gauge = |m: usize| Metric {
        name: format!("a.gauge.{m}"),
        unit: "s".to_owned(),
        data: Some(metric::Data::Gauge(Gauge { data_points: (0..10).map(|p| point(m * 10 + p)).collect() })),
        ..Metric::default()
    };
    let metrics = (0..ITEMS / 10).map(gauge).collect();
    let scope_metrics = vec![ScopeMetrics { scope: scope(), metrics, ..ScopeMetrics::default() }];
    let resource_metrics =
        vec![ResourceMetrics { resource: resource(), scope_metrics, ..ResourceMetrics::default() }];
    ExportMetricsServiceRequest { resource_metrics }
}

fn traces() -> ExportTraceServiceRequest {
    let span = |item: usize| Span {
        trace_id: (item as u128 + 1).to_be_bytes().to_vec(),
        span_id: (item as u64 + 1).to_be_bytes().to_vec(),
        name: "an operation of a service".to_owned(),
        kind: 2,
        start_time_unix_nano: TIME,
        end_time_unix_nano: TIME + item as u64,
        attributes: attributes(10, item),
        ..Span::default()
    };
    let spans = (0..ITEMS).map(span).collect();
    let scope_spans = vec![ScopeSpans { scope: scope(), spans, ..ScopeSpans::default() }];
    let resource_spans =
        vec![ResourceSpans { resource: resource(), scope_spans, ..ResourceSpans::default() }];
    ExportTraceServiceRequest { resource_spans }
}

/// Where the load goes.
#[derive(Debug)]
pub struct Target {
    runtime: Runtime,
    channels: Vec<Channel>,
}

impl Target {
    /// Connects to a receiver that may still be starting.
    pub fn connect(port: u16) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let endpoint = Channel::from_shared(format!("http://localhost:{port}"))?;
        let connect = async {
            let deadline = Instant::now() + Duration::from_secs(20);
            loop {
                match endpoint.connect().await {
                    Ok(channel) => return Ok(channel),
                    Err(e) if Instant::now() > deadline => return Err(e),
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        };
        runtime.block_on(connect)?;
        let connect_all = async {
            let mut channels = Vec::new();
            for _ in 0..SENDERS {
                channels.push(endpoint.connect().await?);
            }
            Ok::<_, tonic::transport::Error>(channels)
        };
        let channels = runtime.block_on(connect_all)?;
        Ok(Target { runtime, channels })
    }

    /// Sends so many requests, and waits for all answers. What is refused for now is sent again.
    pub fn send(&self, load: Load, requests: usize) -> anyhow::Result<()> {
        let each = requests / SENDERS;
        let mut senders = tokio::task::JoinSet::new();
        for channel in self.channels.clone() {
            match load {
                Load::Metrics => senders.spawn_on(send_metrics(channel, each), self.runtime.handle()),
                Load::Traces => senders.spawn_on(send_traces(channel, each), self.runtime.handle()),
            };
        }
        self.runtime.block_on(async {
            while let Some(sent) = senders.join_next().await {
                sent??;
            }
            Ok(())
        })
    }
}

async fn send_metrics(channel: Channel, requests: usize) -> anyhow::Result<()> {
    let (mut client, request) = (MetricsServiceClient::new(channel), metrics());
    for _ in 0..requests {
        while let Err(status) = client.export(request.clone()).await {
            wait_if_retryable(&status).await?;
        }
    }
    Ok(())
}

async fn send_traces(channel: Channel, requests: usize) -> anyhow::Result<()> {
    let (mut client, request) = (TraceServiceClient::new(channel), traces());
    for _ in 0..requests {
        while let Err(status) = client.export(request.clone()).await {
            wait_if_retryable(&status).await?;
        }
    }
    Ok(())
}

async fn wait_if_retryable(status: &Status) -> anyhow::Result<()> {
    if status.code() != tonic::Code::Unavailable {
        bail!("{status}");
    }
    tokio::time::sleep(Duration::from_millis(10)).await;
    Ok(())
}

/// Takes everything and counts it.
#[derive(Debug)]
pub struct Sink {
    // Ends the server.
    _runtime: Runtime,
    port: u16,
    items: Arc<AtomicU64>,
}

#[derive(Clone, Debug)]
struct Counting(Arc<AtomicU64>);

impl Sink {
    /// Listens on a free port.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let listener = runtime.block_on(TcpListener::bind("localhost:0"))?;
        let port = listener.local_addr()?.port();
        let items = Arc::new(AtomicU64::new(0));
        let counting = Counting(items.clone());
        let limit = 64 * 1024 * 1024;
        let server = Server::builder()
            .add_service(MetricsServiceServer::new(counting.clone()).max_decoding_message_size(limit))
            .add_service(TraceServiceServer::new(counting).max_decoding_message_size(limit));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        runtime.spawn(async move { _ = server.serve_with_incoming(incoming).await });
        Ok(Sink { _runtime: runtime, port, items })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until so many items came, no more and no less.
    pub fn wait_for(&self, items: u64, longest: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + longest;
        while self.items.load(Ordering::Relaxed) < items {
            if Instant::now() > deadline {
                bail!("{} items of {items} came within {longest:?}", self.items.load(Ordering::Relaxed));
            }
            thread::sleep(Duration::from_millis(1));
        }
        let came = self.items.load(Ordering::Relaxed);
        (came == items).then_some(()).with_context(|| format!("{came} items came of {items} that were sent"))
    }
}

#[tonic::async_trait]
impl MetricsService for Counting {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let request = request.into_inner();
        let metrics = request.resource_metrics.iter().flat_map(|r| &r.scope_metrics).flat_map(|s| &s.metrics);
        let points = metrics.map(|m| match &m.data {
            Some(metric::Data::Gauge(gauge)) => gauge.data_points.len() as u64,
            _ => 0,
        });
        self.0.fetch_add(points.sum(), Ordering::Relaxed);
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl TraceService for Counting {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let request = request.into_inner();
        let spans = request.resource_spans.iter().flat_map(|r| &r.scope_spans).map(|s| s.spans.len() as u64);
        self.0.fetch_add(spans.sum(), Ordering::Relaxed);
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}
