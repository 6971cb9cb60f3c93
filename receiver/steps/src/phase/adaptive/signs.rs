//! The signs by which reading prompts and answering are told apart.
//!
//! The one idea: each sign is a row of [`SIGNS`], a function of a cluster among the others of its stream that gives
//! a logarithm of odds, positive for reading, and 0 where it does not apply. Every one of them is bounded, so that no
//! sign decides alone. Sizes are logarithms to base 2, and their differences doublings.

use super::cluster::Cluster;
use crate::phase::Phase;
use crate::shape::Form;

/// A sign.
type Sign = fn(&Stream<'_>, &Cluster) -> f64;

/// All of them, the simplest first.
pub(super) const SIGNS: [Sign; 6] = [size, steadiness, without_anchor, same_kernels, above, beside_graphs];

/// What one launch more or less is worth where a pass of a model has hundreds.
const SAME_LAUNCHES: f64 = 0.005;
/// Steps that a cluster needs for others to be compared with it.
const ANCHOR_SEEN: u32 = 6;
/// Steps this steady can be answers.
const STEADY_MIN: f64 = 0.5;
/// A cluster that is come to by jumps this often can not.
const JUMPS_MAX: f64 = 0.1;

/// The clusters of a stream, and what is asked of them more than once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream<'a> {
    clusters: &'a [Cluster],
    weight: f64,
    /// Some read prompts, as far as is known.
    pub(super) has_readers: bool,
    /// Some decode.
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

    /// Clusters whose work can be compared with this one's.
    fn peers(&self, of: &'a Cluster) -> impl Iterator<Item = &'a Cluster> {
        self.clusters.iter().filter(move |c| c.is_of_model(of))
    }

    /// The least work of the same model that goes on as answers do.
    fn anchor(&self, of: &'a Cluster) -> Option<&'a Cluster> {
        self.peers(of).filter(|c| is_anchor(c)).min_by(|a, b| a.work().total_cmp(&b.work()))
    }

    /// Most steps lie here, and it is not much work: what else there is comes between answers.
    fn is_bulk(&self, cluster: &Cluster) -> bool {
        size(self, cluster) < 0.0 && cluster.weight >= 0.5 * self.weight
    }
}

fn is_anchor(cluster: &Cluster) -> bool {
    cluster.seen >= ANCHOR_SEEN && cluster.steadiness() >= STEADY_MIN && cluster.jumps(0.0) <= 2.0 * JUMPS_MAX
}

/// What such a shape is on engines in general. Little work says less than much: prompts can be short, but hundreds
/// of tokens at once are hardly ever answers.
fn size(_: &Stream<'_>, cluster: &Cluster) -> f64 {
    /// Threads per launch between decode and prefill, 110 thousand, where kernels are launched one by one. Seen:
    /// decode of 32 requests 33 thousand, prefill of 888 tokens 390 thousand.
    const EAGER_MIDDLE: f64 = 16.75;
    /// The same, 250 thousand, for the kernels between graphs, which are attention alone. Seen: 8,192 tokens 2.5
    /// million.
    const PIECEWISE_MIDDLE: f64 = 17.93;
    /// One graph for a whole step, of which it is not known what it holds: prefills are rarely captured.
    const WHOLE: f64 = -2.0;
    /// The same in doublings of threads, where it is known.
    const CAPTURED: f64 = 2.0;
    let threads = cluster.work() - cluster.launches();
    match (cluster.form, cluster.is_known) {
        (Form::Whole, false) => WHOLE,
        (Form::Whole, true) => (threads - EAGER_MIDDLE - CAPTURED).clamp(-2.0, 3.5),
        (Form::Piecewise, false) => (0.7 * (threads - PIECEWISE_MIDDLE)).clamp(-2.0, 3.5),
        _ => (threads - EAGER_MIDDLE).clamp(-2.0, 3.5),
    }
}

/// Answers go on; prompts are of all lengths. Graphs of all sizes in turn are decodes where other steps do other
/// things, and may be texts of all lengths where there is nothing else.
fn steadiness(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let says = 8.0 * (0.45 - cluster.steadiness());
    let is_pass = |c: &Cluster| c.form != Form::Whole && c.is_pass();
    match cluster.form {
        Form::Whole if !cluster.is_known && stream.clusters.iter().any(is_pass) => says.clamp(-1.5, 0.0),
        Form::Whole => says.clamp(-1.5, 2.0),
        _ => says.clamp(-1.5, 3.0),
    }
}

/// Nothing on the stream that is about as much work, or less, goes on as answers would.
fn without_anchor(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    /// So many doublings more can be another number of requests.
    const NEAR: f64 = 1.5;
    const SEEN_MIN: u32 = 16;
    let seen = stream.clusters.iter().fold(0, |sum: u32, c| sum.saturating_add(c.seen));
    let is_near = |c: &&Cluster| c.form == cluster.form && c.work() <= cluster.work() + NEAR;
    let may_answer = |c: &Cluster| is_anchor(c) || (stream.has_readers && stream.is_bulk(c));
    let is_without = seen >= SEEN_MIN && !stream.clusters.iter().filter(is_near).any(may_answer);
    let is_seen = cluster.is_known || cluster.form != Form::Whole;
    if is_without && is_seen { 2.0 } else { 0.0 }
}

/// It launches exactly as many kernels as an anchor does, where the steps that are come to by jumps launch others.
fn same_kernels(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let Some(anchor) = stream.anchor(cluster) else { return 0.0 };
    let differs = |c: &Cluster| (c.launches() - anchor.launches()).abs() > SAME_LAUNCHES;
    let mut leaps = stream.peers(cluster).filter(|c| c.work() > anchor.work() && leaps(c)).peekable();
    let is_telling = leaps.peek().is_some() && leaps.all(differs);
    if is_telling && !differs(cluster) { -2.0 } else { 0.0 }
}

/// It is much more work than an anchor, and other work than that: not steady, or come to by jumps.
fn above(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let Some(anchor) = stream.anchor(cluster).filter(|_| !stream.is_bulk(cluster)) else { return 0.0 };
    let is_other = (1.0 - cluster.steadiness()).max(1.5 * cluster.jumps(0.2)).min(1.0);
    (1.5 * (cluster.work() - anchor.work())).clamp(0.0, 4.0) * is_other
}

/// An engine that decodes by graphs does other things by other means.
fn beside_graphs(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    let decodes = |c: &&Cluster| c.form > cluster.form && c.label == Phase::Decode;
    let weight: f64 = stream.clusters.iter().filter(decodes).map(|c| c.weight).sum();
    if cluster.is_pass() && weight >= 0.1 * stream.weight { 4.0 } else { 0.0 }
}

fn leaps(cluster: &Cluster) -> bool {
    cluster.jumps(0.1) > 2.0 * JUMPS_MAX
}
