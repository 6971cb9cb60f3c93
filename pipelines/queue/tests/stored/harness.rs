//! A test harness for the persistent queue: a disk that outlives the process, a backend with a set answer, and
//! a process that is started, stopped and killed. Time is tokio's paused clock.

use pdata::Payload;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use component::storage::{Namespace, Operation, Storage, StorageClient, StorageError};
use component::testing::Metrics;
use component::{BoxFuture, Capabilities, ComponentId, Consumer, Refused, Running};
use config::{GoDuration, Optional};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use pdata::{Data, Signal};
use queue::{ExporterMetrics, QueueBatchConfig, QueueConfig, RetryConfig, Sizer, Stages};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::observed::{self, Counts};

/// The answer of the backend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    /// The backend accepts.
    Take,
    /// The backend refuses with a retryable code.
    Later,
    /// The backend refuses permanently.
    Never,
    /// The backend accepts and does not answer.
    Hang,
}

/// The configuration of the queue.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Unit of the queue size.
    pub sizer: Sizer,
    /// Capacity in that unit.
    pub queue_size: i64,
    /// Requests sent at once.
    pub num_consumers: i64,
    /// Minimum and maximum items of a batch, if batches are enabled.
    pub batch: Option<(i64, i64)>,
}

/// A storage in memory that survives the end of a process.
#[derive(Default)]
pub struct Disk {
    rows: Mutex<BTreeMap<String, Vec<u8>>>,
    is_full: AtomicBool,
    is_broken: AtomicBool,
}

impl Disk {
    /// Returns the keys of all entries.
    pub fn names(&self) -> Vec<String> {
        self.rows.lock().unwrap().keys().cloned().collect()
    }

    /// Edits the entries directly.
    pub fn edit(&self, edit: impl FnOnce(&mut BTreeMap<String, Vec<u8>>)) {
        edit(&mut self.rows.lock().unwrap());
    }

    /// Sets whether writes fail because the disk is full.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Sets whether every write fails.
    pub fn set_broken(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::Relaxed);
    }
}

struct Shared(Arc<Disk>);

impl Storage for Shared {
    fn open(&self, _: Namespace) -> BoxFuture<'_, Result<Arc<dyn StorageClient>, StorageError>> {
        let client: Arc<dyn StorageClient> = Arc::new(Shared(self.0.clone()));
        Box::pin(std::future::ready(Ok(client)))
    }
}

impl StorageClient for Shared {
    fn batch(&self, steps: Vec<Operation>) -> BoxFuture<'_, Result<Vec<Option<Vec<u8>>>, StorageError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let outcome = self.commit(steps);
            tokio::task::yield_now().await;
            outcome
        })
    }
}

impl Shared {
    fn commit(&self, steps: Vec<Operation>) -> Result<Vec<Option<Vec<u8>>>, StorageError> {
        let sets = |step: &Operation| matches!(step, Operation::Set(key, _) if key != "qmv0");
        if self.0.is_full.load(Ordering::Relaxed) && steps.iter().any(sets) {
            return Err(StorageError::Full("no room".to_owned()));
        }
        let reads = steps.iter().all(|step| matches!(step, Operation::Get(_)));
        if self.0.is_broken.load(Ordering::Relaxed) && !reads {
            return Err(StorageError::Failed("broken".to_owned()));
        }
        let mut rows = self.0.rows.lock().unwrap();
        let mut one = |step| match step {
            Operation::Get(key) => rows.get(&key).cloned(),
            Operation::Set(key, value) => rows.insert(key, value).and(None),
            Operation::Delete(key) => rows.remove(&key).and(None),
        };
        Ok(steps.into_iter().map(&mut one).collect())
    }
}

/// A destination that records the items it accepts and those it refuses permanently.
pub struct Backend {
    answer: Mutex<Answer>,
    delivered: Mutex<BTreeMap<u64, usize>>,
    refused: Mutex<BTreeSet<u64>>,
    in_flight: AtomicUsize,
}

struct InFlight<'a>(&'a Backend, usize);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(self.1, Ordering::Relaxed);
    }
}

impl Backend {
    /// Returns a backend that accepts everything.
    pub fn new() -> Arc<Self> {
        Arc::new(Backend {
            answer: Mutex::new(Answer::Take),
            delivered: Mutex::default(),
            refused: Mutex::default(),
            in_flight: AtomicUsize::default(),
        })
    }

    /// Returns how often each item was delivered.
    pub fn delivered(&self) -> BTreeMap<u64, usize> {
        self.delivered.lock().unwrap().clone()
    }

    /// Sets the answer.
    pub fn answer(&self, answer: Answer) {
        *self.answer.lock().unwrap() = answer;
    }

    /// Returns the items that were refused permanently.
    pub fn refused(&self) -> BTreeSet<u64> {
        self.refused.lock().unwrap().clone()
    }

    /// Returns the number of items received and not yet answered.
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn take(&self, ids: &[u64]) {
        let mut delivered = self.delivered.lock().unwrap();
        ids.iter().for_each(|id| *delivered.entry(*id).or_default() += 1);
    }
}

impl Consumer for Backend {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let ids = ids(&data);
            self.in_flight.fetch_add(ids.len(), Ordering::Relaxed);
            let _in_flight = InFlight(self, ids.len());
            tokio::task::yield_now().await;
            let answer = *self.answer.lock().unwrap();
            match answer {
                Answer::Take => self.take(&ids),
                Answer::Later => return Err(Refused::retryable("later")),
                Answer::Never => {
                    self.refused.lock().unwrap().extend(ids);
                    return Err(Refused::permanent("never"));
                }
                Answer::Hang => {
                    self.take(&ids);
                    tokio::time::sleep(Duration::from_secs(5)).await;
                    return Err(Refused::retryable("no answer"));
                }
            }
            tokio::task::yield_now().await;
            Ok(())
        })
    }
}

fn ids(data: &Data) -> Vec<u64> {
    let Data::Traces(data) = data else { panic!("only spans are sent") };
    let spans = data.resource_spans.iter().flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans);
    spans.map(|span| span.start_time_unix_nano).collect()
}

/// Returns a request with these items.
pub fn request(ids: std::ops::Range<u64>) -> Data {
    let span = |id| Span { start_time_unix_nano: id, name: "x".repeat(id as usize % 50), ..Span::default() };
    let scope = ScopeSpans { spans: ids.map(span).collect(), ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }))
}

/// One run of a process with a queue on a disk, in front of a backend.
pub struct Process {
    /// The input of the queue.
    pub input: Arc<dyn Consumer>,
    metrics: Arc<ExporterMetrics>,
    own: Metrics,
    stop: CancellationToken,
    work: JoinSet<()>,
}

impl Process {
    /// Starts a process.
    pub async fn start(shape: Shape, disk: &Arc<Disk>, backend: &Arc<Backend>) -> Self {
        let storage = ComponentId::parse("file_storage").unwrap();
        let capabilities =
            Capabilities { storage: Some(Arc::new(Shared(disk.clone()))), ..Capabilities::default() };
        let own = Metrics::default();
        let host = own.host().with_extension(storage, capabilities);
        let id = ComponentId::parse("otlp").unwrap();
        let (metrics, stop) = (ExporterMetrics::new(&host, &id), CancellationToken::new());
        let stages = shape.stages();
        let stacked = queue::stack(&host, &id, &[Signal::Traces], &stages, backend.clone(), &metrics, &stop);
        let (input, running): (_, Running) = stacked.await.unwrap();
        let mut work = JoinSet::new();
        work.spawn(running);
        Process { input, metrics, own, stop, work }
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        observed::counts(&self.own)
    }

    /// Returns the size of the queue, in units of its sizer.
    pub fn queue_size(&self) -> u64 {
        self.metrics.of(Signal::Traces).queue_size()
    }

    /// Stops gracefully; returns the counters and the size of the queue.
    pub async fn stop(mut self) -> (Counts, u64) {
        self.stop.cancel();
        while self.work.join_next().await.is_some() {}
        (self.counts(), self.queue_size())
    }

    /// Ends at once, as SIGKILL does.
    pub fn kill(self) {
        drop(self.work);
    }
}

impl Shape {
    fn stages(&self) -> Stages {
        let batch = self.batch.map(|(min_size, max_size)| QueueBatchConfig {
            min_size,
            max_size,
            sizer: Some(Sizer::Items),
            ..QueueBatchConfig::default()
        });
        let queue = QueueConfig {
            num_consumers: self.num_consumers,
            queue_size: self.queue_size,
            sizer: Some(self.sizer),
            storage: Some("file_storage".to_owned()),
            batch: batch.map_or_else(Optional::none, Optional::some),
            ..QueueConfig::default()
        };
        let retry = RetryConfig { max_elapsed_time: GoDuration::default(), ..RetryConfig::default() };
        Stages { queue: Some(queue), retry: Some(retry) }
    }
}
