//! `batch`: combines small batches and splits large ones, by count and by time.
//!
//! One task per pipeline, or, with `metadata_keys`, one for each combination of the values of these keys (`shards`),
//! collects data. It sends a batch when it has `send_batch_size` items or `timeout` has passed since the last batch
//! (`holder`). While the next component consumes a batch, at most [`WAITING_MAX`] others are pending; further senders
//! wait, so that a slow exporter slows its sources. As in the Collector a refused batch is dropped, counted and logged.

mod counts;
mod holder;
mod shards;

use std::sync::Arc;

use component::context::Context;
use component::{BuildContext, ComponentId, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, GoDuration, Section};
use pdata::Signal;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use counts::Instruments;
use holder::{Front, Settings};
use shards::Shards;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "batch",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Beta,
    about: "Makes fewer, larger batches. A queue does the same after it, where a crash loses nothing.",
    example: "\
timeout: 200ms
send_batch_size: 8192
",
    keys: config::keys::<BatchConfig>,
    build,
};

/// Requests that may wait while a batch is being handed on.
pub const WAITING_MAX: usize = 16;

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BatchConfig {
        /// Longest time that items wait for a batch. 0 sends them at once.
        pub timeout: GoDuration = GoDuration::from_millis(200),
        /// Number of items at which a batch is sent. 0 sends every batch after the timeout or at once.
        pub send_batch_size: u32 = 8192,
        /// Largest number of items in a batch. 0 is unlimited.
        pub send_batch_max_size: u32,
        /// Request headers: items that arrived with different values are batched separately and sent on with them.
        pub metadata_keys: Vec<String>,
        /// Largest number of combinations of such values. 0 is unlimited.
        pub metadata_cardinality_limit: u32 = 1000,
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<BatchConfig>();
    let most = config.send_batch_max_size;
    problems.require(most == 0 || most >= config.send_batch_size, "send_batch_max_size", {
        "send_batch_max_size must be greater or equal to send_batch_size"
    });
    for (index, key) in config.metadata_keys.iter().enumerate() {
        let is_first = !config.metadata_keys[..index].iter().any(|earlier| earlier.eq_ignore_ascii_case(key));
        problems.require(is_first, &format!("metadata_keys[{index}]"), {
            format!("duplicate entry in metadata_keys: {:?} (case-insensitive)", key.to_lowercase())
        });
    }
    problems.finish()?;
    Ok(Box::new(Batch::new(context.id.clone(), config)))
}

/// A `batch` processor that has not started.
#[derive(Debug)]
pub struct Batch {
    id: ComponentId,
    config: BatchConfig,
}

impl Batch {
    /// Creates a processor from a validated configuration.
    pub fn new(id: ComponentId, config: BatchConfig) -> Self {
        Batch { id, config }
    }
}

impl Processor for Batch {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let tasks = TaskTracker::new();
        let settings = Arc::new(Settings::new(&self, next, Instruments::new(&self.id, host)));
        let front: Arc<dyn Consumer> = if self.config.metadata_keys.is_empty() {
            Arc::new(Front::start(&settings, Context::default(), &tasks, &stop))
        } else {
            Arc::new(Shards::new(&self.config, settings, tasks.clone(), stop.clone()))
        };
        let running = async move {
            stop.cancelled().await;
            tasks.close();
            tasks.wait().await;
        };
        (front, Box::pin(running))
    }
}

#[cfg(test)]
mod tests;
