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
    use component::testing::{Metrics, Started};
    use pdata::Signal;

    const LOGS: &str = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{},{},{}]}]}]}"#;

    /// Sends three log records through a processor; returns its counters and gauges as lines.
    async fn counted(factory: &component::ProcessorFactory, settings: &str) -> Vec<String> {
        let metrics = Metrics::default();
        let started = Started::processor_in(&metrics.host(), factory, settings);
        started.send(pdata::json::decode(Signal::Logs, LOGS.as_bytes()).unwrap()).await.unwrap();
        started.end().await;
        let mut lines = metrics.lines();
        lines.retain(|line| line.contains("}="));
        lines
    }

    #[tokio::test]
    async fn metrics_of_processors_have_the_names_of_the_collector() {
        assert_eq!(
            counted(&crate::memory_limiter::FACTORY, r#"{"check_interval": "1h", "limit_mib": 1}"#).await,
            ["otelcol_processor_memory_limiter_accepted_log_records{processor=memory_limiter}=3"]
        );
        assert_eq!(
            counted(&crate::batch::FACTORY, "{}").await,
            [
                "otelcol_processor_batch_metadata_cardinality{processor=batch}=1",
                "otelcol_processor_batch_timeout_trigger_send{processor=batch}=1"
            ]
        );
        assert_eq!(
            counted(&crate::batch::FACTORY, r#"{"send_batch_size": 3, "timeout": "1h"}"#).await,
            [
                "otelcol_processor_batch_batch_size_trigger_send{processor=batch}=1",
                "otelcol_processor_batch_metadata_cardinality{processor=batch}=1"
            ]
        );
    }
}
