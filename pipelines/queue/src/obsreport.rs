//! The stage that counts the outcome of each request and logs when exporting starts to fail or works again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use component::health::{Change, Health};
use component::status::ComponentStatus;
use component::{BoxFuture, ComponentId, Consumer, Host, Refused};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use crate::SignalMetrics;

/// Counts what `next` accepts and refuses. With `persistent_until`, a retryable refusal after that token is
/// cancelled is not counted, since the request stays in the persistent queue.
pub(crate) fn stage(
    host: &Host,
    id: &ComponentId,
    metrics: Arc<SignalMetrics>,
    persistent_until: Option<CancellationToken>,
    next: Arc<dyn Consumer>,
) -> Arc<dyn Consumer> {
    let (host, id) = (host.clone(), id.clone());
    let (health, dropped) = (Health::default(), AtomicU64::default());
    Arc::new(ObsReport { host, id, metrics, persistent_until, next, health, dropped })
}

struct ObsReport {
    host: Host,
    id: ComponentId,
    metrics: Arc<SignalMetrics>,
    persistent_until: Option<CancellationToken>,
    next: Arc<dyn Consumer>,
    health: Health,
    /// Items dropped since the start, for the log.
    dropped: AtomicU64,
}

impl Consumer for ObsReport {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let (signal, items) = (data.signal(), data.items());
            let _in_flight = self.metrics.in_flight();
            let outcome = self.next.consume(data).await;
            match &outcome {
                Ok(()) => self.accepted(signal, items),
                Err(refused) if self.stays_stored(refused) => {}
                Err(refused) => self.refused(signal, items, refused),
            }
            outcome
        })
    }
}

impl ObsReport {
    fn stays_stored(&self, refused: &Refused) -> bool {
        refused.is_retryable() && self.persistent_until.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    fn accepted(&self, signal: Signal, items: usize) {
        self.metrics.sent(items);
        if self.health.record(true) == Some(Change::Recovered) {
            let dropped_so_far = self.dropped.load(Ordering::Relaxed);
            tracing::info!(exporter = %self.id, signal = signal.name(), dropped_so_far, "exporting works again");
            self.host.report(ComponentStatus::Ok);
        }
    }

    fn refused(&self, signal: Signal, items: usize, refused: &Refused) {
        self.metrics.send_failed(items, refused.code.name(), !refused.is_retryable());
        self.dropped.fetch_add(items as u64, Ordering::Relaxed);
        if self.health.record(false) == Some(Change::Failed) {
            tracing::error!(
                exporter = %self.id, signal = signal.name(), dropped_items = items, error = %refused,
                "exporting failed, dropping data"
            );
            self.host.report(ComponentStatus::RecoverableError(refused.to_string()));
        }
    }
}
