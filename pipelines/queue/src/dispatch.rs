//! Takes requests out of a queue, has them put together, and has several sent at once.

use std::sync::Arc;

use component::context::{self, Context};
use component::{ComponentId, Consumer, Data};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::batch::{Batch, Batcher};
use crate::receipt::Share;
use crate::{DRAIN_MAX, Tally};

/// A request on its way, and a hold on its end.
pub(crate) struct Request {
    pub(crate) data: Data,
    pub(crate) context: Context,
    pub(crate) share: Share,
}

/// Where requests come from.
pub(crate) enum Source {
    /// A queue in memory, which is drained at the stop. What is in it has taken room, so that it is bounded.
    Memory(mpsc::UnboundedReceiver<Request>),
    /// The few requests that were read from a storage ahead of time; at the stop they stay in the storage.
    Disk(mpsc::Receiver<Request>),
}

impl Source {
    /// The next request; none when the exporter stops and there is no more to be done. May be dropped while
    /// it waits.
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
            Source::Disk(requests) => tokio::select! {
                biased;
                () = stop.cancelled() => None,
                request = requests.recv() => request,
            },
        }
    }

    fn len(&self) -> usize {
        match self {
            Source::Memory(requests) => requests.len(),
            Source::Disk(_) => 0,
        }
    }

    fn keeps(&self) -> bool {
        matches!(self, Source::Disk(_))
    }
}

/// The work of one queue.
pub(crate) struct Dispatch {
    pub(crate) id: ComponentId,
    pub(crate) next: Arc<dyn Consumer>,
    pub(crate) consumers: usize,
    pub(crate) source: Source,
    pub(crate) batcher: Option<Batcher>,
    pub(crate) tally: Arc<Tally>,
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
            let what = if self.source.keeps() { "keeping them" } else { "dropping them" };
            tracing::error!(
                exporter = %self.id, queued, in_flight = in_flight_left, after = ?DRAIN_MAX,
                "shutting down with requests that could not be sent, {what}"
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
        let rest = self.batcher.as_mut().map(Batcher::rest).unwrap_or_default();
        for batch in rest {
            self.send(batch, in_flight).await;
        }
        while in_flight.join_next().await.is_some() {}
    }

    /// What is to be sent next, which may be nothing yet; none at the end.
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

    /// Has a batch sent as soon as one of the consumers is free.
    async fn send(&self, batch: Batch, in_flight: &mut JoinSet<()>) {
        while in_flight.len() >= self.consumers {
            in_flight.join_next().await;
        }
        if self.batcher.is_some() {
            self.tally.batch_sent(batch.data.items());
        }
        let (next, stop, keeps) = (self.next.clone(), self.stop.clone(), self.source.keeps());
        in_flight.spawn(async move {
            let outcome = context::scope(batch.context, next.consume(batch.data)).await;
            let is_retryable = outcome.as_ref().is_err_and(component::Refused::is_retryable);
            let is_kept = keeps && is_retryable && stop.is_cancelled();
            batch.shares.into_iter().for_each(|share| share.report(&outcome, is_kept));
        });
    }
}
