//! Queue, batching, metrics and retries: the stages in front of the sender of an exporter.
//!
//! ```text
//!  consume ─▶ queue ─▶ batch ─▶ obsreport ─▶ retry ─▶ sender (the exporter itself)
//!             full?    merge,   sent,        back-off,
//!             refuse   split    failed       Retry-After
//! ```
//! Each stage is a [`Consumer`] in front of the next. Every signal has its own queue, as in the Collector, so
//! that a flood of one signal does not starve another. A queue holds its requests in memory, or in the storage
//! that `sending_queue::storage` names: then an `Ok` means that the request is stored, and requests that were
//! not delivered when the process ended, for any reason, are delivered by the next process. On stop, back-offs
//! end at once. A queue in memory sends every request one last time and counts those left after [`DRAIN_MAX`]
//! as dropped; a persistent queue finishes the requests in flight and leaves the rest stored.

mod ack;
mod backoff;
mod batch;
mod capacity;
mod config;
mod dispatch;
mod index;
mod metrics;
mod obsreport;
mod payload;
mod persistent;
mod retry;
mod sending_queue;
mod server;
mod sizer;

use std::sync::Arc;
use std::time::Duration;

use component::storage::{Namespace, StorageClient};
use component::{BoxFuture, ComponentId, Consumer, Host, Refused, Running, StartResult, spans};
use pdata::{Data, PerSignal, Signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use self::config::{PartitionConfig, QueueBatchConfig, QueueConfig};
pub use backoff::Backoff;
pub use metrics::{ExporterMetrics, SignalMetrics};
pub use retry::RetryConfig;
pub use server::Server;
pub use sizer::Sizer;

/// Longest time that an exporter goes on sending after it was asked to stop.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The stages in front of a sender.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stages {
    /// The queue, unless `sending_queue::enabled` is false.
    pub queue: Option<QueueConfig>,
    /// The retries, unless `retry_on_failure::enabled` is false.
    pub retry: Option<RetryConfig>,
}

/// Puts the stages in front of `sender` for each of `signals`, and starts to send, including requests that a
/// storage still holds. The returned work ends when the queues are done after `stop`.
pub async fn stack(
    host: &Host,
    id: &ComponentId,
    signals: &[Signal],
    stages: &Stages,
    sender: Arc<dyn Consumer>,
    metrics: &ExporterMetrics,
    stop: &CancellationToken,
) -> StartResult<(Arc<dyn Consumer>, Running)> {
    let mut dispatchers = JoinSet::new();
    let mut by_signal = BySignal::default();
    for signal in signals {
        let metrics = metrics.of(*signal);
        let mut next = sender.clone();
        if let Some(config) = &stages.retry {
            next = retry::stage(config, next, stop.clone());
        }
        let is_persistent = stages.queue.as_ref().is_some_and(|queue| queue.storage.is_some());
        let persistent_until = is_persistent.then(|| stop.clone());
        next = obsreport::stage(host, id, metrics.clone(), persistent_until, next);
        // As in the Collector, a span covers all attempts and not the time in the queue.
        next = spans::exporting(id, next, host.spans());
        if let Some(config) = &stages.queue {
            metrics.observe_queue(host);
            let client = storage_client(host, id, *signal, config).await?;
            let setup = sending_queue::Setup { id, signal: *signal, config, metrics, stop: stop.clone() };
            let (queue, dispatching) = sending_queue::stage(setup, client, next).await?;
            dispatchers.spawn(dispatching);
            next = queue;
        }
        by_signal.0[*signal] = Some(next);
    }
    let drained = async move { while dispatchers.join_next().await.is_some() {} };
    Ok((Arc::new(by_signal), Box::pin(drained)))
}

/// Opens the storage of a queue for one signal, if one is configured.
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

/// Routes each signal to its own stages.
#[derive(Default)]
struct BySignal(PerSignal<Option<Arc<dyn Consumer>>>);

impl Consumer for BySignal {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        match &self.0[data.signal()] {
            Some(next) => next.consume(data),
            None => {
                let signal = data.signal().name();
                Box::pin(async move {
                    Err(Refused::permanent(format!("{signal} are not supported by this exporter")))
                })
            }
        }
    }
}

#[cfg(test)]
mod tests;
