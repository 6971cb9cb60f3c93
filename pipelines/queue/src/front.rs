//! The front of a queue: takes a request if there is room for it, and says so when it is safe.

use std::sync::Arc;

use component::context::{self, Context};
use component::storage::StorageClient;
use component::{BoxFuture, ComponentId, Consumer, Data, Refused, Running, Signal, StartResult};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::batch::Batcher;
use crate::disk::{self, Keeper};
use crate::dispatch::{Dispatch, Request, Source};
use crate::receipt::{Outcome, Share};
use crate::room::{Place, Room};
use crate::{QueueConfig, Tally};

/// What a queue is made of.
pub(crate) struct Parts<'a> {
    pub(crate) id: &'a ComponentId,
    pub(crate) signal: Signal,
    pub(crate) config: &'a QueueConfig,
    pub(crate) tally: &'a Arc<Tally>,
    pub(crate) stop: CancellationToken,
}

/// Queues what comes for `next`, in memory or in a storage.
pub(crate) async fn stage(
    parts: Parts<'_>,
    client: Option<Arc<dyn StorageClient>>,
    next: Arc<dyn Consumer>,
) -> StartResult<(Arc<dyn Consumer>, Running)> {
    let Parts { id, signal, config, tally, stop } = parts;
    let room = Room::of(config.capacity());
    tally.set_queue_capacity(room.capacity());
    let (entry, source, keeper) = match client {
        None => {
            let (sender, receiver) = mpsc::unbounded_channel();
            (Entry::Memory(sender), Source::Memory(receiver), None)
        }
        Some(client) => {
            let setup = disk::Setup { id, signal, sizer: config.sizer(), consumers: config.consumers() };
            let (keeper, stored, requests) =
                Keeper::open(setup, client, room.clone(), tally.clone(), stop.clone()).await?;
            (Entry::Disk(stored), Source::Disk(requests), Some(keeper))
        }
    };
    let close = entry.closing();
    let front = Queue { config: config.clone(), room, entry, tally: tally.clone(), stop: stop.clone() };
    let dispatch = Dispatch {
        id: id.clone(),
        next,
        consumers: config.consumers(),
        source,
        batcher: Batcher::of(config),
        tally: tally.clone(),
        stop,
    };
    let work = async move {
        let dispatching = async {
            dispatch.run().await;
            close();
        };
        match keeper {
            None => dispatching.await,
            Some(keeper) => drop(tokio::join!(keeper.run(), dispatching)),
        }
    };
    Ok((Arc::new(front), Box::pin(work)))
}

/// Where requests go in.
enum Entry {
    Memory(mpsc::UnboundedSender<Request>),
    Disk(disk::Entry),
}

impl Entry {
    /// Tells the keeper of a storage that nobody sends any more.
    fn closing(&self) -> impl FnOnce() + Send + use<> {
        let entry = match self {
            Entry::Memory(_) => None,
            Entry::Disk(entry) => Some(entry.clone()),
        };
        move || {
            if let Some(entry) = entry {
                entry.close();
            }
        }
    }
}

struct Queue {
    config: QueueConfig,
    /// Bounds what is held: nothing gets in without room.
    room: Arc<Room>,
    entry: Entry,
    tally: Arc<Tally>,
    stop: CancellationToken,
}

impl Consumer for Queue {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let items = data.items();
            let waiting = self.enqueue(data).await.inspect_err(|_| self.tally.enqueue_failed(items))?;
            self.tally.enqueued(items);
            match waiting {
                None => Ok(()),
                Some(outcome) => outcome.await.unwrap_or_else(|_| Err(closed())),
            }
        })
    }
}

type Waiting = oneshot::Receiver<Result<(), Refused>>;

impl Queue {
    /// Takes a request; returns what to wait for, where its sender is to wait.
    async fn enqueue(&self, data: Data) -> Result<Option<Waiting>, Refused> {
        if self.stop.is_cancelled() {
            return Err(closed());
        }
        let size = self.config.sizer().size_of(&data);
        if size > self.config.capacity() {
            let (unit, most) = (self.config.sizer(), self.config.queue_size);
            return Err(Refused::permanent(format!(
                "request of {size} {unit} is larger than the sending queue of {most}"
            )));
        }
        let place = self.place(size).await?;
        let context = context::current();
        match &self.entry {
            Entry::Memory(requests) => self.hold(requests, data, context, place),
            Entry::Disk(entry) => entry.put(data, context, place).await.map(|()| None),
        }
    }

    async fn place(&self, size: u64) -> Result<Place, Refused> {
        if !self.config.block_on_overflow {
            return self.room.try_take(size).ok_or_else(|| Refused::retryable("sending queue is full"));
        }
        tokio::select! {
            place = self.room.take(size) => place.ok_or_else(closed),
            () = self.stop.cancelled() => Err(closed()),
        }
    }

    /// Holds a request in memory. What is lost there is counted.
    fn hold(
        &self,
        requests: &mpsc::UnboundedSender<Request>,
        data: Data,
        context: Context,
        place: Place,
    ) -> Result<Option<Waiting>, Refused> {
        let (told, waiting) = oneshot::channel();
        let tally = self.tally.clone();
        let size = place.size();
        tally.grow(size);
        let share = Share::of(data.items(), move |outcome: Outcome| {
            tally.shrink(size);
            drop(place);
            if outcome.abandoned_items > 0 {
                tally.lost_at_shutdown(outcome.abandoned_items);
            }
            let lost = (outcome.abandoned_items > 0).then(closed);
            let _ = told.send(outcome.refused.or(lost).map_or(Ok(()), Err));
        });
        if let Err(mpsc::error::SendError(unsent)) = requests.send(Request { data, context, share }) {
            // Refused, and thereby not lost.
            unsent.share.report(&Ok(()), false);
            return Err(closed());
        }
        Ok(self.config.wait_for_result.then_some(waiting))
    }
}

/// Why a queue takes nothing any more.
pub(crate) fn closed() -> Refused {
    Refused::retryable("sending queue is closed: the exporter is shutting down")
}
