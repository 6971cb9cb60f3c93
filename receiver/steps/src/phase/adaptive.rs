//! Phases by comparison: the shapes of a stream's steps form clusters, and each cluster is labelled by its evidence.
//!
//! No count separates prefill from decode on every engine: an eager decode launches as many kernels as a prefill, a decode
//! by graphs launches one, and a prompt of eight tokens is as much work as eight answers. The order of steps does separate
//! them: answers continue, so that a decode repeats one of the last few steps, while prompts have all lengths and appear as
//! jumps up from the work of a decode. [`evidence`] combines both with the size of the work and the use of graphs. With
//! too little evidence the phase is [`Phase::Unknown`].
//!
//! Bounded: [`CLUSTERS`] for each stream; the one with the fewest recent steps is evicted and counted.

mod cluster;
mod evidence;
mod recent;
mod returned;
mod signs;

use crate::phase::names::{Facts, NameEvidence};
use crate::phase::{CONFIDENCE_MIN, Phase, PhaseLabel};
use crate::shape::Shape;

use self::cluster::Cluster;
use self::evidence::Evidence;
use self::recent::Recent;
use self::returned::Returned;

/// The capacity of a stream in clusters.
pub(crate) const CLUSTERS: usize = 16;
/// The distance from a cluster's centre up to which a shape belongs to it.
const RADIUS: f64 = 0.8;
/// The growth of weights from step to step: after 512 steps the relative weight of a step is halved.
const GROWTH: f64 = 1.001_354_7;
/// The weight at which all weights are scaled back, to avoid overflow.
const UNIT_MAX: f64 = 1e100;

/// Steps of a stream after which the confidence is no longer limited to [`COLD_MAX`].
const COLD_STEPS: u64 = 16;
/// The largest confidence of the first steps of a stream.
const COLD_MAX: f64 = 0.8;
/// The part of the evidence of shape that counts for a step seen alone whose kernels have names, for reading prompts and
/// for decoding: little work is weaker evidence than much.
const ALONE: [f64; 2] = [0.6, 0.4];
/// The largest confidence where prompts and answers have the same kernels.
const SHARED_MAX: f64 = 0.9;
/// The confidence in a mixed step that launched the attention of prompts and of answers.
const BOTH: f64 = 0.95;
/// The evidence of names from which shape decides no longer, and the largest evidence of shape then.
const DECISIVE: f64 = 2.0;
/// The confidence from which a cluster retains its label.
const RETAINED_MIN: f64 = 0.55;

/// The clusters of the steps of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    clusters: Vec<Cluster>,
    recent: Recent,
    returned: Returned,
    steps: u64,
    /// The weight of a step, which grows with every step, so that older ones decay without being updated.
    unit: f64,
    evicted: u64,
}

impl Default for Clusters {
    fn default() -> Self {
        Clusters {
            clusters: Vec::new(),
            recent: Recent::default(),
            returned: Returned::default(),
            steps: 0,
            unit: 1.0,
            evicted: 0,
        }
    }
}

impl Clusters {
    /// Adds the stream's next step, which must be one that can have a phase, and returns its label.
    pub(crate) fn label(&mut self, shape: &Shape, facts: Facts<'_>) -> PhaseLabel {
        self.steps += 1;
        self.age();
        let at = self.assign(shape);
        let evidence = Evidence::of(&self.clusters, at);
        let label = match facts.names {
            None if facts.is_alone => PhaseLabel::UNKNOWN,
            None => self.decide(shape, self.clusters[at].label, &evidence),
            Some(names) => self.decide_named(shape, names, facts.is_alone, &evidence),
        };
        self.clusters[at].label = label.phase;
        if label.phase == Phase::Decode {
            self.returned.learn(shape);
        }
        label
    }

    /// Discards what is known of the graph with this fingerprint, which was updated or destroyed.
    pub(crate) fn change_graph(&mut self, graph: u64) {
        self.recent.change_graph(graph);
    }

    /// Returns the number of clusters evicted.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn assign(&mut self, shape: &Shape) -> usize {
        let vector = shape.vector();
        let nearest = self.clusters.iter().enumerate().map(|(at, c)| (at, c.distance(shape, &vector)));
        let nearest = nearest.filter(|(_, d)| *d <= RADIUS).min_by(|a, b| a.1.total_cmp(&b.1));
        let at = nearest.map_or_else(|| self.insert(Cluster::of(shape)), |(at, _)| at);
        let follows = self.recent.follow(shape, at, &self.clusters);
        self.clusters[at].add(shape, self.unit, follows);
        at
    }

    fn age(&mut self) {
        self.unit *= GROWTH;
        if self.unit > UNIT_MAX {
            self.clusters.iter_mut().for_each(|c| c.weight /= self.unit);
            self.unit = 1.0;
        }
    }

    fn insert(&mut self, cluster: Cluster) -> usize {
        if self.clusters.len() < CLUSTERS {
            if self.clusters.len() == self.clusters.capacity() {
                self.clusters.reserve_exact(if self.clusters.is_empty() { 1 } else { 3 });
            }
            self.clusters.push(cluster);
            return self.clusters.len() - 1;
        }
        let weights = self.clusters.iter().map(|c| c.weight).enumerate();
        let lightest = weights.min_by(|a, b| a.1.total_cmp(&b.1)).expect("CLUSTERS > 0").0;
        self.evicted += 1;
        self.clusters[lightest] = cluster;
        lightest
    }

    fn decide(&self, shape: &Shape, previous: Phase, evidence: &Evidence) -> PhaseLabel {
        let (phase, phase_max) = match evidence.odds < 0.0 {
            true => (Phase::Decode, evidence.decode_max),
            false => self.returned.label(shape, evidence.has_decodes),
        };
        let cold = if self.steps <= COLD_STEPS { COLD_MAX } else { 1.0 };
        let confidence = 1.0 / (1.0 + (-evidence.odds.abs()).exp());
        let confidence = confidence.min(phase_max).min(evidence.confidence_max).min(cold);
        // A label is retained at less confidence than it takes to get it: a flickering one would split the baseline.
        let is_retained =
            (previous == Phase::Decode) == (phase == Phase::Decode) && previous != Phase::Unknown;
        match confidence >= if is_retained { RETAINED_MIN } else { CONFIDENCE_MIN } {
            true => PhaseLabel { phase, confidence: confidence.max(CONFIDENCE_MIN) },
            false => PhaseLabel { phase: Phase::Unknown, confidence },
        }
    }
}

impl Clusters {
    /// Returns the label of a step by the evidence of its kernels and of its shape.
    fn decide_named(
        &self,
        shape: &Shape,
        names: &NameEvidence,
        is_alone: bool,
        evidence: &Evidence,
    ) -> PhaseLabel {
        let by_names = -names.decodes.sum();
        let is_decisive = by_names.abs() >= DECISIVE;
        let by_shape = match (is_decisive, is_alone) {
            (true, _) => evidence.odds.clamp(-DECISIVE, DECISIVE),
            (false, true) => evidence.odds * ALONE[usize::from(evidence.odds < 0.0)],
            (false, false) => evidence.odds,
        };
        let odds = by_names + by_shape;
        let confidence = 1.0 / (1.0 + (-odds.abs()).exp());
        let bound = if is_decisive { 1.0 } else { self.bound(evidence, odds < 0.0).min(SHARED_MAX) };
        let (phase, _) = match odds < 0.0 {
            true => (Phase::Decode, 1.0),
            false => self.returned.label(shape, evidence.has_decodes),
        };
        match names.is_mixed {
            true => PhaseLabel { phase: Phase::Mixed, confidence: BOTH },
            false => PhaseLabel { phase, confidence: confidence.min(bound) },
        }
    }

    fn bound(&self, evidence: &Evidence, is_decode: bool) -> f64 {
        let cold = if self.steps <= COLD_STEPS { COLD_MAX } else { 1.0 };
        evidence.confidence_max.min(cold).min(if is_decode { evidence.decode_max } else { 1.0 })
    }
}

#[cfg(test)]
mod tests;
