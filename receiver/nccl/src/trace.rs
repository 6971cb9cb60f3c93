//! One collective, one trace: ids that every rank and node comes to by itself.
//!
//! The one idea: an id is a hash of what all ranks know of a collective, its communicator's name and its sequence
//! number (of a message: its two ranks and its number between them), and so is the choice which collectives are traced at all. The choice is made of the trace id's last 56
//! bits, as OpenTelemetry's consistent probability sampling makes it, so that a sampler downstream agrees with it.

use probe_abi::fold::mix;

use crate::identity::CommunicatorId;

/// Bits of a trace id that are taken for random.
const RANDOM_BITS: u32 = 56;

/// The ids of one rank's part in one collective. The bytes of an id are its number's, big end first.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TraceIds {
    /// The collective's, on every rank.
    pub trace_id: u128,
    /// Of the span for the whole collective, which only one rank should send: rank 0, where there is one.
    pub root_span_id: u64,
    /// Of the rank's own span, a child of the root.
    pub span_id: u64,
    /// Of the child for the host's enqueueing.
    pub enqueue_span_id: u64,
    /// Of the child for the wait.
    pub wait_span_id: u64,
}

/// Why a collective is traced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Chosen {
    /// Its hash chose it: every rank and node traces it.
    Rate,
    /// Its skew on this node is large: the other ranks of this node trace it too.
    Skew,
}

impl Chosen {
    /// The reason as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            Chosen::Rate => "sampled",
            Chosen::Skew => "skew",
        }
    }
}

impl TraceIds {
    /// The ids of the part that the rank which `part` names has in collective `seq`: its rank, where it is known.
    pub fn of(communicator: CommunicatorId, seq: u64, part: u64) -> TraceIds {
        TraceIds::of_trace(trace_id(communicator.hash, seq), part)
    }

    /// The ids of a part of this trace.
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

/// True where the hash chooses the collective of this trace id at this rate.
pub fn is_chosen(trace_id: u128, rate: f64) -> bool {
    let whole = 1u64 << RANDOM_BITS;
    let random = trace_id as u64 & (whole - 1);
    let threshold = ((1.0 - rate.clamp(0.0, 1.0)) * whole as f64).round() as u64;
    random >= threshold
}

/// `H(communicator, seq)`. Never 0, which no trace may have.
pub fn trace_id(communicator: u64, seq: u64) -> u128 {
    let high = mix(communicator ^ mix(seq ^ 0x7472_6163_6531));
    let low = mix(high ^ mix(communicator.wrapping_add(mix(seq.wrapping_add(0x7472_6163_6532)))));
    ((u128::from(high) << 64) | u128::from(low)).max(1)
}

/// The same of a message: which one of its sender to its receiver. Not in order with the collectives, whose numbers
/// the two sides need not share.
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
    fn all_ranks_share_the_trace_and_the_root_and_nothing_else() {
        let mut spans = BTreeSet::new();
        for rank in 0..64 {
            let of = ids(7, 3, rank);
            assert_eq!((of.trace_id, of.root_span_id), (ids(7, 3, 0).trace_id, ids(7, 3, 0).root_span_id));
            spans.extend([of.root_span_id, of.span_id, of.enqueue_span_id, of.wait_span_id]);
        }
        assert_eq!(spans.len(), 1 + 3 * 64);
    }

    #[test]
    fn neighbouring_collectives_and_communicators_have_traces_of_their_own() {
        let all: BTreeSet<u128> = (0..100).flat_map(|c| (0..100).map(move |s| trace_id(c, s))).collect();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn messages_have_traces_of_their_own_in_each_direction() {
        let all = (0..20).flat_map(|from| (0..20).map(move |to| (from, to)));
        let messages = all.flat_map(|(from, to)| (0..20).map(move |n| message_trace_id(7, from, to, n)));
        let mut ids: BTreeSet<u128> = messages.collect();
        ids.extend((0..20).map(|seq| trace_id(7, seq)));
        assert_eq!(ids.len(), 20 * 20 * 20 + 20);
    }

    #[test]
    fn the_share_that_is_chosen_is_the_rate_and_a_higher_rate_chooses_no_fewer() {
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
    fn ids_are_what_they_were() {
        assert_eq!(trace_id(0x6afe_1cc1_7717_e1f4, 42), 0xf079_d52d_47a1_6a46_d8b0_3db7_021f_986c);
        assert_eq!(ids(0x6afe_1cc1_7717_e1f4, 42, 3).span_id, 0x5a0c_eb21_1f05_6de7);
    }
}
