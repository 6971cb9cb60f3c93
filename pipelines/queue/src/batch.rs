//! Merges requests into batches and splits batches that are too large, separately for each partition.
//!
//! A batch carries the ack guards of its requests in the order of their items, so that each request is
//! acknowledged by the outcome of its own items regardless of the splits. The batcher reads no clock and sends
//! nothing: it gets the time and returns the batches to send.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use component::context::{Context, Metadata};
use pdata::{Data, Unit};
use tokio::time::Instant;

use crate::QueueConfig;
use crate::ack::AckGuard;
use crate::dispatch::Request;
use crate::sizer::Sizer;

/// Partitions held at once, at most; above that, the oldest is sent.
const PARTITIONS_MAX: usize = 1000;

/// Data to send as one request, with the guards of the requests it contains.
pub(crate) struct Batch {
    pub(crate) data: Data,
    pub(crate) context: Context,
    pub(crate) acks: Vec<AckGuard>,
}

impl Batch {
    /// Returns a batch of one request, unchanged.
    pub(crate) fn of(request: Request) -> Self {
        Batch { data: request.data, context: request.context, acks: vec![request.ack] }
    }
}

/// Merges requests into batches.
pub(crate) struct Batcher {
    timeout: Duration,
    min_size: usize,
    /// `None` is unlimited.
    max_size: Option<usize>,
    unit: Unit,
    keys: Vec<String>,
    partitions: BTreeMap<Partition, Pending>,
}

/// The metadata values of each key, empty if the key is missing.
type Partition = Vec<Vec<String>>;

struct Pending {
    data: Data,
    size: usize,
    acks: VecDeque<(usize, AckGuard)>,
    context: Context,
    deadline: Instant,
}

impl Batcher {
    /// Returns the batcher of a queue, if `batch` is configured.
    pub(crate) fn of(config: &QueueConfig) -> Option<Self> {
        let batch = config.batch.get()?;
        let size = |size: i64| usize::try_from(size).unwrap_or(usize::MAX);
        Some(Batcher {
            timeout: *batch.flush_timeout,
            min_size: size(batch.min_size),
            max_size: Some(size(batch.max_size)).filter(|most| *most > 0),
            unit: if config.batch_sizer() == Sizer::Bytes { Unit::Bytes } else { Unit::Items },
            keys: batch.partition.metadata_keys.iter().map(|key| key.to_ascii_lowercase()).collect(),
            partitions: BTreeMap::new(),
        })
    }

    /// Adds a request; returns the batches to send now.
    pub(crate) fn add(&mut self, request: Request, now: Instant) -> Vec<Batch> {
        if !request.data.is_divisible() {
            return vec![Batch::of(request)];
        }
        let items = request.data.items();
        if items == 0 {
            request.ack.report(&Ok(()), false);
            return Vec::new();
        }
        let partition = self.partition(&request.context);
        let (unit, size) = (self.unit, size_of(&request.data, self.unit));
        let mut pending = match self.partitions.remove(&partition) {
            None => Pending::new(self.context(&partition), request.data, size, now + self.timeout),
            Some(mut pending) => {
                pending.size += size;
                pending.data.append(request.data).expect("a partition has one divisible signal");
                pending
            }
        };
        pending.acks.push_back((items, request.ack));
        let mut ready = pending.split(self.max_size, unit);
        match pending.size {
            0 => {}
            size if size >= self.min_size => ready.push(pending.whole()),
            _ => drop(self.partitions.insert(partition, pending)),
        }
        ready.extend(self.overflow());
        ready
    }

    /// Returns when the oldest batch is due, or `None` if there is none.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.partitions.values().map(|pending| pending.deadline).min()
    }

    /// Returns the batches whose timeout has passed.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Batch> {
        let due: Vec<Partition> =
            self.partitions.iter().filter(|(_, p)| p.deadline <= now).map(|(key, _)| key.clone()).collect();
        due.iter().filter_map(|key| self.partitions.remove(key)).map(Pending::whole).collect()
    }

    /// Returns all batches.
    pub(crate) fn flush(&mut self) -> Vec<Batch> {
        std::mem::take(&mut self.partitions).into_values().map(Pending::whole).collect()
    }

    fn overflow(&mut self) -> Option<Batch> {
        if self.partitions.len() <= PARTITIONS_MAX {
            return None;
        }
        let oldest = self.partitions.iter().min_by_key(|(_, pending)| pending.deadline);
        let oldest = oldest.map(|(key, _)| key.clone())?;
        self.partitions.remove(&oldest).map(Pending::whole)
    }

    fn partition(&self, context: &Context) -> Partition {
        self.keys.iter().map(|key| context.metadata.get(key).to_vec()).collect()
    }

    /// Returns the metadata that the requests of a partition share.
    fn context(&self, partition: &Partition) -> Context {
        let mut metadata = Metadata::default();
        for (key, values) in self.keys.iter().zip(partition) {
            values.iter().for_each(|value| metadata.add(key, value.as_str()));
        }
        Context { metadata: Arc::new(metadata), ..Context::default() }
    }
}

impl Pending {
    fn new(context: Context, data: Data, size: usize, deadline: Instant) -> Self {
        Pending { data, size, acks: VecDeque::new(), context, deadline }
    }

    /// Splits off batches of the maximum size while the data is larger.
    fn split(&mut self, most: Option<usize>, unit: Unit) -> Vec<Batch> {
        let mut batches = Vec::new();
        let Some(most) = most else { return batches };
        while self.size > most {
            let data = self.data.split_front(most, unit);
            self.size = size_of(&self.data, unit);
            let acks = self.acks_of(data.items());
            batches.push(Batch { data, context: self.context.clone(), acks });
        }
        batches
    }

    /// Returns the guards of the first items.
    fn acks_of(&mut self, mut items: usize) -> Vec<AckGuard> {
        let mut acks = Vec::new();
        while let Some((left, ack)) = self.acks.front_mut()
            && items > 0
        {
            if *left > items {
                *left -= items;
                acks.push(ack.split(items));
                break;
            }
            items -= *left;
            acks.extend(self.acks.pop_front().map(|(_, ack)| ack));
        }
        acks
    }

    fn whole(self) -> Batch {
        let acks = self.acks.into_iter().map(|(_, ack)| ack).collect();
        Batch { data: self.data, context: self.context, acks }
    }
}

fn size_of(data: &Data, unit: Unit) -> usize {
    match unit {
        Unit::Items => data.items(),
        Unit::Bytes => data.encoded_len(),
    }
}
