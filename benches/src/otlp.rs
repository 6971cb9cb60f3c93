//! OTLP over gRPC for benchmarks: a load that is encoded once and sent many times, and a sink that counts items.
//!
//! The measured process is the one between them. Both are lean, since they share its machine, and since a slow sink would
//! measure the memory of queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::{
    Gauge, Metric, NumberDataPoint, ResourceMetrics, ScopeMetrics, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
use prost::Message as _;
use prost::bytes::{Buf as _, BufMut as _, Bytes};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

/// Number of data points or spans of one request.
pub const ITEMS: usize = 1000;
/// Number of concurrent senders, each with its own connection.
const SENDERS: usize = 4;

const METRICS_PATH: &str = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export";
const TRACES_PATH: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Protobuf fields that lead to an item: resource, scope, metric, gauge, point; resource, scope, span.
const TO_POINTS: &[u64] = &[1, 2, 2, 5, 1];
const TO_SPANS: &[u64] = &[1, 2, 2];

/// Requests per second of all senders: a rate that every peer sustains, so that its memory is not its queue.
const REQUESTS_PER_SECOND: u32 = 150;

/// Kind of telemetry to send.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// Gauges: 100 of 10 points with 5 attributes.
    Metrics,
    /// Spans with 10 attributes.
    Traces,
}

impl Load {
    /// Returns the name of an item in the plural.
    pub fn noun(self) -> &'static str {
        match self {
            Load::Metrics => "data points",
            Load::Traces => "spans",
        }
    }

    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(match self {
            Load::Metrics => METRICS_PATH,
            Load::Traces => TRACES_PATH,
        })
    }

    fn request(self) -> Bytes {
        match self {
            Load::Metrics => metrics().encode_to_vec().into(),
            Load::Traces => traces().encode_to_vec().into(),
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

/// A codec that passes messages as bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// A client of the measured receiver.
#[derive(Debug)]
pub struct Target {
    runtime: Runtime,
    channels: Vec<Channel>,
}

impl Target {
    /// Connects to a receiver, which may still be starting.
    pub fn connect(port: u16) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let endpoint = Channel::from_shared(format!("http://localhost:{port}"))?;
        let connect = async {
            let deadline = Instant::now() + Duration::from_secs(20);
            let mut channels = Vec::new();
            while channels.len() < SENDERS {
                match endpoint.connect().await {
                    Ok(channel) => channels.push(channel),
                    Err(e) if Instant::now() > deadline => return Err(e),
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
            Ok(channels)
        };
        let channels = runtime.block_on(connect)?;
        Ok(Target { runtime, channels })
    }

    /// Sends `requests` requests and waits for the responses. Requests with a retryable error are sent again.
    pub fn send(&self, load: Load, requests: usize) -> anyhow::Result<()> {
        let (request, mut senders) = (load.request(), tokio::task::JoinSet::new());
        for channel in self.channels.clone() {
            let sending = send(channel, load, request.clone(), requests / SENDERS);
            senders.spawn_on(sending, self.runtime.handle());
        }
        self.runtime.block_on(async {
            while let Some(sent) = senders.join_next().await {
                sent??;
            }
            Ok(())
        })
    }
}

impl Target {
    /// Sends requests one after another, and returns the time to each response in milliseconds.
    pub fn latencies_ms(&self, load: Load, requests: usize) -> anyhow::Result<Vec<f64>> {
        let request = load.request();
        let channel = self.channels.first().context("there is a connection")?.clone();
        self.runtime.block_on(async {
            let mut client = Grpc::new(channel);
            let mut times = Vec::new();
            for _ in 0..requests {
                client.ready().await?;
                let begin = Instant::now();
                client.unary(Request::new(request.clone()), load.path(), Raw).await?;
                times.push(begin.elapsed().as_secs_f64() * 1e3);
            }
            Ok(times)
        })
    }
}

async fn send(channel: Channel, load: Load, request: Bytes, requests: usize) -> anyhow::Result<()> {
    let mut client = Grpc::new(channel);
    let mut pace = tokio::time::interval(Duration::from_secs(1) * SENDERS as u32 / REQUESTS_PER_SECOND);
    for _ in 0..requests {
        pace.tick().await;
        loop {
            client.ready().await?;
            match client.unary(Request::new(request.clone()), load.path(), Raw).await {
                Ok(_) => break,
                Err(status) if status.code() == tonic::Code::Unavailable => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(status) => bail!("{status}"),
            }
        }
    }
    Ok(())
}

/// A server that accepts every request and counts its items.
#[derive(Debug)]
pub struct Sink {
    // Ends the server.
    _runtime: Runtime,
    port: u16,
    items: Arc<AtomicU64>,
}

impl Sink {
    /// Starts a server on a free port.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let listener = runtime.block_on(TcpListener::bind("localhost:0"))?;
        let port = listener.local_addr()?.port();
        let items = Arc::new(AtomicU64::new(0));
        let server =
            Server::builder()
                .add_service(Counting::<true>(items.clone()))
                .add_service(Counting::<false>(items.clone()));
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        runtime.spawn(async move { _ = server.serve_with_incoming(incoming).await });
        Ok(Sink { _runtime: runtime, port, items })
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until `items` items have arrived. Fails after `longest`, or if more arrive.
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

/// The export service of metrics or of traces.
#[derive(Clone, Debug)]
struct Counting<const METRICS: bool>(Arc<AtomicU64>);

impl NamedService for Counting<true> {
    const NAME: &'static str = "opentelemetry.proto.collector.metrics.v1.MetricsService";
}

impl NamedService for Counting<false> {
    const NAME: &'static str = "opentelemetry.proto.collector.trace.v1.TraceService";
}

impl<const METRICS: bool> Service<http::Request<Body>> for Counting<METRICS> {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let counting = self.clone();
        Box::pin(async move {
            let limit = 64 * 1024 * 1024;
            let mut server = tonic::server::Grpc::new(Raw).max_decoding_message_size(limit);
            Ok(server.unary(counting, request).await)
        })
    }
}

impl<const METRICS: bool> UnaryService<Bytes> for Counting<METRICS> {
    type Response = Bytes;
    type Future = BoxFuture<Response<Bytes>, Status>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let path = if METRICS { TO_POINTS } else { TO_SPANS };
        self.0.fetch_add(count(&request.into_inner(), path), Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(Response::new(Bytes::new()))))
    }
}

/// Counts the messages at the end of `path`, a list of protobuf fields, without decoding them.
fn count(message: &[u8], path: &[u64]) -> u64 {
    let Some((first, path)) = path.split_first() else { return 1 };
    let (mut rest, mut found) = (message, 0);
    while let Some((key, length)) = field(&mut rest) {
        let Some((inside, after)) = rest.split_at_checked(length) else { break };
        if key == first << 3 | 2 {
            found += count(inside, path);
        }
        rest = after;
    }
    found
}

/// Consumes the key of a field and returns its number and the length of its value.
fn field(rest: &mut &[u8]) -> Option<(u64, usize)> {
    let key = prost::encoding::decode_varint(rest).ok()?;
    let length = match key & 7 {
        0 => rest.iter().position(|byte| byte & 0x80 == 0)? + 1,
        1 => 8,
        2 => prost::encoding::decode_varint(rest).ok()? as usize,
        5 => 4,
        _ => return None,
    };
    Some((key, length))
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_has_the_stated_number_of_items() {
        assert_eq!(count(&Load::Metrics.request(), TO_POINTS), ITEMS as u64);
        assert_eq!(count(&Load::Traces.request(), TO_SPANS), ITEMS as u64);
    }
}
