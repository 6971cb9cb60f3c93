//! The metrics of an exporter as OpenTelemetry's SDK exports them.

use std::sync::Arc;

use component::Host;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

/// A meter provider whose metrics can be read back.
pub struct Observed {
    exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

/// The counters of the signal `traces`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Items that the destination accepted.
    pub sent: u64,
    /// Items that were dropped after a refusal.
    pub send_failed: u64,
    /// Items that the queue refused.
    pub enqueue_failed: u64,
    /// Stored requests that could not be read.
    pub unreadable_requests: u64,
}

impl Observed {
    /// Creates a provider without metrics.
    pub fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Observed { exporter, provider }
    }

    /// Returns a host whose components record to this provider.
    pub fn host(&self) -> Host {
        Host::new(self.provider.meter("test"), Arc::default())
    }

    /// Collects all metrics.
    pub fn collect(&self) -> Vec<ResourceMetrics> {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        self.exporter.get_finished_metrics().unwrap()
    }

    /// Collects the counters.
    pub fn counts(&self) -> Counts {
        let collected = self.collect();
        let sum = |name: &str| sum(&collected, &format!("otelcol_exporter_{name}"));
        Counts {
            sent: sum("sent_spans"),
            send_failed: sum("send_failed_spans"),
            enqueue_failed: sum("enqueue_failed_spans"),
            unreadable_requests: sum("queue_unreadable_requests"),
        }
    }
}

/// Adds up the points of a counter.
fn sum(collected: &[ResourceMetrics], name: &str) -> u64 {
    let scopes = collected.iter().flat_map(ResourceMetrics::scope_metrics);
    let metrics = scopes.flat_map(|scope| scope.metrics()).filter(|metric| metric.name() == name);
    let points = |data: &AggregatedMetrics| -> u64 {
        match data {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                sum.data_points().map(|point| point.value()).sum()
            }
            other => panic!("{name}: {other:?}"),
        }
    };
    metrics.map(|metric| points(metric.data())).sum::<u64>()
}
