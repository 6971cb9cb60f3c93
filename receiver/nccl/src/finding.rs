//! Findings: the results that the engine reports.

use crate::identity::{CommunicatorId, RankIdentity};
use crate::member::RankEnd;
use crate::observe::StepNote;
use crate::op::Op;
use crate::operation::Operation;
use crate::trace::{Chosen, TraceIds};

/// A result of the analysis.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// A new rank, or a rank with improved facts.
    Rank(Box<RankKnown>),
    /// An operation was enqueued; source of counts, bytes and enqueue time.
    Enqueued(Enqueued),
    /// A sync call covered an operation; source of wait times.
    Completed(Completed),
    /// Every rank of this node has reached a collective.
    Arrived(Arrived),
    /// A rank is late repeatedly.
    Straggler(Box<Straggler>),
    /// A straggler is no longer late.
    Recovered(Box<Recovered>),
    /// A communicator makes no progress.
    Hang(Box<Hang>),
    /// A hanging communicator makes progress again.
    HangOver(Box<HangOver>),
    /// Ranks called different operations with one sequence number.
    Mismatch(Box<Mismatch>),
    /// Two sources or ranks disagree about a communicator.
    Disagreement(Box<Disagreement>),
    /// A rank was aborted, or its process ended, with outstanding work.
    Ended(Box<Ended>),
}

/// The content of [`Finding::Rank`].
#[derive(Clone, Debug, PartialEq)]
pub struct RankKnown {
    /// Time of the call that led to the finding, ns.
    pub at_ns: u64,
    /// Identity of the rank.
    pub who: RankIdentity,
    /// True for a new rank; false if a fact about it improved.
    pub is_new: bool,
    /// The creation of its communicator was not seen.
    pub is_late: bool,
}

/// The content of [`Finding::Enqueued`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Enqueued {
    /// Identity of the rank.
    pub who: RankIdentity,
    /// The enqueued operation.
    pub op: Op,
    /// Payload, bytes; `None` if the size of an element is unknown.
    pub bytes: Option<u64>,
    /// Captured into a graph: it has no sequence number, and its replays are not seen.
    pub is_captured: bool,
}

/// The content of [`Finding::Completed`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Completed {
    /// Identity of the rank.
    pub who: RankIdentity,
    /// The completed operation.
    pub op: Op,
    /// Thread that waited.
    pub sync_tid: u32,
    /// End of the wait, ns.
    pub end_ns: u64,
    /// Time from the return of the enqueueing call to the entry of the sync call, ns.
    pub issue_gap_ns: u64,
    /// Part of the sync call after the return of the enqueueing call, ns.
    pub wait_ns: u64,
    /// `issue_gap_ns + wait_ns`.
    pub barrier_wait_ns: u64,
    /// Time from the first rank of this node to the last, ns; `None` if not all have arrived, or after eviction.
    pub skew_ns: Option<u64>,
    /// Delay of this rank after the first rank of this node, ns.
    pub behind_first_ns: Option<u64>,
    /// For a send or receive: number of earlier messages from its sender to its receiver; `None` if the sides may
    /// disagree.
    pub message: Option<u64>,
    /// Trace ids, if this operation is traced.
    pub trace: Option<Traced>,
}

/// Trace ids of a collective or message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traced {
    /// Trace and span ids.
    pub ids: TraceIds,
    /// Reason for tracing.
    pub chosen: Chosen,
    /// This rank also sends the root span; for a message its own span is the root.
    pub is_root: bool,
}

/// The content of [`Finding::Arrived`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrived {
    /// Name of the communicator.
    pub communicator: CommunicatorId,
    /// Sequence number of the collective.
    pub seq: u64,
    /// Operation of the collective.
    pub operation: Operation,
    /// Number of participating ranks of this node.
    pub ranks: usize,
    /// Arrival of the first rank, ns.
    pub first_ns: u64,
    /// Time from the first arrival to the last, ns.
    pub skew_ns: u64,
    /// Identity of the last rank.
    pub last: RankIdentity,
}

/// The content of [`Finding::Straggler`].
#[derive(Clone, Debug, PartialEq)]
pub struct Straggler {
    /// Time of detection, ns.
    pub at_ns: u64,
    /// Identity of the rank.
    pub who: RankIdentity,
    /// Sequence number of the collective at detection.
    pub seq: u64,
    /// Operation of that collective.
    pub operation: Operation,
    /// Median delay after the middle of its peers over the window, ns.
    pub behind_ns: u64,
    /// Usual scatter of the peers, ns.
    pub scatter_ns: u64,
    /// Collectives in the window.
    pub rounds: usize,
    /// Collectives in the window in which the rank was late.
    pub late_rounds: usize,
    /// Median of the additional time that its process, compared with its peers, waited before arrival in sync calls
    /// without operations of this communicator, ns. If it is most of `behind_ns`, the rank waits for other work of its
    /// GPU or another communicator; if it is small, the host is late.
    pub waited_ns: u64,
    /// Recent mean wait of the rank in this communicator's collectives, ns. A straggler waits least.
    pub wait_ns: Option<u64>,
    /// Recent mean wait of its peers, ns.
    pub wait_peers_ns: Option<u64>,
    /// Last step of its process.
    pub last_step: Option<StepNote>,
}

/// The content of [`Finding::Recovered`].
#[derive(Clone, Debug, PartialEq)]
pub struct Recovered {
    /// Time of recovery, ns.
    pub at_ns: u64,
    /// Identity of the rank.
    pub who: RankIdentity,
    /// Sequence number of the collective at recovery.
    pub seq: u64,
}

/// Cause of a hang.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum HangKind {
    /// Ranks of this node have not reached a collective that other ranks wait in.
    Missing,
    /// All ranks of this node have arrived and none completes: a rank on another node, or the network, is the cause.
    Stuck,
    /// The other side of a send or receive has not arrived.
    Peer,
}

impl HangKind {
    /// Returns the kind as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            HangKind::Missing => "missing_rank",
            HangKind::Stuck => "stuck",
            HangKind::Peer => "missing_peer",
        }
    }
}

/// The content of [`Finding::Hang`].
#[derive(Clone, Debug, PartialEq)]
pub struct Hang {
    /// Time of detection, ns.
    pub at_ns: u64,
    /// Name of the communicator.
    pub communicator: CommunicatorId,
    /// Number of ranks on all nodes, if known.
    pub nranks: Option<u32>,
    /// Cause of the hang.
    pub kind: HangKind,
    /// Sequence number of the hanging collective; for a send or receive, the number of collectives before it.
    pub seq: u64,
    /// The sequence number is that of every node.
    pub is_exact: bool,
    /// Operation that hangs.
    pub operation: Operation,
    /// Start of the first rank's wait, ns.
    pub since_ns: u64,
    /// Ranks that have not arrived.
    pub missing: Vec<Absent>,
    /// Rank on the other side of a send or receive, on this node or another.
    pub peer: Option<u32>,
    /// Ranks of this node that wait.
    pub waiting: Vec<RankIdentity>,
    /// Ranks called different operations before the hang.
    pub is_mismatched: bool,
    /// A thread was seen inside a call during the hang; otherwise the evidence is missing activity.
    pub is_wait_seen: bool,
}

/// A rank that other ranks wait for.
#[derive(Clone, Debug, PartialEq)]
pub struct Absent {
    /// Identity of the rank.
    pub who: RankIdentity,
    /// Time since its last collective on this communicator, ns.
    pub idle_ns: u64,
    /// Sequence number of its next collective.
    pub next_seq: u64,
    /// Reason for its end, if it ended.
    pub end: Option<RankEnd>,
    /// Last step of its process.
    pub last_step: Option<StepNote>,
}

/// The content of [`Finding::HangOver`].
#[derive(Clone, Debug, PartialEq)]
pub struct HangOver {
    /// Time of the progress that ended the hang, ns.
    pub at_ns: u64,
    /// Name of the communicator.
    pub communicator: CommunicatorId,
    /// Sequence number of the collective that hung.
    pub seq: u64,
    /// Duration of the first rank's wait, ns.
    pub duration_ns: u64,
}

/// The content of [`Finding::Mismatch`].
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    /// Identity of the rank that differs from the first rank.
    pub who: RankIdentity,
    /// Sequence number of the collective.
    pub seq: u64,
    /// Operation, datatype and elements that this rank passed.
    pub called: (Operation, u32, u64),
    /// Operation, datatype and elements that the first rank passed.
    pub first: (Operation, u32, u64),
}

/// Subject of a disagreement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Dispute {
    /// Number of ranks.
    Nranks,
    /// Rank number, from two sources.
    Rank,
    /// Two ranks of this node have the same number.
    SameRank,
}

/// The content of [`Finding::Disagreement`].
#[derive(Clone, Debug, PartialEq)]
pub struct Disagreement {
    /// Time of detection, ns.
    pub at_ns: u64,
    /// Identity of the rank after the disagreement.
    pub who: RankIdentity,
    /// Subject of the disagreement.
    pub about: Dispute,
    /// The rejected value.
    pub rejected: Option<u32>,
}

/// The content of [`Finding::Ended`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Time of the end, ns.
    pub at_ns: u64,
    /// Identity of the rank.
    pub who: RankIdentity,
    /// Reason for the end.
    pub end: RankEnd,
    /// The first operations that no call had waited for, oldest first.
    pub outstanding: Vec<Op>,
    /// Number of outstanding operations.
    pub outstanding_count: u64,
    /// Last operations before the end, oldest first.
    pub recent: Vec<Op>,
    /// Last steps of the process.
    pub steps: Vec<StepNote>,
}

/// Current state of a rank, exported as gauges.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankState {
    /// Identity of the rank.
    pub who: RankIdentity,
    /// Number of collectives that it reached.
    pub seq: u64,
    /// Mean delay after the first rank of this node over the last collectives, ns.
    pub lateness_ns: Option<u64>,
    /// Time since its last collective while peers progressed, ns; 0 if none did.
    pub idle_ns: u64,
    /// Operations that no call waited for yet.
    pub outstanding: u64,
    /// The rank is currently a straggler.
    pub is_late: bool,
}
