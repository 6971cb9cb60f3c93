//! Which of the ranks' collectives belong together, where they were not counted from the beginning.
//!
//! The one idea: causality. A collective is over on no rank before all ranks have come to it. So the spans from
//! coming to being done, of the ranks' parts in one collective, have an instant in common; those of neighbouring
//! collectives of one rank do not, if it waits for each. Of the ways to shift two ranks' sequences against each
//! other only those remain in which all spans meet and the operations agree. If that leaves one, it is known; if it
//! leaves several, it is not, and nothing is claimed: neither skew nor straggler.

use std::collections::VecDeque;

use crate::rounds::Signature;

/// Collectives of a rank that are compared.
const SPANS: usize = 16;
/// Two ranks' sequences must have so many in common.
const COMMON_MIN: usize = 4;

/// A rank's part in a collective.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Span {
    seq: u64,
    signature: Signature,
    came_ns: u64,
    /// When a wait that covers it was over; 0 not yet.
    done_ns: u64,
}

/// The last collectives of each rank of a communicator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aligner {
    spans: Vec<VecDeque<Span>>,
    /// Ends seen, and how many it takes for another try.
    ends: usize,
    next_try: usize,
}

impl Aligner {
    /// The rank in `slot` comes to what it counts as `seq`.
    pub(crate) fn arrive(&mut self, slot: usize, seq: u64, came_ns: u64, signature: Signature) {
        if self.spans.len() <= slot {
            self.spans.resize(slot + 1, VecDeque::new());
        }
        let spans = &mut self.spans[slot];
        if spans.len() >= SPANS {
            spans.pop_front();
        }
        spans.push_back(Span { seq, signature, came_ns, done_ns: 0 });
    }

    /// The rank in `slot` has waited for its `seq` until `done_ns`. True where it is time to try again.
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

    /// What to add to each slot's sequence numbers so that they agree with the first one's; `None` where that is
    /// not known. Slots that are not expected get 0.
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
        (base - reach..=base + reach).find(|shift| is_the_one(a, b, *shift))
    }
}

/// What speaks for and against `b`'s collectives being `a`'s, a shift further on.
#[derive(Clone, Copy, Debug, Default)]
struct Evidence {
    common: usize,
    /// `b` was done with one before `a` came to it.
    b_before_a: bool,
    /// The other way round.
    a_before_b: bool,
    differ: bool,
}

/// True where nothing speaks against this shift, and causality against one more and one less: then against every
/// other in the same direction, since a rank comes to its collectives in order.
fn is_the_one(a: &VecDeque<Span>, b: &VecDeque<Span>, shift: i64) -> bool {
    let of = evidence(a, b, shift);
    of.common >= COMMON_MIN
        && !(of.differ || of.b_before_a || of.a_before_b)
        && evidence(a, b, shift + 1).b_before_a
        && evidence(a, b, shift - 1).a_before_b
}

fn evidence(a: &VecDeque<Span>, b: &VecDeque<Span>, shift: i64) -> Evidence {
    let before = |done_ns: u64, came_ns: u64| done_ns != 0 && done_ns < came_ns;
    let partner = |span: &Span| b.iter().find(|s| s.seq.cast_signed() + shift == span.seq.cast_signed());
    let mut of = Evidence::default();
    for (a, b) in a.iter().filter_map(|a| Some((a, partner(a)?))) {
        of.common += 1;
        of.differ |= a.signature != b.signature;
        of.b_before_a |= before(b.done_ns, a.came_ns);
        of.a_before_b |= before(a.done_ns, b.came_ns);
    }
    of
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Rounds of 25 ms, in which rank 1 comes 20 ms after rank 0; it is counted from `missed` on.
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
    fn a_late_rank_is_not_taken_for_one_that_is_early_for_the_next_collective() {
        for missed in 0..4 {
            assert_eq!(ranks(missed, true).shifts(2, |_| true), Some(vec![0, missed as i64]), "{missed}");
        }
    }

    #[test]
    fn where_nobody_waits_nothing_is_claimed() {
        assert_eq!(ranks(2, false).shifts(2, |_| true), None);
    }

    #[test]
    fn ranks_that_are_gone_do_not_hold_the_others_up() {
        let aligner = ranks(1, true);
        assert_eq!(aligner.shifts(3, |_| true), None);
        assert_eq!(aligner.shifts(3, |slot| slot < 2), Some(vec![0, 1, 0]));
    }
}
