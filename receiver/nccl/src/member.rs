//! One rank of one communicator: a handle of a process and its progress.

use std::collections::VecDeque;
use std::fmt;

use event::{ExitStatus, ProcessId};
use signal_hook::low_level::signal_name;

use crate::identity::RankIdentity;
use crate::op::Op;
use crate::registry::CommunicatorKey;

/// Reason for the end of a rank.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum RankEnd {
    /// A call of `ncclCommDestroy`.
    Destroyed,
    /// A call of `ncclCommAbort`.
    Aborted,
    /// Its process exited, with this code if it was seen.
    Exited(Option<u8>),
    /// A signal killed its process.
    Killed(u8),
    /// Its handle was reused for another communicator; its end was not seen.
    Replaced,
    /// Evicted to stay within the limit of ranks.
    Evicted,
}

/// Writes the end in words: `killed by SIGKILL`, `exited 1`.
impl fmt::Display for RankEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RankEnd::Exited(Some(code)) => write!(f, "exited {code}"),
            RankEnd::Killed(signal) => match signal_name((*signal).into()) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            other => f.write_str(other.name()),
        }
    }
}

impl RankEnd {
    /// Returns the end of the ranks of a process with this exit status.
    pub(crate) const fn of(status: ExitStatus) -> RankEnd {
        match status {
            ExitStatus::Unknown => RankEnd::Exited(None),
            ExitStatus::Exited(code) => RankEnd::Exited(Some(code)),
            ExitStatus::Killed(signal) => RankEnd::Killed(signal),
        }
    }

    /// Returns the end as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            RankEnd::Destroyed => "destroyed",
            RankEnd::Aborted => "aborted",
            RankEnd::Exited(_) => "exited",
            RankEnd::Killed(_) => "killed",
            RankEnd::Replaced => "replaced",
            RankEnd::Evicted => "evicted",
        }
    }

    /// Returns true if waiting peers never see this rank arrive.
    pub(crate) const fn is_loss(self) -> bool {
        matches!(self, RankEnd::Aborted | RankEnd::Exited(_) | RankEnd::Killed(_))
    }
}

/// A rank and its progress.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) who: RankIdentity,
    pub(crate) handle: u64,
    pub(crate) communicator: CommunicatorKey,
    /// Its slot in the communicator.
    pub(crate) slot: usize,
    /// Start of the call that made it or in which it was first seen, ns.
    pub(crate) born_ns: u64,
    /// Its creation was not seen; earlier calls are unknown.
    pub(crate) is_late: bool,
    /// Number of its splits.
    pub(crate) children: i32,
    /// The number of splits agrees with NCCL's own.
    pub(crate) is_children_sure: bool,
    /// Sequence number of its next collective.
    pub(crate) next_seq: u64,
    pub(crate) last_ordinal: Option<u64>,
    /// Enqueued operations that no call waited for yet.
    pub(crate) outstanding: u64,
    /// Time of its last enqueued collective, ns; 0 if none.
    pub(crate) enqueued_ns: u64,
    /// Time of its last enqueued or completed operation, ns.
    pub(crate) progress_ns: u64,
    /// Wait time of its process at its last arrival at a collective, plus later sync calls that covered operations of
    /// this rank. The difference to the current value is its wait for other work, ns.
    pub(crate) waited_ns: u64,
    /// Start of the last such sync call, ns.
    pub(crate) sync_ns: u64,
    /// Its last operations, oldest first.
    pub(crate) recent: VecDeque<Op>,
    pub(crate) used: u64,
}

impl Member {
    pub(crate) fn process(&self) -> ProcessId {
        self.who.process
    }

    /// Returns the time of its last progress on this communicator, ns.
    pub(crate) fn idle_since_ns(&self) -> u64 {
        self.enqueued_ns.max(self.born_ns)
    }

    /// Returns the number of the next collective, the source's `ordinal`th, and how many were lost before it.
    pub(crate) fn take_seq(&mut self, ordinal: Option<u64>) -> (u64, u64) {
        let lost = match (self.last_ordinal, ordinal) {
            (Some(last), Some(now)) => now.saturating_sub(last.saturating_add(1)),
            (None, Some(now)) if !self.is_late => now.saturating_sub(self.next_seq),
            _ => 0,
        };
        self.last_ordinal = ordinal.or(self.last_ordinal);
        let seq = self.next_seq.saturating_add(lost);
        self.next_seq = seq.saturating_add(1);
        (seq, lost)
    }

    pub(crate) fn push_recent(&mut self, op: Op, max: usize) {
        if self.recent.len() >= max.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(op);
    }
}

/// A rank before its handle is known.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) who: RankIdentity,
    pub(crate) born_ns: u64,
    pub(crate) is_late: bool,
    pub(crate) child_of: Option<ChildOf>,
}

/// The parent and ordinal of a child communicator.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ChildOf {
    pub(crate) parent: CommunicatorKey,
    pub(crate) ordinal: i32,
    pub(crate) parent_rank: u32,
}

impl Draft {
    pub(crate) fn into_member(
        self,
        handle: u64,
        communicator: CommunicatorKey,
        slot: usize,
        used: u64,
    ) -> Member {
        Member {
            who: self.who,
            handle,
            communicator,
            slot,
            born_ns: self.born_ns,
            is_late: self.is_late,
            children: 0,
            is_children_sure: !self.is_late,
            next_seq: 0,
            last_ordinal: None,
            outstanding: 0,
            enqueued_ns: 0,
            progress_ns: self.born_ns,
            waited_ns: 0,
            sync_ns: 0,
            recent: VecDeque::new(),
            used,
        }
    }
}
