//! Phases by comparison: the shapes of a stream's steps fall into clusters, and clusters are weighed up.
//!
//! The one idea: no count separates prefill from decode on every engine (an eager decode launches as many kernels as
//! a prefill, a decode by graphs launches one, a prompt of eight tokens is no more work than eight answers). What
//! does is how steps follow each other: answers go on, so that a decode does what one of the last few did; prompts
//! are of all lengths, and come as jumps up from the work of a decode. [`evidence`] weighs both with the size of the
//! work and the use of graphs. Too little of it is [`Phase::Unknown`].
//!
//! Bounded: [`CLUSTERS`] a stream; the one with the fewest recent steps makes room, counted.

mod cluster;
mod evidence;
mod recent;
mod returned;
mod signs;

use crate::phase::{CONFIDENCE_MIN, Label, Phase};
use crate::shape::Shape;

use self::cluster::Cluster;
use self::evidence::Evidence;
use self::recent::Recent;
use self::returned::Returned;

/// Clusters of one stream.
pub(crate) const CLUSTERS: usize = 16;
/// A shape this near to a cluster's centre belongs to it.
const RADIUS: f64 = 0.8;
/// How much more a step weighs than the one before: after 512 steps a step weighs half.
const GROWTH: f64 = 1.001_354_7;
/// Weights are brought back to one before they leave what a number can hold.
const UNIT_MAX: f64 = 1e100;

/// Until so many steps were seen, a label is no surer than [`COLD_MAX`].
const COLD_STEPS: u64 = 16;
const COLD_MAX: f64 = 0.8;
/// From here on a cluster that has the label keeps it.
const HELD_MIN: f64 = 0.55;

/// The clusters of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    clusters: Vec<Cluster>,
    recent: Recent,
    returned: Returned,
    steps: u64,
    /// What a step weighs: it grows with every step, so that older ones weigh less without being touched.
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
    /// Takes the stream's next step in, one that can have a phase, and labels it.
    pub(crate) fn label(&mut self, shape: &Shape) -> Label {
        self.steps += 1;
        self.age();
        let at = self.assign(shape);
        let evidence = Evidence::of(&self.clusters, at);
        let label = self.decide(shape, self.clusters[at].label, &evidence);
        self.clusters[at].label = label.phase;
        if label.phase == Phase::Decode {
            self.returned.learn(shape);
        }
        label
    }

    /// The graph with this fingerprint is another from here on, or is gone.
    pub(crate) fn forget_graph(&mut self, graph: u64) {
        self.recent.forget_graph(graph);
    }

    /// Clusters forgotten to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.clusters.capacity() * size_of::<Cluster>()
    }

    fn assign(&mut self, shape: &Shape) -> usize {
        let vector = shape.vector();
        let nearest = self.clusters.iter().enumerate().map(|(at, c)| (at, c.distance(shape, &vector)));
        let nearest = nearest.filter(|(_, d)| *d <= RADIUS).min_by(|a, b| a.1.total_cmp(&b.1));
        let at = nearest.map_or_else(|| self.insert(Cluster::of(shape)), |(at, _)| at);
        let follows = self.recent.take(shape, at, &self.clusters);
        self.clusters[at].take(shape, self.unit, follows);
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

    fn decide(&self, shape: &Shape, held: Phase, evidence: &Evidence) -> Label {
        let (phase, phase_max) = match evidence.odds < 0.0 {
            true => (Phase::Decode, evidence.decode_max),
            false => self.returned.tell(shape, evidence.has_decodes),
        };
        let cold = if self.steps <= COLD_STEPS { COLD_MAX } else { 1.0 };
        let confidence = 1.0 / (1.0 + (-evidence.odds.abs()).exp());
        let confidence = confidence.min(phase_max).min(evidence.confidence_max).min(cold);
        // A cluster keeps its label a little longer than it takes to get it: flicker would tear its baseline apart.
        let is_held = (held == Phase::Decode) == (phase == Phase::Decode) && held != Phase::Unknown;
        match confidence >= if is_held { HELD_MIN } else { CONFIDENCE_MIN } {
            true => Label { phase, confidence: confidence.max(CONFIDENCE_MIN) },
            false => Label { phase: Phase::Unknown, confidence },
        }
    }
}

#[cfg(test)]
mod tests;
