//! What became of the data: counts per signal, and a word in the log when sending begins or ceases to fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use component::{BoxFuture, ComponentId, Consumer, Data, Refused, Signal};

/// The counts of one exporter.
#[derive(Debug, Default)]
pub struct Tallies([Arc<Tally>; 3]);

impl Tallies {
    /// The counts of one signal.
    pub fn of(&self, signal: Signal) -> &Arc<Tally> {
        &self.0[signal as usize]
    }
}

/// The counts of one exporter for one signal. All but the queue's are items: log records, points or spans.
#[derive(Debug, Default)]
pub struct Tally {
    sent: AtomicU64,
    send_failed: AtomicU64,
    enqueue_failed: AtomicU64,
    rejected: AtomicU64,
    queue_size: AtomicU64,
    failing: AtomicBool,
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
            queue_size: self.queue_size.load(Ordering::Relaxed),
        }
    }

    /// Counts what a partial success rejected. It must not be sent again.
    pub(crate) fn rejected(&self, items: u64) {
        self.rejected.fetch_add(items, Ordering::Relaxed);
    }

    pub(super) fn enqueue_failed(&self, items: usize) {
        self.enqueue_failed.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(super) fn send_failed(&self, items: usize) {
        self.send_failed.fetch_add(items as u64, Ordering::Relaxed);
    }

    pub(super) fn enqueued(&self, size: u32) {
        self.queue_size.fetch_add(size.into(), Ordering::Relaxed);
    }

    pub(super) fn dequeued(&self, size: u32) {
        self.queue_size.fetch_sub(size.into(), Ordering::Relaxed);
    }
}

/// Counts what `next` takes and what it refuses.
pub(super) fn stage(id: &ComponentId, tally: Arc<Tally>, next: Arc<dyn Consumer>) -> Arc<dyn Consumer> {
    Arc::new(Counted { id: id.clone(), tally, next })
}

struct Counted {
    id: ComponentId,
    tally: Arc<Tally>,
    next: Arc<dyn Consumer>,
}

impl Consumer for Counted {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let (signal, items) = (data.signal(), data.items());
            let outcome = self.next.consume(data).await;
            match &outcome {
                Ok(()) => self.taken(signal, items),
                Err(refused) => self.given_up(signal, items, refused),
            }
            outcome
        })
    }
}

impl Counted {
    fn taken(&self, signal: Signal, items: usize) {
        self.tally.sent.fetch_add(items as u64, Ordering::Relaxed);
        if self.tally.failing.swap(false, Ordering::Relaxed) {
            let dropped_so_far = self.tally.send_failed.load(Ordering::Relaxed);
            tracing::info!(exporter = %self.id, signal = signal.name(), dropped_so_far, "exporting works again");
        }
    }

    fn given_up(&self, signal: Signal, items: usize, refused: &Refused) {
        self.tally.send_failed(items);
        if !self.tally.failing.swap(true, Ordering::Relaxed) {
            tracing::error!(
                exporter = %self.id, signal = signal.name(), dropped_items = items, error = %refused,
                "exporting failed, dropping data"
            );
        }
    }
}
