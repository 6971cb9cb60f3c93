//! A processor that changes what passes by and keeps nothing: one function between two consumers.

use std::sync::Arc;

use component::{BoxFuture, Consumer, Data, Refused, Running};

/// The consumer that applies `change` and hands on, and its background work, which is none.
pub(crate) fn stage(
    change: impl Fn(&mut Data) + Send + Sync + 'static,
    next: Arc<dyn Consumer>,
) -> (Arc<dyn Consumer>, Running) {
    (Arc::new(Change { change, next }), Box::pin(async {}))
}

struct Change<F> {
    change: F,
    next: Arc<dyn Consumer>,
}

impl<F: Fn(&mut Data) + Send + Sync> Consumer for Change<F> {
    fn consume(&self, mut data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        (self.change)(&mut data);
        self.next.consume(data)
    }
}
