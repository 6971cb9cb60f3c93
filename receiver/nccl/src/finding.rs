//! What the engine finds.

use crate::identity::{CommunicatorId, Who};
use crate::member::End;
use crate::observe::StepNote;
use crate::op::Op;
use crate::operation::Operation;
use crate::trace::{Chosen, TraceIds};

/// One thing found.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A rank is there, or is known better than before.
    Rank(Box<RankKnown>),
    /// An operation was enqueued: what count, bytes and the host's part are made of.
    Enqueued(Enqueued),
    /// A closer covered it: what waits are made of.
    Completed(Completed),
    /// Every rank of this node has come to a collective.
    Arrived(Arrived),
    /// A rank is late, again and again.
    Straggler(Box<Straggler>),
    /// It no longer is.
    Recovered(Box<Recovered>),
    /// A communicator does not go on.
    Hang(Box<Hang>),
    /// It does again.
    HangOver(Box<HangOver>),
    /// Ranks do different things at one place of the sequence.
    Mismatch(Box<Mismatch>),
    /// Two sources or ranks say different things of a communicator.
    Disagreement(Box<Disagreement>),
    /// A rank was aborted, or its process ended, with work outstanding: what the flight recorder is for.
    Ended(Box<Ended>),
}

/// See [`Finding::Rank`].
#[derive(Clone, Debug, PartialEq)]
pub struct RankKnown {
    /// When.
    pub at_ns: u64,
    /// Who.
    pub who: Who,
    /// It is new; else something about it is known better.
    pub is_new: bool,
    /// Its making was not seen.
    pub is_late: bool,
}

/// See [`Finding::Enqueued`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enqueued {
    /// The rank.
    pub who: Who,
    /// The operation.
    pub op: Op,
    /// Payload, bytes; `None` where nobody knows how large an element is.
    pub bytes: Option<u64>,
    /// It went into a graph: its replays are not seen, and it has no sequence number.
    pub is_captured: bool,
}

/// See [`Finding::Completed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completed {
    /// The rank.
    pub who: Who,
    /// The operation.
    pub op: Op,
    /// The thread that waited.
    pub closer_tid: u32,
    /// When the wait was over.
    pub end_ns: u64,
    /// From the enqueueing's return to the closer's entry, ns.
    pub issue_gap_ns: u64,
    /// The part of the closer behind the enqueueing's return, ns.
    pub wait_ns: u64,
    /// `issue_gap_ns + wait_ns`.
    pub barrier_wait_ns: u64,
    /// From the first rank of this node to the last, ns; `None` where not all have come, or it is forgotten.
    pub skew_ns: Option<u64>,
    /// From the first rank of this node to this one, ns.
    pub behind_first_ns: Option<u64>,
    /// Of a send or receive: messages of its sender to its receiver before it. `None` where both sides need not agree.
    pub message: Option<u64>,
    /// Ids, where this operation is traced.
    pub trace: Option<Traced>,
}

/// Ids of a collective, or of a message, that is traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// The ids.
    pub ids: TraceIds,
    /// Why.
    pub chosen: Chosen,
    /// This rank sends the root span, too; of a message its own span is the root.
    pub is_root: bool,
}

/// See [`Finding::Arrived`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrived {
    /// The communicator.
    pub communicator: CommunicatorId,
    /// Which collective of it.
    pub seq: u64,
    /// What it does.
    pub operation: Operation,
    /// Ranks of this node that took part.
    pub ranks: usize,
    /// When the first one came.
    pub first_ns: u64,
    /// From the first one to the last, ns.
    pub skew_ns: u64,
    /// The last one.
    pub last: Who,
}

/// See [`Finding::Straggler`].
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// When it was found.
    pub at_ns: u64,
    /// The rank.
    pub who: Who,
    /// The collective that it was found with.
    pub seq: u64,
    /// What that does.
    pub operation: Operation,
    /// Behind the middle of its peers, the median over the window, ns.
    pub behind_ns: u64,
    /// The usual scatter of the peers, ns.
    pub scatter_ns: u64,
    /// Collectives in the window...
    pub rounds: usize,
    /// ... and those of them in which it was late.
    pub late_rounds: usize,
    /// How much longer than its peers its process had waited before it came, in closers that covered nothing of this
    /// communicator, median, ns. Most of `behind_ns`: other work of its GPU, or another communicator, is what it
    /// waits for. Little: its host is late.
    pub waited_ns: u64,
    /// What it waits in this communicator's collectives lately, ns. A straggler waits least.
    pub wait_ns: Option<u64>,
    /// What its peers wait, on average, ns.
    pub wait_peers_ns: Option<u64>,
    /// The last step of its process.
    pub last_step: Option<StepNote>,
}

/// See [`Finding::Recovered`].
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// When.
    pub at_ns: u64,
    /// The rank.
    pub who: Who,
    /// The collective that it was found with.
    pub seq: u64,
}

/// What keeps a communicator from going on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HangKind {
    /// Ranks of this node have not come to a collective that others wait in.
    Missing,
    /// All ranks of this node have come, and none goes on: somebody on another node, or the network, is waited for.
    Stuck,
    /// The other side of a send or receive has not come.
    Peer,
}

impl HangKind {
    /// The kind as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            HangKind::Missing => "missing_rank",
            HangKind::Stuck => "stuck",
            HangKind::Peer => "missing_peer",
        }
    }
}

/// See [`Finding::Hang`].
#[derive(Clone, Debug, PartialEq)]
pub struct Hang {
    /// When it was found.
    pub at_ns: u64,
    /// The communicator.
    pub communicator: CommunicatorId,
    /// Ranks of it on all nodes, where that is known.
    pub nranks: Option<u32>,
    /// What keeps it.
    pub kind: HangKind,
    /// The collective it hangs in; for a send or receive, the collectives before it.
    pub seq: u64,
    /// That number is the one of every node.
    pub is_exact: bool,
    /// What that does.
    pub operation: Operation,
    /// Since when the first rank waits.
    pub since_ns: u64,
    /// Those that have not come.
    pub missing: Vec<Absent>,
    /// The rank on the other side of a send or receive, also where it is not on this node.
    pub peer: Option<u32>,
    /// Those that wait, on this node.
    pub waiting: Vec<Who>,
    /// Ranks called different operations before.
    pub is_mismatched: bool,
    /// A thread was seen inside a call while it hung; else its processes are only silent.
    pub is_wait_seen: bool,
}

/// A rank that others wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Absent {
    /// Who.
    pub who: Who,
    /// Since when it has enqueued no collective on this communicator, ns.
    pub idle_ns: u64,
    /// The collective it would come to next.
    pub next_seq: u64,
    /// Why it is gone, where it is.
    pub end: Option<End>,
    /// The last step of its process.
    pub last_step: Option<StepNote>,
}

/// See [`Finding::HangOver`].
#[derive(Clone, Debug, PartialEq)]
pub struct HangOver {
    /// When.
    pub at_ns: u64,
    /// The communicator.
    pub communicator: CommunicatorId,
    /// The collective it hung in.
    pub seq: u64,
    /// How long the first rank had waited, ns.
    pub duration_ns: u64,
}

/// See [`Finding::Mismatch`].
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// The rank that differs from the one that came first.
    pub who: Who,
    /// Which collective.
    pub seq: u64,
    /// What it called: operation, datatype, elements.
    pub called: (Operation, u32, u64),
    /// What the first one called.
    pub first: (Operation, u32, u64),
}

/// What two say differently.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dispute {
    /// The number of ranks.
    Nranks,
    /// A rank's number: two sources of one rank.
    Rank,
    /// Two ranks of this node have one number.
    SameRank,
}

/// See [`Finding::Disagreement`].
#[derive(Clone, Debug, PartialEq)]
pub struct Disagreement {
    /// When.
    pub at_ns: u64,
    /// Who, as it is known now.
    pub who: Who,
    /// What about.
    pub about: Dispute,
    /// What else was said.
    pub said: Option<u32>,
}

/// See [`Finding::Ended`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// When.
    pub at_ns: u64,
    /// Who.
    pub who: Who,
    /// Why.
    pub end: End,
    /// Operations that nobody had waited for, oldest first; the first few of them.
    pub outstanding: Vec<Op>,
    /// How many there were.
    pub outstanding_count: u64,
    /// The last operations before the end, oldest first.
    pub recent: Vec<Op>,
    /// The last steps of the process.
    pub steps: Vec<StepNote>,
}

/// A rank as it is now: what gauges are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankState {
    /// Who.
    pub who: Who,
    /// Collectives it has come to.
    pub seq: u64,
    /// How far it comes behind the first rank of this node, mean over the last collectives, ns.
    pub lateness_ns: Option<u64>,
    /// Since its last collective, while peers moved on, ns; 0 where none did.
    pub idle_ns: u64,
    /// Operations that nobody waited for yet.
    pub outstanding: u64,
    /// It is a straggler now.
    pub is_late: bool,
}
