//! Delivery of batches from the thread of a receiver to its pipelines: a bounded channel with a buffer on either side.
//!
//! A pipeline that is slow or refuses must not block the thread that reads events. Cumulative points are dropped, since
//! the next collection repeats them. Spans, log records and the last points of ended processes are appended to each
//! other until the thread flushes, wait in bounded buffers, are retried, and are counted when they are dropped
//! ([`DroppedItems`]). A recording can wait for its pipelines.
//!
//! ```text
//!  a thread: BatchSender, 64 batches --- channel, 16 --> a task: Delivery --> pipelines --- refused, 64 --> retried
//! ```
//!
//! Each bound is in batches of up to [`ITEMS_MAX`](crate::append::ITEMS_MAX) items of about 1 KiB: while no pipeline
//! accepts anything, the three take up to 16, 4 and 16 MiB.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use component::{Consumer, Refused};
use pdata::{Data, PerSignal, Signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::append::append;
use crate::batch::Batch;

/// Batches between the thread and the task.
const CHANNEL: usize = 16;
/// Batches buffered by the thread while the channel is full: 16,384 spans, a rank's spans of 40 s at 100 traced
/// collectives per second. When full, the oldest is dropped.
const BUFFERED_MAX: usize = 64;
/// Refused batches that are retried. When full, the oldest is dropped.
const REFUSED_MAX: usize = 64;
/// Delay before a refused batch is retried, unless the refusal names one.
const RETRY: Duration = Duration::from_secs(1);

/// What a sender does while its pipelines are busy.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Backpressure {
    /// It drops the oldest batches and counts them: a live source cannot wait.
    DropOldest,
    /// It blocks: a recording can wait.
    Wait,
}

/// Numbers of items that were dropped because no pipeline accepted them, by signal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct DroppedItems {
    /// Number of dropped log records.
    pub logs: u64,
    /// Last points of processes that have ended.
    pub metrics: u64,
    /// Number of dropped spans.
    pub traces: u64,
}

/// Returns the two ends of a delivery to `next`: one for the thread that reads, one for the task that delivers.
pub fn channel(
    backpressure: Backpressure,
    next: Vec<(Signal, Arc<dyn Consumer>)>,
) -> (BatchSender, Delivery) {
    let shared = Arc::new(Shared::default());
    let (sender, batches) = mpsc::channel(CHANNEL);
    let sender = BatchSender { backpressure, sender, buffered: VecDeque::new(), shared: Arc::clone(&shared) };
    (sender, Delivery { next, batches, refused: VecDeque::new(), retry_at: None, shared })
}

/// State of both ends.
#[derive(Debug, Default)]
struct Shared {
    is_stopping: AtomicBool,
    dropped: PerSignal<AtomicU64>,
}

impl Shared {
    fn count_dropped(&self, data: &Data) {
        let items = u64::try_from(data.items()).unwrap_or(u64::MAX);
        self.dropped[data.signal()].fetch_add(items, Ordering::Relaxed);
    }

    fn dropped_items(&self) -> DroppedItems {
        let of = |signal: Signal| self.dropped[signal].load(Ordering::Relaxed);
        DroppedItems { logs: of(Signal::Logs), metrics: of(Signal::Metrics), traces: of(Signal::Traces) }
    }
}

/// The thread's end of a delivery.
#[derive(Debug)]
pub struct BatchSender {
    backpressure: Backpressure,
    sender: mpsc::Sender<Batch>,
    buffered: VecDeque<Batch>,
    shared: Arc<Shared>,
}

impl BatchSender {
    /// Returns true once the task has been asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping.load(Ordering::Relaxed)
    }

    /// Returns the items dropped since the start.
    pub fn dropped_items(&self) -> DroppedItems {
        self.shared.dropped_items()
    }

    /// Returns what this sender does while its pipelines are busy.
    pub fn backpressure(&self) -> Backpressure {
        self.backpressure
    }

    /// Adds a batch, which may be buffered until [`BatchSender::flush`]. Blocks only with [`Backpressure::Wait`].
    pub fn push(&mut self, batch: Batch) {
        if batch.is_repeated {
            return self.repeat(batch);
        }
        let signal = batch.data.signal();
        let last = self.buffered.iter_mut().rfind(|buffered| buffered.data.signal() == signal);
        let left = match last {
            Some(last) => append(last, batch),
            None => Err(batch),
        };
        let Err(batch) = left else { return };
        self.buffered.push_back(batch);
        if self.buffered.len() > BUFFERED_MAX {
            self.flush();
        }
        if self.buffered.len() > BUFFERED_MAX
            && let Some(oldest) = self.buffered.pop_front()
        {
            self.shared.count_dropped(&oldest.data);
        }
    }

    /// Sends the buffered batches: all of them with [`Backpressure::Wait`], otherwise as many as the channel accepts.
    pub fn flush(&mut self) {
        while let Some(batch) = self.buffered.pop_front() {
            if self.backpressure == Backpressure::Wait {
                self.send(batch);
                continue;
            }
            match self.sender.try_send(batch) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(batch)) => return self.buffered.push_front(batch),
                Err(mpsc::error::TrySendError::Closed(batch)) => self.shared.count_dropped(&batch.data),
            }
        }
    }

    /// Sends a batch that will be repeated, behind the buffered ones, or drops it.
    fn repeat(&mut self, batch: Batch) {
        self.flush();
        if self.buffered.is_empty() {
            self.buffered.push_back(batch);
            self.flush();
        }
    }

    /// Sends a batch, blocking until the channel accepts it.
    fn send(&self, batch: Batch) {
        if let Err(mpsc::error::SendError(batch)) = self.sender.blocking_send(batch) {
            self.shared.count_dropped(&batch.data);
        }
    }

    /// Sends every buffered batch, blocking until the channel accepts it.
    pub fn close(mut self) {
        for batch in std::mem::take(&mut self.buffered) {
            self.send(batch);
        }
    }
}

/// The task's end of a delivery.
pub struct Delivery {
    next: Vec<(Signal, Arc<dyn Consumer>)>,
    batches: mpsc::Receiver<Batch>,
    refused: VecDeque<Data>,
    retry_at: Option<Instant>,
    shared: Arc<Shared>,
}

impl Delivery {
    /// Delivers batches until `stop` is cancelled and the sender is closed. Wakes `thread` on cancellation. A source that
    /// ends before does not end the task, since refused batches may still be accepted.
    pub async fn run(mut self, thread: Thread, stop: CancellationToken) {
        let (mut is_drained, mut is_stopping) = (false, false);
        while !(is_drained && is_stopping) {
            let retry_at = self.retry_at.unwrap_or_else(Instant::now);
            tokio::select! {
                batch = self.batches.recv(), if !is_drained => match batch {
                    Some(batch) => self.take(batch).await,
                    None => is_drained = true,
                },
                () = stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    self.shared.is_stopping.store(true, Ordering::Relaxed);
                    thread.unpark();
                }
                () = sleep_until(retry_at), if self.retry_at.is_some() => self.retry().await,
            }
        }
        self.retry().await;
        self.refused.iter().for_each(|data| self.shared.count_dropped(data));
    }

    async fn take(&mut self, batch: Batch) {
        if batch.is_repeated {
            // The next cumulative batch repeats these points, so no copy is retained for a retry.
            let _ = self.consume(batch.data).await;
        } else if let Err(refused) = self.consume(batch.data.clone()).await {
            self.retain(batch.data, &refused);
        }
    }

    async fn consume(&self, data: Data) -> Result<(), Refused> {
        match self.next.iter().find(|(signal, _)| *signal == data.signal()) {
            Some((_, consumer)) => consumer.consume(data).await,
            // The receiver is in no pipeline of this signal.
            None => Ok(()),
        }
    }

    fn retain(&mut self, data: Data, refused: &Refused) {
        if !refused.is_retryable() {
            tracing::warn!(signal = data.signal().name(), items = data.items(), %refused, "telemetry was dropped");
            return self.shared.count_dropped(&data);
        }
        if self.refused.len() == REFUSED_MAX
            && let Some(oldest) = self.refused.pop_front()
        {
            self.shared.count_dropped(&oldest);
        }
        self.refused.push_back(data);
        self.retry_at = Some(Instant::now() + refused.retry_after.unwrap_or(RETRY));
    }

    /// Retries refused batches in order, until one is refused again.
    async fn retry(&mut self) {
        self.retry_at = None;
        for data in std::mem::take(&mut self.refused) {
            match self.retry_at {
                None => self.take(Batch { data, is_repeated: false }).await,
                Some(_) => self.refused.push_back(data),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc as Shares;

    use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};
    use pdata::Payload;

    use super::*;
    use crate::append::ITEMS_MAX;

    fn batch_of(items: usize, is_repeated: bool) -> Batch {
        let scope_logs = ScopeLogs { log_records: vec![LogRecord::default(); items], ..ScopeLogs::default() };
        let resource_logs = ResourceLogs { scope_logs: vec![scope_logs], ..ResourceLogs::default() };
        let data = Data::Logs(Payload::new(LogsData { resource_logs: vec![resource_logs] }));
        Batch { data, is_repeated }
    }

    fn batch(is_repeated: bool) -> Batch {
        batch_of(1, is_repeated)
    }

    fn sender(capacity: usize) -> (BatchSender, mpsc::Receiver<Batch>) {
        let (sender, batches) = mpsc::channel(capacity);
        let backpressure = Backpressure::DropOldest;
        (BatchSender { backpressure, sender, buffered: VecDeque::new(), shared: Shares::default() }, batches)
    }

    #[test]
    fn blocked_pipeline_costs_bounded_memory_and_drops_are_counted() {
        let (mut sender, _batches) = sender(4);
        (0..2 * BUFFERED_MAX).for_each(|_| sender.push(batch_of(ITEMS_MAX, false)));
        assert_eq!(sender.buffered.len(), BUFFERED_MAX);
        assert_eq!(sender.shared.dropped_items().logs, ((BUFFERED_MAX - 4) * ITEMS_MAX) as u64);
    }

    #[test]
    fn batches_of_one_read_are_appended_and_none_is_dropped() {
        // Once each span was a batch of its own, and 341 of the 2,040 of a fast job were dropped.
        let (mut sender, mut batches) = sender(CHANNEL);
        (0..2_040).for_each(|_| sender.push(batch(false)));
        sender.flush();
        let left: Vec<usize> = std::iter::from_fn(|| Some(batches.try_recv().ok()?.data.items())).collect();
        assert_eq!((left.len(), left.iter().sum::<usize>()), (8, 2_040));
        assert_eq!((sender.buffered.len(), sender.dropped_items()), (0, DroppedItems::default()));
    }

    #[test]
    fn repeated_batch_does_not_overtake_buffered_ones() {
        let (mut sender, mut batches) = sender(4);
        sender.push(batch(false));
        sender.push(batch(true));
        let repeated: Vec<bool> = std::iter::from_fn(|| Some(batches.try_recv().ok()?.is_repeated)).collect();
        assert_eq!(repeated, [false, true]);
    }

    #[test]
    fn repeated_batch_is_not_buffered() {
        let (mut sender, mut batches) = sender(1);
        sender.push(batch(false));
        sender.flush();
        sender.push(batch(false));
        (0..10).for_each(|_| sender.push(batch(true)));
        assert_eq!(sender.buffered.len(), 1);
        batches.try_recv().unwrap();
        sender.flush();
        assert_eq!((sender.buffered.len(), sender.shared.dropped_items()), (0, DroppedItems::default()));
    }

    #[test]
    fn dropped_batch_of_profiles_does_not_panic() {
        let (mut sender, batches) = sender(1);
        drop(batches);
        sender.push(Batch { data: Data::Profiles(Payload::default()), is_repeated: false });
        sender.flush();
        assert_eq!(sender.dropped_items(), DroppedItems::default());
    }

    #[test]
    fn batch_for_a_closed_channel_is_counted_as_dropped() {
        let (mut sender, batches) = sender(1);
        drop(batches);
        sender.push(batch(false));
        sender.flush();
        assert_eq!(sender.shared.dropped_items().logs, 1);
    }
}
