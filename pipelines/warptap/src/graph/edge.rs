//! The way from one node to the next ones, which can be turned while data moves.
//!
//! A held edge lets nobody through: whoever calls waits, which is back-pressure, until the edge leads
//! somewhere again. Nothing is refused and nothing lost because a collector is being reconfigured.

use std::sync::Arc;

use component::{BoxFuture, Consumer, FanOut, Refused};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use pdata::Data;
use tokio::sync::watch;

/// An edge: a consumer that hands on to wherever it leads now.
pub(super) struct Edge(watch::Sender<Option<Arc<dyn Consumer>>>);

impl Edge {
    /// An edge that leads to all of `targets`.
    pub(super) fn to(targets: Vec<Arc<dyn Consumer>>) -> Arc<Self> {
        Arc::new(Edge(watch::Sender::new(Some(FanOut::over(targets)))))
    }

    /// Turns the edge.
    pub(super) fn turn(&self, targets: Vec<Arc<dyn Consumer>>) {
        self.0.send_replace(Some(FanOut::over(targets)));
    }

    /// Lets nobody through until the edge is turned.
    pub(super) fn hold(&self) {
        self.0.send_replace(None);
    }

    async fn target(&self) -> Option<Arc<dyn Consumer>> {
        if let Some(target) = &*self.0.borrow() {
            return Some(target.clone());
        }
        let mut turned = self.0.subscribe();
        // An error is that the edge is gone, and it is held by the caller.
        turned.wait_for(Option::is_some).await.ok().and_then(|target| target.clone())
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

/// Counts the items that go through, whatever becomes of them.
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
