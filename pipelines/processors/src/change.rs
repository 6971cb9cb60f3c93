//! A processor that changes what passes by and keeps nothing: one function between two consumers.

use std::sync::Arc;

use component::{BoxFuture, Consumer, Refused, Running};
use pdata::Data;

/// The consumer that applies `change` and hands on, and its background work, which is none.
pub(crate) fn stage(
    change: impl Fn(&mut Data) + Send + Sync + 'static,
    next: Arc<dyn Consumer>,
) -> (Arc<dyn Consumer>, Running) {
    (Arc::new(Change { change, next }), Box::pin(async {}))
}

/// As [`stage`], for a change that takes items away: a batch that lost all of its items goes no further.
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

// The change is made when the future runs: only then is the request's context there.
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
