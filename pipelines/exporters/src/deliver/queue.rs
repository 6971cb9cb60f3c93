//! The sending queue in memory: takes a request at once, sends it later, refuses what does not fit.
//!
//! A request counts against the size until it was sent or given up, as in the Collector: what is in flight
//! is as lost as what is queued when the process dies. A persistent queue is another stage with this face.

use std::sync::Arc;

use component::config::{Optional, Problems};
use component::{BoxFuture, ComponentId, Consumer, Data, Refused, Running};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{DRAIN_MAX, Tally};
use crate::wire;

/// The section `sending_queue`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct QueueConfig {
    /// How many requests are sent at once, at most.
    pub num_consumers: i64,
    /// How much is held, in units of `sizer`.
    pub queue_size: i64,
    /// What is counted.
    pub sizer: Sizer,
    /// True: wait for room. False: refuse, so that the sender may try again.
    pub block_on_overflow: bool,
}

/// What a queue counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
pub enum Sizer {
    /// Requests.
    Requests,
    /// Log records, metric points, spans.
    Items,
    /// Bytes of the request as protobuf.
    Bytes,
}

impl Default for QueueConfig {
    fn default() -> Self {
        QueueConfig { num_consumers: 10, queue_size: 1000, sizer: Sizer::Requests, block_on_overflow: false }
    }
}

/// What no queue can be larger than, in units of its sizer.
const QUEUE_SIZE_MAX: i64 = 1 << 32;

impl QueueConfig {
    /// Checks the values of the section, where it is on.
    pub fn check(section: &Optional<QueueConfig>, problems: &mut Problems<'_>) {
        let Some(queue) = section.get() else { return };
        let key = |name: &str| format!("sending_queue::{name}");
        problems.require(queue.num_consumers > 0, &key("num_consumers"), "`num_consumers` must be positive");
        problems.require(queue.queue_size > 0, &key("queue_size"), "`queue_size` must be positive");
        problems.require(queue.queue_size < QUEUE_SIZE_MAX, &key("queue_size"), {
            format!("`queue_size` must be less than {QUEUE_SIZE_MAX}")
        });
    }

    fn capacity(&self) -> usize {
        usize::try_from(self.queue_size).unwrap_or(1).min(Semaphore::MAX_PERMITS)
    }

    fn size_of(&self, data: &Data) -> u32 {
        let size = match self.sizer {
            Sizer::Requests => 1,
            Sizer::Items => data.items(),
            Sizer::Bytes => wire::encoded_len(data),
        };
        u32::try_from(size).unwrap_or(u32::MAX)
    }
}

/// Queues what comes for `next`.
pub(super) fn stage(
    id: &ComponentId,
    config: &QueueConfig,
    next: Arc<dyn Consumer>,
    tally: &Arc<Tally>,
    stop: CancellationToken,
) -> (Arc<dyn Consumer>, Running) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(config.capacity()));
    let front = Queue { config: config.clone(), room, sender, tally: tally.clone(), stop: stop.clone() };
    let consumers = usize::try_from(config.num_consumers).unwrap_or(1);
    let dispatch = Dispatch { id: id.clone(), next, consumers };
    (Arc::new(front), Box::pin(dispatch.run(receiver, stop)))
}

/// A request and the room it takes, which ends with it. What ends without having been handed on is lost, and
/// counted so.
struct Queued {
    data: Option<Data>,
    size: u32,
    tally: Arc<Tally>,
    _room: OwnedSemaphorePermit,
}

impl Queued {
    fn new(data: Data, size: u32, room: OwnedSemaphorePermit, tally: Arc<Tally>) -> Self {
        tally.enqueued(size);
        Queued { data: Some(data), size, tally, _room: room }
    }

    /// The tally stage counts and tells what becomes of the data; nobody waits for the outcome here.
    async fn send(mut self, next: Arc<dyn Consumer>) {
        if let Some(data) = self.data.clone() {
            let _ = next.consume(data).await;
        }
        self.data = None;
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.tally.dequeued(self.size);
        if let Some(data) = &self.data {
            self.tally.send_failed(data.items());
        }
    }
}

struct Queue {
    config: QueueConfig,
    /// Bounds the channel: nothing is sent into it without room.
    room: Arc<Semaphore>,
    sender: mpsc::UnboundedSender<Queued>,
    tally: Arc<Tally>,
    stop: CancellationToken,
}

impl Consumer for Queue {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let items = data.items();
            self.enqueue(data).await.inspect_err(|_| self.tally.enqueue_failed(items))
        })
    }
}

impl Queue {
    async fn enqueue(&self, data: Data) -> Result<(), Refused> {
        let size = self.config.size_of(&data);
        if self.stop.is_cancelled() {
            return Err(closed());
        }
        if size as usize > self.config.capacity() {
            let (unit, most) = (self.config.sizer, self.config.queue_size);
            return Err(Refused::permanent(format!(
                "request of {size} {unit:?} is larger than the sending queue of {most}"
            )));
        }
        let room = self.room(size).await?;
        let queued = Queued::new(data, size, room, self.tally.clone());
        self.sender.send(queued).map_err(|mpsc::error::SendError(mut queued)| {
            queued.data = None;
            closed()
        })
    }

    async fn room(&self, size: u32) -> Result<OwnedSemaphorePermit, Refused> {
        if !self.config.block_on_overflow {
            let room = self.room.clone().try_acquire_many_owned(size);
            return room.map_err(|_| Refused::retryable("sending queue is full"));
        }
        tokio::select! {
            room = self.room.clone().acquire_many_owned(size) => room.map_err(|_| closed()),
            () = self.stop.cancelled() => Err(closed()),
        }
    }
}

fn closed() -> Refused {
    Refused::retryable("sending queue is closed: the exporter is shutting down")
}

/// Takes requests out of the queue and has several of them sent at once.
struct Dispatch {
    id: ComponentId,
    next: Arc<dyn Consumer>,
    consumers: usize,
}

impl Dispatch {
    async fn run(self, mut receiver: mpsc::UnboundedReceiver<Queued>, stop: CancellationToken) {
        let mut in_flight = JoinSet::new();
        let all_sent = self.send_all(&mut receiver, &mut in_flight, &stop);
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(DRAIN_MAX).await;
        };
        let is_late = tokio::select! {
            () = all_sent => false,
            () = deadline => true,
        };
        if is_late {
            let (queued, in_flight_left) = (receiver.len(), in_flight.len());
            tracing::error!(
                exporter = %self.id, queued, in_flight = in_flight_left, after = ?DRAIN_MAX,
                "shutting down with requests that could not be sent, dropping them"
            );
            in_flight.shutdown().await;
        }
    }

    async fn send_all(
        &self,
        receiver: &mut mpsc::UnboundedReceiver<Queued>,
        in_flight: &mut JoinSet<()>,
        stop: &CancellationToken,
    ) {
        while let Some(request) = next_request(receiver, stop).await {
            while in_flight.len() >= self.consumers {
                in_flight.join_next().await;
            }
            in_flight.spawn(request.send(self.next.clone()));
        }
        while in_flight.join_next().await.is_some() {}
    }
}

/// The next request; none when the exporter stops and the queue is empty.
async fn next_request(
    receiver: &mut mpsc::UnboundedReceiver<Queued>,
    stop: &CancellationToken,
) -> Option<Queued> {
    tokio::select! {
        biased;
        request = receiver.recv() => request,
        () = stop.cancelled() => {
            receiver.close();
            receiver.try_recv().ok()
        }
    }
}
