//! The evidence for prefill and for decode, added up, and the bounds of its confidence.
//!
//! Confidence is not only the distance of the odds from even. It is limited for a shape seen rarely, for contradicting
//! signs, and for a stream with nothing to compare with, so that indistinguishable phases are never certain.

use super::cluster::Cluster;
use super::signs::{SIGNS, Stream};

/// Steps below which a cluster is rare.
const FEW_SEEN: u32 = 8;
/// The likeness to earlier steps below which a step is rare.
const UNLIKE: f64 = 0.2;
/// The largest confidence of a rare step.
const FEW_MAX: f64 = 0.85;
/// The evidence for the less likely phase (logarithm of odds) from which the label is disputed.
const CONFLICT: f64 = 1.0;
/// The largest confidence of a disputed label.
const DISPUTED_MAX: f64 = 0.85;
/// The largest confidence of a decode.
const DECODE_MAX: f64 = 0.97;
/// The largest confidence of a decode without prefills on its stream: it may be other work that repeats.
const DECODE_ALONE_MAX: f64 = 0.85;
/// The largest confidence of a decode on a constant stream: a benchmark's decode, a classifier of padded lines, a loop in
/// one graph.
const DECODE_CONSTANT_MAX: f64 = 0.65;
/// The steadiness from which a stream is constant.
const CONSTANT: f64 = 0.98;

/// The evidence for the phase of one cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence {
    /// The logarithm of the odds of prefill against decode.
    pub(super) odds: f64,
    /// True if a cluster of the stream is labelled decode.
    pub(super) has_decodes: bool,
    /// The largest confidence of any label.
    pub(super) confidence_max: f64,
    /// The largest confidence of a decode.
    pub(super) decode_max: f64,
}

impl Evidence {
    /// Returns the evidence for the cluster at index `at`.
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
