//! What was accepted, refused and failed: the Collector's `otelcol_receiver_*`, per protocol and signal.
//!
//! Refused is what the pipelines refused; failed is what was never answered, because the sender hung up or
//! the receiver stopped before the pipelines were done. Accepted, refused and failed are all there was.

use component::{ComponentId, Host};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use pdata::Signal;

use crate::Protocol;

/// What became of a request that was decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Outcome {
    /// The pipelines took it.
    Accepted,
    /// They did not.
    Refused,
    /// Nobody knows.
    Failed,
}

/// The names of outcomes in the names of counters, and in the attribute of the counter of requests, and what
/// they mean.
const OUTCOMES: [(&str, &str, &str); 3] = [
    ("accepted", "success", "the pipelines took"),
    ("refused", "refused", "the pipelines refused"),
    ("failed", "failure", "came whose fate nobody waited for"),
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
        let items = OUTCOMES.map(|(outcome, _, what)| {
            Signal::ALL.map(|signal| {
                let items = items_of(signal);
                let means = format!("How many {} {what} [Alpha]", items.replace('_', " "));
                counter(host, format!("otelcol_receiver_{outcome}_{items}"), means)
            })
        });
        let means = "How many requests came, by what became of them [Alpha]".to_owned();
        let requests = counter(host, "otelcol_receiver_requests".to_owned(), means);
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
        let (_, outcome, _) = OUTCOMES[outcome as usize];
        self.requests.add(1, &[receiver, transport, KeyValue::new("outcome", outcome)]);
    }
}

#[expect(clippy::disallowed_methods, reason = "the Collector's names: our registry does not define them")]
fn counter(host: &Host, name: String, means: String) -> Counter<u64> {
    host.meter().u64_counter(name).with_description(means).build()
}

fn items_of(signal: Signal) -> &'static str {
    match signal {
        Signal::Logs => "log_records",
        Signal::Metrics => "metric_points",
        Signal::Traces => "spans",
        Signal::Profiles => "profile_samples",
    }
}
