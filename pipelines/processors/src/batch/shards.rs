//! One batching task for each combination of the values of `metadata_keys`.
//!
//! Tasks run until the processor stops, as in the Collector. Above `metadata_cardinality_limit` combinations, data of a
//! new combination is refused permanently.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use component::context::{self, Context, Metadata};
use component::{BoxFuture, Consumer, Refused};
use pdata::Data;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::BatchConfig;
use super::holder::{Front, Settings};

pub(super) struct Shards {
    keys: Vec<String>,
    limit: usize,
    settings: Arc<Settings>,
    fronts: Mutex<HashMap<Metadata, Front>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Shards {
    pub(super) fn new(
        config: &BatchConfig,
        settings: Arc<Settings>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        let limit = match config.metadata_cardinality_limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let keys = config.metadata_keys.iter().map(|key| key.to_lowercase()).collect();
        Shards { keys, limit, settings, fronts: Mutex::default(), tasks, stop }
    }

    /// Returns the values of the keys in the current request; absent keys are omitted.
    fn metadata(&self) -> Metadata {
        let all = context::current().metadata;
        let mut metadata = Metadata::default();
        for key in &self.keys {
            all.get(key).iter().for_each(|value| metadata.add(key, value));
        }
        metadata
    }

    /// Returns the consumer for these values.
    fn front(&self, metadata: Metadata) -> Result<Front, Refused> {
        let mut fronts = self.fronts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(front) = fronts.get(&metadata) {
            return Ok(front.clone());
        }
        if self.stop.is_cancelled() {
            return Err(Refused::retryable("the batch processor is shutting down"));
        }
        if fronts.len() >= self.limit {
            return Err(Refused::permanent("too many batcher metadata-value combinations"));
        }
        let context = Context { metadata: Arc::new(metadata.clone()), ..Context::default() };
        let front = Front::start(&self.settings, context, &self.tasks, &self.stop);
        fronts.insert(metadata, front.clone());
        Ok(front)
    }
}

impl Consumer for Shards {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let front = self.front(self.metadata())?;
            front.consume(data).await
        })
    }
}
