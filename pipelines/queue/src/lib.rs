//! Queue, batch, count and retry: the stack that an exporter over a network stands on.
//!
//! ```text
//!  consume ─▶ queue ─▶ batch ─▶ tally ─▶ retry ─▶ one attempt (the exporter itself)
//!             full?    merge,   sent,    back-off,
//!             refuse   cut      failed   Retry-After
//! ```
//! Each stage is a [`Consumer`] in front of the next. Every signal has a queue of its own, as in the
//! Collector, so that a flood of one does not starve another. A queue holds its requests in memory, or in the
//! storage that `sending_queue::storage` names: then an `Ok` means that the request is stored, and what was
//! not delivered when the process ended, by whatever end, is delivered by the next one. On stop, back-offs
//! end at once; a queue in memory gives every request one last attempt and counts what is left after
//! [`DRAIN_MAX`] as lost; a queue in a storage finishes what is in flight and keeps the rest.

mod backoff;
mod batch;
mod config;
mod disk;
mod dispatch;
mod front;
mod index;
mod instruments;
mod payload;
mod receipt;
mod retry;
mod room;
mod server;
mod sizer;
pub mod splitting;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use component::storage::{Namespace, StorageClient};
use component::{BoxFuture, ComponentId, Consumer, Data, Host, Refused, Running, Signal, StartResult, spans};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::config::{BatchConfig, PartitionConfig, QueueConfig};
pub use backoff::Backoff;
pub use retry::RetryConfig;
pub use server::Server;
pub use sizer::Sizer;
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

/// Stacks the stages on `attempt` for `signals`, and begins to work: also on what a storage still holds. The
/// work that is returned ends when, after `stop`, the queues are done.
pub async fn stack(
    host: &Host,
    id: &ComponentId,
    signals: &[Signal],
    stages: &Stages,
    attempt: Arc<dyn Consumer>,
    tallies: &Arc<Tallies>,
    stop: &CancellationToken,
) -> StartResult<(Arc<dyn Consumer>, Running)> {
    tallies.measure(host, id);
    let mut dispatchers = JoinSet::new();
    let mut by_signal: [Option<Arc<dyn Consumer>>; Signal::ALL.len()] = Default::default();
    for signal in signals {
        let tally = tallies.of(*signal);
        let mut next = attempt.clone();
        if let Some(config) = &stages.retry {
            next = retry::stage(config, next, stop.clone());
        }
        let keeps = stages.queue.as_ref().is_some_and(|queue| queue.storage.is_some());
        next = tally::stage(host, id, tally.clone(), keeps.then(|| stop.clone()), next);
        // As in the Collector: with all tries, and without the time in the queue.
        next = spans::exporting(id, next, host.spans());
        if let Some(config) = &stages.queue {
            tally.watch_queue(host, id, *signal);
            let client = storage_client(host, id, *signal, config).await?;
            let queue = front::Parts { id, signal: *signal, config, tally, stop: stop.clone() };
            let (front, dispatching) = front::stage(queue, client, next).await?;
            dispatchers.spawn(dispatching);
            next = front;
        }
        by_signal[*signal as usize] = Some(next);
    }
    let drained = async move { while dispatchers.join_next().await.is_some() {} };
    Ok((Arc::new(BySignal(by_signal)), Box::pin(drained)))
}

/// The storage that a queue is to use, opened for one signal.
async fn storage_client(
    host: &Host,
    id: &ComponentId,
    signal: Signal,
    config: &QueueConfig,
) -> StartResult<Option<Arc<dyn StorageClient>>> {
    let Some(storage) = &config.storage else { return Ok(None) };
    let storage = host.storage(&ComponentId::parse(storage)?)?;
    let name = signal.name().to_owned();
    Ok(Some(storage.open(Namespace { kind: "exporter", id: id.clone(), name }).await?))
}

/// Sends each signal its own way.
struct BySignal([Option<Arc<dyn Consumer>>; Signal::ALL.len()]);

impl Consumer for BySignal {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        match &self.0[data.signal() as usize] {
            Some(next) => next.consume(data),
            None => {
                let signal = data.signal().name();
                Box::pin(async move { Err(Refused::permanent(format!("{signal} are not exported here"))) })
            }
        }
    }
}

#[cfg(test)]
mod tests;
