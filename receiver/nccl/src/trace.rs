//! Trace ids of collectives that every rank and node computes independently.
//!
//! An id is a hash of values that all ranks share: the communicator's name and the collective's sequence number (for a
//! message, its two ranks and its number between them). The sampling decision uses the last 56 bits of the trace id, as
//! in OpenTelemetry's consistent probability sampling, so a downstream sampler agrees with it.

use probe_abi::fold::mix;

use crate::identity::CommunicatorId;

/// Bits of a trace id that count as random.
const RANDOM_BITS: u32 = 56;

/// The ids of one rank's part in one collective, in big-endian byte order.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceIds {
    /// Trace id of the collective, equal on every rank.
    pub trace_id: u128,
    /// Id of the span of the whole collective, which only one rank should send: rank 0 if it exists.
    pub root_span_id: u64,
    /// Id of the rank's own span, a child of the root.
    pub span_id: u64,
    /// Id of the child span of the host's enqueueing.
    pub enqueue_span_id: u64,
    /// Id of the child span of the wait.
    pub wait_span_id: u64,
}

/// Reason for tracing a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Chosen {
    /// Selected by its hash: every rank and node traces it.
    Rate,
    /// Large skew on this node: the other ranks of this node trace it too.
    Skew,
}

impl Chosen {
    /// Returns the reason as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            Chosen::Rate => "sampled",
            Chosen::Skew => "skew",
        }
    }
}

impl TraceIds {
    /// Returns the ids of a rank's part in collective `seq`; `part` identifies the rank.
    pub fn of(communicator: CommunicatorId, seq: u64, part: u64) -> TraceIds {
        TraceIds::of_trace(trace_id(communicator.hash, seq), part)
    }

    /// Returns the ids of a part of this trace.
    pub fn of_trace(trace_id: u128, part: u64) -> TraceIds {
        let seed = mix(trace_id as u64 ^ mix((trace_id >> 64) as u64));
        let span = |kind: u64, part: u64| mix(seed ^ mix(part ^ mix(kind))).max(1);
        TraceIds {
            trace_id,
            root_span_id: span(0, 0),
            span_id: span(1, part),
            enqueue_span_id: span(2, part),
            wait_span_id: span(3, part),
        }
    }
}

/// Returns true if the hash selects the collective of this trace id at this rate.
pub fn is_chosen(trace_id: u128, rate: f64) -> bool {
    let whole = 1u64 << RANDOM_BITS;
    let random = trace_id as u64 & (whole - 1);
    let threshold = ((1.0 - rate.clamp(0.0, 1.0)) * whole as f64).round() as u64;
    random >= threshold
}

/// Returns `H(communicator, seq)`, never 0, which is an invalid trace id.
pub fn trace_id(communicator: u64, seq: u64) -> u128 {
    let high = mix(communicator ^ mix(seq ^ 0x7472_6163_6531));
    let low = mix(high ^ mix(communicator.wrapping_add(mix(seq.wrapping_add(0x7472_6163_6532)))));
    ((u128::from(high) << 64) | u128::from(low)).max(1)
}

/// Returns the trace id of a message by its number from sender to receiver. The number is independent of the
/// collectives' numbers, which the two sides need not share.
pub fn message_trace_id(communicator: u64, from: u32, to: u32, number: u64) -> u128 {
    let pair = u64::from(from) << 32 | u64::from(to);
    trace_id(mix(communicator ^ mix(pair ^ 0x6d65_7373_6167_6531)), number)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::identity::IdSource;

    fn ids(hash: u64, seq: u64, part: u64) -> TraceIds {
        TraceIds::of(CommunicatorId { hash, source: IdSource::Nccl }, seq, part)
    }

    #[test]
    fn all_ranks_share_only_the_trace_and_root_ids() {
        let mut spans = BTreeSet::new();
        for rank in 0..64 {
            let of = ids(7, 3, rank);
            assert_eq!((of.trace_id, of.root_span_id), (ids(7, 3, 0).trace_id, ids(7, 3, 0).root_span_id));
            spans.extend([of.root_span_id, of.span_id, of.enqueue_span_id, of.wait_span_id]);
        }
        assert_eq!(spans.len(), 1 + 3 * 64);
    }

    #[test]
    fn neighbouring_collectives_and_communicators_have_distinct_traces() {
        let all: BTreeSet<u128> = (0..100).flat_map(|c| (0..100).map(move |s| trace_id(c, s))).collect();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn messages_have_a_distinct_trace_per_direction() {
        let all = (0..20).flat_map(|from| (0..20).map(move |to| (from, to)));
        let messages = all.flat_map(|(from, to)| (0..20).map(move |n| message_trace_id(7, from, to, n)));
        let mut ids: BTreeSet<u128> = messages.collect();
        ids.extend((0..20).map(|seq| trace_id(7, seq)));
        assert_eq!(ids.len(), 20 * 20 * 20 + 20);
    }

    #[test]
    fn sampled_share_matches_the_rate_and_grows_with_it() {
        let chosen = |rate: f64| (0..100_000u64).filter(|seq| is_chosen(trace_id(9, *seq), rate)).count();
        for rate in [0.001, 0.01, 0.25] {
            let expected = 100_000.0 * rate;
            assert!(
                (chosen(rate) as f64 - expected).abs() < 5.0 * expected.sqrt(),
                "{rate}: {}",
                chosen(rate)
            );
        }
        assert_eq!((chosen(0.0), chosen(1.0)), (0, 100_000));
        assert!((0..1000).all(|seq| !is_chosen(trace_id(9, seq), 0.01) || is_chosen(trace_id(9, seq), 0.02)));
    }

    /// Ids leave the process and are compared with those of other nodes and versions: they must not change.
    #[test]
    fn ids_match_those_of_earlier_versions() {
        assert_eq!(trace_id(0x6afe_1cc1_7717_e1f4, 42), 0xf079_d52d_47a1_6a46_d8b0_3db7_021f_986c);
        assert_eq!(ids(0x6afe_1cc1_7717_e1f4, 42, 3).span_id, 0x5a0c_eb21_1f05_6de7);
    }
}
