//! A communicator as seen by this node: its local ranks and the progress of each.

use std::collections::BTreeMap;

use crate::align::Aligner;
use crate::finding::HangKind;
use crate::identity::{CommunicatorId, Fact, RankIdentity};
use crate::member::RankEnd;
use crate::registry::MemberKey;
use crate::rounds::{Round, Rounds};
use crate::splits::Splits;
use crate::straggler::Straggler;

/// Maximum number of rank pairs whose sends and receives are compared; further pairs are counted as overflow.
const PAIRS_MAX: usize = 4096;
/// Weight of a new wait in the mean of a rank's waits.
const WAIT_SHARE: f64 = 0.125;

/// A rank's slot in its communicator. Slots are never reused because the history is stored by slot.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub(crate) member: MemberKey,
    /// Identity of the rank that left, and why it ended.
    pub(crate) end: Option<Box<(RankIdentity, RankEnd)>>,
    /// Mean of the recent waits, ns; negative if no wait was seen.
    pub(crate) wait_ns: f64,
}

impl Slot {
    /// Returns true if peers wait for this rank, even if it never arrives.
    pub(crate) fn is_expected(&self) -> bool {
        self.end.as_ref().is_none_or(|end| end.1.is_loss())
    }
}

/// A hang that was reported for a communicator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Hanging {
    pub(crate) kind: HangKind,
    pub(crate) seq: u64,
    pub(crate) since_ns: u64,
    /// Progress of the communicator at the time of the report; more progress ends the hang.
    pub(crate) progress: u64,
}

/// Messages counted between two ranks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Pair {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// A communicator and its ranks on this node.
#[derive(Clone, Debug)]
pub(crate) struct Communicator {
    pub(crate) id: CommunicatorId,
    pub(crate) nranks: Fact,
    pub(crate) slots: Vec<Slot>,
    /// Number of live ranks on this node.
    pub(crate) live: usize,
    /// Time at which the last rank joined.
    pub(crate) joined_ns: u64,
    pub(crate) rounds: Rounds,
    pub(crate) straggler: Straggler,
    /// The sequence numbers are those of every node.
    pub(crate) is_exact: bool,
    /// Active while the alignment of the ranks' collectives is unknown.
    pub(crate) aligner: Option<Box<Aligner>>,
    pub(crate) splits: Splits,
    pub(crate) pairs: BTreeMap<(u32, u32), Pair>,
    /// Records were lost, so sends and receives with one number may belong to different messages.
    pub(crate) are_messages_lost: bool,
    pub(crate) hanging: Option<Hanging>,
    /// Number of events of this communicator; only increases.
    pub(crate) progress: u64,
    /// Ranks called different operations, and this was reported.
    pub(crate) is_mismatch_reported: bool,
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
            is_mismatch_reported: false,
        }
    }

    pub(crate) fn join(&mut self, member: MemberKey, at_ns: u64) -> usize {
        self.slots.push(Slot { member, end: None, wait_ns: -1.0 });
        self.live += 1;
        self.joined_ns = self.joined_ns.max(at_ns);
        self.slots.len() - 1
    }

    /// Ends the rank in this slot.
    pub(crate) fn leave(&mut self, slot: usize, who: RankIdentity, end: RankEnd) {
        let Some(slot) = self.slots.get_mut(slot).filter(|s| s.end.is_none()) else { return };
        slot.end = Some(Box::new((who, end)));
        self.live -= 1;
        self.progress += 1;
    }

    /// Starts a new alignment of its ranks' collectives. Returns how many open rounds were dropped.
    pub(crate) fn doubt(&mut self) -> u64 {
        self.is_exact = false;
        // A name that no other rank shares leaves nothing to compare.
        self.aligner = self.id.is_shared().then(Box::default);
        self.straggler.reset(self.slots.len());
        self.rounds.restart(0)
    }

    /// Returns true if, as far as is known, no further rank of this node will join.
    pub(crate) fn is_settled(&self, now_ns: u64, grace_ns: u64) -> bool {
        self.nranks.value.is_some_and(|nranks| self.slots.len() >= nranks as usize)
            || now_ns >= self.joined_ns.saturating_add(grace_ns)
    }

    /// Returns true if every expected rank of this node has reached the round.
    pub(crate) fn is_complete(&self, round: &Round) -> bool {
        self.slots.iter().enumerate().all(|(at, slot)| round.has(at) || !slot.is_expected())
    }

    /// Returns the expected slots that have not reached the round.
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

    /// Returns the recent mean wait of this slot and that of the other slots, ns.
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

    /// Counts a message between two ranks, seen on one side. Returns the number of messages before it; `None` if the
    /// pair is not tracked.
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
