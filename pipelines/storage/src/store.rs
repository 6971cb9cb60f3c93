//! A store: a handle for asynchronous callers, and the thread that owns the file.
//!
//! Batches that arrive during a commit are committed together next. With syncs to disk, commits start at least
//! [`WINDOW`] apart, so that a stream of small batches costs a bounded number of syncs; a batch after a pause is
//! committed at once.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use component::BoxFuture;
use component::storage::{Operation, StorageClient, StorageError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::compaction::Rebound;
use crate::counts::{Counts, CountsSnapshot};
use crate::database::{Answer, Database, written_bytes};

/// Shortest time between the starts of synced commits.
const WINDOW: Duration = Duration::from_millis(5);

/// Number of batches in the channel, at most; further senders wait.
const WAITING_MAX: usize = 256;

/// Bytes written by one commit, at most, unless a single batch has more.
const GROUP_BYTES_MAX: u64 = 16 << 20;

/// The settings of a file.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Whether a write is done when the disk has it. Otherwise it is done when the operating system has it, and
    /// survives the process but not a loss of power.
    pub fsync: bool,
    /// Time to wait for a file that another process holds.
    pub timeout: Duration,
    /// Largest size of keys and values, in bytes; 0 is unlimited.
    pub bytes_max: u64,
    /// Whether the file is compacted when it is opened.
    pub compacts_on_start: bool,
    pub(crate) rebound: Option<Rebound>,
}

impl Default for Settings {
    fn default() -> Self {
        let timeout = Duration::from_secs(1);
        Settings { fsync: false, timeout, bytes_max: 0, compacts_on_start: false, rebound: None }
    }
}

/// An open file. It is closed when this is dropped, after the batches sent before.
#[derive(Debug)]
pub struct Store {
    jobs: Sender<Job>,
    waiting: Arc<Semaphore>,
    counts: Arc<Counts>,
}

/// A command to the thread.
#[derive(Debug)]
enum Job {
    Batch { steps: Vec<Operation>, answer: oneshot::Sender<Answer>, _place: OwnedSemaphorePermit },
    Close,
}

/// Closes a store regardless of its users, and waits until its file is closed.
#[derive(Debug)]
pub(crate) struct Closer {
    jobs: Sender<Job>,
    closed: oneshot::Receiver<()>,
}

impl Closer {
    /// Returns true if the file is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.is_terminated() || !self.closed.is_empty()
    }

    /// Closes the file after the batches sent before.
    pub(crate) async fn close(self) {
        // A thread that has ended has closed its file.
        let _ = self.jobs.send(Job::Close);
        let _ = self.closed.await;
    }
}

impl Store {
    /// Opens or creates the file. A file that cannot be read is renamed and replaced.
    pub async fn open(path: PathBuf, settings: Settings) -> Result<Self, StorageError> {
        Self::open_with_closer(path, settings).await.map(|(store, _)| store)
    }

    pub(crate) async fn open_with_closer(
        path: PathBuf,
        settings: Settings,
    ) -> Result<(Self, Closer), StorageError> {
        let (jobs, todo) = channel();
        let (opened, outcome) = oneshot::channel();
        let (closing, closed) = oneshot::channel();
        let counts = Arc::<Counts>::default();
        let its_counts = counts.clone();
        let work = move || {
            match Database::open(path, settings, its_counts) {
                Err(error) => drop(opened.send(Err(error))),
                Ok(database) => {
                    let _ = opened.send(Ok(()));
                    Worker { database, settings, todo, last_commit: None }.run();
                }
            }
            let _ = closing.send(());
        };
        let failed = |e: std::io::Error| StorageError::Failed(format!("no thread for a file: {e}"));
        std::thread::Builder::new().name("storage".to_owned()).spawn(work).map_err(failed)?;
        outcome.await.map_err(|_| StorageError::Closed)??;
        let store = Store { jobs: jobs.clone(), waiting: Arc::new(Semaphore::new(WAITING_MAX)), counts };
        Ok((store, Closer { jobs, closed }))
    }

    /// Returns the counters.
    pub fn counts(&self) -> CountsSnapshot {
        self.counts.snapshot()
    }

    /// Returns the shared counters, for their export.
    pub fn shared_counts(&self) -> Arc<Counts> {
        self.counts.clone()
    }

    async fn batch(&self, steps: Vec<Operation>) -> Answer {
        let place = self.waiting.clone().acquire_owned().await.map_err(|_| StorageError::Closed)?;
        let (answer, answered) = oneshot::channel();
        let job = Job::Batch { steps, answer, _place: place };
        self.jobs.send(job).map_err(|_| StorageError::Closed)?;
        answered.await.map_err(|_| StorageError::Closed)?
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Close);
    }
}

impl StorageClient for Store {
    fn batch(&self, steps: Vec<Operation>) -> BoxFuture<'_, Answer> {
        Box::pin(self.batch(steps))
    }
}

/// The state of the thread.
struct Worker {
    database: Database,
    settings: Settings,
    todo: Receiver<Job>,
    last_commit: Option<Instant>,
}

/// Batches that are committed together, with their reply channels.
#[derive(Default)]
struct Group {
    batches: Vec<Vec<Operation>>,
    answers: Vec<(oneshot::Sender<Answer>, OwnedSemaphorePermit)>,
    bytes: u64,
    closes: bool,
}

impl Group {
    fn add(&mut self, job: Job) {
        match job {
            Job::Close => self.closes = true,
            Job::Batch { steps, answer, _place } => {
                self.bytes += written_bytes(&steps);
                self.batches.push(steps);
                self.answers.push((answer, _place));
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.closes || self.bytes >= GROUP_BYTES_MAX
    }

    /// Replies to the senders, some of which may be gone.
    fn answer(self, answers: Vec<Answer>) {
        for ((sender, _place), answer) in self.answers.into_iter().zip(answers) {
            let _ = sender.send(answer);
        }
    }
}

impl Worker {
    fn run(mut self) {
        if self.settings.compacts_on_start {
            self.database.compact();
        }
        let mut checked_at = Instant::now();
        while let Some(group) = self.next_group() {
            let closes = group.closes;
            let answers = self.database.run(&group.batches);
            group.answer(answers);
            if closes {
                return;
            }
            self.rebound(&mut checked_at);
        }
    }

    /// Returns the next batches, an empty group when the sizes are to be checked, or `None` when all senders are gone.
    fn next_group(&mut self) -> Option<Group> {
        let mut group = Group::default();
        match self.next_job() {
            Ok(job) => group.add(job),
            Err(RecvTimeoutError::Timeout) => return Some(group),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
        self.wait_for_others(&group);
        while !group.is_complete() {
            let Ok(job) = self.todo.try_recv() else { break };
            group.add(job);
        }
        Some(group)
    }

    fn next_job(&self) -> Result<Job, RecvTimeoutError> {
        match self.settings.rebound {
            Some(rule) => self.todo.recv_timeout(rule.every),
            None => self.todo.recv().map_err(|_| RecvTimeoutError::Disconnected),
        }
    }

    fn wait_for_others(&mut self, group: &Group) {
        if !self.settings.fsync || group.closes || group.bytes == 0 {
            return;
        }
        if let Some(last) = self.last_commit {
            std::thread::sleep(WINDOW.saturating_sub(last.elapsed()));
        }
        self.last_commit = Some(Instant::now());
    }

    fn rebound(&mut self, checked_at: &mut Instant) {
        let Some(rule) = self.settings.rebound else { return };
        if checked_at.elapsed() < rule.every {
            return;
        }
        *checked_at = Instant::now();
        let (file, stored) = self.database.sizes();
        if rule.applies(file, stored) {
            self.database.compact();
        }
    }
}

/// Unwraps a lock. The values are plain, so a panic elsewhere leaves them usable.
pub(crate) fn unpoisoned<T>(lock: Result<T, PoisonError<T>>) -> T {
    lock.unwrap_or_else(PoisonError::into_inner)
}
