//! Requests put together before they are sent, and cut where they are too large, each partition by itself.
//!
//! The one idea: a batch keeps, in the order of its items, whose they are, so that each request hears of its
//! own items' end wherever the cuts fell. It knows no clock and sends nothing: it is told the time, and
//! returns what is to be sent.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use component::Data;
use component::context::{Context, Metadata};
use tokio::time::Instant;

use crate::QueueConfig;
use crate::dispatch::Request;
use crate::receipt::Share;
use crate::sizer::Sizer;
use crate::splitting::{self, Unit};

/// How many partitions are held at once; the one that waits longest is sent when there is one more.
const PARTITIONS_MAX: usize = 1000;

/// What is to be sent as one request, and whose it is.
pub(crate) struct Batch {
    pub(crate) data: Data,
    pub(crate) context: Context,
    pub(crate) shares: Vec<Share>,
}

impl Batch {
    /// A request as it came.
    pub(crate) fn of(request: Request) -> Self {
        Batch { data: request.data, context: request.context, shares: vec![request.share] }
    }
}

/// Puts requests together.
pub(crate) struct Batcher {
    timeout: Duration,
    min_size: usize,
    /// None is without a bound.
    max_size: Option<usize>,
    unit: Unit,
    keys: Vec<String>,
    partitions: BTreeMap<Partition, Pending>,
}

/// The values under each key: none where it is not there.
type Partition = Vec<Vec<String>>;

struct Pending {
    data: Data,
    size: usize,
    shares: VecDeque<(usize, Share)>,
    context: Context,
    deadline: Instant,
}

impl Batcher {
    /// The batcher of a queue, where it has one.
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

    /// Adds a request; returns what is to be sent now.
    pub(crate) fn add(&mut self, request: Request, now: Instant) -> Vec<Batch> {
        if !splitting::is_divisible(&request.data) {
            return vec![Batch::of(request)];
        }
        let items = request.data.items();
        if items == 0 {
            // Nothing in it, nothing to send.
            request.share.report(&Ok(()), false);
            return Vec::new();
        }
        let partition = self.partition(&request.context);
        let (unit, size) = (self.unit, size_of(&request.data, self.unit));
        let mut pending = match self.partitions.remove(&partition) {
            None => Pending::new(self.context(&partition), request.data, size, now + self.timeout),
            Some(mut pending) => {
                pending.size += size;
                splitting::append(&mut pending.data, request.data);
                pending
            }
        };
        pending.shares.push_back((items, request.share));
        let mut ready = pending.cut(self.max_size, unit);
        match pending.size {
            0 => {}
            size if size >= self.min_size => ready.push(pending.whole()),
            _ => drop(self.partitions.insert(partition, pending)),
        }
        ready.extend(self.overflow());
        ready
    }

    /// When something is to be sent although nothing comes; none where nothing is held.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.partitions.values().map(|pending| pending.deadline).min()
    }

    /// What has waited for long enough.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Batch> {
        let due: Vec<Partition> =
            self.partitions.iter().filter(|(_, p)| p.deadline <= now).map(|(key, _)| key.clone()).collect();
        due.iter().filter_map(|key| self.partitions.remove(key)).map(Pending::whole).collect()
    }

    /// All that is held.
    pub(crate) fn rest(&mut self) -> Vec<Batch> {
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

    /// What the requests of a partition have in common.
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
        Pending { data, size, shares: VecDeque::new(), context, deadline }
    }

    /// Cuts off batches of the largest size while there is more than that.
    fn cut(&mut self, most: Option<usize>, unit: Unit) -> Vec<Batch> {
        let mut batches = Vec::new();
        let Some(most) = most else { return batches };
        while self.size > most {
            let data = splitting::split_front_by(&mut self.data, most, unit);
            self.size = size_of(&self.data, unit);
            let shares = self.shares_of(data.items());
            batches.push(Batch { data, context: self.context.clone(), shares });
        }
        batches
    }

    /// The shares of the first items.
    fn shares_of(&mut self, mut items: usize) -> Vec<Share> {
        let mut shares = Vec::new();
        while let Some((left, share)) = self.shares.front_mut()
            && items > 0
        {
            if *left > items {
                *left -= items;
                shares.push(share.split(items));
                break;
            }
            items -= *left;
            shares.extend(self.shares.pop_front().map(|(_, share)| share));
        }
        shares
    }

    fn whole(self) -> Batch {
        let shares = self.shares.into_iter().map(|(_, share)| share).collect();
        Batch { data: self.data, context: self.context, shares }
    }
}

fn size_of(data: &Data, unit: Unit) -> usize {
    match unit {
        Unit::Items => data.items(),
        Unit::Bytes => data.encoded_len(),
    }
}
