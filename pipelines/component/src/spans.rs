//! Spans of the collector itself: what receivers handed over and exporters took, how long that took, and how it
//! went.
//!
//! The one idea: nothing is recorded until somebody looks ([`Spans::watch`]) or takes spans away
//! ([`Spans::subscribe`]), so that a collector that nobody looks into pays one atomic load per batch. Who looks
//! sees the latest few spans of each name by latency; who subscribes gets every span through a bounded channel.

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

/// Where the buckets of latency begin.
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

/// Spans kept per name and bucket, the latest; older ones are only counted.
const SAMPLES_MAX: usize = 10;
/// Names that spans are kept of; those of more names go to subscribers alone, and are counted.
const NAMES_MAX: usize = 128;
/// Spans under way that are listed; more are not, until they end.
const RUNNING_MAX: usize = 1024;
/// Bytes of an error that are kept.
const ERROR_BYTES_MAX: usize = 1024;

/// A span: of one that is under way, as far as it is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What was done.
    pub name: Arc<str>,
    /// What it was done for.
    pub trace_id: TraceId,
    /// Its own id.
    pub span_id: SpanId,
    /// The span within which it was done.
    pub parent: Option<SpanId>,
    /// When it began, by the wall clock.
    pub started_at: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// What is known of it.
    pub attributes: Vec<KeyValue>,
    /// Why it failed, where it did.
    pub error: Option<String>,
}

/// Which spans of a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Which {
    /// Those under way.
    Running,
    /// Those that went well, by the index of their bucket in [`LATENCIES`].
    Latency(usize),
    /// Those that failed.
    Failed,
}

/// How many spans there were of one name since somebody looks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// The name.
    pub name: Arc<str>,
    /// Those under way.
    pub running: usize,
    /// Those that went well, by latency.
    pub latencies: [u64; LATENCIES.len()],
    /// Those that failed.
    pub failed: u64,
}

/// The recorder. One per collector.
pub struct Spans {
    /// How many look or are subscribed: 0 is off.
    wanted: AtomicUsize,
    /// Makes ids that nobody can guess from others.
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
    names: BTreeMap<Arc<str>, Kept>,
    running: HashMap<SpanId, (Span, Instant)>,
}

/// What is kept of one name.
#[derive(Default)]
struct Kept {
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
    /// True while somebody looks or is subscribed.
    pub fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0
    }

    /// Keeps the latest spans of each name for as long as the guard lives.
    pub fn watch(self: &Arc<Self>) -> Watch {
        self.with(|inner| inner.watchers += 1);
        self.wanted.fetch_add(1, Ordering::Relaxed);
        Watch(self.clone())
    }

    /// Every span that ends from now on. One that finds `capacity` others waiting is dropped and counted. Ends
    /// by dropping the receiver.
    pub fn subscribe(&self, capacity: usize) -> mpsc::Receiver<Arc<Span>> {
        let (sender, receiver) = mpsc::channel(capacity);
        self.with(|inner| inner.subscribers.push(sender));
        self.wanted.fetch_add(1, Ordering::Relaxed);
        receiver
    }

    /// How many spans subscribers had no room for.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// How many spans were not kept, since there were too many names.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }

    /// Begins a span within the one that is current; none where nobody wants spans.
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

    /// What is kept, by name.
    pub fn summaries(&self) -> Vec<Summary> {
        self.with(|inner| {
            let running =
                |name: &Arc<str>| inner.running.values().filter(|(span, _)| span.name == *name).count();
            let summary = |(name, kept): (&Arc<str>, &Kept)| Summary {
                name: name.clone(),
                running: running(name),
                latencies: kept.latencies.each_ref().map(|ring| ring.count),
                failed: kept.failed.count,
            };
            inner.names.iter().map(summary).collect()
        })
    }

    /// The latest spans of a name, the latest first; of those under way the duration so far.
    pub fn latest(&self, name: &str, which: Which) -> Vec<Arc<Span>> {
        self.with(|inner| {
            let Some(kept) = inner.names.get(name) else { return Vec::new() };
            let ring = match which {
                Which::Running => return inner.running_of(name),
                Which::Latency(bucket) => kept.latencies.get(bucket),
                Which::Failed => Some(&kept.failed),
            };
            ring.map(|ring| ring.latest.iter().rev().cloned().collect()).unwrap_or_default()
        })
    }

    fn end(&self, span: Span) {
        self.with(|inner| {
            inner.running.remove(&span.span_id);
            let span = Arc::new(span);
            if inner.watchers > 0 && !inner.keep(&span) {
                self.left_out.fetch_add(1, Ordering::Relaxed);
            }
            self.hand_out(inner, &span);
        });
    }

    fn hand_out(&self, inner: &mut Inner, span: &Arc<Span>) {
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

    /// Never 0: that is no id.
    fn random(&self) -> u64 {
        self.ids.hash_one(self.begun.fetch_add(1, Ordering::Relaxed)).max(1)
    }

    /// A panic elsewhere leaves plain values behind, which are as good as before.
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
    /// Lists a span as under way.
    fn list(&mut self, span: &Span, started: Instant) {
        if self.watchers > 0 && self.running.len() < RUNNING_MAX && self.kept(&span.name).is_some() {
            self.running.insert(span.span_id, (span.clone(), started));
        }
    }

    /// False where there are too many names.
    fn keep(&mut self, span: &Arc<Span>) -> bool {
        let Some(kept) = self.kept(&span.name) else { return false };
        let ring = match span.error {
            Some(_) => &mut kept.failed,
            None => &mut kept.latencies[bucket(span.duration)],
        };
        ring.push(span.clone());
        true
    }

    fn kept(&mut self, name: &Arc<str>) -> Option<&mut Kept> {
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

/// The index of the bucket in [`LATENCIES`].
pub fn bucket(duration: Duration) -> usize {
    LATENCIES.partition_point(|begin| *begin <= duration).saturating_sub(1)
}

/// Somebody looks. What was kept is forgotten when the last one no longer does.
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

/// A span under way. Dropping it says that what it stands for was given up.
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

    /// Ends it: well, or for a reason.
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
        self.close(Vec::new(), Some("given up before it was done".to_owned()));
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
