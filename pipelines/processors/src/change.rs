//! A stateless processor: one function between two consumers.

use std::sync::Arc;

use component::{BoxFuture, Consumer, Refused, Running};
use pdata::Data;

/// Returns a consumer that applies `change` and forwards the data, without background work.
pub(crate) fn stage(
    change: impl Fn(&mut Data) + Send + Sync + 'static,
    next: Arc<dyn Consumer>,
) -> (Arc<dyn Consumer>, Running) {
    (Arc::new(Change { change, next }), Box::pin(async {}))
}

/// Returns a consumer that applies `change` and forwards the data unless no item is left.
pub(crate) fn filter(
    change: impl Fn(&mut Data) + Send + Sync + 'static,
    next: Arc<dyn Consumer>,
) -> (Arc<dyn Consumer>, Running) {
    (Arc::new(Filter(Change { change, next })), Box::pin(async {}))
}

struct Change<F> {
    change: F,
    next: Arc<dyn Consumer>,
}

// The change is made when the future runs, since the request's context is available only then.
impl<F: Fn(&mut Data) + Send + Sync> Consumer for Change<F> {
    fn consume(&self, mut data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            (self.change)(&mut data);
            self.next.consume(data).await
        })
    }
}

struct Filter<F>(Change<F>);

impl<F: Fn(&mut Data) + Send + Sync> Consumer for Filter<F> {
    fn consume(&self, mut data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            (self.0.change)(&mut data);
            match data.items() {
                0 => Ok(()),
                _ => self.0.next.consume(data).await,
            }
        })
    }
}
