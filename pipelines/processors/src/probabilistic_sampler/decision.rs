//! Which items are kept: the three modes, what happens where an item cannot be sampled, and priorities.
//!
//! In the modes `equalizing` and `proportional` an item's randomness is its own or that of its trace id, and
//! the threshold that it came with counts; `hash_seed` hashes the trace id, or an attribute, and takes items
//! that were sampled by randomness elsewhere for errors, as the Collector does.

use super::carrier::{Carried, Item};
use super::threshold::{Randomness, Threshold};
use super::{AttributeSource, Mode, ProbabilisticSamplerConfig};

/// A sampler, ready to decide.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    how: How,
    on_error: Threshold,
    priority_attribute: String,
    precision: u32,
}

#[derive(Clone, Debug)]
enum How {
    Never,
    Hash { threshold: Threshold, seed: u32, by_trace_id: bool, attribute: String },
    Equalizing { threshold: Threshold },
    Proportional { ratio: f64, precision: u32 },
}

/// Why an item was kept or not: what its randomness came from. The attribute `policy` of the counts.
pub(super) type Policy<'a> = &'a str;

impl Sampler {
    pub(super) fn new(config: &ProbabilisticSamplerConfig) -> Self {
        Sampler {
            how: How::new(config),
            on_error: if config.fail_closed { Threshold::NEVER } else { Threshold::ALWAYS },
            priority_attribute: config.sampling_priority.clone(),
            precision: config.sampling_precision,
        }
    }

    /// Whether to keep an item, which then carries the threshold that it was kept by, and why.
    pub(super) fn keeps(&self, item: &mut impl Item) -> (bool, Policy<'_>) {
        let carried = item.carried();
        let (mut policy, randomness) = self.how.randomness(item, carried.as_ref());
        let found = self.how.threshold(randomness, carried);
        let (mut threshold, carried) = match found {
            Ok((threshold, carried)) => (threshold, Some(carried)),
            Err(carried) => (self.on_error, carried),
        };
        if let Some(asked) = item.priority(&self.priority_attribute, self.precision) {
            (threshold, policy) = (asked, "sampling_priority");
        }
        let is_kept = threshold.keeps(randomness.unwrap_or(Randomness::MOST));
        if let (true, Some(mut carried)) = (is_kept, carried) {
            // What was kept by a higher threshold stays as rare as it was.
            carried.threshold = Some(carried.threshold.map_or(threshold, |before| before.max(threshold)));
            item.carry(carried);
        }
        (is_kept, policy)
    }
}

impl How {
    fn new(config: &ProbabilisticSamplerConfig) -> Self {
        let percentage = config.sampling_percentage.min(100.0);
        let ratio = f64::from(percentage) / 100.0;
        let threshold = Threshold::of_probability(ratio, config.sampling_precision);
        // In single precision and towards zero, as the Collector has always done.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^14")]
        let buckets = (percentage * (16384.0_f32 / 100.0)) as u32;
        match (config.mode, threshold) {
            (_, None) => How::Never,
            (Mode::Equalizing, Some(threshold)) => How::Equalizing { threshold },
            (Mode::Proportional, Some(_)) => {
                How::Proportional { ratio, precision: config.sampling_precision }
            }
            (Mode::HashSeed | Mode::Unset, Some(_)) if buckets == 0 => How::Never,
            (Mode::HashSeed | Mode::Unset, Some(_)) => How::Hash {
                threshold: Threshold::of_rejected_buckets(16384 - buckets),
                seed: config.hash_seed,
                by_trace_id: config.attribute_source == AttributeSource::TraceId,
                attribute: config.from_attribute.clone(),
            },
        }
    }

    /// The randomness of an item, and where it comes from; none where it has none.
    fn randomness(&self, item: &impl Item, carried: Option<&Carried>) -> (Policy<'_>, Option<Randomness>) {
        match self {
            // Nothing is missing that would be used.
            How::Never => ("sampling_priority", Some(Randomness::MOST)),
            How::Hash { seed, by_trace_id, attribute, .. } => {
                let id = by_trace_id.then(|| item.trace_id()).flatten();
                if let Some(id) = id {
                    return ("trace_id_hash", Some(Randomness::of_hash(id, *seed)));
                }
                let bytes = (!attribute.is_empty()).then(|| item.attribute(attribute)).flatten();
                match bytes {
                    Some(bytes) => (attribute, Some(Randomness::of_hash(&bytes, *seed))),
                    None => MISSING,
                }
            }
            How::Equalizing { .. } | How::Proportional { .. } => {
                match (carried.map(|c| c.randomness), item.trace_id()) {
                    (Some(Some(own)), _) => ("sampling_randomness", Some(own)),
                    (Some(None), Some(id)) => ("trace_id_w3c", Some(Randomness::of_trace_id(id))),
                    (None, _) | (_, None) => MISSING,
                }
            }
        }
    }

    /// The threshold for an item, and what it shall carry. Where it cannot be sampled, what it shall carry if
    /// it is kept all the same; none where that is to stay as it is.
    fn threshold(
        &self,
        randomness: Option<Randomness>,
        carried: Option<Carried>,
    ) -> Result<(Threshold, Carried), Option<Carried>> {
        let mut carried = carried.ok_or(None)?;
        if let How::Hash { .. } = self {
            if carried.randomness.is_some() || carried.threshold.is_some() {
                return Err(None);
            }
            carried.randomness = randomness;
        }
        let Some(randomness) = randomness else { return Err(Some(carried)) };
        if carried.threshold.is_some_and(|came_with| !came_with.keeps(randomness)) {
            // It should not be here by what it says: that is no threshold to hand on.
            carried.threshold = None;
            return Err(Some(carried));
        }
        Ok((self.decide(carried.threshold), carried))
    }

    fn decide(&self, came_with: Option<Threshold>) -> Threshold {
        match self {
            How::Never => Threshold::NEVER,
            How::Hash { threshold, .. } => *threshold,
            How::Equalizing { threshold } => came_with.map_or(*threshold, |before| before.max(*threshold)),
            How::Proportional { ratio, precision } => {
                let before = came_with.map_or(1.0, Threshold::probability);
                // What becomes rarer than can be told is not kept.
                Threshold::of_probability(before * ratio, *precision).unwrap_or(Threshold::NEVER)
            }
        }
    }
}

const MISSING: (Policy<'static>, Option<Randomness>) = ("missing_randomness", None);
