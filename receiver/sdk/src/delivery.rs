//! From the thread that reads to the task that hands on: a bounded channel, and what waits on either side of it.
//!
//! The one idea: a pipeline that is slow or refuses must not hold up whoever reads. What the next collection says
//! again is dropped; spans, log records and the last points of what has ended wait in bounded buffers, are tried
//! again, and are counted where they have to go ([`Undelivered`]). A recording has time, and waits.
//!
//! ```text
//!  a thread: Outlet --- channel, 64 batches --> a task: Delivery --> pipelines --- refused, 256 --> again, later
//! ```

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

/// Batches between the thread and the task.
const CHANNEL: usize = 64;
/// Batches that wait on the thread's side while the channel is full: mostly of a span or two, as many as one read of a busy
/// source may bring. Full: the oldest goes.
const WAITING_MAX: usize = 4_096;
/// Batches that a pipeline refused and that are tried again. Full: the oldest goes.
const REFUSED_MAX: usize = 256;
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

    /// Takes a batch. Live, it never waits for the task.
    pub fn push(&mut self, batch: Batch) {
        if self.pace == Pace::Recorded {
            return self.send(batch);
        }
        self.flush();
        if batch.is_repeated && !self.waiting.is_empty() {
            return;
        }
        self.waiting.push_back(batch);
        self.flush();
        if self.waiting.len() > WAITING_MAX
            && let Some(oldest) = self.waiting.pop_front()
        {
            self.shared.lose(&oldest.data);
        }
    }

    /// Sends what the channel has room for.
    pub fn flush(&mut self) {
        while let Some(batch) = self.waiting.pop_front() {
            match self.sender.try_send(batch) {
                Ok(()) => {}
                Err(mpsc::error::TrySendError::Full(batch)) => return self.waiting.push_front(batch),
                Err(mpsc::error::TrySendError::Closed(batch)) => self.shared.lose(&batch.data),
            }
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
        let Refused::Retryable { after, .. } = refused else {
            tracing::warn!(signal = data.signal().name(), items = data.items(), %refused, "telemetry is lost");
            return self.shared.lose(&data);
        };
        if self.refused.len() == REFUSED_MAX
            && let Some(oldest) = self.refused.pop_front()
        {
            self.shared.lose(&oldest);
        }
        self.refused.push_back(data);
        self.retry_at = Some(Instant::now() + after.unwrap_or(RETRY));
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

    fn batch(is_repeated: bool) -> Batch {
        let scope_logs = ScopeLogs { log_records: vec![LogRecord::default()], ..ScopeLogs::default() };
        let resource_logs = ResourceLogs { scope_logs: vec![scope_logs], ..ResourceLogs::default() };
        let data = Data::Logs(Payload::new(LogsData { resource_logs: vec![resource_logs] }));
        Batch { data, is_repeated }
    }

    fn outlet(room: usize) -> (Outlet, mpsc::Receiver<Batch>) {
        let (sender, batches) = mpsc::channel(room);
        let pace = Pace::Live;
        (Outlet { pace, sender, waiting: VecDeque::new(), shared: Shares::default() }, batches)
    }

    #[test]
    fn a_pipeline_that_takes_nothing_costs_bounded_memory_and_every_loss_is_counted() {
        let (mut outlet, _batches) = outlet(4);
        (0..2 * WAITING_MAX).for_each(|_| outlet.push(batch(false)));
        assert_eq!(outlet.waiting.len(), WAITING_MAX);
        assert_eq!(outlet.shared.undelivered().logs, WAITING_MAX as u64 - 4);
    }

    #[test]
    fn what_is_said_again_does_not_wait() {
        let (mut outlet, mut batches) = outlet(1);
        outlet.push(batch(false));
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
        assert_eq!(outlet.shared.undelivered().logs, 1);
    }
}
