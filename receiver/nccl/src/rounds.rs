//! Arrivals of ranks at collectives: one round per collective of a communicator, open until every rank of this node has
//! arrived.
//!
//! Ranks run ahead of each other, so many rounds are open at once, but each rank passes them in order. Rounds are a
//! queue whose front is the oldest that at least one rank has not reached. Buffers are reused.

use std::collections::VecDeque;

use crate::operation::Operation;

/// A rank's arrival at a collective.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Arrival {
    /// Time at which its host began to enqueue it, ns; 0 if it has not arrived.
    pub(crate) at_ns: u64,
    /// Wait time of its process for other work since the previous collective, ns.
    pub(crate) waited_ns: u64,
}

/// Properties that all ranks must agree on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Signature {
    pub(crate) operation: Operation,
    pub(crate) datatype: u32,
    pub(crate) count: u64,
}

/// One collective and its arrivals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) seq: u64,
    pub(crate) signature: Signature,
    /// Arrivals by slot of the communicator.
    pub(crate) arrivals: Vec<Arrival>,
    /// Number of arrivals.
    pub(crate) arrived: usize,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) last_slot: usize,
    /// A rank arrived with another signature than the first.
    pub(crate) is_mismatched: bool,
    /// A rank's arrival was not observed: the round never completes.
    pub(crate) is_void: bool,
}

impl Round {
    /// Records an arrival. Returns true for the first arrival with another signature.
    fn arrive(&mut self, slot: usize, arrival: Arrival, signature: Signature) -> bool {
        let was_mismatched = self.is_mismatched;
        if self.arrivals.len() <= slot {
            self.arrivals.resize(slot + 1, Arrival::default());
        }
        if self.arrived == 0 {
            (self.signature, self.first_ns) = (signature, arrival.at_ns);
        }
        self.is_mismatched |= self.signature != signature;
        self.arrived += usize::from(self.arrivals[slot].at_ns == 0);
        self.arrivals[slot] = arrival;
        self.first_ns = self.first_ns.min(arrival.at_ns);
        if arrival.at_ns >= self.last_ns {
            (self.last_ns, self.last_slot) = (arrival.at_ns, slot);
        }
        self.is_mismatched && !was_mismatched
    }

    pub(crate) fn has(&self, slot: usize) -> bool {
        self.arrivals.get(slot).is_some_and(|a| a.at_ns != 0)
    }

    /// Returns the time from the first arrival to the last, ns.
    pub(crate) fn skew_ns(&self) -> u64 {
        self.last_ns - self.first_ns
    }
}

/// The open rounds of a communicator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rounds {
    /// Sequence number of the front.
    next: u64,
    open: VecDeque<Round>,
    spare: Vec<Round>,
}

/// Result of an arrival.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Entered {
    /// Rounds dropped to stay within the bound.
    pub(crate) dropped: u64,
    /// The round was already finished.
    pub(crate) is_stale: bool,
    /// Signature of the round's first rank, if this arrival is the first to differ from it.
    pub(crate) mismatched: Option<Signature>,
}

impl Rounds {
    /// Restarts with the collective `seq`. Returns the number of dropped rounds.
    pub(crate) fn restart(&mut self, seq: u64) -> u64 {
        let dropped = self.open.len() as u64;
        while self.pop().is_some() {}
        self.next = seq;
        dropped
    }

    /// Records that the rank in `slot` reached `seq`.
    pub(crate) fn arrive(
        &mut self,
        slot: usize,
        seq: u64,
        arrival: Arrival,
        signature: Signature,
        max: usize,
    ) -> Entered {
        let Some(mut ahead) = seq.checked_sub(self.next) else {
            return Entered { is_stale: true, ..Entered::default() };
        };
        let mut dropped = 0;
        let over = ahead.saturating_add(1).saturating_sub(max.max(1) as u64);
        if over > 0 {
            dropped = over.min(self.open.len() as u64);
            (0..dropped).for_each(|_| {
                self.pop();
            });
            self.next = seq - (ahead - over);
            ahead -= over;
        }
        while self.open.len() as u64 <= ahead {
            self.push();
        }
        let round = &mut self.open[ahead as usize];
        let mismatched = round.arrive(slot, arrival, signature).then_some(round.signature);
        Entered { dropped, is_stale: false, mismatched }
    }

    /// Marks the rounds before `seq` that the rank in `slot` passed unobserved; they never complete.
    pub(crate) fn void_before(&mut self, slot: usize, seq: u64) {
        self.open
            .iter_mut()
            .take_while(|r| r.seq < seq)
            .filter(|r| !r.has(slot))
            .for_each(|r| r.is_void = true);
    }

    pub(crate) fn front(&self) -> Option<&Round> {
        self.open.front()
    }

    /// Returns true if some ranks have reached `seq` and others may still arrive.
    pub(crate) fn is_open(&self, seq: u64) -> bool {
        self.front().is_some_and(|front| front.seq <= seq)
    }

    /// Takes the front. Return it with [`Rounds::recycle`].
    pub(crate) fn take_front(&mut self) -> Option<Round> {
        let round = self.open.pop_front()?;
        self.next = self.next.saturating_add(1);
        Some(round)
    }

    pub(crate) fn recycle(&mut self, mut round: Round) {
        if self.spare.len() < 4 {
            round.arrivals.clear();
            self.spare.push(Round { arrivals: round.arrivals, ..Round::default() });
        }
    }

    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    fn push(&mut self) {
        let seq = self.next.saturating_add(self.open.len() as u64);
        let round = self.spare.pop().unwrap_or_default();
        self.open.push_back(Round { seq, ..round });
    }

    fn pop(&mut self) -> Option<()> {
        let round = self.take_front()?;
        self.recycle(round);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(rounds: &mut Rounds, slot: usize, seq: u64, at_ns: u64) -> Entered {
        rounds.arrive(slot, seq, Arrival { at_ns, waited_ns: 0 }, Signature::default(), 4)
    }

    #[test]
    fn front_is_the_oldest_round_a_rank_has_not_reached() {
        let mut rounds = Rounds::default();
        (0..3).for_each(|seq| {
            arrive(&mut rounds, 0, seq, 10 + seq);
        });
        arrive(&mut rounds, 1, 0, 50);
        let front = rounds.take_front().unwrap();
        assert_eq!((front.seq, front.arrived, front.skew_ns(), front.last_slot), (0, 2, 40, 1));
        assert!(!rounds.front().unwrap().has(1));
    }

    #[test]
    fn rank_far_ahead_drops_and_counts_old_rounds() {
        let mut rounds = Rounds::default();
        arrive(&mut rounds, 0, 0, 1);
        assert_eq!(arrive(&mut rounds, 0, 4, 5), Entered { dropped: 1, ..Entered::default() });
        assert_eq!((rounds.front().unwrap().seq, rounds.open()), (1, 4));
        assert!(arrive(&mut rounds, 1, 0, 9).is_stale);
        assert_eq!(arrive(&mut rounds, 0, 1 << 60, 5), Entered { dropped: 4, ..Entered::default() });
        assert_eq!(rounds.open(), 4);
    }

    #[test]
    fn different_operation_with_the_same_number_is_a_mismatch() {
        let mut rounds = Rounds::default();
        arrive(&mut rounds, 0, 0, 1);
        let other = Signature { operation: Operation::Broadcast, ..Signature::default() };
        let arrival = Arrival { at_ns: 2, waited_ns: 0 };
        assert_eq!(rounds.arrive(1, 0, arrival, other, 4).mismatched, Some(Signature::default()));
        assert_eq!(rounds.arrive(2, 0, arrival, other, 4).mismatched, None);
    }

    #[test]
    fn round_with_an_unobserved_arrival_is_void() {
        let mut rounds = Rounds::default();
        arrive(&mut rounds, 0, 0, 1);
        arrive(&mut rounds, 1, 1, 2);
        rounds.void_before(1, 1);
        assert!(rounds.take_front().unwrap().is_void);
        assert!(!rounds.take_front().unwrap().is_void);
    }
}
