//! The acknowledgement of one request, which may be sent in several parts, each together with parts of others.
//!
//! Each part holds an [`AckGuard`] and reports its outcome with it. When the last guard is dropped, the request
//! has ended and its callback runs. A guard that is dropped without a report counts its items as abandoned.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use component::Refused;

/// The end of a request.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// The last refusal among the parts.
    pub(crate) refused: Option<Refused>,
    /// Items of parts that were dropped without a report.
    pub(crate) abandoned_items: usize,
    /// Whether a part stays stored for the next process.
    pub(crate) is_kept: bool,
}

type OnEnd = Box<dyn FnOnce(Outcome) + Send>;

/// The outcome so far, shared by the guards of one request.
struct Ack {
    outcome: Mutex<Outcome>,
    on_end: Mutex<Option<OnEnd>>,
}

impl Drop for Ack {
    fn drop(&mut self) {
        let on_end = self.on_end.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = std::mem::take(self.outcome.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Some(on_end) = on_end {
            on_end(outcome);
        }
    }
}

/// A part's hold on the acknowledgement of its request.
pub(crate) struct AckGuard {
    ack: Arc<Ack>,
    items: usize,
    is_reported: bool,
}

impl AckGuard {
    /// Returns the guard of a whole request. `on_end` is called once, when all guards are gone.
    pub(crate) fn new(items: usize, on_end: impl FnOnce(Outcome) + Send + 'static) -> Self {
        let ack = Ack { outcome: Mutex::default(), on_end: Mutex::new(Some(Box::new(on_end))) };
        AckGuard { ack: Arc::new(ack), items, is_reported: false }
    }

    /// Splits off a guard for `items` of the items.
    pub(crate) fn split(&mut self, items: usize) -> AckGuard {
        let items = items.min(self.items);
        self.items -= items;
        AckGuard { ack: self.ack.clone(), items, is_reported: false }
    }

    /// Reports the outcome of this part.
    pub(crate) fn report(mut self, outcome: &Result<(), Refused>, is_kept: bool) {
        self.is_reported = true;
        let mut all = self.outcome();
        all.is_kept |= is_kept;
        if let Err(refused) = outcome {
            all.refused = Some(refused.clone());
        }
    }

    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.ack.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AckGuard {
    fn drop(&mut self) {
        if !self.is_reported {
            let mut all = self.outcome();
            all.abandoned_items += self.items;
            all.is_kept = true;
        }
    }
}
