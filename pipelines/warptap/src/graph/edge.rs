//! Edges from a node to the next nodes, which can be redirected while data moves.
//!
//! Callers of a held edge wait, which is backpressure, until the edge has targets again. A reload of the
//! configuration therefore refuses and drops no data.

use std::sync::Arc;

use component::{BoxFuture, Consumer, FanOut, Refused};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use pdata::Data;
use tokio::sync::watch;

/// A consumer that forwards data to its current targets, or waits while it has none.
pub(super) struct Edge(watch::Sender<Option<Arc<dyn Consumer>>>);

impl Edge {
    /// Creates an edge to all of `targets`.
    pub(super) fn to(targets: Vec<Arc<dyn Consumer>>) -> Arc<Self> {
        Arc::new(Edge(watch::Sender::new(Some(FanOut::over(targets)))))
    }

    /// Sends data to `targets` from now on, and wakes waiting callers.
    pub(super) fn redirect(&self, targets: Vec<Arc<dyn Consumer>>) {
        self.0.send_replace(Some(FanOut::over(targets)));
    }

    /// Makes callers wait until the edge is redirected.
    pub(super) fn hold(&self) {
        self.0.send_replace(None);
    }

    async fn target(&self) -> Option<Arc<dyn Consumer>> {
        if let Some(target) = &*self.0.borrow() {
            return Some(target.clone());
        }
        let mut redirected = self.0.subscribe();
        // Fails only if the edge is dropped, and the caller holds it.
        redirected.wait_for(Option::is_some).await.ok().and_then(|target| target.clone())
    }
}

impl Consumer for Edge {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            match self.target().await {
                Some(target) => target.consume(data).await,
                None => Err(Refused::retryable("the pipeline is gone")),
            }
        })
    }
}

/// Counts the items passed to `next`, accepted or refused.
pub(super) struct Counted {
    pub(super) next: Arc<dyn Consumer>,
    pub(super) items: Counter<u64>,
    pub(super) attributes: [KeyValue; 2],
}

impl Consumer for Counted {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.items.add(data.items() as u64, &self.attributes);
        self.next.consume(data)
    }
}
