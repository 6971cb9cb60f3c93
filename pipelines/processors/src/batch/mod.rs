//! `batch`: puts small batches together and splits large ones, by count and by time.
//!
//! What arrives is held by one task per pipeline and handed on once `send_batch_size` items are there, or
//! once `timeout` has passed since the last batch. While the next component takes a batch, at most
//! [`WAITING_MAX`] more wait; whoever brings another one waits too, so that a slow exporter is felt
//! upstream. As in the Collector a batch that is refused is dropped, with a count and a word in the log;
//! `splitting` says how a batch is cut.

mod splitting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use component::config::{ConfigError, GoDuration, Section};
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Data, Host, Processor, ProcessorFactory, Refused,
    Running, Signal, Stability,
};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "batch",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Beta,
    build,
};

/// Requests that may wait while a batch is being handed on.
pub const WAITING_MAX: usize = 16;

/// What the user writes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct BatchConfig {
    /// How long items may be held; 0 is not at all.
    pub timeout: GoDuration,
    /// So many items are handed on at once; 0 is any number.
    pub send_batch_size: u32,
    /// No batch has more items than this; 0 is no limit.
    pub send_batch_max_size: u32,
}

impl Default for BatchConfig {
    fn default() -> Self {
        BatchConfig { timeout: GoDuration::from_millis(200), send_batch_size: 8192, send_batch_max_size: 0 }
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let config: BatchConfig = section.decode()?;
    let mut problems = section.problems();
    let most = config.send_batch_max_size;
    problems.require(most == 0 || most >= config.send_batch_size, "send_batch_max_size", {
        "send_batch_max_size must be greater or equal to send_batch_size"
    });
    problems.finish()?;
    Ok(Box::new(Batch::new(context.id.clone(), config)))
}

/// A `batch` processor that has not started.
#[derive(Debug)]
pub struct Batch {
    id: ComponentId,
    config: BatchConfig,
    counts: Arc<Counts>,
}

/// What a `batch` processor has done.
#[derive(Debug, Default)]
pub struct Counts {
    size_triggered: AtomicU64,
    timeout_triggered: AtomicU64,
    dropped_items: AtomicU64,
    failing: AtomicBool,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CountsSnapshot {
    /// Batches that were handed on because they were large enough.
    pub size_triggered: u64,
    /// Batches that were handed on because time was up, or the processor stopped.
    pub timeout_triggered: u64,
    /// Items of batches that the next component refused.
    pub dropped_items: u64,
}

impl Counts {
    /// The counts now.
    pub fn snapshot(&self) -> CountsSnapshot {
        CountsSnapshot {
            size_triggered: self.size_triggered.load(Ordering::Relaxed),
            timeout_triggered: self.timeout_triggered.load(Ordering::Relaxed),
            dropped_items: self.dropped_items.load(Ordering::Relaxed),
        }
    }
}

impl Batch {
    /// A processor by a configuration that was checked.
    pub fn new(id: ComponentId, config: BatchConfig) -> Self {
        Batch { id, config, counts: Arc::default() }
    }

    /// What it has done, to be looked at while it runs.
    pub fn counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }
}

impl Processor for Batch {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        _: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        let holder = Holder::new(*self, next);
        let holding = tokio::spawn(holder.run(receiver, stop));
        (Arc::new(Front { sender }), Box::pin(async move { drop(holding.await) }))
    }
}

struct Front {
    sender: mpsc::Sender<Data>,
}

impl Consumer for Front {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let taken = self.sender.send(data).await;
            taken.map_err(|_| Refused::retryable("the batch processor is shutting down"))
        })
    }
}

/// Why a batch is handed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Trigger {
    Size,
    Timeout,
}

/// Holds items until they are handed on.
struct Holder {
    id: ComponentId,
    counts: Arc<Counts>,
    next: Arc<dyn Consumer>,
    held: Option<Data>,
    /// None where nothing is ever held.
    timeout: Option<Duration>,
    size: usize,
    size_max: Option<usize>,
}

impl Holder {
    fn new(batch: Batch, next: Arc<dyn Consumer>) -> Self {
        let config = batch.config;
        let holds = !config.timeout.is_zero() && config.send_batch_size > 0;
        Holder {
            id: batch.id,
            counts: batch.counts,
            next,
            held: None,
            timeout: holds.then_some(*config.timeout),
            size: config.send_batch_size as usize,
            size_max: Some(config.send_batch_max_size as usize).filter(|most| *most > 0),
        }
    }

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
        self.timeout.map(|timeout| Instant::now() + timeout)
    }

    fn items(&self) -> usize {
        self.held.as_ref().map_or(0, Data::items)
    }

    /// Takes data in, and hands on what is large enough; true where something was handed on.
    async fn add(&mut self, data: Data) -> bool {
        if data.items() == 0 {
            return false;
        }
        match &mut self.held {
            Some(held) => splitting::append(held, data),
            None => self.held = Some(data),
        }
        let least = if self.timeout.is_some() { self.size } else { 1 };
        let mut sent = false;
        while self.items() >= least {
            self.send(Trigger::Size).await;
            sent = true;
        }
        sent
    }

    /// Hands on what is held, as far as one batch may go.
    async fn send(&mut self, trigger: Trigger) {
        let Some(mut batch) = self.held.take() else { return };
        if let Some(most) = self.size_max.filter(|most| batch.items() > *most) {
            let front = splitting::split_front(&mut batch, most);
            self.held = Some(std::mem::replace(&mut batch, front));
        }
        let items = batch.items();
        match self.next.consume(batch).await {
            Ok(()) => self.sent(trigger),
            Err(refused) => self.dropped(items, &refused),
        }
    }

    fn sent(&self, trigger: Trigger) {
        let count = match trigger {
            Trigger::Size => &self.counts.size_triggered,
            Trigger::Timeout => &self.counts.timeout_triggered,
        };
        count.fetch_add(1, Ordering::Relaxed);
        if self.counts.failing.swap(false, Ordering::Relaxed) {
            let dropped_so_far = self.counts.dropped_items.load(Ordering::Relaxed);
            tracing::info!(processor = %self.id, dropped_so_far, "batches are taken again");
        }
    }

    fn dropped(&self, items: usize, refused: &Refused) {
        self.counts.dropped_items.fetch_add(items as u64, Ordering::Relaxed);
        if !self.counts.failing.swap(true, Ordering::Relaxed) {
            tracing::warn!(processor = %self.id, dropped_items = items, error = %refused, "a batch was refused, dropping it");
        }
    }
}

#[cfg(test)]
mod tests;
