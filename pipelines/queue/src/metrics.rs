//! The collector's own metrics of an exporter, under the Collector's names.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use component::{ComponentId, Host, metrics};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, UpDownCounter};
use pdata::Signal;
use semconv::own_metric;

use crate::Server;

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

impl SignalMetrics {
    fn new(host: &Host, id: &ComponentId, signal: Signal, server: Option<&Server>) -> Self {
        let meter = host.meter();
        let counter = |metric| metrics::u64_counter(meter, metric).build();
        let item_counter = |by_signal: [semconv::Counter; 4]| counter(by_signal[signal as usize]);
        let histogram = |metric| {
            metrics::u64_histogram(meter, metric).with_boundaries(metrics::ITEM_COUNT_BOUNDS.to_vec()).build()
        };
        let exporter = KeyValue::new("exporter", id.to_string());
        let server = server.map(Server::attributes).into_iter().flatten();
        SignalMetrics {
            sent: item_counter(own_metric::OTELCOL_EXPORTER_SENT),
            send_failed: item_counter(own_metric::OTELCOL_EXPORTER_SEND_FAILED),
            enqueue_failed: item_counter(own_metric::OTELCOL_EXPORTER_ENQUEUE_FAILED),
            rejected: item_counter(own_metric::OTELCOL_EXPORTER_REJECTED),
            unreadable: counter(own_metric::OTELCOL_EXPORTER_QUEUE_UNREADABLE_REQUESTS),
            in_flight: metrics::i64_up_down_counter(meter, own_metric::OTELCOL_EXPORTER_IN_FLIGHT_REQUESTS)
                .build(),
            enqueue_size: histogram(own_metric::OTELCOL_EXPORTER_ENQUEUE_SIZE),
            batch_send_size: histogram(own_metric::OTELCOL_EXPORTER_QUEUE_BATCH_SEND_SIZE),
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
        let gauge = |metric, value: fn(&Self) -> u64| {
            let this: Weak<Self> = Arc::downgrade(self);
            let gauge = metrics::u64_observable_gauge(host.meter(), metric).with_callback(move |observer| {
                if let Some(this) = this.upgrade().filter(|this| this.is_used.load(Ordering::Relaxed)) {
                    observer.observe(value(&this), &this.exporter_and_signal);
                }
            });
            let _ = gauge.build();
        };
        gauge(own_metric::OTELCOL_EXPORTER_QUEUE_SIZE, Self::queue_size);
        gauge(own_metric::OTELCOL_EXPORTER_QUEUE_CAPACITY, |this| {
            this.queue_capacity.load(Ordering::Relaxed)
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
