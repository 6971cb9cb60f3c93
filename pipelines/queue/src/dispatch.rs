//! Takes requests out of a queue, merges them into batches, and sends several batches at once.

use std::sync::Arc;

use component::context::{self, Context};
use component::{ComponentId, Consumer};
use pdata::Data;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::ack::AckGuard;
use crate::batch::{Batch, Batcher};
use crate::{DRAIN_MAX, SignalMetrics};

/// A request on its way, with the guard of its acknowledgement.
pub(crate) struct Request {
    pub(crate) data: Data,
    pub(crate) context: Context,
    pub(crate) ack: AckGuard,
}

/// The output of a queue.
pub(crate) enum Source {
    /// A queue in memory, drained on stop. It is bounded by the permits of its requests.
    Memory(mpsc::UnboundedReceiver<Request>),
    /// Requests that were read ahead from a storage. On stop they stay in the storage.
    Persistent(mpsc::Receiver<Request>),
}

impl Source {
    /// Returns the next request, or `None` when the exporter stops and no request is left. Cancel safe.
    async fn next(&mut self, stop: &CancellationToken) -> Option<Request> {
        match self {
            Source::Memory(requests) => tokio::select! {
                biased;
                request = requests.recv() => request,
                () = stop.cancelled() => {
                    requests.close();
                    requests.try_recv().ok()
                }
            },
            Source::Persistent(requests) => tokio::select! {
                biased;
                () = stop.cancelled() => None,
                request = requests.recv() => request,
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Memory(requests) => requests.len(),
            Source::Persistent(_) => 0,
        }
    }

    fn is_persistent(&self) -> bool {
        matches!(self, Source::Persistent(_))
    }
}

/// The task that sends the requests of one queue.
pub(crate) struct Dispatch {
    pub(crate) id: ComponentId,
    pub(crate) next: Arc<dyn Consumer>,
    pub(crate) consumers: usize,
    pub(crate) source: Source,
    pub(crate) batcher: Option<Batcher>,
    pub(crate) metrics: Arc<SignalMetrics>,
    pub(crate) stop: CancellationToken,
}

impl Dispatch {
    pub(crate) async fn run(mut self) {
        let mut in_flight = JoinSet::new();
        let stop = self.stop.clone();
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(DRAIN_MAX).await;
        };
        let is_late = tokio::select! {
            () = self.send_all(&mut in_flight) => false,
            () = deadline => true,
        };
        if is_late {
            let (queued, in_flight_left) = (self.source.len(), in_flight.len());
            let action = if self.source.is_persistent() { "they stay stored" } else { "dropping them" };
            tracing::error!(
                exporter = %self.id, queued, in_flight = in_flight_left, after = ?DRAIN_MAX,
                "shutting down with unsent requests, {action}"
            );
            in_flight.shutdown().await;
        }
    }

    async fn send_all(&mut self, in_flight: &mut JoinSet<()>) {
        while let Some(batches) = self.next_batches().await {
            for batch in batches {
                self.send(batch, in_flight).await;
            }
        }
        let rest = self.batcher.as_mut().map(Batcher::flush).unwrap_or_default();
        for batch in rest {
            self.send(batch, in_flight).await;
        }
        while in_flight.join_next().await.is_some() {}
    }

    /// Waits for the next batches, possibly none yet; returns `None` at the end.
    async fn next_batches(&mut self) -> Option<Vec<Batch>> {
        let Some(batcher) = &mut self.batcher else {
            return self.source.next(&self.stop).await.map(|request| vec![Batch::of(request)]);
        };
        let deadline = batcher.deadline();
        tokio::select! {
            biased;
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                Some(batcher.due(Instant::now()))
            }
            request = self.source.next(&self.stop) => Some(batcher.add(request?, Instant::now())),
        }
    }

    /// Sends a batch as soon as one of the consumers is free.
    async fn send(&self, batch: Batch, in_flight: &mut JoinSet<()>) {
        while in_flight.len() >= self.consumers {
            in_flight.join_next().await;
        }
        if self.batcher.is_some() {
            self.metrics.batch_sent(batch.data.items());
        }
        let (next, stop, is_persistent) = (self.next.clone(), self.stop.clone(), self.source.is_persistent());
        in_flight.spawn(async move {
            let outcome = context::scope(batch.context, next.consume(batch.data)).await;
            let is_retryable = outcome.as_ref().is_err_and(component::Refused::is_retryable);
            let is_kept = is_persistent && is_retryable && stop.is_cancelled();
            batch.acks.into_iter().for_each(|ack| ack.report(&outcome, is_kept));
        });
    }
}
