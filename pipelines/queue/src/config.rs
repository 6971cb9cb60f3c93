//! The section `sending_queue` and its checks.

use std::collections::BTreeSet;

use component::ComponentId;
use config::{GoDuration, Optional, Problems};

use crate::Sizer;

config::section! {
    /// The section `sending_queue`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct QueueConfig {
        /// Largest number of requests sent concurrently.
        pub num_consumers: i64 = 10 => in 1..,
        /// Capacity of the queue, in units of `sizer`.
        pub queue_size: i64 = 1000 => in 1..,
        /// Unit of `queue_size`. Unset is requests.
        pub sizer: Option<Sizer>,
        /// Whether the sender waits for the delivery of its request and receives the result.
        pub wait_for_result: bool,
        /// Whether a sender waits while the queue is full instead of being refused.
        pub block_on_overflow: bool,
        /// Id of the extension that stores the requests. Unset keeps them in memory.
        pub storage: Option<String>,
        /// Batching of requests before they are sent.
        pub batch: Optional<QueueBatchConfig>,
    }

    /// The section `batch` of a queue.
    #[derive(Clone, Debug, PartialEq)]
    pub struct QueueBatchConfig {
        /// Longest time that a request waits for a batch.
        pub flush_timeout: GoDuration = GoDuration::from_millis(200) => in config::POSITIVE,
        /// Size at which a batch is sent.
        pub min_size: i64 = 8192 => in 0..,
        /// Largest size of a batch. 0 is unlimited. A single larger item is sent on its own.
        pub max_size: i64 => in 0..,
        /// Unit of the sizes. Unset is the unit of the queue if that is set, else items.
        pub sizer: Option<Sizer>,
        /// Partitions of requests that are batched separately.
        pub partition: PartitionConfig,
    }

    /// The section `partition` of a batch.
    #[derive(Clone, Debug, PartialEq)]
    pub struct PartitionConfig {
        /// Metadata keys: requests that differ in one of them are batched separately.
        pub metadata_keys: Vec<String>,
    }
}

impl QueueConfig {
    /// Returns the unit of the queue's size.
    pub fn sizer(&self) -> Sizer {
        self.sizer.unwrap_or_default()
    }

    /// Returns the unit of batch sizes.
    pub(crate) fn batch_sizer(&self) -> Sizer {
        let own = self.batch.get().and_then(|batch| batch.sizer);
        own.or(self.sizer).unwrap_or(Sizer::Items)
    }

    /// Returns the capacity in units of the sizer.
    pub(crate) fn capacity(&self) -> u64 {
        u64::try_from(self.queue_size).unwrap_or(0)
    }

    /// Returns the number of requests sent at once.
    pub(crate) fn consumers(&self) -> usize {
        usize::try_from(self.num_consumers).unwrap_or(1)
    }

    /// Checks the values of the section against each other if it is enabled.
    pub fn check(section: &Optional<QueueConfig>, problems: &mut Problems<'_>) {
        let Some(queue) = section.get() else { return };
        let key = |name: &str| format!("sending_queue::{name}");
        problems.require(!queue.wait_for_result || queue.storage.is_none(), &key("wait_for_result"), {
            "`wait_for_result` is not supported with a persistent queue configured with `storage`"
        });
        if let Some(Err(e)) = queue.storage.as_deref().map(ComponentId::parse) {
            problems.add(&key("storage"), e.to_string());
        }
        if let Some(batch) = queue.batch.get() {
            queue.check_batch(batch, problems);
        }
    }

    fn check_batch(&self, batch: &QueueBatchConfig, problems: &mut Problems<'_>) {
        let key = |name: &str| format!("sending_queue::batch::{name}");
        let (sizer, least, most) = (self.batch_sizer(), batch.min_size, batch.max_size);
        problems.require(sizer != Sizer::Requests, &key("sizer"), {
            format!("`batch` supports only `items` or `bytes` sizer, found \"{sizer}\"")
        });
        problems.require(most <= 0 || most >= least, &key("max_size"), {
            format!("`max_size` ({most}) must be greater or equal to `min_size` ({least})")
        });
        let is_same = sizer == self.sizer() && sizer != Sizer::Requests;
        problems.require(!is_same || least <= self.queue_size, &key("min_size"), {
            "`min_size` must be less than or equal to `queue_size`"
        });
        let mut seen = BTreeSet::new();
        for name in &batch.partition.metadata_keys {
            let name = name.to_lowercase();
            problems.require(seen.insert(name.clone()), &key("partition::metadata_keys"), {
                format!("duplicate entry in metadata_keys: {name:?} (case-insensitive)")
            });
        }
    }
}
