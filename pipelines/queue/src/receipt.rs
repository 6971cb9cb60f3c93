//! What becomes of one request, which may be sent in several parts, each together with parts of others.
//!
//! Whoever handles a part holds a [`Share`] and reports its outcome; when the last share is gone, the request
//! has ended and whoever waits for that is told. A share that is dropped without a report was given up.

use std::sync::{Arc, Mutex, PoisonError};

use component::Refused;

/// How a request ended.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Outcome {
    /// The last refusal among its parts.
    pub(crate) refused: Option<Refused>,
    /// Items that nobody reported on.
    pub(crate) abandoned_items: usize,
    /// True where a part is to be kept for the next start.
    pub(crate) is_kept: bool,
}

type End = Box<dyn FnOnce(Outcome) + Send>;

struct Receipt {
    outcome: Mutex<Outcome>,
    end: Mutex<Option<End>>,
}

impl Drop for Receipt {
    fn drop(&mut self) {
        let end = self.end.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let outcome = std::mem::take(self.outcome.get_mut().unwrap_or_else(PoisonError::into_inner));
        if let Some(end) = end {
            end(outcome);
        }
    }
}

/// A hold on a request's end, for so many of its items.
pub(crate) struct Share {
    receipt: Arc<Receipt>,
    items: usize,
    is_reported: bool,
}

impl Share {
    /// The first share, of all items; `end` is called once, when all shares are gone.
    pub(crate) fn of(items: usize, end: impl FnOnce(Outcome) + Send + 'static) -> Self {
        let receipt = Receipt { outcome: Mutex::default(), end: Mutex::new(Some(Box::new(end))) };
        Share { receipt: Arc::new(receipt), items, is_reported: false }
    }

    /// Splits off a share of so many items.
    pub(crate) fn split(&mut self, items: usize) -> Share {
        let items = items.min(self.items);
        self.items -= items;
        Share { receipt: self.receipt.clone(), items, is_reported: false }
    }

    /// Says how its part ended.
    pub(crate) fn report(mut self, outcome: &Result<(), Refused>, is_kept: bool) {
        self.is_reported = true;
        let mut all = self.receipt.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        all.is_kept |= is_kept;
        if let Err(refused) = outcome {
            all.refused = Some(refused.clone());
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if !self.is_reported {
            let mut all = self.receipt.outcome.lock().unwrap_or_else(PoisonError::into_inner);
            all.abandoned_items += self.items;
            all.is_kept = true;
        }
    }
}
