//! What speaks for reading prompts and what for answering, added up; and how sure the sum can make a label.
//!
//! The one idea: an answer's confidence is not only how far the odds are from even. A shape seen twice, signs that
//! contradict each other, or a stream with nothing to compare with bound it, so that what cannot be told apart from
//! outside never comes out as certain.

use super::cluster::Cluster;
use super::signs::{SIGNS, Stream};

/// A shape that came up less often than this, or a step that is like none before it, is not surely anything.
const FEW_SEEN: u32 = 8;
const UNLIKE: f64 = 0.2;
const FEW_MAX: f64 = 0.85;
/// So much (logarithm of odds) speaks for the other phase that nothing is sure.
const CONFLICT: f64 = 1.0;
const DISPUTED_MAX: f64 = 0.85;
const DECODE_MAX: f64 = 0.97;
/// Nothing on the stream reads prompts: it may be something else that always does the same.
const DECODE_ALONE_MAX: f64 = 0.85;
/// Nothing on the stream ever differs: a benchmark's decode, a classifier of padded lines, a loop in one graph.
const DECODE_CONSTANT_MAX: f64 = 0.65;
const CONSTANT: f64 = 0.98;

/// What is known of one cluster's last step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// Logarithm of the odds of reading against answering.
    pub(super) odds: f64,
    /// Others of the stream decode.
    pub(super) has_decodes: bool,
    /// The surest that anything can be.
    pub(super) confidence_max: f64,
    /// The surest that a decode can be.
    pub(super) decode_max: f64,
}

impl Evidence {
    /// Weighs up the cluster at this place.
    pub(super) fn of(clusters: &[Cluster], at: usize) -> Evidence {
        let stream = Stream::of(clusters);
        let cluster = &clusters[at];
        let (reads, answers) = SIGNS
            .iter()
            .map(|sign| sign(&stream, cluster))
            .fold((0.0, 0.0), |sum, says| (sum.0 + f64::max(says, 0.0), sum.1 + f64::max(-says, 0.0)));
        Evidence {
            odds: reads - answers,
            has_decodes: stream.has_decodes,
            confidence_max: confidence_max(cluster, reads.min(answers)),
            decode_max: decode_max(&stream, cluster),
        }
    }
}

fn confidence_max(cluster: &Cluster, conflict: f64) -> f64 {
    let is_rare = cluster.seen < FEW_SEEN || cluster.likeness() < UNLIKE;
    let rare_max = if is_rare { FEW_MAX } else { 1.0 };
    if conflict >= CONFLICT { rare_max.min(DISPUTED_MAX) } else { rare_max }
}

fn decode_max(stream: &Stream<'_>, cluster: &Cluster) -> f64 {
    match stream.has_readers {
        true => DECODE_MAX,
        false if cluster.steadiness() < CONSTANT => DECODE_ALONE_MAX,
        false => DECODE_CONSTANT_MAX,
    }
}
