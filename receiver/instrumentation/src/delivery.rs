//! From the thread that reads to the task that hands on: a bounded channel, and what waits on either side of it.
//!
//! The one idea: a pipeline that is slow or refuses must not hold up whoever reads. What the next collection says
//! again is dropped; spans, log records and the last points of what has ended are joined until the reader says that it
//! has read, wait in bounded buffers, are tried again, and are counted where they have to go ([`Undelivered`]). A
//! recording has time, and waits.
//!
//! ```text
//!  a thread: Outlet, 64 batches --- channel, 16 --> a task: Delivery --> pipelines --- refused, 64 --> again, later
//! ```
//!
//! Each bound is in batches of up to [`ITEMS_MAX`](crate::join::ITEMS_MAX) items of some 1 KiB: where nobody takes
//! anything, they come to 16, 4 and 16 MiB.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use component::{Consumer, Data, Refused, Signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::batch::Batch;
use crate::join::join;

/// Batches between the thread and the task.
const CHANNEL: usize = 16;
/// Batches that wait on the thread's side while the channel is full: 16,384 spans, which is a rank's for 40 s at 100
/// traced collectives a second. Full: the oldest goes.
const WAITING_MAX: usize = 64;
/// Batches that a pipeline refused and that are tried again: as many as may wait. Full: the oldest goes.
const REFUSED_MAX: usize = 64;
/// When a refused batch is tried again, where the refuser named no time.
const RETRY: Duration = Duration::from_secs(1);

/// Whether a source can wait.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Pace {
    /// It fills while nobody reads: what pipelines do not take in time is dropped and counted.
    Live,
    /// It has time: pipelines are waited for.
    Recorded,
}

/// Items that no pipeline took, by signal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Undelivered {
    /// Log records.
    pub logs: u64,
    /// Last points of what has ended.
    pub metrics: u64,
    /// Spans.
    pub traces: u64,
}

/// The two ends: one for the thread that reads, one for the task that hands on to `next`.
pub fn channel(pace: Pace, next: Vec<(Signal, Arc<dyn Consumer>)>) -> (Outlet, Delivery) {
    let shared = Arc::new(Shared::default());
    let (sender, batches) = mpsc::channel(CHANNEL);
    let outlet = Outlet { pace, sender, waiting: VecDeque::new(), shared: Arc::clone(&shared) };
    (outlet, Delivery { next, batches, refused: VecDeque::new(), retry_at: None, shared })
}

/// What both ends share.
#[derive(Debug, Default)]
struct Shared {
    is_stopping: AtomicBool,
    lost: [AtomicU64; 3],
}

impl Shared {
    fn lose(&self, data: &Data) {
        let items = u64::try_from(data.items()).unwrap_or(u64::MAX);
        self.lost[data.signal() as usize].fetch_add(items, Ordering::Relaxed);
    }

    fn undelivered(&self) -> Undelivered {
        let of = |signal: Signal| self.lost[signal as usize].load(Ordering::Relaxed);
        Undelivered { logs: of(Signal::Logs), metrics: of(Signal::Metrics), traces: of(Signal::Traces) }
    }
}

/// The thread's end: batches on their way to the task.
#[derive(Debug)]
pub struct Outlet {
    pace: Pace,
    sender: mpsc::Sender<Batch>,
    waiting: VecDeque<Batch>,
    shared: Arc<Shared>,
}

impl Outlet {
    /// True once the task was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.shared.is_stopping.load(Ordering::Relaxed)
    }

    /// What could not be delivered, since the beginning.
    pub fn undelivered(&self) -> Undelivered {
        self.shared.undelivered()
    }

    /// Whether whatever is read can wait.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Takes a batch, which may wait for [`Outlet::flush`]. Live, this never waits for the task.
    pub fn push(&mut self, batch: Batch) {
        if batch.is_repeated {
            return self.repeat(batch);
        }
        let signal = batch.data.signal();
        let last = self.waiting.iter_mut().rfind(|waiting| waiting.data.signal() == signal);
        let left = match last {
            Some(last) => join(last, batch),
            None => Err(batch),
        };
        let Err(batch) = left else { return };
        self.waiting.push_back(batch);
        if self.waiting.len() > WAITING_MAX {
            self.flush();
        }
        if self.waiting.len() > WAITING_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.shared.lose(&oldest.data);
        }
    }

    /// Sends what was read so far: all of a recording, and of what is live what the channel has room for.
    pub fn flush(&mut self) {
        while let Some(batch) = self.waiting.pop_front() {
            if self.pace == Pace::Recorded {
                self.send(batch);
                continue;
            }
            match self.sender.try_send(batch) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(batch)) => return self.waiting.push_front(batch),
                Err(mpsc::error::TrySendError::Closed(batch)) => self.shared.lose(&batch.data),
            }
        }
    }

    /// What will be said again goes at once, behind what waits, or not at all.
    fn repeat(&mut self, batch: Batch) {
        self.flush();
        if self.waiting.is_empty() {
            self.waiting.push_back(batch);
            self.flush();
        }
    }

    /// Sends, however long that takes.
    fn send(&self, batch: Batch) {
        if let Err(mpsc::error::SendError(batch)) = self.sender.blocking_send(batch) {
            self.shared.lose(&batch.data);
        }
    }

    /// Sends everything that waits, however long that takes.
    pub fn close(mut self) {
        for batch in std::mem::take(&mut self.waiting) {
            self.send(batch);
        }
    }
}

/// The task's end.
pub struct Delivery {
    next: Vec<(Signal, Arc<dyn Consumer>)>,
    batches: mpsc::Receiver<Batch>,
    refused: VecDeque<Data>,
    retry_at: Option<Instant>,
    shared: Arc<Shared>,
}

impl Delivery {
    /// Hands on until `thread`, which is told of the stop, has nothing more and the program stops. A source that ends
    /// leaves it waiting: what was refused may still be taken.
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
        self.refused.iter().for_each(|data| self.shared.lose(data));
    }

    async fn take(&mut self, batch: Batch) {
        if batch.is_repeated {
            // The next one says it again: whoever takes this one may have it to himself.
            let _ = self.hand_on(batch.data).await;
        } else if let Err(refused) = self.hand_on(batch.data.clone()).await {
            self.keep(batch.data, &refused);
        }
    }

    async fn hand_on(&self, data: Data) -> Result<(), Refused> {
        match self.next.iter().find(|(signal, _)| *signal == data.signal()) {
            Some((_, consumer)) => consumer.consume(data).await,
            // No pipeline asks for this signal.
            None => Ok(()),
        }
    }

    fn keep(&mut self, data: Data, refused: &Refused) {
        if !refused.is_retryable() {
            tracing::warn!(signal = data.signal().name(), items = data.items(), %refused, "telemetry is lost");
            return self.shared.lose(&data);
        }
        if self.refused.len() == REFUSED_MAX
            && let Some(oldest) = self.refused.pop_front()
        {
            self.shared.lose(&oldest);
        }
        self.refused.push_back(data);
        self.retry_at = Some(Instant::now() + refused.retry_after.unwrap_or(RETRY));
    }

    /// Tries everything again, until the first refusal.
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

    use component::Payload;
    use opentelemetry_proto::tonic::logs::v1::{LogRecord, LogsData, ResourceLogs, ScopeLogs};

    use super::*;
    use crate::join::ITEMS_MAX;

    fn batch_of(items: usize, is_repeated: bool) -> Batch {
        let scope_logs = ScopeLogs { log_records: vec![LogRecord::default(); items], ..ScopeLogs::default() };
        let resource_logs = ResourceLogs { scope_logs: vec![scope_logs], ..ResourceLogs::default() };
        let data = Data::Logs(Payload::new(LogsData { resource_logs: vec![resource_logs] }));
        Batch { data, is_repeated }
    }

    fn batch(is_repeated: bool) -> Batch {
        batch_of(1, is_repeated)
    }

    fn outlet(room: usize) -> (Outlet, mpsc::Receiver<Batch>) {
        let (sender, batches) = mpsc::channel(room);
        let pace = Pace::Live;
        (Outlet { pace, sender, waiting: VecDeque::new(), shared: Shares::default() }, batches)
    }

    #[test]
    fn a_pipeline_that_takes_nothing_costs_bounded_memory_and_every_loss_is_counted() {
        let (mut outlet, _batches) = outlet(4);
        (0..2 * WAITING_MAX).for_each(|_| outlet.push(batch_of(ITEMS_MAX, false)));
        assert_eq!(outlet.waiting.len(), WAITING_MAX);
        assert_eq!(outlet.shared.undelivered().logs, ((WAITING_MAX - 4) * ITEMS_MAX) as u64);
    }

    #[test]
    fn what_one_read_brings_leaves_in_few_batches_and_nothing_is_lost() {
        // Each was a batch of its own once, and of 2,040 that a fast job brought 341 were lost.
        let (mut outlet, mut batches) = outlet(CHANNEL);
        (0..2_040).for_each(|_| outlet.push(batch(false)));
        outlet.flush();
        let left: Vec<usize> = std::iter::from_fn(|| Some(batches.try_recv().ok()?.data.items())).collect();
        assert_eq!((left.len(), left.iter().sum::<usize>()), (8, 2_040));
        assert_eq!((outlet.waiting.len(), outlet.undelivered()), (0, Undelivered::default()));
    }

    #[test]
    fn what_is_said_again_does_not_overtake_what_waits() {
        let (mut outlet, mut batches) = outlet(4);
        outlet.push(batch(false));
        outlet.push(batch(true));
        let told: Vec<bool> = std::iter::from_fn(|| Some(batches.try_recv().ok()?.is_repeated)).collect();
        assert_eq!(told, [false, true]);
    }

    #[test]
    fn what_is_said_again_does_not_wait() {
        let (mut outlet, mut batches) = outlet(1);
        outlet.push(batch(false));
        outlet.flush();
        outlet.push(batch(false));
        (0..10).for_each(|_| outlet.push(batch(true)));
        assert_eq!(outlet.waiting.len(), 1);
        batches.try_recv().unwrap();
        outlet.flush();
        assert_eq!((outlet.waiting.len(), outlet.shared.undelivered()), (0, Undelivered::default()));
    }

    #[test]
    fn what_nobody_will_take_any_more_is_lost_and_counted() {
        let (mut outlet, batches) = outlet(1);
        drop(batches);
        outlet.push(batch(false));
        outlet.flush();
        assert_eq!(outlet.shared.undelivered().logs, 1);
    }
}
