//! A communicator as this node sees it: the ranks that are here, and which of them has come how far.

use std::collections::BTreeMap;

use crate::align::Aligner;
use crate::finding::HangKind;
use crate::identity::{CommunicatorId, Fact, Who};
use crate::member::{End, Member};
use crate::rounds::{Round, Rounds};
use crate::slab::Key;
use crate::splits::Splits;
use crate::straggler::Straggler;

/// Pairs of ranks whose sends and receives are compared. Full: further pairs are not.
const PAIRS_MAX: usize = 4096;
/// How much a new wait counts in the mean of a rank's waits.
const WAIT_SHARE: f64 = 0.125;

/// A rank's place. Places are never used again: history is kept by place.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) member: Key<Member>,
    /// Who it was, and why it is gone.
    pub(crate) end: Option<Box<(Who, End)>>,
    /// Mean of what it waited lately, ns; negative: it was never seen to wait.
    pub(crate) wait_ns: f64,
}

impl Slot {
    /// Peers wait for it, whether in vain or not.
    pub(crate) fn is_expected(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end.1.is_loss())
    }
}

/// What of a communicator is known to hang.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hanging {
    pub(crate) kind: HangKind,
    pub(crate) seq: u64,
    pub(crate) since_ns: u64,
    /// The communicator's progress then: more of it ends the hang.
    pub(crate) progress: u64,
}

/// Messages between two ranks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Pair {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// A communicator.
#[derive(Clone, Debug)]
pub(crate) struct Communicator {
    pub(crate) id: CommunicatorId,
    pub(crate) nranks: Fact,
    pub(crate) slots: Vec<Slot>,
    /// Ranks that are there.
    pub(crate) live: usize,
    /// When the last one joined.
    pub(crate) joined_ns: u64,
    pub(crate) rounds: Rounds,
    pub(crate) straggler: Straggler,
    /// Sequence numbers are those of every node.
    pub(crate) is_exact: bool,
    /// At work while nobody knows which of the ranks' collectives belong together.
    pub(crate) aligner: Option<Box<Aligner>>,
    pub(crate) splits: Splits,
    pub(crate) pairs: BTreeMap<(u32, u32), Pair>,
    /// Records were lost: sends and receives of one number need not be of one message.
    pub(crate) are_messages_lost: bool,
    pub(crate) hanging: Option<Hanging>,
    /// Anything that happened to it: counts up.
    pub(crate) progress: u64,
    /// Ranks called different operations, and that was told.
    pub(crate) is_mismatch_told: bool,
}

impl Communicator {
    pub(crate) fn new(id: CommunicatorId, nranks: Fact) -> Communicator {
        Communicator {
            id,
            nranks,
            slots: Vec::new(),
            live: 0,
            joined_ns: 0,
            rounds: Rounds::default(),
            straggler: Straggler::default(),
            is_exact: true,
            aligner: None,
            splits: Splits::default(),
            pairs: BTreeMap::new(),
            are_messages_lost: false,
            hanging: None,
            progress: 0,
            is_mismatch_told: false,
        }
    }

    pub(crate) fn join(&mut self, member: Key<Member>, at_ns: u64) -> usize {
        self.slots.push(Slot { member, end: None, wait_ns: -1.0 });
        self.live += 1;
        self.joined_ns = self.joined_ns.max(at_ns);
        self.slots.len() - 1
    }

    /// The rank in this slot is gone.
    pub(crate) fn leave(&mut self, slot: usize, who: Who, end: End) {
        let Some(slot) = self.slots.get_mut(slot).filter(|s| s.end.is_none()) else { return };
        slot.end = Some(Box::new((who, end)));
        self.live -= 1;
        self.progress += 1;
    }

    /// Which collectives of its ranks belong together is not known from here on. Says how many were being
    /// compared.
    pub(crate) fn doubt(&mut self) -> u64 {
        self.is_exact = false;
        // Where no other rank has the same name for it there is nothing to compare.
        self.aligner = self.id.is_shared().then(Box::default);
        self.straggler.reset(self.slots.len());
        self.rounds.restart(0)
    }

    /// True where no rank of this node is still to join, as far as can be known.
    pub(crate) fn is_settled(&self, now_ns: u64, grace_ns: u64) -> bool {
        self.nranks.value.is_some_and(|nranks| self.slots.len() >= nranks as usize)
            || now_ns >= self.joined_ns.saturating_add(grace_ns)
    }

    /// True where every rank of this node that is expected has come to the round.
    pub(crate) fn is_complete(&self, round: &Round) -> bool {
        self.slots.iter().enumerate().all(|(at, slot)| round.has(at) || !slot.is_expected())
    }

    /// Slots that are expected and have not come to the round.
    pub(crate) fn missing<'a>(&'a self, round: &'a Round) -> impl Iterator<Item = (usize, &'a Slot)> + 'a {
        self.slots.iter().enumerate().filter(|(at, slot)| slot.is_expected() && !round.has(*at))
    }

    pub(crate) fn waited(&mut self, slot: usize, ns: u64) {
        self.progress += 1;
        if let Some(slot) = self.slots.get_mut(slot) {
            let (old, new) = (slot.wait_ns, ns as f64);
            slot.wait_ns = if old < 0.0 { new } else { old + WAIT_SHARE * (new - old) };
        }
    }

    /// What this slot waits lately, and what the others do, on average, ns.
    pub(crate) fn waits(&self, slot: usize) -> (Option<u64>, Option<u64>) {
        let seen = |s: &Slot| (s.wait_ns >= 0.0).then_some(s.wait_ns);
        let others: Vec<f64> = self
            .slots
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != slot)
            .filter_map(|(_, s)| seen(s))
            .collect();
        let mean = (!others.is_empty()).then(|| (others.iter().sum::<f64>() / others.len() as f64) as u64);
        (self.slots.get(slot).and_then(seen).map(|ns| ns as u64), mean)
    }

    /// A message went from one rank to another, seen on one side: how many before it were. `None` where it is not
    /// followed.
    pub(crate) fn message(&mut self, from: u32, to: u32, is_send: bool) -> Option<u64> {
        if self.pairs.len() >= PAIRS_MAX && !self.pairs.contains_key(&(from, to)) {
            return None;
        }
        let pair = self.pairs.entry((from, to)).or_default();
        let side = if is_send { &mut pair.sent } else { &mut pair.received };
        *side += 1;
        Some(*side - 1)
    }
}
