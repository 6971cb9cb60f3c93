//! The sending queue: accepts a request if there is capacity, and returns once it is in memory or stored.

use std::sync::Arc;

use component::context::{self, Context};
use component::storage::StorageClient;
use component::{BoxFuture, ComponentId, Consumer, Refused, Running, StartResult};
use pdata::{Data, Signal};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::ack::{AckGuard, Outcome};
use crate::batch::Batcher;
use crate::capacity::{Capacity, Permit};
use crate::dispatch::{Dispatch, Request, Source};
use crate::persistent::{self, PersistentQueue, QueueHandle};
use crate::{QueueConfig, SignalMetrics};

/// The parameters of a queue.
pub(crate) struct Setup<'a> {
    pub(crate) id: &'a ComponentId,
    pub(crate) signal: Signal,
    pub(crate) config: &'a QueueConfig,
    pub(crate) metrics: &'a Arc<SignalMetrics>,
    pub(crate) stop: CancellationToken,
}

/// Puts a queue in front of `next`, in memory or, with a client, in a storage. The returned work sends its
/// requests until `stop`.
pub(crate) async fn stage(
    setup: Setup<'_>,
    client: Option<Arc<dyn StorageClient>>,
    next: Arc<dyn Consumer>,
) -> StartResult<(Arc<dyn Consumer>, Running)> {
    let capacity = Capacity::new(setup.config.capacity());
    setup.metrics.set_queue_capacity(capacity.total());
    let Setup { id, signal, config, metrics, stop } = setup;
    let (input, source, persistent) = match client {
        None => {
            let (sender, receiver) = mpsc::unbounded_channel();
            (Input::Memory(sender), Source::Memory(receiver), None)
        }
        Some(client) => {
            let setup =
                persistent::Setup { id, signal, sizer: config.sizer(), consumers: config.consumers() };
            let opened =
                PersistentQueue::open(setup, client, capacity.clone(), metrics.clone(), stop.clone());
            let (queue, handle, requests) = opened.await?;
            (Input::Persistent(handle), Source::Persistent(requests), Some(queue))
        }
    };
    let dispatch = Dispatch {
        id: id.clone(),
        next,
        consumers: config.consumers(),
        source,
        batcher: Batcher::of(config),
        metrics: metrics.clone(),
        stop: stop.clone(),
    };
    let work: Running = match (persistent, &input) {
        (Some(queue), Input::Persistent(handle)) => {
            let handle = handle.clone();
            let dispatching = async move {
                dispatch.run().await;
                handle.close();
            };
            Box::pin(async {
                tokio::join!(queue.run(), dispatching);
            })
        }
        _ => Box::pin(dispatch.run()),
    };
    let queue = SendingQueue { config: config.clone(), capacity, input, metrics: metrics.clone(), stop };
    Ok((Arc::new(queue), work))
}

/// The side of a queue that accepts requests.
enum Input {
    Memory(mpsc::UnboundedSender<Request>),
    Persistent(QueueHandle),
}

struct SendingQueue {
    config: QueueConfig,
    /// Bounds the channel: a request enters with a permit only.
    capacity: Arc<Capacity>,
    input: Input,
    metrics: Arc<SignalMetrics>,
    stop: CancellationToken,
}

impl Consumer for SendingQueue {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let items = data.items();
            let result = self.enqueue(data).await.inspect_err(|_| self.metrics.enqueue_failed(items))?;
            self.metrics.enqueued(items);
            match result {
                None => Ok(()),
                Some(outcome) => outcome.await.unwrap_or_else(|_| Err(closed())),
            }
        })
    }
}

/// The result of a request that was enqueued, for a sender that waits for it.
type SendResult = oneshot::Receiver<Result<(), Refused>>;

impl SendingQueue {
    /// Enqueues a request; returns its future result if the sender is to wait for it.
    async fn enqueue(&self, data: Data) -> Result<Option<SendResult>, Refused> {
        if self.stop.is_cancelled() {
            return Err(closed());
        }
        let size = self.config.sizer().size_of(&data);
        if size > self.config.capacity() {
            let (unit, capacity) = (self.config.sizer(), self.config.queue_size);
            return Err(Refused::permanent(format!(
                "request of {size} {unit} is larger than the sending queue of {capacity}"
            )));
        }
        let permit = self.permit(size).await?;
        let context = context::current();
        match &self.input {
            Input::Memory(requests) => self.enqueue_in_memory(requests, data, context, permit),
            Input::Persistent(queue) => queue.put(data, context, permit).await.map(|()| None),
        }
    }

    async fn permit(&self, size: u64) -> Result<Permit, Refused> {
        if !self.config.block_on_overflow {
            let permit = self.capacity.try_acquire(size);
            return permit.ok_or_else(|| Refused::retryable("sending queue is full"));
        }
        tokio::select! {
            permit = self.capacity.acquire(size) => permit.ok_or_else(closed),
            () = self.stop.cancelled() => Err(closed()),
        }
    }

    /// Enqueues a request in memory. Items that are never sent are counted as dropped.
    fn enqueue_in_memory(
        &self,
        requests: &mpsc::UnboundedSender<Request>,
        data: Data,
        context: Context,
        permit: Permit,
    ) -> Result<Option<SendResult>, Refused> {
        let (sender, result) = oneshot::channel();
        let metrics = self.metrics.clone();
        let size = permit.size();
        metrics.grow(size);
        let ack = AckGuard::new(data.items(), move |outcome: Outcome| {
            metrics.shrink(size);
            drop(permit);
            if outcome.abandoned_items > 0 {
                metrics.dropped_at_shutdown(outcome.abandoned_items);
            }
            let abandoned = (outcome.abandoned_items > 0).then(closed);
            let _ = sender.send(outcome.refused.or(abandoned).map_or(Ok(()), Err));
        });
        if let Err(mpsc::error::SendError(unsent)) = requests.send(Request { data, context, ack }) {
            // The sender gets a refusal, so nothing is dropped here.
            unsent.ack.report(&Ok(()), false);
            return Err(closed());
        }
        Ok(self.config.wait_for_result.then_some(result))
    }
}

/// Returns the refusal of a queue that is closed.
pub(crate) fn closed() -> Refused {
    Refused::retryable("sending queue is closed: the exporter is shutting down")
}
