//! The names and attributes of the metrics.

use component::Code;

use super::*;

#[tokio::test]
async fn metrics_have_the_collectors_names_and_attributes() {
    let destination = refusing([Refused::new(Code::InvalidArgument, "code = Unavailable")]);
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
    let lines = stack.own.lines();
    let lines = lines.iter().map(|line| line.trim_start_matches("otelcol_exporter_"));
    let others = ["logs", "metrics", "profiles"];
    let found: Vec<&str> = lines.filter(|line| !others.iter().any(|other| line.contains(other))).collect();
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
