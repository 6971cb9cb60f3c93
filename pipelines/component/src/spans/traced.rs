//! Consumers with a span around each batch, named as the Collector names them.

use std::sync::Arc;

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};

use super::Spans;
use crate::{BoxFuture, ComponentId, Consumer, Refused};
use pdata::{Data, Signal};

tokio::task_local! {
    static CURRENT: (TraceId, SpanId);
}

/// Returns the ids of the current span.
pub(super) fn current() -> Option<(TraceId, SpanId)> {
    CURRENT.try_with(|ids| *ids).ok()
}

pub(super) async fn scope<T>(ids: (TraceId, SpanId), work: impl Future<Output = T>) -> T {
    CURRENT.scope(ids, work).await
}

/// The names of spans and attributes of one signal.
struct Row {
    signal: Signal,
    received: &'static str,
    accepted: &'static str,
    refused: &'static str,
}

/// In the order of [`Signal::ALL`].
const ROWS: [Row; 4] = [
    row(Signal::Logs, "LogsReceived", "accepted_log_records", "refused_log_records"),
    row(Signal::Metrics, "MetricsReceived", "accepted_metric_points", "refused_metric_points"),
    row(Signal::Traces, "TraceDataReceived", "accepted_spans", "refused_spans"),
    row(Signal::Profiles, "ProfilesReceived", "accepted_profile_samples", "refused_profile_samples"),
];

const fn row(signal: Signal, received: &'static str, accepted: &'static str, refused: &'static str) -> Row {
    Row { signal, received, accepted, refused }
}

/// Wraps the consumer of a receiver in spans such as `receiver/otlp/TraceDataReceived`.
pub fn receiving(
    id: &ComponentId,
    signal: Signal,
    next: Arc<dyn Consumer>,
    spans: &Arc<Spans>,
) -> Arc<dyn Consumer> {
    let names = ROWS.each_ref().map(|row| format!("receiver/{id}/{}", row.received).into());
    debug_assert_eq!(ROWS[signal as usize].signal, signal);
    Arc::new(Traced { next, names, end: End::Receiver, spans: spans.clone() })
}

/// Wraps the consumer of an exporter in spans such as `exporter/otlp_grpc/traces`.
pub fn exporting(id: &ComponentId, next: Arc<dyn Consumer>, spans: &Arc<Spans>) -> Arc<dyn Consumer> {
    let names = ROWS.each_ref().map(|row| format!("exporter/{id}/{}", row.signal.name()).into());
    Arc::new(Traced { next, names, end: End::Exporter(id.to_string()), spans: spans.clone() })
}

struct Traced {
    next: Arc<dyn Consumer>,
    names: [Arc<str>; ROWS.len()],
    end: End,
    spans: Arc<Spans>,
}

/// The end of a pipeline that a span describes.
enum End {
    Receiver,
    Exporter(String),
}

impl End {
    fn attributes(&self, signal: Signal, items: usize, is_taken: bool) -> Vec<KeyValue> {
        let items = items as i64;
        let (taken, refused) = if is_taken { (items, 0) } else { (0, items) };
        let row = &ROWS[signal as usize];
        match self {
            End::Receiver => vec![KeyValue::new(row.accepted, taken), KeyValue::new(row.refused, refused)],
            End::Exporter(id) => vec![
                KeyValue::new("exporter", id.clone()),
                KeyValue::new("data_type", signal.name()),
                KeyValue::new("items.sent", taken),
                KeyValue::new("items.failed", refused),
            ],
        }
    }
}

impl Consumer for Traced {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let signal = data.signal();
        let Some(open) = self.spans.begin(&self.names[signal as usize]) else {
            return self.next.consume(data);
        };
        Box::pin(async move {
            let items = data.items();
            // The call is inside the block, so that it starts within the span.
            let outcome = open.around(async { self.next.consume(data).await }).await;
            let error = outcome.as_ref().err().map(ToString::to_string);
            open.end(self.end.attributes(signal, items, error.is_none()), error);
            outcome
        })
    }
}
