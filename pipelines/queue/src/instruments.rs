//! The collector's own metrics of an exporter, by the Collector's names.

use std::sync::{Arc, Weak};

use component::{ComponentId, Host, Signal};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};

use crate::{Server, Tally};

/// The bounds of a histogram of items.
const ITEM_BOUNDS: [f64; 22] = [
    10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0,
    7000.0, 8000.0, 9000.0, 10_000.0, 20_000.0, 30_000.0, 50_000.0, 100_000.0,
];

/// The instruments of one signal of one exporter.
#[derive(Debug)]
pub(crate) struct Instruments {
    sent: Counter<u64>,
    send_failed: Counter<u64>,
    enqueue_failed: Counter<u64>,
    rejected: Counter<u64>,
    in_flight: UpDownCounter<i64>,
    enqueue_size: Histogram<u64>,
    batch_send_size: Histogram<u64>,
    whose: KeyValue,
    of_what: KeyValue,
    /// Whose it is, and where it goes.
    sending: Vec<KeyValue>,
}

#[expect(clippy::disallowed_methods, reason = "the Collector's names: our registry does not define them")]
impl Instruments {
    pub(crate) fn new(host: &Host, id: &ComponentId, signal: Signal, server: Option<&Server>) -> Self {
        let (meter, items) = (host.meter(), items_of(signal));
        let counter = |what: &str, means: &str| {
            let words = items.replace('_', " ");
            let named = meter.u64_counter(format!("otelcol_exporter_{what}_{items}"));
            named.with_description(format!("How many {words} {means} [Alpha]")).build()
        };
        let histogram = |what: &str, means: &'static str| {
            let named = meter.u64_histogram(format!("otelcol_exporter_{what}"));
            named.with_boundaries(ITEM_BOUNDS.to_vec()).with_description(means).build()
        };
        let in_flight = meter.i64_up_down_counter("otelcol_exporter_in_flight_requests");
        let whose = KeyValue::new("exporter", id.to_string());
        let place = server.map(Server::attributes).into_iter().flatten();
        Instruments {
            sent: counter("sent", "the destination took"),
            send_failed: counter("send_failed", "were given up or refused for good"),
            enqueue_failed: counter("enqueue_failed", "the sending queue had no room for"),
            rejected: counter("rejected", "the destination left out of requests that it took"),
            in_flight: in_flight
                .with_description("Requests that are being sent or tried again [Alpha]")
                .build(),
            enqueue_size: histogram("enqueue_size", "Items of each request that came to the queue [Alpha]"),
            batch_send_size: histogram("queue_batch_send_size", "Items of each batch that was sent [Alpha]"),
            sending: std::iter::once(whose.clone()).chain(place).collect(),
            whose,
            of_what: KeyValue::new("data_type", signal.name()),
        }
    }

    pub(crate) fn sent(&self, items: u64) {
        self.sent.add(items, &self.sending);
    }

    pub(crate) fn send_failed(&self, items: u64, why: &'static str, is_permanent: bool) {
        // Shown from the first failure on, as in the Collector, so that a rate of it begins at zero.
        self.sent(0);
        let why = KeyValue::new("error.type", why);
        let attributes = [&self.sending[..], &[why, KeyValue::new("error.permanent", is_permanent)]].concat();
        self.send_failed.add(items, &attributes);
    }

    pub(crate) fn enqueue_failed(&self, items: u64) {
        self.enqueue_failed.add(items, std::slice::from_ref(&self.whose));
    }

    /// What a partial success left out. The Collector says it in its log alone.
    pub(crate) fn rejected(&self, items: u64) {
        self.rejected.add(items, &self.sending);
    }

    pub(crate) fn in_flight(&self, by: i64) {
        self.in_flight.add(by, &[self.whose.clone(), self.of_what.clone()]);
    }

    pub(crate) fn enqueued(&self, items: u64) {
        self.enqueue_size.record(items, std::slice::from_ref(&self.whose));
    }

    pub(crate) fn batch_sent(&self, items: u64) {
        self.batch_send_size.record(items, std::slice::from_ref(&self.whose));
    }

    /// Has the meter ask for the size of a queue as long as that is there, once something came to it: a signal
    /// that no pipeline uses has no queue to speak of.
    pub(crate) fn watch_queue(meter: &Meter, id: &ComponentId, signal: Signal, tally: &Arc<Tally>) {
        let whose = [KeyValue::new("exporter", id.to_string()), KeyValue::new("data_type", signal.name())];
        let gauge = |name: &'static str, means: &'static str, value: fn(&Tally) -> u64| {
            let (tally, whose): (Weak<Tally>, _) = (Arc::downgrade(tally), whose.clone());
            let gauge = meter.u64_observable_gauge(name).with_description(means);
            let observing = gauge.with_callback(move |observer| {
                if let Some(tally) = tally.upgrade().filter(|tally| tally.is_used()) {
                    observer.observe(value(&tally), &whose);
                }
            });
            let _ = observing.build();
        };
        let (size, capacity) = ("What the sending queue holds [Alpha]", "What it has room for [Alpha]");
        gauge("otelcol_exporter_queue_size", size, Tally::queue_size);
        gauge("otelcol_exporter_queue_capacity", capacity, Tally::queue_capacity);
    }
}

/// What the items of a signal are called in the names of metrics.
fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Logs => "log_records",
        Signal::Metrics => "metric_points",
        Signal::Traces => "spans",
        Signal::Profiles => "profile_samples",
    }
}
