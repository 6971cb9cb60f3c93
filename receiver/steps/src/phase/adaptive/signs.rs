//! The signs that distinguish prefill and decode.
//!
//! Each sign is a row of [`SIGNS`], a function of a cluster and its stream that returns a logarithm of odds, positive for
//! prefill, and 0 if it does not apply. All are bounded, so that no sign decides alone. Sizes are logarithms to base 2, and
//! their differences doublings.

use super::cluster::Cluster;
use crate::phase::Phase;
use crate::shape::Form;

/// A sign: the logarithm of odds for a cluster of a stream.
type Sign = fn(&Stream<'_>, &Cluster) -> f64;

/// All signs, the simplest first.
pub(super) const SIGNS: [Sign; 6] = [size, steadiness, without_anchor, same_kernels, above, without_graphs];

/// The difference of one launch in a pass of hundreds.
const SAME_LAUNCHES: f64 = 0.005;
/// The fewest steps of an anchor, a cluster that others are compared with.
const ANCHOR_SEEN: u32 = 6;
/// The steadiness from which steps can be decodes.
const STEADY_MIN: f64 = 0.5;
/// The share of jumps from which steps are not decodes.
const JUMPS_MAX: f64 = 0.1;

/// The clusters of a stream, with derived values that several signs use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream<'a> {
    clusters: &'a [Cluster],
    weight: f64,
    /// True if a cluster is labelled prefill or mixed.
    pub(super) has_readers: bool,
    /// True if a cluster is labelled decode.
    pub(super) has_decodes: bool,
}

impl<'a> Stream<'a> {
    pub(super) fn of(clusters: &'a [Cluster]) -> Stream<'a> {
        let is_reader = |c: &Cluster| matches!(c.label, Phase::Prefill | Phase::Mixed);
        Stream {
            clusters,
            weight: clusters.iter().map(|c| c.weight).sum(),
            has_readers: clusters.iter().any(is_reader),
            has_decodes: clusters.iter().any(|c| c.label == Phase::Decode),
        }
    }

    /// Returns the clusters whose work is comparable with this one's.
    fn peers(&self, of: &'a Cluster) -> impl Iterator<Item = &'a Cluster> {
        self.clusters.iter().filter(move |c| c.is_of_model(of))
    }

    /// Returns the anchor of the same model with the least work.
    fn anchor(&self, of: &'a Cluster) -> Option<&'a Cluster> {
        self.peers(of).filter(|c| is_anchor(c)).min_by(|a, b| a.work().total_cmp(&b.work()))
    }

    /// Returns true if most steps are in this cluster and it is little work, so that other steps interrupt decodes.
    fn is_bulk(&self, cluster: &Cluster) -> bool {
        size(self, cluster) < 0.0 && cluster.weight >= 0.5 * self.weight
    }
}

fn is_anchor(cluster: &Cluster) -> bool {
    cluster.seen >= ANCHOR_SEEN && cluster.steadiness() >= STEADY_MIN && cluster.jumps(0.0) <= 2.0 * JUMPS_MAX
}

/// Returns the usual meaning of a size across engines. Little work is weaker evidence than much: prompts can be
/// short, but hundreds of tokens at once are hardly ever answers.
fn size(_: &Stream<'_>, cluster: &Cluster) -> f64 {
    /// Threads per launch between decode and prefill, 110 thousand, for eager launches. Measured: decode of 32 requests 33
    /// thousand, prefill of 888 tokens 390 thousand.
    const EAGER_MIDDLE: f64 = 16.75;
    /// Threads per launch between decode and prefill, 250 thousand, for the kernels between graphs, which are attention
    /// alone. Measured: 8,192 tokens 2.5 million.
    const PIECEWISE_MIDDLE: f64 = 17.93;
    /// The odds of one graph for a whole step with unknown contents: prefills are rarely captured.
    const WHOLE: f64 = -2.0;
    /// The distance from an eager prefill, in doublings of threads, of a graph with known contents.
    const CAPTURED: f64 = 2.0;
    let threads = cluster.work() - cluster.launches();
    match (cluster.form, cluster.is_known) {
        (Form::Whole, false) => WHOLE,
        (Form::Whole, true) => (threads - EAGER_MIDDLE - CAPTURED).clamp(-2.0, 3.5),
        (Form::Piecewise, false) => (0.7 * (threads - PIECEWISE_MIDDLE)).clamp(-2.0, 3.5),
        _ => (threads - EAGER_MIDDLE).clamp(-2.0, 3.5),
    }
}

/// Decodes repeat; prompts have all lengths. Graphs of all sizes in turn are decodes if other steps do other work, and may be
/// texts of all lengths otherwise.
fn steadiness(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let odds = 8.0 * (0.45 - cluster.steadiness());
    let is_pass = |c: &Cluster| c.form != Form::Whole && c.is_pass();
    match cluster.form {
        Form::Whole if !cluster.is_known && stream.clusters.iter().any(is_pass) => odds.clamp(-1.5, 0.0),
        Form::Whole => odds.clamp(-1.5, 2.0),
        _ => odds.clamp(-1.5, 3.0),
    }
}

/// Returns the evidence that no cluster of about as much work, or less, repeats as decodes would.
fn without_anchor(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    /// Doublings that can be a different number of requests.
    const NEAR: f64 = 1.5;
    const SEEN_MIN: u32 = 16;
    let seen = stream.clusters.iter().fold(0, |sum: u32, c| sum.saturating_add(c.seen));
    let is_near = |c: &&Cluster| c.form == cluster.form && c.work() <= cluster.work() + NEAR;
    let may_answer = |c: &Cluster| is_anchor(c) || (stream.has_readers && stream.is_bulk(c));
    let is_without = seen >= SEEN_MIN && !stream.clusters.iter().filter(is_near).any(may_answer);
    let is_seen = cluster.is_known || cluster.form != Form::Whole;
    if is_without && is_seen { 2.0 } else { 0.0 }
}

/// Returns the evidence that it launches exactly as many kernels as an anchor, while steps after jumps launch
/// another number.
fn same_kernels(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let Some(anchor) = stream.anchor(cluster) else { return 0.0 };
    let differs = |c: &Cluster| (c.launches() - anchor.launches()).abs() > SAME_LAUNCHES;
    let mut leaps = stream.peers(cluster).filter(|c| c.work() > anchor.work() && leaps(c)).peekable();
    let is_evident = leaps.peek().is_some() && leaps.all(differs);
    if is_evident && !differs(cluster) { -2.0 } else { 0.0 }
}

/// Returns the evidence that it is much more work than an anchor, and different work: unsteady, or after jumps.
fn above(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let Some(anchor) = stream.anchor(cluster).filter(|_| !stream.is_bulk(cluster)) else { return 0.0 };
    let is_other = (1.0 - cluster.steadiness()).max(1.5 * cluster.jumps(0.2)).min(1.0);
    (1.5 * (cluster.work() - anchor.work())).clamp(0.0, 4.0) * is_other
}

/// Returns the evidence of an engine that decodes by graphs and launches other work in other forms.
fn without_graphs(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let decodes = |c: &&Cluster| c.form > cluster.form && c.label == Phase::Decode;
    let weight: f64 = stream.clusters.iter().filter(decodes).map(|c| c.weight).sum();
    if cluster.is_pass() && weight >= 0.1 * stream.weight { 4.0 } else { 0.0 }
}

fn leaps(cluster: &Cluster) -> bool {
    cluster.jumps(0.1) > 2.0 * JUMPS_MAX
}
