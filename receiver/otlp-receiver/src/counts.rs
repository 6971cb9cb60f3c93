//! The Collector's counters `otelcol_receiver_*`, per protocol and signal.
//!
//! Refused items were refused by the pipelines. Failed items have no outcome, because the sender disconnected or
//! the receiver stopped first. Accepted, refused and failed items add up to all items received.

use component::{ComponentId, Host, metrics};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use pdata::Signal;
use semconv::own_metric;

use crate::Protocol;

/// The outcome of a decoded request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The pipelines accepted it.
    Accepted,
    /// The pipelines refused it.
    Refused,
    /// The outcome is unknown.
    Failed,
}

/// The counters of items of each outcome, by signal, and the value of the attribute `outcome`.
const OUTCOMES: [([semconv::Counter; Signal::ALL.len()], &str); 3] = [
    (own_metric::OTELCOL_RECEIVER_ACCEPTED, "success"),
    (own_metric::OTELCOL_RECEIVER_REFUSED, "refused"),
    (own_metric::OTELCOL_RECEIVER_FAILED, "failure"),
];

/// The counters of one receiver for one protocol.
#[derive(Debug)]
pub(crate) struct Counts {
    /// Of items, by outcome and signal.
    items: [[Counter<u64>; Signal::ALL.len()]; OUTCOMES.len()],
    requests: Counter<u64>,
    attributes: [KeyValue; 2],
}

impl Counts {
    pub(crate) fn new(host: &Host, receiver: &ComponentId, protocol: Protocol) -> Self {
        let counter = |metric| metrics::u64_counter(host.meter(), metric).build();
        let items = OUTCOMES.map(|(by_signal, _)| by_signal.map(counter));
        let requests = counter(own_metric::OTELCOL_RECEIVER_REQUESTS);
        let attributes =
            [KeyValue::new("receiver", receiver.to_string()), KeyValue::new("transport", protocol.name())];
        Counts { items, requests, attributes }
    }

    pub(crate) fn add(&self, signal: Signal, items: usize, outcome: Outcome) {
        // The others are shown from the start, as in the Collector, so that a rate of theirs begins at zero.
        for (index, counters) in self.items.iter().enumerate() {
            let items = if index == outcome as usize { items as u64 } else { 0 };
            counters[signal as usize].add(items, &self.attributes);
        }
        let [receiver, transport] = self.attributes.clone();
        let (_, outcome) = OUTCOMES[outcome as usize];
        self.requests.add(1, &[receiver, transport, KeyValue::new("outcome", outcome)]);
    }
}
