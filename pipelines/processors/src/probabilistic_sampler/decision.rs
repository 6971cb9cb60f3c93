//! The sampling decision: the three modes, items that cannot be sampled, and priorities.
//!
//! The modes `equalizing` and `proportional` use the item's own randomness or that of its trace id, and respect the
//! threshold that it arrived with. `hash_seed` hashes the trace id or an attribute and treats an item that was sampled by
//! randomness before as an error, as the Collector does.

use super::carrier::{Carried, Sampled};
use super::threshold::{Randomness, Threshold};
use super::{AttributeSource, ProbabilisticSamplerConfig, SamplerMode};

/// A sampler of log records and spans.
#[derive(Clone, Debug)]
pub(super) struct Sampler {
    method: Method,
    on_error: Threshold,
    priority_attribute: String,
    precision: u32,
}

#[derive(Clone, Debug)]
enum Method {
    Never,
    Hash { threshold: Threshold, seed: u32, by_trace_id: bool, attribute: String },
    Equalizing { threshold: Threshold },
    Proportional { ratio: f64, precision: u32 },
}

/// The source of an item's randomness: the attribute `policy` of the counts.
pub(super) type Policy<'a> = &'a str;

impl Sampler {
    pub(super) fn new(config: &ProbabilisticSamplerConfig) -> Self {
        Sampler {
            method: Method::new(config),
            on_error: if config.fail_closed { Threshold::NEVER } else { Threshold::ALWAYS },
            priority_attribute: config.sampling_priority.clone(),
            precision: config.sampling_precision,
        }
    }

    /// Returns whether an item is sampled, and why. A sampled item then carries the threshold of the decision.
    pub(super) fn sample(&self, item: &mut impl Sampled) -> (bool, Policy<'_>) {
        let carried = item.carried();
        let (mut policy, randomness) = self.method.randomness(item, carried.as_ref());
        let found = self.method.threshold(randomness, carried);
        let (mut threshold, carried) = match found {
            Ok((threshold, carried)) => (threshold, Some(carried)),
            Err(carried) => (self.on_error, carried),
        };
        if let Some(requested) = item.priority(&self.priority_attribute, self.precision) {
            (threshold, policy) = (requested, "sampling_priority");
        }
        let is_sampled = threshold.accepts(randomness.unwrap_or(Randomness::MOST));
        if let (true, Some(mut carried)) = (is_sampled, carried) {
            // An item that was sampled by a higher threshold retains that threshold.
            carried.threshold = Some(carried.threshold.map_or(threshold, |before| before.max(threshold)));
            item.carry(carried);
        }
        (is_sampled, policy)
    }
}

impl Method {
    fn new(config: &ProbabilisticSamplerConfig) -> Self {
        let percentage = config.sampling_percentage.min(100.0);
        let ratio = f64::from(percentage) / 100.0;
        let threshold = Threshold::of_probability(ratio, config.sampling_precision);
        // In single precision and towards zero, as the Collector has always done.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^14")]
        let buckets = (percentage * (16384.0_f32 / 100.0)) as u32;
        match (config.mode, threshold) {
            (_, None) => Method::Never,
            (SamplerMode::Equalizing, Some(threshold)) => Method::Equalizing { threshold },
            (SamplerMode::Proportional, Some(_)) => {
                Method::Proportional { ratio, precision: config.sampling_precision }
            }
            (SamplerMode::HashSeed | SamplerMode::Unset, Some(_)) if buckets == 0 => Method::Never,
            (SamplerMode::HashSeed | SamplerMode::Unset, Some(_)) => Method::Hash {
                threshold: Threshold::of_rejected_buckets(16384 - buckets),
                seed: config.hash_seed,
                by_trace_id: config.attribute_source == AttributeSource::TraceId,
                attribute: config.from_attribute.clone(),
            },
        }
    }

    /// Returns the randomness of an item, if it has one, and its source.
    fn randomness(&self, item: &impl Sampled, carried: Option<&Carried>) -> (Policy<'_>, Option<Randomness>) {
        match self {
            // No randomness is needed.
            Method::Never => ("sampling_priority", Some(Randomness::MOST)),
            Method::Hash { seed, by_trace_id, attribute, .. } => {
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
            Method::Equalizing { .. } | Method::Proportional { .. } => {
                match (carried.map(|c| c.randomness), item.trace_id()) {
                    (Some(Some(own)), _) => ("sampling_randomness", Some(own)),
                    (Some(None), Some(id)) => ("trace_id_w3c", Some(Randomness::of_trace_id(id))),
                    (None, _) | (_, None) => MISSING,
                }
            }
        }
    }

    /// Returns the threshold for an item, and the state that it carries if it is sampled.
    ///
    /// # Errors
    ///
    /// If the item cannot be sampled: the state that it carries if it is sampled nevertheless, or none to leave its
    /// state unchanged.
    fn threshold(
        &self,
        randomness: Option<Randomness>,
        carried: Option<Carried>,
    ) -> Result<(Threshold, Carried), Option<Carried>> {
        let mut carried = carried.ok_or(None)?;
        if let Method::Hash { .. } = self {
            if carried.randomness.is_some() || carried.threshold.is_some() {
                return Err(None);
            }
            carried.randomness = randomness;
        }
        let Some(randomness) = randomness else { return Err(Some(carried)) };
        if carried.threshold.is_some_and(|received| !received.accepts(randomness)) {
            // By its own threshold the item should have been dropped, so the threshold is wrong and is removed.
            carried.threshold = None;
            return Err(Some(carried));
        }
        Ok((self.decide(carried.threshold), carried))
    }

    fn decide(&self, received: Option<Threshold>) -> Threshold {
        match self {
            Method::Never => Threshold::NEVER,
            Method::Hash { threshold, .. } => *threshold,
            Method::Equalizing { threshold } => received.map_or(*threshold, |before| before.max(*threshold)),
            Method::Proportional { ratio, precision } => {
                let before = received.map_or(1.0, Threshold::probability);
                // A probability below the precision drops the item.
                Threshold::of_probability(before * ratio, *precision).unwrap_or(Threshold::NEVER)
            }
        }
    }
}

const MISSING: (Policy<'static>, Option<Randomness>) = ("missing_randomness", None);
