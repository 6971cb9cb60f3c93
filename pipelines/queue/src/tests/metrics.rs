//! The names and attributes of the metrics.

use component::Code;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, GaugeDataPoint, HistogramDataPoint, MetricData, ResourceMetrics, SumDataPoint,
};

use super::*;

/// Formats sums and gauges as `name{attributes}=value`, and histograms as `name{attributes}: count, sum`.
fn lines(read: &[ResourceMetrics]) -> Vec<String> {
    let mut lines = Vec::new();
    let metrics = read.iter().flat_map(ResourceMetrics::scope_metrics).flat_map(|s| s.metrics());
    for metric in metrics {
        let name = metric.name().trim_start_matches("otelcol_exporter_");
        let mut add = |attributes: Vec<String>, value: String| {
            let mut attributes = attributes;
            attributes.sort();
            lines.push(format!("{name}{{{}}}{value}", attributes.join(",")));
        };
        macro_rules! of {
            ($points:expr, $value:expr) => {
                for point in $points {
                    let attributes = point.attributes().map(|a| format!("{}={}", a.key, a.value)).collect();
                    add(attributes, $value(point));
                }
            };
        }
        match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(s)) => {
                of!(s.data_points(), |p: &SumDataPoint<u64>| format!("={}", p.value()))
            }
            AggregatedMetrics::I64(MetricData::Sum(s)) => {
                of!(s.data_points(), |p: &SumDataPoint<i64>| format!("={}", p.value()))
            }
            AggregatedMetrics::U64(MetricData::Gauge(g)) => {
                of!(g.data_points(), |p: &GaugeDataPoint<u64>| format!("={}", p.value()))
            }
            AggregatedMetrics::U64(MetricData::Histogram(h)) => {
                of!(h.data_points(), |p: &HistogramDataPoint<u64>| format!(": {}, {}", p.count(), p.sum()))
            }
            other => panic!("{name}: {other:?}"),
        }
    }
    lines.sort();
    lines
}

#[tokio::test]
async fn metrics_have_the_collectors_names_and_attributes() {
    let destination = Destination::answering([Refused::new(Code::InvalidArgument, "code = Unavailable")]);
    let queue = QueueConfig {
        queue_size: 12,
        sizer: Some(Sizer::Items),
        batch: ::config::Optional::some(QueueBatchConfig { min_size: 0, ..QueueBatchConfig::default() }),
        num_consumers: 1,
        ..QueueConfig::default()
    };
    let stack = Stack::on(&destination, Some(queue), None).await;
    stack.input.consume(spans(5)).await.unwrap();
    stack.input.consume(spans(7)).await.unwrap();
    stack.input.consume(spans(13)).await.unwrap_err();
    stack.metrics.of(Signal::Traces).rejected(2);
    stack.stop.cancel();
    stack.work.await;
    let found = lines(&stack.observed.collect());
    let found: Vec<&str> = found
        .iter()
        .map(String::as_str)
        .filter(|line| !line.contains("logs") && !line.contains("metrics"))
        .collect();
    let found: Vec<&str> = found.into_iter().filter(|line| !line.contains("profiles")).collect();
    assert_eq!(
        found,
        [
            "enqueue_failed_spans{exporter=otlp_grpc/x}=13",
            "enqueue_size{exporter=otlp_grpc/x}: 2, 12",
            "in_flight_requests{data_type=traces,exporter=otlp_grpc/x}=0",
            "queue_batch_send_size{exporter=otlp_grpc/x}: 2, 12",
            "queue_capacity{data_type=traces,exporter=otlp_grpc/x}=12",
            "queue_size{data_type=traces,exporter=otlp_grpc/x}=0",
            "rejected_spans{exporter=otlp_grpc/x,server.address=h,server.port=4317,url.path=/v1/traces}=2",
            "send_failed_spans{error.permanent=true,error.type=InvalidArgument,exporter=otlp_grpc/x,server.address=h,server.port=4317,url.path=/v1/traces}=5",
            "sent_spans{exporter=otlp_grpc/x,server.address=h,server.port=4317,url.path=/v1/traces}=7",
        ]
    );
}
