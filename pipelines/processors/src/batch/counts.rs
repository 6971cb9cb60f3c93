//! The collector's own metrics of a `batch` processor.

use component::{ComponentId, Host, metrics};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};
use semconv::own_metric;

use super::holder::Trigger;
use crate::telemetry;

/// The metrics of one processor. The size in bytes is not measured, since it would be computed for every batch.
pub(super) struct Instruments {
    send_size: Histogram<u64>,
    size_triggers: Counter<u64>,
    timeout_triggers: Counter<u64>,
    dropped_items: Counter<u64>,
    cardinality: UpDownCounter<i64>,
    processor: [KeyValue; 1],
}

impl Instruments {
    pub(super) fn new(id: &ComponentId, host: &Host) -> Self {
        let counter = |metric| telemetry::counter(host, metric);
        let send_size =
            metrics::u64_histogram(host.meter(), own_metric::OTELCOL_PROCESSOR_BATCH_BATCH_SEND_SIZE);
        let cardinality = own_metric::OTELCOL_PROCESSOR_BATCH_METADATA_CARDINALITY;
        Instruments {
            send_size: send_size.with_boundaries(metrics::ITEM_COUNT_BOUNDS.to_vec()).build(),
            size_triggers: counter(own_metric::OTELCOL_PROCESSOR_BATCH_BATCH_SIZE_TRIGGER_SEND),
            timeout_triggers: counter(own_metric::OTELCOL_PROCESSOR_BATCH_TIMEOUT_TRIGGER_SEND),
            dropped_items: counter(own_metric::OTELCOL_PROCESSOR_BATCH_DROPPED_ITEMS),
            cardinality: metrics::i64_up_down_counter(host.meter(), cardinality).build(),
            processor: [telemetry::processor(id)],
        }
    }

    pub(super) fn sent(&self, trigger: Trigger, items: usize) {
        let triggers = match trigger {
            Trigger::Size => &self.size_triggers,
            Trigger::Timeout => &self.timeout_triggers,
        };
        triggers.add(1, &self.processor);
        self.send_size.record(items as u64, &self.processor);
    }

    pub(super) fn dropped(&self, items: usize) {
        self.dropped_items.add(items as u64, &self.processor);
    }

    /// Counts a new combination of metadata.
    pub(super) fn began(&self) {
        self.cardinality.add(1, &self.processor);
    }
}
