//! Phases by comparison: the shapes of a stream's steps fall into clusters, and clusters are weighed up.
//!
//! The one idea: no launch count separates prefill from decode on every engine (an eager decode launches as many
//! kernels as a prefill, a decode by graph launches one), but within one stream the two are far apart, and decodes
//! come much more often. So three pieces of evidence are added up as logarithms of odds, positive for prefill:
//! what such a shape is on engines in general (all there is at first), how its work compares with the stream's
//! other clusters, and whether the stream decodes by whole graphs. Too little of it is [`Phase::Unknown`].
//!
//! Bounded: [`CLUSTERS`] a stream; the one with the fewest recent steps makes room, counted.

use crate::phase::{CONFIDENCE_MIN, Label, Phase};
use crate::shape::{DIMENSIONS, Form, Shape, log2};

/// Clusters of one stream.
pub(crate) const CLUSTERS: usize = 16;
/// A shape this near to a cluster's centre belongs to it: a factor of two in one quantity.
const RADIUS: f64 = 1.0;
/// How much more a step weighs than the one before: after 512 steps a step weighs half.
const GROWTH: f64 = 1.001_354_7;
/// Weights are brought back to one before they leave what a number can hold.
const UNIT_MAX: f64 = 1e100;
/// Steps that a centre averages over.
const CENTRE_MEMORY: f64 = 64.0;

/// Threads per launch between decode and prefill where kernels are launched one by one. Seen: decode of 32
/// requests 33 thousand, prefill of 888 tokens 390 thousand.
const EAGER_MIDDLE: f64 = 110_000.0;
/// The same for the kernels between graphs, which are attention alone. Seen: 8,192 tokens 3.4 million.
const PIECEWISE_MIDDLE: f64 = 700_000.0;
/// The most that a shape by itself can say.
const PRIOR_MAX: f64 = 3.5;
/// What one graph for a whole step says: prefills are rarely captured.
const PRIOR_WHOLE: f64 = -2.5;
/// A shape this likely to be a prefill is none the less for being the smaller one: large steps do not decode.
const PRIOR_STRONG: f64 = 1.0;
/// What a comparison can still say against that.
const AGAINST_STRONG: f64 = 1.0;
/// The most that a comparison can say.
const COMPARISON_MAX: f64 = 4.0;
/// Clusters are apart from this many doublings of work on.
const GAP_MIN: f64 = 1.0;
/// Decodes come this many times as often as prefills, or a comparison says nothing.
const RECURRENCE_MIN: f64 = 2.0;
/// Steps that a side of a comparison needs.
const SIDE_MIN: f64 = 2.0;
/// What decoding by whole graphs says of the other steps.
const BESIDE_WHOLE: f64 = 2.5;
/// From this share of the steps on, a stream decodes by whole graphs.
const WHOLE_SHARE_MIN: f64 = 0.2;
/// What it says of an unclear shape that nearly all steps have it.
const RECURRING: f64 = -0.7;
/// From this share of the steps on, and so many of them.
const RECURRING_SHARE: f64 = 0.6;
const RECURRING_MIN: f64 = 50.0;

/// Until so many steps were seen, a label is no surer than [`COLD_MAX`].
const COLD_STEPS: u64 = 16;
const COLD_MAX: f64 = 0.8;
const DECODE_MAX: f64 = 0.97;
/// A prefill may carry decodes along.
const PREFILL_MAX: f64 = 0.85;
/// Only the engine can tell prompts of a few requests from prompts along with decodes.
const MIXED_MAX: f64 = 0.65;
/// Odds (logarithm) from which a cluster changes its label: three to one.
const CHANGE_ODDS: f64 = 1.1;

#[derive(Clone, Debug)]
struct Cluster {
    form: Form,
    centre: [f64; DIMENSIONS],
    seen: u64,
    /// Steps, in units of [`Clusters::unit`].
    weight: f64,
    label: Phase,
}

impl Cluster {
    fn of(shape: &Shape) -> Cluster {
        Cluster { form: shape.form, centre: shape.vector(), seen: 0, weight: 0.0, label: Phase::Unknown }
    }

    /// Logarithm of the threads.
    fn work(&self) -> f64 {
        self.centre[1]
    }

    /// Logarithm of the threads per launch.
    fn threads_per_launch(&self) -> f64 {
        self.centre[1] - self.centre[0]
    }

    fn distance(&self, vector: &[f64; DIMENSIONS]) -> f64 {
        self.centre.iter().zip(vector).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    fn take(&mut self, vector: &[f64; DIMENSIONS], unit: f64) {
        self.weight += unit;
        self.seen += 1;
        let pull = 1.0 / CENTRE_MEMORY.min(self.seen as f64);
        self.centre.iter_mut().zip(vector).for_each(|(centre, value)| *centre += (value - *centre) * pull);
    }
}

/// The clusters of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Clusters {
    clusters: Vec<Cluster>,
    steps: u64,
    /// What a step weighs: it grows with every step, so that older ones weigh less without being touched.
    unit: f64,
    evicted: u64,
}

impl Default for Clusters {
    fn default() -> Self {
        Clusters { clusters: Vec::new(), steps: 0, unit: 1.0, evicted: 0 }
    }
}

impl Clusters {
    /// Takes the stream's next step in and labels it.
    pub(crate) fn label(&mut self, shape: &Shape) -> Label {
        if shape.form == Form::Copies {
            return Label::default();
        }
        self.steps += 1;
        self.age();
        let at = self.assign(shape);
        let label = self.decide(&self.clusters[at], self.odds(&self.clusters[at]));
        if label.phase != Phase::Unknown {
            self.clusters[at].label = label.phase;
        }
        label
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
        let at = self.nearest(shape.form, &vector).unwrap_or_else(|| self.insert(Cluster::of(shape)));
        self.clusters[at].take(&vector, self.unit);
        at
    }

    fn age(&mut self) {
        self.unit *= GROWTH;
        if self.unit > UNIT_MAX {
            self.clusters.iter_mut().for_each(|c| c.weight /= self.unit);
            self.unit = 1.0;
        }
    }

    fn nearest(&self, form: Form, vector: &[f64; DIMENSIONS]) -> Option<usize> {
        let near = |(at, cluster): (usize, &Cluster)| (at, cluster.distance(vector));
        let of_form = self.clusters.iter().enumerate().filter(|(_, c)| c.form == form);
        let nearest = of_form.map(near).min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.filter(|(_, distance)| *distance <= RADIUS).map(|(at, _)| at)
    }

    fn insert(&mut self, cluster: Cluster) -> usize {
        if self.clusters.len() < CLUSTERS {
            if self.clusters.len() == self.clusters.capacity() {
                self.clusters.reserve_exact(CLUSTERS / 4);
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

    /// Logarithm of the odds of prefill against decode.
    fn odds(&self, cluster: &Cluster) -> f64 {
        let prior = prior(cluster);
        let compared = self.comparison(cluster);
        let compared = if prior >= PRIOR_STRONG { compared.max(-AGAINST_STRONG) } else { compared };
        prior + compared + self.beside_whole(cluster) + self.recurring(cluster, prior)
    }

    fn decide(&self, cluster: &Cluster, odds: f64) -> Label {
        let (phase, at_most) = match (odds < 0.0, cluster.form) {
            (true, _) => (Phase::Decode, DECODE_MAX),
            (false, Form::Piecewise) => (Phase::Mixed, MIXED_MAX),
            (false, _) => (Phase::Prefill, PREFILL_MAX),
        };
        let at_most = if self.steps <= COLD_STEPS { at_most.min(COLD_MAX) } else { at_most };
        let confidence = (1.0 / (1.0 + (-odds.abs()).exp())).min(at_most);
        // A cluster keeps its label until the odds are clearly against it: flicker would tear its baseline apart.
        let held = cluster.label;
        let is_clear = odds.abs() >= if held == phase { 0.0 } else { CHANGE_ODDS };
        match (held, confidence >= CONFIDENCE_MIN) {
            (Phase::Unknown, true) => Label { phase, confidence },
            (Phase::Unknown, false) => Label { phase: Phase::Unknown, confidence },
            _ if is_clear => Label { phase, confidence: confidence.max(CONFIDENCE_MIN) },
            _ => Label { phase: held, confidence: CONFIDENCE_MIN },
        }
    }

    /// What the clusters of the same form say: with the widest gap between little and much work, and little work
    /// much more often, this one lies on one side of it.
    fn comparison(&self, of: &Cluster) -> f64 {
        let mut peers: Vec<&Cluster> = self.clusters.iter().filter(|c| c.form == of.form).collect();
        peers.sort_by(|a, b| a.work().total_cmp(&b.work()));
        let mut best: Option<(f64, f64, f64)> = None;
        for at in 1..peers.len() {
            let Some((score, gap)) = self.split(&peers, at) else { continue };
            if best.is_none_or(|b| score > b.0) {
                best = Some((score, gap, peers[at].work()));
            }
        }
        best.map_or(0.0, |(_, gap, from)| {
            let strength = (1.1 * gap - 1.0).clamp(0.0, COMPARISON_MAX);
            if of.work() >= from { strength } else { -strength }
        })
    }

    /// How good it is to part sorted clusters below `at`, and how wide the gap is; `None` where it is no parting.
    fn split(&self, peers: &[&Cluster], at: usize) -> Option<(f64, f64)> {
        let gap = peers[at].work() - peers[at - 1].work();
        let mass = |side: &[&Cluster]| side.iter().map(|c| c.weight).sum::<f64>() / self.unit;
        let (few, many) = (mass(&peers[at..]), mass(&peers[..at]));
        if gap < GAP_MIN || few < SIDE_MIN || many < RECURRENCE_MIN * few {
            return None;
        }
        let between = (peers[at].threads_per_launch() + peers[at - 1].threads_per_launch()) / 2.0;
        Some((gap - 0.7 * (between - middle(peers[at].form)).abs(), gap))
    }

    /// An engine that decodes by whole graphs does other things by other means.
    fn beside_whole(&self, cluster: &Cluster) -> f64 {
        let share = self.share(|c| c.form == Form::Whole);
        match cluster.form != Form::Whole && share >= WHOLE_SHARE_MIN && cluster.centre[0] >= log2(32) {
            true => BESIDE_WHOLE,
            false => 0.0,
        }
    }

    /// An unclear shape that nearly all steps have is more likely a decode.
    fn recurring(&self, cluster: &Cluster, prior: f64) -> f64 {
        let weight = cluster.weight / self.unit;
        let is_recurring = weight >= RECURRING_MIN && weight >= RECURRING_SHARE * self.mass(|_| true);
        if is_recurring && prior.abs() < PRIOR_STRONG { RECURRING } else { 0.0 }
    }

    fn share(&self, of: impl Fn(&Cluster) -> bool) -> f64 {
        self.mass(of) / self.mass(|_| true)
    }

    fn mass(&self, of: impl Fn(&Cluster) -> bool) -> f64 {
        self.clusters.iter().filter(|c| of(c)).map(|c| c.weight).sum::<f64>() / self.unit
    }
}

/// What such a shape is on engines in general.
fn prior(cluster: &Cluster) -> f64 {
    let above = cluster.threads_per_launch() - middle(cluster.form);
    match cluster.form {
        Form::Whole => PRIOR_WHOLE,
        Form::Piecewise => (0.7 * above).clamp(-PRIOR_MAX, PRIOR_MAX),
        Form::Eager | Form::Copies => above.clamp(-PRIOR_MAX, PRIOR_MAX),
    }
}

/// Logarithm of the threads per launch between decode and prefill.
fn middle(form: Form) -> f64 {
    match form {
        Form::Piecewise => PIECEWISE_MIDDLE.log2(),
        _ => EAGER_MIDDLE.log2(),
    }
}

#[cfg(test)]
mod tests;
