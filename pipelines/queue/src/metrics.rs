//! The collector's own metrics of an exporter, under the Collector's names.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use component::{ComponentId, Host};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};
use pdata::Signal;

use crate::Server;

/// The bucket bounds of a histogram of items.
const ITEM_BOUNDS: [f64; 22] = [
    10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0,
    7000.0, 8000.0, 9000.0, 10_000.0, 20_000.0, 30_000.0, 50_000.0, 100_000.0,
];

/// The metrics of one exporter, by signal.
#[derive(Debug)]
pub struct ExporterMetrics([Arc<SignalMetrics>; Signal::ALL.len()]);

impl ExporterMetrics {
    /// Creates the instruments of an exporter without a server address.
    pub fn new(host: &Host, id: &ComponentId) -> Arc<Self> {
        Self::with_servers(host, id, [const { None }; Signal::ALL.len()])
    }

    /// Creates the instruments of an exporter that sends to these servers, in the order of [`Signal::ALL`].
    pub fn with_servers(
        host: &Host,
        id: &ComponentId,
        servers: [Option<Server>; Signal::ALL.len()],
    ) -> Arc<Self> {
        let mut servers = servers.into_iter();
        let metrics = Signal::ALL.map(|signal| {
            let server = servers.next().flatten();
            Arc::new(SignalMetrics::new(host, id, signal, server.as_ref()))
        });
        Arc::new(ExporterMetrics(metrics))
    }

    /// Returns the metrics of one signal.
    pub fn of(&self, signal: Signal) -> &Arc<SignalMetrics> {
        &self.0[signal as usize]
    }
}

/// The instruments of one exporter for one signal, and the values that its observable gauges read.
#[derive(Debug)]
pub struct SignalMetrics {
    sent: Counter<u64>,
    send_failed: Counter<u64>,
    enqueue_failed: Counter<u64>,
    rejected: Counter<u64>,
    unreadable: Counter<u64>,
    in_flight: UpDownCounter<i64>,
    enqueue_size: Histogram<u64>,
    batch_send_size: Histogram<u64>,
    queue_size: AtomicU64,
    queue_capacity: AtomicU64,
    /// Whether the queue was ever used.
    is_used: AtomicBool,
    /// Attributes: the exporter.
    exporter: [KeyValue; 1],
    /// Attributes: the exporter and the signal.
    exporter_and_signal: [KeyValue; 2],
    /// Attributes: the exporter and the server.
    exporter_and_server: Vec<KeyValue>,
}

#[expect(clippy::disallowed_methods, reason = "the Collector's names: our registry does not define them")]
impl SignalMetrics {
    fn new(host: &Host, id: &ComponentId, signal: Signal, server: Option<&Server>) -> Self {
        let (meter, items) = (host.meter(), items_of(signal));
        let counter = |name: &str, description: &str| {
            let items = items.replace('_', " ");
            let builder = meter.u64_counter(format!("otelcol_exporter_{name}"));
            builder.with_description(format!("Number of {items} {description} [Alpha]")).build()
        };
        let item_counter = |name: &str, text: &str| counter(&format!("{name}_{items}"), text);
        let histogram = |name: &str, description: &'static str| {
            let builder = meter.u64_histogram(format!("otelcol_exporter_{name}"));
            builder.with_boundaries(ITEM_BOUNDS.to_vec()).with_description(description).build()
        };
        let unreadable = meter.u64_counter("otelcol_exporter_queue_unreadable_requests");
        let in_flight = meter.i64_up_down_counter("otelcol_exporter_in_flight_requests");
        let exporter = KeyValue::new("exporter", id.to_string());
        let server = server.map(Server::attributes).into_iter().flatten();
        SignalMetrics {
            sent: item_counter("sent", "that the destination accepted"),
            send_failed: item_counter("send_failed", "that were refused or whose retries ended"),
            enqueue_failed: item_counter("enqueue_failed", "that did not fit in the sending queue"),
            rejected: item_counter("rejected", "that the destination rejected in partial successes"),
            unreadable: unreadable
                .with_description("Number of stored requests dropped because they could not be read [Alpha]")
                .build(),
            in_flight: in_flight
                .with_description("Number of requests that are being sent or retried [Alpha]")
                .build(),
            enqueue_size: histogram("enqueue_size", "Items of each request that entered the queue [Alpha]"),
            batch_send_size: histogram("queue_batch_send_size", "Items of each batch that was sent [Alpha]"),
            queue_size: AtomicU64::default(),
            queue_capacity: AtomicU64::default(),
            is_used: AtomicBool::default(),
            exporter_and_signal: [exporter.clone(), KeyValue::new("data_type", signal.name())],
            exporter_and_server: std::iter::once(exporter.clone()).chain(server).collect(),
            exporter: [exporter],
        }
    }

    /// Counts items that a partial success rejected. They must not be sent again.
    pub fn rejected(&self, items: u64) {
        self.rejected.add(items, &self.exporter_and_server);
    }

    /// Returns the size of the queue, in units of its sizer.
    pub fn queue_size(&self) -> u64 {
        self.queue_size.load(Ordering::Relaxed)
    }

    /// Counts items that the destination accepted, including those of a partial success, as the Collector does.
    pub(crate) fn sent(&self, items: usize) {
        self.sent.add(items as u64, &self.exporter_and_server);
    }

    /// Counts items that were dropped after a refusal.
    pub(crate) fn send_failed(&self, items: usize, error_type: &'static str, is_permanent: bool) {
        // Shown from the first failure on, as in the Collector, so that a rate of it begins at zero.
        self.sent(0);
        let error = [KeyValue::new("error.type", error_type), KeyValue::new("error.permanent", is_permanent)];
        self.send_failed.add(items as u64, &[&self.exporter_and_server[..], &error].concat());
    }

    /// Counts items that are dropped because the exporter stops.
    pub(crate) fn dropped_at_shutdown(&self, items: usize) {
        self.send_failed(items, "Shutdown", false);
    }

    /// Counts items that the queue refused.
    pub(crate) fn enqueue_failed(&self, items: usize) {
        self.is_used.store(true, Ordering::Relaxed);
        self.enqueue_failed.add(items as u64, &self.exporter);
    }

    /// Records the items of a request that entered the queue.
    pub(crate) fn enqueued(&self, items: usize) {
        self.enqueue_size.record(items as u64, &self.exporter);
    }

    /// Records the items of a batch.
    pub(crate) fn batch_sent(&self, items: usize) {
        self.batch_send_size.record(items as u64, &self.exporter);
    }

    /// Counts a stored request, or index, that cannot be read and is dropped.
    pub(crate) fn unreadable(&self) {
        self.unreadable.add(1, &self.exporter_and_signal);
    }

    /// Counts one request as in flight until the returned value is dropped.
    pub(crate) fn in_flight(&self) -> InFlight<'_> {
        self.in_flight.add(1, &self.exporter_and_signal);
        InFlight(self)
    }

    pub(crate) fn set_queue_capacity(&self, capacity: u64) {
        self.queue_capacity.store(capacity, Ordering::Relaxed);
    }

    pub(crate) fn set_queue_size(&self, size: u64) {
        self.is_used.fetch_or(size > 0, Ordering::Relaxed);
        self.queue_size.store(size, Ordering::Relaxed);
    }

    pub(crate) fn grow(&self, size: u64) {
        self.is_used.store(true, Ordering::Relaxed);
        self.queue_size.fetch_add(size, Ordering::Relaxed);
    }

    pub(crate) fn shrink(&self, size: u64) {
        self.queue_size.fetch_sub(size, Ordering::Relaxed);
    }

    /// Registers the gauges of the queue. They report nothing before the queue is used (the queue of a signal
    /// without a pipeline never is) and after `self` is dropped.
    pub(crate) fn observe_queue(self: &Arc<Self>, host: &Host) {
        let gauge = |name: &'static str, description: &'static str, value: fn(&Self) -> u64| {
            let metrics: Weak<Self> = Arc::downgrade(self);
            let gauge = host.meter().u64_observable_gauge(name).with_description(description);
            let gauge = gauge.with_callback(move |observer| {
                if let Some(metrics) = metrics.upgrade().filter(|m| m.is_used.load(Ordering::Relaxed)) {
                    observer.observe(value(&metrics), &metrics.exporter_and_signal);
                }
            });
            let _ = gauge.build();
        };
        gauge("otelcol_exporter_queue_size", "Size of the sending queue [Alpha]", Self::queue_size);
        gauge("otelcol_exporter_queue_capacity", "Capacity of the sending queue [Alpha]", |metrics| {
            metrics.queue_capacity.load(Ordering::Relaxed)
        });
    }
}

/// One request in flight; it ends when this is dropped.
pub(crate) struct InFlight<'a>(&'a SignalMetrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.add(-1, &self.0.exporter_and_signal);
    }
}

/// Returns the name of a signal's items in metric names.
fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Logs => "log_records",
        Signal::Metrics => "metric_points",
        Signal::Traces => "spans",
        Signal::Profiles => "profile_samples",
    }
}
