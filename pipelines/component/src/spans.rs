//! Spans of the collector itself: one for each batch that a receiver sends and an exporter receives.
//!
//! Spans are recorded only while there is a watcher ([`Spans::watch`]) or a subscriber ([`Spans::subscribe`]); otherwise
//! a batch costs one atomic load. Watchers read the latest few spans of each name by latency; subscribers receive every
//! span through a bounded channel.

use std::collections::VecDeque;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use opentelemetry::KeyValue;
use opentelemetry::trace::{SpanId, TraceId};
use tokio::sync::mpsc;

mod traced;

pub use traced::{exporting, receiving};

/// The lower bounds of the latency buckets.
pub const LATENCIES: [Duration; 9] = [
    Duration::ZERO,
    Duration::from_micros(10),
    Duration::from_micros(100),
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(100),
];

/// Maximum number of stored spans per name and bucket; older ones are evicted and still counted.
const SAMPLES_MAX: usize = 10;
/// Maximum number of span names for watchers; spans of further names are sent to subscribers only, and counted.
const NAMES_MAX: usize = 128;
/// Maximum number of running spans that are listed.
const RUNNING_MAX: usize = 1024;
/// Maximum length of an error in bytes; the rest is cut off.
const ERROR_BYTES_MAX: usize = 1024;

/// A span; while it is running, its attributes and error are empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The name of the operation.
    pub name: Arc<str>,
    /// The id of the trace.
    pub trace_id: TraceId,
    /// The id of the span.
    pub span_id: SpanId,
    /// The id of the parent span.
    pub parent: Option<SpanId>,
    /// The wall time of the start.
    pub started_at: SystemTime,
    /// Time from the start to the end of the span.
    pub duration: Duration,
    /// Attributes of the span.
    pub attributes: Vec<KeyValue>,
    /// The error, if the operation failed.
    pub error: Option<String>,
}

/// A selection of the spans of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Which {
    /// Spans that have not ended.
    Running,
    /// Successful spans of the bucket with this index in [`LATENCIES`].
    Latency(usize),
    /// Spans that ended with an error.
    Failed,
}

/// The number of spans of one name since the first watcher.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Name of the spans.
    pub name: Arc<str>,
    /// Number of spans that have not ended.
    pub running: usize,
    /// Successful spans, by latency bucket.
    pub latencies: [u64; LATENCIES.len()],
    /// Number of spans that ended with an error.
    pub failed: u64,
}

/// The recorder. One per collector.
pub struct Spans {
    /// The number of watchers and subscribers; 0 disables recording.
    wanted: AtomicUsize,
    /// Creates ids that cannot be guessed from others.
    ids: RandomState,
    begun: AtomicU64,
    dropped: AtomicU64,
    left_out: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    watchers: usize,
    subscribers: Vec<mpsc::Sender<Arc<Span>>>,
    names: BTreeMap<Arc<str>, Stored>,
    running: HashMap<SpanId, (Span, Instant)>,
}

/// The stored spans of one name.
#[derive(Default)]
struct Stored {
    latencies: [Ring; LATENCIES.len()],
    failed: Ring,
}

#[derive(Default)]
struct Ring {
    count: u64,
    latest: VecDeque<Arc<Span>>,
}

impl Ring {
    fn push(&mut self, span: Arc<Span>) {
        self.count += 1;
        if self.latest.len() == SAMPLES_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(span);
    }
}

impl Default for Spans {
    fn default() -> Self {
        Spans {
            wanted: AtomicUsize::new(0),
            ids: RandomState::new(),
            begun: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            inner: Mutex::default(),
        }
    }
}

impl Spans {
    /// Returns true while there is a watcher or subscriber.
    pub fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Stores the latest spans of each name until the guard is dropped.
    pub fn watch(self: &Arc<Self>) -> Watch {
        self.with(|inner| inner.watchers += 1);
        self.wanted.fetch_add(1, Ordering::Relaxed);
        Watch(self.clone())
    }

    /// Returns a receiver of every span that ends from now on. A span is dropped and counted if `capacity` others are
    /// pending. Dropping the receiver ends the subscription.
    pub fn subscribe(&self, capacity: usize) -> mpsc::Receiver<Arc<Span>> {
        let (sender, receiver) = mpsc::channel(capacity);
        self.with(|inner| inner.subscribers.push(sender));
        self.wanted.fetch_add(1, Ordering::Relaxed);
        receiver
    }

    /// Returns the number of spans dropped because a subscriber's channel was full.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns the number of spans not stored because there were too many names.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Starts a child of the current span; none while recording is disabled.
    pub fn begin(self: &Arc<Self>, name: &Arc<str>) -> Option<Open> {
        if !self.is_on() {
            return None;
        }
        let above = traced::current();
        let span = Span {
            name: name.clone(),
            trace_id: above.map_or_else(|| self.trace_id(), |(trace, _)| trace),
            span_id: SpanId::from(self.random()),
            parent: above.map(|(_, span)| span),
            started_at: SystemTime::now(),
            duration: Duration::ZERO,
            attributes: Vec::new(),
            error: None,
        };
        let started = Instant::now();
        self.with(|inner| inner.list(&span, started));
        Some(Open { spans: self.clone(), span: Some(span), started })
    }

    /// Returns the number of spans of each name.
    pub fn summaries(&self) -> Vec<Summary> {
        self.with(|inner| {
            let running =
                |name: &Arc<str>| inner.running.values().filter(|(span, _)| span.name == *name).count();
            let summary = |(name, stored): (&Arc<str>, &Stored)| Summary {
                name: name.clone(),
                running: running(name),
                latencies: stored.latencies.each_ref().map(|ring| ring.count),
                failed: stored.failed.count,
            };
            inner.names.iter().map(summary).collect()
        })
    }

    /// Returns the latest spans of a name, the latest first; running ones with their duration so far.
    pub fn latest(&self, name: &str, which: Which) -> Vec<Arc<Span>> {
        self.with(|inner| {
            let Some(stored) = inner.names.get(name) else { return Vec::new() };
            let ring = match which {
                Which::Running => return inner.running_of(name),
                Which::Latency(bucket) => stored.latencies.get(bucket),
                Which::Failed => Some(&stored.failed),
            };
            ring.map(|ring| ring.latest.iter().rev().cloned().collect()).unwrap_or_default()
        })
    }

    fn end(&self, span: Span) {
        self.with(|inner| {
            inner.running.remove(&span.span_id);
            let span = Arc::new(span);
            if inner.watchers > 0 && !inner.store(&span) {
                self.left_out.fetch_add(1, Ordering::Relaxed);
            }
            self.publish(inner, &span);
        });
    }

    fn publish(&self, inner: &mut Inner, span: &Arc<Span>) {
        inner.subscribers.retain(|subscriber| match subscriber.try_send(span.clone()) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {
                self.wanted.fetch_sub(1, Ordering::Relaxed);
                false
            }
        });
    }

    fn trace_id(&self) -> TraceId {
        TraceId::from(u128::from(self.random()) << 64 | u128::from(self.random()))
    }

    // An id is never 0.
    fn random(&self) -> u64 {
        self.ids.hash_one(self.begun.fetch_add(1, Ordering::Relaxed)).max(1)
    }

    // A panic while the lock is held leaves valid values, so a poisoned lock is used.
    fn with<T>(&self, f: impl FnOnce(&mut Inner) -> T) -> T {
        f(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spans").field("wanted", &self.wanted).field("dropped", &self.dropped).finish()
    }
}

impl Inner {
    /// Lists a running span.
    fn list(&mut self, span: &Span, started: Instant) {
        if self.watchers > 0 && self.running.len() < RUNNING_MAX && self.stored(&span.name).is_some() {
            self.running.insert(span.span_id, (span.clone(), started));
        }
    }

    /// Stores a span; returns false if there are too many names.
    fn store(&mut self, span: &Arc<Span>) -> bool {
        let Some(stored) = self.stored(&span.name) else { return false };
        let ring = match span.error {
            Some(_) => &mut stored.failed,
            None => &mut stored.latencies[bucket(span.duration)],
        };
        ring.push(span.clone());
        true
    }

    fn stored(&mut self, name: &Arc<str>) -> Option<&mut Stored> {
        if self.names.len() >= NAMES_MAX && !self.names.contains_key(name) {
            return None;
        }
        Some(self.names.entry(name.clone()).or_default())
    }

    fn running_of(&self, name: &str) -> Vec<Arc<Span>> {
        let of_name = self.running.values().filter(|(span, _)| *span.name == *name);
        let so_far = |(span, started): &(Span, Instant)| Span { duration: started.elapsed(), ..span.clone() };
        let mut running: Vec<Span> = of_name.map(so_far).collect();
        running.sort_by_key(|span| span.duration);
        running.into_iter().take(SAMPLES_MAX).map(Arc::new).collect()
    }
}

/// Returns the index of the bucket in [`LATENCIES`].
pub fn bucket(duration: Duration) -> usize {
    LATENCIES.partition_point(|begin| *begin <= duration).saturating_sub(1)
}

/// A watcher of spans. Stored spans are removed when the last watcher is dropped.
#[derive(Debug)]
pub struct Watch(Arc<Spans>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.wanted.fetch_sub(1, Ordering::Relaxed);
        self.0.with(|inner| {
            inner.watchers -= 1;
            if inner.watchers == 0 {
                (inner.names, inner.running) = Default::default();
            }
        });
    }
}

/// A running span. Dropping it without [`Open::end`] records that the operation was cancelled.
#[derive(Debug)]
pub struct Open {
    spans: Arc<Spans>,
    span: Option<Span>,
    started: Instant,
}

impl Open {
    /// Runs `work` with this span as the current one.
    pub async fn around<T>(&self, work: impl Future<Output = T>) -> T {
        match &self.span {
            Some(span) => traced::scope((span.trace_id, span.span_id), work).await,
            None => work.await,
        }
    }

    /// Ends the span, with an error if the operation failed.
    pub fn end(mut self, attributes: Vec<KeyValue>, error: Option<String>) {
        self.close(attributes, error);
    }

    fn close(&mut self, attributes: Vec<KeyValue>, error: Option<String>) {
        let Some(span) = self.span.take() else { return };
        let error = error.map(shortened);
        self.spans.end(Span { duration: self.started.elapsed(), attributes, error, ..span });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.close(Vec::new(), Some("cancelled".to_owned()));
    }
}

fn shortened(mut error: String) -> String {
    if error.len() > ERROR_BYTES_MAX {
        error.truncate(error.floor_char_boundary(ERROR_BYTES_MAX));
        error.push('…');
    }
    error
}

#[cfg(test)]
mod tests;
