//! Queue, count and retry: the stack that an exporter over a network stands on.
//!
//! ```text
//!  consume -> queue -> tally -> retry -> one attempt (the exporter itself)
//!             full?    sent,    back-off,
//!             refuse   failed   Retry-After
//! ```
//! Each stage is a [`Consumer`] in front of the next. Every signal has a queue of its own, as in the
//! Collector, so that a flood of one does not starve another. On stop, back-offs end at once, every queued
//! request gets one last attempt, and after [`DRAIN_MAX`] what is left counts as lost.

mod backoff;
mod queue;
mod retry;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use component::{BoxFuture, ComponentId, Consumer, Data, Refused, Running, Signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use backoff::Backoff;
pub use queue::{QueueConfig, Sizer};
pub use retry::RetryConfig;
pub use tally::{Tallies, Tally, TallySnapshot};

/// How long an exporter goes on sending what it holds after it was told to stop.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);

/// Which stages stand before an attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages {
    /// The queue; none where `sending_queue::enabled` is false.
    pub queue: Option<QueueConfig>,
    /// Retries; none where `retry_on_failure::enabled` is false.
    pub retry: Option<RetryConfig>,
}

/// Stacks the stages on `attempt`, and begins to work. The future that is returned ends when, after `stop`, the
/// queues are empty.
pub fn stack(
    id: &ComponentId,
    stages: &Stages,
    attempt: Arc<dyn Consumer>,
    tallies: &Arc<Tallies>,
    stop: &CancellationToken,
) -> (Arc<dyn Consumer>, Running) {
    let mut dispatchers = JoinSet::new();
    let by_signal = Signal::STABLE.map(|signal| {
        let tally = tallies.of(signal);
        let mut next = attempt.clone();
        if let Some(config) = &stages.retry {
            next = retry::stage(config, next, stop.clone());
        }
        next = tally::stage(id, tally.clone(), next);
        if let Some(config) = &stages.queue {
            let (front, draining) = queue::stage(id, config, next, tally, stop.clone());
            dispatchers.spawn(draining);
            next = front;
        }
        next
    });
    let drained = async move { while dispatchers.join_next().await.is_some() {} };
    (Arc::new(BySignal(by_signal)), Box::pin(drained))
}

/// Sends each signal its own way.
struct BySignal([Arc<dyn Consumer>; 3]);

impl Consumer for BySignal {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.0[data.signal() as usize].consume(data)
    }
}

#[cfg(test)]
mod tests;
