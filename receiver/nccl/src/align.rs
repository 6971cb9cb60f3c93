//! Alignment of the ranks' sequence numbers where collectives were not counted from the beginning.
//!
//! The alignment uses causality. A collective ends on no rank before all ranks have reached it, so the spans from
//! arrival to completion of the ranks' parts in one collective have an instant in common. Spans of neighbouring
//! collectives of one rank have none if the rank waits for each. Of the possible shifts between two ranks' sequences
//! only those remain in which all spans overlap and the operations agree. If exactly one shift remains, it is used;
//! otherwise neither skew nor stragglers are reported.

use std::collections::VecDeque;

use crate::rounds::Signature;

/// Collectives of a rank that are compared.
const SPANS: usize = 16;
/// Minimum number of collectives that two ranks' sequences must have in common.
const COMMON_MIN: usize = 4;

/// A rank's part in a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Span {
    seq: u64,
    signature: Signature,
    arrived_ns: u64,
    /// End of a wait that covers it, ns; 0 if it is not complete yet.
    done_ns: u64,
}

/// The last collectives of each rank of a communicator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligner {
    spans: Vec<VecDeque<Span>>,
    /// Completions seen, and the count that triggers the next attempt.
    ends: usize,
    next_try: usize,
}

impl Aligner {
    /// Records that the rank in `slot` reached the collective that it counts as `seq`.
    pub(crate) fn arrive(&mut self, slot: usize, seq: u64, arrived_ns: u64, signature: Signature) {
        if self.spans.len() <= slot {
            self.spans.resize(slot + 1, VecDeque::new());
        }
        let spans = &mut self.spans[slot];
        if spans.len() >= SPANS {
            spans.pop_front();
        }
        spans.push_back(Span { seq, signature, arrived_ns, done_ns: 0 });
    }

    /// Records that the rank in `slot` waited for its `seq` until `done_ns`. Returns true when another attempt is due.
    pub(crate) fn done(&mut self, slot: usize, seq: u64, done_ns: u64) -> bool {
        let spans = self.spans.get_mut(slot).into_iter().flatten();
        spans.filter(|s| s.seq == seq && s.done_ns == 0).for_each(|s| s.done_ns = done_ns);
        self.ends += 1;
        let is_time = self.ends >= self.next_try.max(COMMON_MIN * self.spans.len());
        if is_time {
            self.next_try = self.ends + COMMON_MIN * self.spans.len();
        }
        is_time
    }

    /// Returns the value to add to each slot's sequence numbers so that they agree with the first slot's; `None` if it
    /// is unknown. Slots that are not expected get 0.
    pub(crate) fn shifts(&self, slots: usize, is_expected: impl Fn(usize) -> bool) -> Option<Vec<i64>> {
        let first = (0..slots).find(|slot| is_expected(*slot))?;
        let shift = |slot| match is_expected(slot) && slot != first {
            true => self.only_shift(first, slot),
            false => Some(0),
        };
        (0..slots).map(shift).collect()
    }

    fn only_shift(&self, a: usize, b: usize) -> Option<i64> {
        let (a, b) = (self.spans.get(a)?, self.spans.get(b)?);
        let base = a.front()?.seq.cast_signed() - b.front()?.seq.cast_signed();
        let reach = (SPANS - COMMON_MIN) as i64;
        (base - reach..=base + reach).find(|shift| is_only_shift(a, b, *shift))
    }
}

/// Evidence for and against a shift between `a`'s and `b`'s collectives.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    common: usize,
    /// `b` completed a collective before `a` reached it.
    b_before_a: bool,
    /// `a` completed a collective before `b` reached it.
    a_before_b: bool,
    differ: bool,
}

/// Returns true if nothing contradicts this shift and causality contradicts its two neighbours. These exclude all
/// others in the same direction, since a rank reaches its collectives in order.
fn is_only_shift(a: &VecDeque<Span>, b: &VecDeque<Span>, shift: i64) -> bool {
    let of = evidence(a, b, shift);
    of.common >= COMMON_MIN
        && !(of.differ || of.b_before_a || of.a_before_b)
        && evidence(a, b, shift + 1).b_before_a
        && evidence(a, b, shift - 1).a_before_b
}

fn evidence(a: &VecDeque<Span>, b: &VecDeque<Span>, shift: i64) -> Evidence {
    let before = |done_ns: u64, arrived_ns: u64| done_ns != 0 && done_ns < arrived_ns;
    let partner = |span: &Span| b.iter().find(|s| s.seq.cast_signed() + shift == span.seq.cast_signed());
    let mut of = Evidence::default();
    for (a, b) in a.iter().filter_map(|a| Some((a, partner(a)?))) {
        of.common += 1;
        of.differ |= a.signature != b.signature;
        of.b_before_a |= before(b.done_ns, a.arrived_ns);
        of.a_before_b |= before(a.done_ns, b.arrived_ns);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns an aligner after rounds of 25 ms in which rank 1 arrives 20 ms after rank 0 and is counted from `missed`
    /// on.
    fn ranks(missed: u64, waits: bool) -> Aligner {
        let mut aligner = Aligner::default();
        for round in 0..12 {
            let at_ns = (1 + round) * 25 * MS;
            aligner.arrive(0, round, at_ns, Signature::default());
            if round >= missed {
                aligner.arrive(1, round - missed, at_ns + 20 * MS, Signature::default());
            }
            if waits {
                aligner.done(0, round, at_ns + 21 * MS);
                aligner.done(1, round.wrapping_sub(missed), at_ns + 21 * MS);
            }
        }
        aligner
    }

    #[test]
    fn late_rank_is_not_mistaken_for_an_early_one() {
        for missed in 0..4 {
            assert_eq!(ranks(missed, true).shifts(2, |_| true), Some(vec![0, missed as i64]), "{missed}");
        }
    }

    #[test]
    fn alignment_is_unknown_without_waits() {
        assert_eq!(ranks(2, false).shifts(2, |_| true), None);
    }

    #[test]
    fn ended_ranks_do_not_block_the_alignment() {
        let aligner = ranks(1, true);
        assert_eq!(aligner.shifts(3, |_| true), None);
        assert_eq!(aligner.shifts(3, |slot| slot < 2), Some(vec![0, 1, 0]));
    }
}
