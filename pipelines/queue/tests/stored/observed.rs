//! The counters of an exporter, as the OpenTelemetry SDK exports them.

use component::testing::Metrics;

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

/// Collects the counters.
pub fn counts(metrics: &Metrics) -> Counts {
    let sum = |name: &str| metrics.sum(&format!("otelcol_exporter_{name}"));
    Counts {
        sent: sum("sent_spans"),
        send_failed: sum("send_failed_spans"),
        enqueue_failed: sum("enqueue_failed_spans"),
        unreadable_requests: sum("queue_unreadable_requests"),
    }
}
