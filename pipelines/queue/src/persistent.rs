//! A queue in a storage: stores requests, reads a few ahead of sending, and removes them when they are done.
//!
//! One task owns the index, so that every change of it is written in one batch with the requests it concerns.
//! Commands that arrive during a write form the next batch. A request that can be dispatched at once is not
//! read back from the storage. Memory holds the requests being written, those being sent, and at most
//! [`AHEAD_MAX`] in between, regardless of how many are stored.

use std::sync::Arc;
use std::time::Duration;

use component::context::Context;
use component::health::{Change, Health};
use component::storage::{Operation, StorageClient, StorageError};
use component::{ComponentId, Refused, StartResult};
use pdata::{Data, Signal};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::ack::{AckGuard, Outcome};
use crate::capacity::{Capacity, Permit};
use crate::dispatch::Request;
use crate::index::{self, Index};
use crate::sending_queue::closed;
use crate::{SignalMetrics, Sizer, payload};

/// Requests read ahead of sending, at most.
const AHEAD_MAX: usize = 16;

/// Requests being stored at once, at most; further senders wait.
const STORING_MAX: usize = 128;

/// Commands, and payload bytes, written in one batch, at most.
const GROUP_MAX: usize = 256;
const GROUP_BYTES_MAX: usize = 8 << 20;

/// Delay before a failed storage is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Delivered requests that may wait for their removal, at most. If the storage fails, the next process sends
/// no more than these a second time; sending resumes when they are removed.
pub const UNREMOVED_MAX: usize = 1000;

/// The parameters of a persistent queue.
pub(crate) struct Setup<'a> {
    pub(crate) id: &'a ComponentId,
    pub(crate) signal: Signal,
    pub(crate) sizer: Sizer,
    pub(crate) consumers: usize,
}

/// A handle that sends commands to a [`PersistentQueue`].
#[derive(Clone)]
pub(crate) struct QueueHandle {
    commands: mpsc::UnboundedSender<Command>,
    storing: Arc<Semaphore>,
}

enum Command {
    Put(Put),
    Done { number: u64, size: Size },
    Close,
}

/// A request to be stored.
struct Put {
    payload: Vec<u8>,
    data: Data,
    context: Context,
    size: Size,
    permit: Permit,
    reply: oneshot::Sender<Result<(), Refused>>,
}

/// The size of a request in units other than requests.
#[derive(Clone, Copy, Debug, Default)]
struct Size {
    items: u64,
    bytes: u64,
}

impl Size {
    fn of(data: &Data) -> Self {
        Size { items: data.items() as u64, bytes: data.encoded_len() as u64 }
    }
}

impl QueueHandle {
    /// Stores a request; returns once it is stored.
    pub(crate) async fn put(&self, data: Data, context: Context, permit: Permit) -> Result<(), Refused> {
        let _storing = self.storing.acquire().await.map_err(|_| closed())?;
        let (payload, size) = (payload::encode(&data, &context), Size::of(&data));
        let (reply, stored) = oneshot::channel();
        let put = Put { payload, data, context, size, permit, reply };
        self.commands.send(Command::Put(put)).map_err(|_| closed())?;
        stored.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Stops the queue after the commands sent so far.
    pub(crate) fn close(&self) {
        // A queue that is gone has stopped already.
        let _ = self.commands.send(Command::Close);
    }
}

/// Commands that are written in one batch.
#[derive(Default)]
struct Group {
    puts: Vec<Put>,
    done: Vec<(u64, Size)>,
    bytes: usize,
    closes: bool,
}

impl Group {
    fn add(&mut self, command: Command) {
        match command {
            Command::Close => self.closes = true,
            Command::Done { number, size } => self.done.push((number, size)),
            Command::Put(put) => {
                self.bytes += put.payload.len();
                self.puts.push(put);
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.closes || self.puts.len() + self.done.len() >= GROUP_MAX || self.bytes >= GROUP_BYTES_MAX
    }
}

/// The task that owns the index of a stored queue.
pub(crate) struct PersistentQueue {
    id: ComponentId,
    signal: Signal,
    sizer: Sizer,
    client: Arc<dyn StorageClient>,
    index: Index,
    /// Numbers of requests that are done and not yet removed from the storage.
    to_remove: Vec<u64>,
    capacity: Arc<Capacity>,
    metrics: Arc<SignalMetrics>,
    commands: mpsc::UnboundedReceiver<Command>,
    commands_sender: mpsc::UnboundedSender<Command>,
    ready: mpsc::Sender<Request>,
    /// The earliest next attempt after the storage failed.
    retry_at: Option<Instant>,
    health: Health,
    stop: CancellationToken,
}

impl PersistentQueue {
    /// Opens a queue and restores the index of an earlier process. Returns the queue, its handle, and the
    /// requests that are ready to be sent.
    pub(crate) async fn open(
        setup: Setup<'_>,
        client: Arc<dyn StorageClient>,
        capacity: Arc<Capacity>,
        metrics: Arc<SignalMetrics>,
        stop: CancellationToken,
    ) -> StartResult<(Self, QueueHandle, mpsc::Receiver<Request>)> {
        let stored = client.batch(vec![Operation::Get(index::KEY.to_owned())]).await?.into_iter().next();
        let index = match stored.flatten() {
            None => Index::default(),
            Some(bytes) => Index::restore(&bytes).unwrap_or_else(|| {
                metrics.unreadable();
                tracing::error!(exporter = %setup.id, "cannot read the index of the stored queue, starting with an empty one");
                Index::default()
            }),
        };
        let (commands_sender, commands) = mpsc::unbounded_channel();
        let (ready, requests) = mpsc::channel(setup.consumers.clamp(1, AHEAD_MAX));
        let queue = PersistentQueue {
            id: setup.id.clone(),
            signal: setup.signal,
            sizer: setup.sizer,
            client,
            index,
            to_remove: Vec::new(),
            capacity,
            metrics,
            commands,
            commands_sender: commands_sender.clone(),
            ready,
            retry_at: None,
            health: Health::default(),
            stop,
        };
        queue.restore();
        let storing = Arc::new(Semaphore::new(STORING_MAX));
        Ok((queue, QueueHandle { commands: commands_sender, storing }, requests))
    }

    /// Accounts for the requests that an earlier process stored.
    fn restore(&self) {
        self.capacity.acquire_over_limit(self.size()).forget();
        self.metrics.set_queue_size(self.size());
        if self.index.requests() > 0 {
            let (requests, items) = (self.index.requests(), self.index.items);
            tracing::info!(
                exporter = %self.id, signal = self.signal.name(), requests, items,
                "requests of an earlier run are stored and will be sent"
            );
        }
    }

    /// Processes commands until the queue is closed.
    pub(crate) async fn run(mut self) {
        loop {
            let reads = self.index.undispatched() > 0 && self.dispatches() && !self.ready.is_closed();
            let (waits, retry_at) = (self.retry_at.is_some(), self.retry_at.unwrap_or_else(Instant::now));
            tokio::select! {
                command = self.commands.recv() => {
                    let Some(command) = command else { return };
                    if self.write(command).await {
                        return;
                    }
                }
                () = sleep_until(retry_at), if waits => {
                    self.retry_at = None;
                    self.remove().await;
                }
                () = async { drop(self.ready.reserve().await) }, if reads && !waits => self.read().await,
            }
        }
    }

    /// Returns the size of the queue, in units of its sizer.
    fn size(&self) -> u64 {
        match self.sizer {
            Sizer::Requests => self.index.requests(),
            Sizer::Items => self.index.items,
            Sizer::Bytes => self.index.bytes,
        }
    }

    /// Writes a command together with others that wait. Returns true if the queue was closed.
    async fn write(&mut self, first: Command) -> bool {
        let mut group = Group::default();
        group.add(first);
        while !group.is_complete() {
            let Ok(command) = self.commands.try_recv() else { break };
            group.add(command);
        }
        let closes = group.closes;
        for (number, size) in std::mem::take(&mut group.done) {
            self.finish(number, size);
        }
        self.store(group.puts).await;
        closes
    }

    /// Releases the capacity of a request that is done, and schedules its removal.
    fn finish(&mut self, number: u64, size: Size) {
        let before = self.size();
        self.index.done(number, size.items, size.bytes);
        self.capacity.release(before.saturating_sub(self.size()));
        self.metrics.set_queue_size(self.size());
        self.to_remove.push(number);
    }

    async fn store(&mut self, mut puts: Vec<Put>) {
        let numbers: Vec<u64> =
            puts.iter().map(|put| self.index.add(put.size.items, put.size.bytes)).collect();
        let sets = numbers
            .iter()
            .zip(&mut puts)
            .map(|(number, put)| Operation::Set(index::key(*number), std::mem::take(&mut put.payload)));
        let outcome = self.commit(sets.collect()).await;
        match outcome {
            Ok(()) => self.stored(puts),
            Err(error) => {
                let total = puts.iter().fold(Size::default(), |sum, put| Size {
                    items: sum.items + put.size.items,
                    bytes: sum.bytes + put.size.bytes,
                });
                self.index.undo_add(puts.len() as u64, total.items, total.bytes);
                self.not_stored(puts, &error).await;
            }
        }
        self.metrics.set_queue_size(self.size());
    }

    /// Writes requests, removals and the index in one batch.
    async fn commit(&mut self, mut steps: Vec<Operation>) -> Result<(), StorageError> {
        steps.extend(self.to_remove.iter().map(|number| Operation::Delete(index::key(*number))));
        steps.push(Operation::Set(index::KEY.to_owned(), self.index.encode()));
        let outcome = self.client.batch(steps).await.map(drop);
        if outcome.is_ok() {
            self.to_remove.clear();
        }
        self.record(&outcome);
        outcome
    }

    /// Replies to the senders, and dispatches requests for which there is space.
    fn stored(&mut self, puts: Vec<Put>) {
        let mut direct = self.index.undispatched() == puts.len() && self.dispatches();
        for put in puts {
            put.permit.forget();
            // A sender that is gone may send again; a duplicate is allowed, a loss is not.
            let _ = put.reply.send(Ok(()));
            direct = direct && self.dispatch(put.data, put.context, put.size);
        }
    }

    fn dispatch(&mut self, data: Data, context: Context, size: Size) -> bool {
        let Ok(slot) = self.ready.try_reserve() else { return false };
        let Some(number) = self.index.dispatch() else { return false };
        slot.send(Request { data, context, ack: ack(&self.commands_sender, number, size) });
        true
    }

    /// Replies with the error. Removals are still written, since they may free the space that is missing.
    async fn not_stored(&mut self, puts: Vec<Put>, error: &StorageError) {
        match puts.is_empty() {
            true => self.retry_later(),
            false => self.remove().await,
        }
        for put in puts {
            let _ = put.reply.send(Err(Refused::retryable(error.to_string())));
        }
    }

    /// Reads as many requests as may be ready ahead of sending.
    async fn read(&mut self) {
        let most = self.ready.capacity().min(self.index.undispatched());
        let numbers: Vec<u64> = std::iter::from_fn(|| self.index.dispatch()).take(most).collect();
        let steps = numbers.iter().map(|number| Operation::Get(index::key(*number))).collect();
        let outcome = self.client.batch(steps).await;
        self.record(&outcome);
        match outcome {
            Ok(values) => {
                numbers
                    .into_iter()
                    .zip(values)
                    .for_each(|(number, value)| self.dispatch_stored(number, value));
            }
            Err(_) => {
                numbers.into_iter().rev().for_each(|number| self.index.undo_dispatch(number));
                self.retry_later();
            }
        }
        self.remove().await;
    }

    /// Removes requests that are done from the storage.
    async fn remove(&mut self) {
        if !self.to_remove.is_empty() && self.commit(Vec::new()).await.is_err() {
            self.retry_later();
        }
    }

    fn retry_later(&mut self) {
        self.retry_at.get_or_insert_with(|| Instant::now() + RETRY_AFTER);
    }

    /// Returns true if requests may be dispatched: not after the stop, and not while too many removals wait.
    fn dispatches(&self) -> bool {
        !self.stop.is_cancelled() && self.to_remove.len() < UNREMOVED_MAX
    }

    fn dispatch_stored(&mut self, number: u64, value: Option<Vec<u8>>) {
        let request = value.as_deref().map(|bytes| payload::decode(self.signal, bytes));
        let (data, context) = match request {
            Some(Ok(request)) => request,
            Some(Err(error)) => return self.unreadable(number, &error.to_string()),
            None => return self.unreadable(number, "it is no longer stored"),
        };
        let ack = ack(&self.commands_sender, number, Size::of(&data));
        if let Err(unsent) = self.ready.try_send(Request { data, context, ack }) {
            // The exporter stops; the request stays stored.
            drop(unsent);
        }
    }

    /// Counts and drops a request that cannot be read.
    fn unreadable(&mut self, number: u64, why: &str) {
        self.metrics.unreadable();
        tracing::error!(exporter = %self.id, signal = self.signal.name(), number, why, "dropping a stored request that cannot be read");
        self.finish(number, Size::default());
    }

    /// Logs when the storage starts to fail or works again.
    fn record<T>(&self, outcome: &Result<T, StorageError>) {
        let (exporter, signal) = (&self.id, self.signal.name());
        match (self.health.record(outcome.is_ok()), outcome) {
            (Some(Change::Failed), Err(error)) => {
                tracing::error!(%exporter, signal, %error, "cannot write or read the stored queue");
            }
            (Some(Change::Recovered), _) => tracing::info!(%exporter, signal, "the stored queue works again"),
            _ => {}
        }
    }
}

/// Returns the guard of a dispatched request. When the request ends, the queue removes it, unless it is kept.
fn ack(commands: &mpsc::UnboundedSender<Command>, number: u64, size: Size) -> AckGuard {
    let commands = commands.clone();
    AckGuard::new(usize::try_from(size.items).unwrap_or(usize::MAX), move |outcome: Outcome| {
        if !outcome.is_kept {
            // If the queue has stopped, the request stays stored, and the next process sends it again.
            let _ = commands.send(Command::Done { number, size });
        }
    })
}
