//! A queue in a storage: its keeper stores requests, reads a few ahead of being sent, and removes what is done.
//!
//! The one idea: one task owns the index, so that every change of it is written in one batch with the requests
//! it speaks of; what waits while a batch is being written goes into the next one together. A request that is
//! wanted at once does not go through the storage's hands again: it is handed on when its write is done. In
//! memory there are only those being written, those being sent, and [`AHEAD_MAX`] in between, however many
//! the storage holds.

use std::sync::Arc;
use std::time::Duration;

use component::context::Context;
use component::storage::{Operation, StorageClient, StorageError};
use component::{ComponentId, Data, Refused, Signal, StartResult};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::dispatch::Request;
use crate::front::closed;
use crate::index::{self, Index};
use crate::receipt::{Outcome, Share};
use crate::room::{Place, Room};
use crate::{Sizer, Tally, payload};

/// How many requests are read ahead.
const AHEAD_MAX: usize = 16;

/// How many requests are being stored at once; who brings one more waits.
const STORING_MAX: usize = 128;

/// How many changes, and bytes, are written together.
const GROUP_MAX: usize = 256;
const GROUP_BYTES_MAX: usize = 8 << 20;

/// How long to wait before a storage that failed is asked again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How many delivered requests may wait for their removal. While a storage fails, no more than these are sent
/// again by the next process; sending goes on when they are removed.
pub const UNREMOVED_MAX: usize = 1000;

/// What a keeper is told about its queue.
pub(crate) struct Setup<'a> {
    pub(crate) id: &'a ComponentId,
    pub(crate) signal: Signal,
    pub(crate) sizer: Sizer,
    pub(crate) consumers: usize,
}

/// The way in.
#[derive(Clone)]
pub(crate) struct Entry {
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
    place: Place,
    reply: oneshot::Sender<Result<(), Refused>>,
}

/// What a request counts for.
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

impl Entry {
    /// Stores a request, and returns when it is.
    pub(crate) async fn put(&self, data: Data, context: Context, place: Place) -> Result<(), Refused> {
        let _turn = self.storing.acquire().await.map_err(|_| closed())?;
        let (payload, size) = (payload::encode(&data, &context), Size::of(&data));
        let (reply, stored) = oneshot::channel();
        let put = Put { payload, data, context, size, place, reply };
        self.commands.send(Command::Put(put)).map_err(|_| closed())?;
        stored.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Ends the keeper after what it was told before.
    pub(crate) fn close(&self) {
        // A keeper that is gone needs not be told.
        let _ = self.commands.send(Command::Close);
    }
}

/// Changes that are written together.
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

/// The owner of a queue's index.
pub(crate) struct Keeper {
    id: ComponentId,
    signal: Signal,
    sizer: Sizer,
    client: Arc<dyn StorageClient>,
    index: Index,
    /// What is done, and still has to be removed from the storage.
    to_remove: Vec<u64>,
    room: Arc<Room>,
    tally: Arc<Tally>,
    commands: mpsc::UnboundedReceiver<Command>,
    entry: mpsc::UnboundedSender<Command>,
    ready: mpsc::Sender<Request>,
    /// Not before this is a storage that failed asked again.
    again_at: Option<Instant>,
    /// True while the storage fails: told once.
    is_failing: bool,
    stop: CancellationToken,
}

impl Keeper {
    /// Opens what another process left in a storage. Returns the way in, and where requests come out.
    pub(crate) async fn open(
        setup: Setup<'_>,
        client: Arc<dyn StorageClient>,
        room: Arc<Room>,
        tally: Arc<Tally>,
        stop: CancellationToken,
    ) -> StartResult<(Self, Entry, mpsc::Receiver<Request>)> {
        let stored = client.batch(vec![Operation::Get(index::KEY.to_owned())]).await?.into_iter().next();
        let index = match stored.flatten() {
            None => Index::default(),
            Some(bytes) => Index::restore(&bytes).unwrap_or_else(|| {
                tally.unreadable(1);
                tracing::error!(exporter = %setup.id, "the index of the stored queue cannot be read, beginning anew");
                Index::default()
            }),
        };
        let (entry, commands) = mpsc::unbounded_channel();
        let (ready, requests) = mpsc::channel(setup.consumers.clamp(1, AHEAD_MAX));
        let keeper = Keeper {
            id: setup.id.clone(),
            signal: setup.signal,
            sizer: setup.sizer,
            client,
            index,
            to_remove: Vec::new(),
            room,
            tally,
            commands,
            entry: entry.clone(),
            ready,
            again_at: None,
            is_failing: false,
            stop,
        };
        keeper.begin();
        let entry = Entry { commands: entry, storing: Arc::new(Semaphore::new(STORING_MAX)) };
        Ok((keeper, entry, requests))
    }

    /// Takes the room of what is there already.
    fn begin(&self) {
        self.room.force(self.held()).keep();
        self.tally.set_queue_size(self.held());
        if self.index.requests() > 0 {
            let (requests, items) = (self.index.requests(), self.index.items);
            tracing::info!(
                exporter = %self.id, signal = self.signal.name(), requests, items,
                "requests of an earlier run are stored and will be sent"
            );
        }
    }

    /// Works until it is told to close.
    pub(crate) async fn run(mut self) {
        loop {
            let reads = self.index.undispatched() > 0 && self.dispatches() && !self.ready.is_closed();
            let (waits, again_at) = (self.again_at.is_some(), self.again_at.unwrap_or_else(Instant::now));
            tokio::select! {
                command = self.commands.recv() => {
                    let Some(command) = command else { return };
                    if self.write(command).await {
                        return;
                    }
                }
                () = sleep_until(again_at), if waits => {
                    self.again_at = None;
                    self.remove().await;
                }
                () = async { drop(self.ready.reserve().await) }, if reads && !waits => self.read().await,
            }
        }
    }

    /// What the queue holds, in units of its sizer.
    fn held(&self) -> u64 {
        match self.sizer {
            Sizer::Requests => self.index.requests(),
            Sizer::Items => self.index.items,
            Sizer::Bytes => self.index.bytes,
        }
    }

    /// Does what it is told, with what else waits. True where it is to end.
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

    /// A request is done with: its room is free, and it need not be stored any more.
    fn finish(&mut self, number: u64, size: Size) {
        let before = self.held();
        self.index.done(number, size.items, size.bytes);
        self.room.give_back(before.saturating_sub(self.held()));
        self.tally.set_queue_size(self.held());
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
        self.tally.set_queue_size(self.held());
    }

    /// Writes requests, removals and the index in one batch.
    async fn commit(&mut self, mut steps: Vec<Operation>) -> Result<(), StorageError> {
        steps.extend(self.to_remove.iter().map(|number| Operation::Delete(index::key(*number))));
        steps.push(Operation::Set(index::KEY.to_owned(), self.index.encode()));
        let outcome = self.client.batch(steps).await.map(drop);
        if outcome.is_ok() {
            self.to_remove.clear();
        }
        self.note(&outcome);
        outcome
    }

    /// Tells the senders, and hands on what is wanted at once.
    fn stored(&mut self, puts: Vec<Put>) {
        let mut direct = self.index.undispatched() == puts.len() && self.dispatches();
        for put in puts {
            put.place.keep();
            // A sender that is gone sends again, maybe: once more is allowed, not at all is not.
            let _ = put.reply.send(Ok(()));
            direct = direct && self.hand_on(put.data, put.context, put.size);
        }
    }

    fn hand_on(&mut self, data: Data, context: Context, size: Size) -> bool {
        let Ok(place) = self.ready.try_reserve() else { return false };
        let Some(number) = self.index.dispatch() else { return false };
        place.send(Request { data, context, share: share(&self.entry, number, size) });
        true
    }

    /// Tells the senders why not. What could be removed still is: that may make the room that is missing.
    async fn not_stored(&mut self, puts: Vec<Put>, error: &StorageError) {
        match puts.is_empty() {
            true => self.ask_again_later(),
            false => self.remove().await,
        }
        for put in puts {
            let _ = put.reply.send(Err(Refused::retryable(error.to_string())));
        }
    }

    /// Reads as many requests as there is room for ahead of their sending.
    async fn read(&mut self) {
        let most = self.ready.capacity().min(self.index.undispatched());
        let numbers: Vec<u64> = std::iter::from_fn(|| self.index.dispatch()).take(most).collect();
        let steps = numbers.iter().map(|number| Operation::Get(index::key(*number))).collect();
        let outcome = self.client.batch(steps).await;
        self.note(&outcome);
        match outcome {
            Ok(values) => {
                numbers.into_iter().zip(values).for_each(|(number, value)| self.found(number, value));
            }
            Err(_) => {
                numbers.into_iter().rev().for_each(|number| self.index.undo_dispatch(number));
                self.ask_again_later();
            }
        }
        self.remove().await;
    }

    /// Removes what is done, if it was not yet.
    async fn remove(&mut self) {
        if !self.to_remove.is_empty() && self.commit(Vec::new()).await.is_err() {
            self.ask_again_later();
        }
    }

    fn ask_again_later(&mut self) {
        self.again_at.get_or_insert_with(|| Instant::now() + AGAIN_AFTER);
    }

    /// True while requests are handed on: not after the stop, nor where nobody could note that they are done.
    fn dispatches(&self) -> bool {
        !self.stop.is_cancelled() && self.to_remove.len() < UNREMOVED_MAX
    }

    fn found(&mut self, number: u64, value: Option<Vec<u8>>) {
        let request = value.as_deref().map(|bytes| payload::decode(self.signal, bytes));
        let (data, context) = match request {
            Some(Ok(request)) => request,
            Some(Err(error)) => return self.unreadable(number, &error.to_string()),
            None => return self.unreadable(number, "it is no longer stored"),
        };
        let share = share(&self.entry, number, Size::of(&data));
        if let Err(unsent) = self.ready.try_send(Request { data, context, share }) {
            // The exporter stops; the request stays where it is.
            drop(unsent);
        }
    }

    /// Counts a request that is lost, and forgets it.
    fn unreadable(&mut self, number: u64, why: &str) {
        self.tally.unreadable(1);
        tracing::error!(exporter = %self.id, signal = self.signal.name(), number, why, "a stored request is lost");
        self.finish(number, Size::default());
    }

    /// Tells when a storage begins or ceases to fail.
    fn note<T>(&mut self, outcome: &Result<T, StorageError>) {
        let was_failing = std::mem::replace(&mut self.is_failing, outcome.is_err());
        match outcome {
            Err(error) if !was_failing => tracing::error!(
                exporter = %self.id, signal = self.signal.name(), %error, "the stored queue cannot be written or read"
            ),
            Ok(_) if was_failing => {
                tracing::info!(exporter = %self.id, signal = self.signal.name(), "the stored queue works again");
            }
            _ => {}
        }
    }
}

/// A hold on a dispatched request: when it is let go, the keeper removes the request, unless it is to be kept.
fn share(entry: &mpsc::UnboundedSender<Command>, number: u64, size: Size) -> Share {
    let entry = entry.clone();
    Share::of(usize::try_from(size.items).unwrap_or(usize::MAX), move |outcome: Outcome| {
        if !outcome.is_kept {
            // Without a keeper the request stays stored, and is sent again by the next process.
            let _ = entry.send(Command::Done { number, size });
        }
    })
}
