//! What became of the data: counts per signal, and a word in the log when sending begins or ceases to fail.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use component::status::Status;
use component::{BoxFuture, ComponentId, Consumer, Data, Host, Refused, Signal};
use tokio_util::sync::CancellationToken;

use crate::Server;
use crate::instruments::Instruments;

/// The counts of one exporter.
#[derive(Debug, Default)]
pub struct Tallies([Arc<Tally>; Signal::ALL.len()]);

impl Tallies {
    /// Counts of what goes to servers, one for each signal in the order of [`Signal::ALL`].
    pub fn of_servers(servers: [Option<Server>; Signal::ALL.len()]) -> Self {
        Tallies(servers.map(|server| Arc::new(Tally { server, ..Tally::default() })))
    }

    /// The counts of one signal.
    pub fn of(&self, signal: Signal) -> &Arc<Tally> {
        &self.0[signal as usize]
    }

    /// Has every count exported as the collector's own metrics, too.
    pub(crate) fn measure(&self, host: &Host, id: &ComponentId) {
        for signal in Signal::ALL {
            let tally = self.of(signal);
            tally.instruments.get_or_init(|| Instruments::new(host, id, signal, tally.server.as_ref()));
        }
    }
}

/// The counts of one exporter for one signal. All but the queue's are items: log records, points or spans.
#[derive(Debug, Default)]
pub struct Tally {
    sent: AtomicU64,
    send_failed: AtomicU64,
    enqueue_failed: AtomicU64,
    rejected: AtomicU64,
    unreadable_requests: AtomicU64,
    queue_size: AtomicU64,
    queue_capacity: AtomicU64,
    failing: AtomicBool,
    /// Whether anything came to the queue.
    used: AtomicBool,
    server: Option<Server>,
    instruments: OnceLock<Instruments>,
}

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TallySnapshot {
    /// Items that the other side took, those it rejected by a partial success included, as the Collector counts.
    pub sent: u64,
    /// Items that were given up after retries, or refused for good.
    pub send_failed: u64,
    /// Items that did not fit the queue.
    pub enqueue_failed: u64,
    /// Items that the other side rejected while it took their request.
    pub rejected: u64,
    /// Stored requests that were no longer there, or could not be read.
    pub unreadable_requests: u64,
    /// What the queue holds, in units of its sizer.
    pub queue_size: u64,
}

impl Tally {
    /// The counts now.
    pub fn snapshot(&self) -> TallySnapshot {
        TallySnapshot {
            sent: self.sent.load(Ordering::Relaxed),
            send_failed: self.send_failed.load(Ordering::Relaxed),
            enqueue_failed: self.enqueue_failed.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            unreadable_requests: self.unreadable_requests.load(Ordering::Relaxed),
            queue_size: self.queue_size(),
        }
    }

    /// Counts what a partial success rejected. It must not be sent again.
    pub fn rejected(&self, items: u64) {
        self.rejected.fetch_add(items, Ordering::Relaxed);
        self.measure(|to| to.rejected(items));
    }

    /// Has the size of the queue exported as long as this is there.
    pub(crate) fn watch_queue(self: &Arc<Self>, host: &Host, id: &ComponentId, signal: Signal) {
        Instruments::watch_queue(host.meter(), id, signal, self);
    }

    pub(crate) fn queue_size(&self) -> u64 {
        self.queue_size.load(Ordering::Relaxed)
    }

    pub(crate) fn is_used(&self) -> bool {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn queue_capacity(&self) -> u64 {
        self.queue_capacity.load(Ordering::Relaxed)
    }

    pub(crate) fn set_queue_capacity(&self, capacity: u64) {
        self.queue_capacity.store(capacity, Ordering::Relaxed);
    }

    pub(crate) fn set_queue_size(&self, size: u64) {
        self.used.fetch_or(size > 0, Ordering::Relaxed);
        self.queue_size.store(size, Ordering::Relaxed);
    }

    pub(crate) fn enqueue_failed(&self, items: usize) {
        self.used.store(true, Ordering::Relaxed);
        self.enqueue_failed.fetch_add(items as u64, Ordering::Relaxed);
        self.measure(|to| to.enqueue_failed(items as u64));
    }

    pub(crate) fn enqueued(&self, items: usize) {
        self.measure(|to| to.enqueued(items as u64));
    }

    pub(crate) fn batch_sent(&self, items: usize) {
        self.measure(|to| to.batch_sent(items as u64));
    }

    /// Counts items that nobody will try again, since the exporter stops.
    pub(crate) fn lost_at_shutdown(&self, items: usize) {
        self.send_failed(items, "Shutdown", false);
    }

    pub(crate) fn unreadable(&self, requests: u64) {
        self.unreadable_requests.fetch_add(requests, Ordering::Relaxed);
    }

    pub(crate) fn grow(&self, size: u64) {
        self.used.store(true, Ordering::Relaxed);
        self.queue_size.fetch_add(size, Ordering::Relaxed);
    }

    pub(crate) fn shrink(&self, size: u64) {
        self.queue_size.fetch_sub(size, Ordering::Relaxed);
    }

    fn send_failed(&self, items: usize, why: &'static str, is_permanent: bool) {
        self.send_failed.fetch_add(items as u64, Ordering::Relaxed);
        self.measure(|to| to.send_failed(items as u64, why, is_permanent));
    }

    fn measure(&self, by: impl FnOnce(&Instruments)) {
        if let Some(instruments) = self.instruments.get() {
            by(instruments);
        }
    }
}

/// Counts what `next` takes and what it refuses. Where a token is given, what is refused for now after it was
/// cancelled is kept by the queue in front, and is no loss.
pub(crate) fn stage(
    host: &Host,
    id: &ComponentId,
    tally: Arc<Tally>,
    keeps_after: Option<CancellationToken>,
    next: Arc<dyn Consumer>,
) -> Arc<dyn Consumer> {
    Arc::new(Counted { host: host.clone(), id: id.clone(), tally, keeps_after, next })
}

struct Counted {
    host: Host,
    id: ComponentId,
    tally: Arc<Tally>,
    keeps_after: Option<CancellationToken>,
    next: Arc<dyn Consumer>,
}

/// One request that is under way; it ends with this value, however it ends.
struct InFlight<'a>(&'a Tally);

impl<'a> InFlight<'a> {
    fn new(tally: &'a Tally) -> Self {
        tally.measure(|to| to.in_flight(1));
        InFlight(tally)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.measure(|to| to.in_flight(-1));
    }
}

impl Consumer for Counted {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let (signal, items) = (data.signal(), data.items());
            let _in_flight = InFlight::new(&self.tally);
            let outcome = self.next.consume(data).await;
            match &outcome {
                Ok(()) => self.taken(signal, items),
                Err(refused) if self.is_kept(refused) => {}
                Err(refused) => self.given_up(signal, items, refused),
            }
            outcome
        })
    }
}

impl Counted {
    fn is_kept(&self, refused: &Refused) -> bool {
        refused.is_retryable() && self.keeps_after.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    fn taken(&self, signal: Signal, items: usize) {
        self.tally.sent.fetch_add(items as u64, Ordering::Relaxed);
        self.tally.measure(|to| to.sent(items as u64));
        if self.tally.failing.swap(false, Ordering::Relaxed) {
            let dropped_so_far = self.tally.send_failed.load(Ordering::Relaxed);
            tracing::info!(exporter = %self.id, signal = signal.name(), dropped_so_far, "exporting works again");
            self.host.report(Status::Ok);
        }
    }

    fn given_up(&self, signal: Signal, items: usize, refused: &Refused) {
        self.tally.send_failed(items, refused.code.name(), !refused.is_retryable());
        if !self.tally.failing.swap(true, Ordering::Relaxed) {
            tracing::error!(
                exporter = %self.id, signal = signal.name(), dropped_items = items, error = %refused,
                "exporting failed, dropping data"
            );
            self.host.report(Status::RecoverableError(refused.to_string()));
        }
    }
}
