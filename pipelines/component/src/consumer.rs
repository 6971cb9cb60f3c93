//! Taking data: the one call every component downstream of a receiver answers.

use std::sync::Arc;
use std::time::Duration;

use crate::{BoxFuture, Data};

/// Why data was not taken, and whether trying again can help.
#[derive(Clone, Debug, thiserror::Error, Eq, PartialEq)]
pub enum Refused {
    /// The same data will be refused again: it is wrong, or larger than ever fits.
    #[error("permanent: {reason}")]
    Permanent {
        /// What is wrong, for the log and for the sender.
        reason: String,
    },
    /// The same data may be taken later: a full queue, a backend that is down.
    #[error("{reason}")]
    Retryable {
        /// What is in the way.
        reason: String,
        /// The earliest moment to try again, where the refuser named one.
        after: Option<Duration>,
    },
}

impl Refused {
    /// A refusal that no retry can mend.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Refused::Permanent { reason: reason.into() }
    }

    /// A refusal that a later try may get past.
    pub fn retryable(reason: impl Into<String>) -> Self {
        Refused::Retryable { reason: reason.into(), after: None }
    }

    /// True where the same data may be taken later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Refused::Retryable { .. })
    }
}

/// Something that takes data. `Ok` means taken: delivered, queued, or dropped on purpose and counted.
pub trait Consumer: Send + Sync {
    /// Takes one batch, or says why not. The caller still owns nothing after `Ok`.
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>>;
}

/// Hands the same data to several consumers, each in turn; the first refusal that may be retried wins over
/// one that may not, so that a sender tries again while any of them can still take the data.
pub struct FanOut {
    consumers: Vec<Arc<dyn Consumer>>,
}

impl FanOut {
    /// One consumer for all of `consumers`; a single one is returned as it is.
    pub fn over(mut consumers: Vec<Arc<dyn Consumer>>) -> Arc<dyn Consumer> {
        match consumers.len() {
            1 => consumers.remove(0),
            _ => Arc::new(FanOut { consumers }),
        }
    }
}

impl Consumer for FanOut {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let mut refused: Option<Refused> = None;
            for consumer in &self.consumers {
                if let Err(e) = consumer.consume(data.clone()).await {
                    refused = Some(match refused {
                        Some(earlier) if earlier.is_retryable() => earlier,
                        _ => e,
                    });
                }
            }
            refused.map_or(Ok(()), Err)
        })
    }
}
