//! The task that collects data until a batch is large enough or its timeout has passed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use component::context::{self, Context};
use component::health::{Change, Health};
use component::{BoxFuture, ComponentId, Consumer, Refused};
use pdata::{Data, Unit};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::counts::Instruments;
use super::{Batch, WAITING_MAX};

/// The consumer in front of a batching task.
#[derive(Clone)]
pub(super) struct Front {
    sender: mpsc::Sender<Data>,
}

impl Front {
    /// Starts a batching task for requests of `context`, tracked by `tasks`.
    pub(super) fn start(
        settings: &Arc<Settings>,
        context: Context,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Self {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        settings.instruments.began();
        let holder = Holder { settings: settings.clone(), context, held: None };
        tasks.spawn(holder.run(receiver, stop.clone()));
        Front { sender }
    }
}

impl Consumer for Front {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let taken = self.sender.send(data).await;
            taken.map_err(|_| Refused::retryable("the batch processor is shutting down"))
        })
    }
}

/// The reason why a batch is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Trigger {
    Size,
    Timeout,
}

/// The settings that all batching tasks of a processor share.
pub(super) struct Settings {
    id: ComponentId,
    health: Health,
    /// Items dropped since the start, for the log.
    dropped: AtomicU64,
    instruments: Instruments,
    next: Arc<dyn Consumer>,
    /// None if every batch is sent at once.
    timeout: Option<Duration>,
    size: usize,
    size_max: Option<usize>,
}

impl Settings {
    pub(super) fn new(batch: &Batch, next: Arc<dyn Consumer>, instruments: Instruments) -> Self {
        let config = &batch.config;
        let holds = !config.timeout.is_zero() && config.send_batch_size > 0;
        Settings {
            id: batch.id.clone(),
            health: Health::default(),
            dropped: AtomicU64::default(),
            instruments,
            next,
            timeout: holds.then_some(*config.timeout),
            size: config.send_batch_size as usize,
            size_max: Some(config.send_batch_max_size as usize).filter(|most| *most > 0),
        }
    }
}

/// The state of a batching task.
struct Holder {
    settings: Arc<Settings>,
    /// The context of the requests, with which batches are sent.
    context: Context,
    held: Option<Data>,
}

impl Holder {
    async fn run(mut self, mut receiver: mpsc::Receiver<Data>, stop: CancellationToken) {
        let mut deadline = self.deadline();
        loop {
            let time_is_up = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = time_is_up => {
                    self.send(Trigger::Timeout).await;
                    deadline = self.deadline();
                }
                Some(data) = receiver.recv() => {
                    if self.add(data).await {
                        deadline = self.deadline();
                    }
                }
            }
        }
        receiver.close();
        while let Some(data) = receiver.recv().await {
            self.add(data).await;
        }
        while self.items() > 0 {
            self.send(Trigger::Timeout).await;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.settings.timeout.map(|timeout| Instant::now() + timeout)
    }

    fn items(&self) -> usize {
        self.held.as_ref().map_or(0, Data::items)
    }

    /// Adds data and sends full batches; returns true if one was sent.
    async fn add(&mut self, data: Data) -> bool {
        if data.items() == 0 {
            return false;
        }
        match &mut self.held {
            Some(held) => held.append(data).expect("a shard has one divisible signal"),
            None => self.held = Some(data),
        }
        let least = if self.settings.timeout.is_some() { self.settings.size } else { 1 };
        let mut sent = false;
        while self.items() >= least {
            self.send(Trigger::Size).await;
            sent = true;
        }
        sent
    }

    /// Sends one batch, up to the maximum size.
    async fn send(&mut self, trigger: Trigger) {
        let Some(mut batch) = self.held.take() else { return };
        if let Some(most) = self.settings.size_max.filter(|most| batch.items() > *most) {
            let front = batch.split_front(most, Unit::Items);
            self.held = Some(std::mem::replace(&mut batch, front));
        }
        let items = batch.items();
        let next = &self.settings.next;
        match context::scope(self.context.clone(), async { next.consume(batch).await }).await {
            Ok(()) => self.settings.sent(trigger, items),
            Err(refused) => self.settings.dropped(items, &refused),
        }
    }
}

impl Settings {
    fn sent(&self, trigger: Trigger, items: usize) {
        self.instruments.sent(trigger, items);
        if self.health.record(true) == Some(Change::Recovered) {
            let dropped_so_far = self.dropped.load(Ordering::Relaxed);
            tracing::info!(processor = %self.id, dropped_so_far, "batches are accepted again");
        }
    }

    fn dropped(&self, items: usize, refused: &Refused) {
        self.instruments.dropped(items);
        self.dropped.fetch_add(items as u64, Ordering::Relaxed);
        if self.health.record(false) == Some(Change::Failed) {
            tracing::warn!(processor = %self.id, dropped_items = items, error = %refused, "dropped a refused batch");
        }
    }
}
