//! Instruments of processors in the collector's own metrics, and their common attributes.

use component::{ComponentId, Host, metrics};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;

/// Creates a counter.
pub(crate) fn counter(host: &Host, metric: semconv::Counter) -> Counter<u64> {
    metrics::u64_counter(host.meter(), metric).build()
}

/// Returns the attribute that names the processor.
pub(crate) fn processor(id: &ComponentId) -> KeyValue {
    KeyValue::new("processor", id.to_string())
}

#[cfg(test)]
mod tests {
    use opentelemetry::metrics::MeterProvider as _;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
    use pdata::{Data, Signal};

    use super::*;
    use crate::testing::{Sink, build};

    const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{},{},{}]}]}]}"#;

    /// Sends three log records through a processor; returns the sums that it counted as `name{attributes}=sum`.
    async fn counted(factory: &component::ProcessorFactory, settings: &str) -> Vec<String> {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        let host = Host::new(provider.meter("test"), Default::default());
        let stop = tokio_util::sync::CancellationToken::new();
        let (front, running) = build(factory, settings).unwrap().start(Sink::new(), &host, stop.clone());
        let data: Data = pdata::json::decode(Signal::Logs, LOGS.as_bytes()).unwrap();
        front.consume(data).await.unwrap();
        stop.cancel();
        running.await;
        provider.force_flush().unwrap();
        let mut found = Vec::new();
        for metric in exporter
            .get_finished_metrics()
            .unwrap()
            .iter()
            .flat_map(|r| r.scope_metrics())
            .flat_map(|s| s.metrics())
        {
            let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else { continue };
            for point in sum.data_points() {
                let pairs: Vec<String> =
                    point.attributes().map(|a| format!("{}={}", a.key, a.value)).collect();
                found.push(format!("{}{{{}}}={}", metric.name(), pairs.join(","), point.value()));
            }
        }
        found.sort();
        found
    }

    #[tokio::test]
    async fn metrics_of_processors_have_the_names_of_the_collector() {
        assert_eq!(
            counted(&crate::memory_limiter::FACTORY, r#"{"check_interval": "1h", "limit_mib": 1}"#).await,
            ["otelcol_processor_memory_limiter_accepted_log_records{processor=memory_limiter}=3"]
        );
        assert_eq!(
            counted(&crate::batch::FACTORY, "{}").await,
            ["otelcol_processor_batch_timeout_trigger_send{processor=batch}=1"]
        );
        assert_eq!(
            counted(&crate::batch::FACTORY, r#"{"send_batch_size": 3, "timeout": "1h"}"#).await,
            ["otelcol_processor_batch_batch_size_trigger_send{processor=batch}=1"]
        );
    }
}
