//! One rank of one communicator: a handle of a process, and how far it has come.

use std::collections::VecDeque;
use std::fmt;

use event::{ExitStatus, ProcessId};
use signal_hook::low_level::signal_name;

use crate::communicator::Communicator;
use crate::identity::Who;
use crate::op::Op;
use crate::slab::Key;

/// Why a rank is no longer there.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum End {
    /// `ncclCommDestroy`.
    Destroyed,
    /// `ncclCommAbort`.
    Aborted,
    /// Its process ended, with this code where that was seen.
    Exited(Option<u8>),
    /// This signal killed its process.
    Killed(u8),
    /// Its handle is another communicator's now: how it ended was not seen.
    Replaced,
    /// It made room for others.
    Forgotten,
}

/// In words: `killed by SIGKILL`, `exited 1`.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Exited(Some(code)) => write!(f, "exited {code}"),
            End::Killed(signal) => match signal_name((*signal).into()) {
                Some(name) => write!(f, "killed by {name}"),
                None => write!(f, "killed by signal {signal}"),
            },
            other => f.write_str(other.name()),
        }
    }
}

impl End {
    /// The end of the ranks of a process that ended so.
    pub(crate) const fn of(status: ExitStatus) -> End {
        match status {
            ExitStatus::Unknown => End::Exited(None),
            ExitStatus::Exited(code) => End::Exited(Some(code)),
            ExitStatus::Killed(signal) => End::Killed(signal),
        }
    }

    /// The end as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            End::Destroyed => "destroyed",
            End::Aborted => "aborted",
            End::Exited(_) => "exited",
            End::Killed(_) => "killed",
            End::Replaced => "replaced",
            End::Forgotten => "forgotten",
        }
    }

    /// True where peers will wait for it in vain if they wait.
    pub(crate) const fn is_loss(self) -> bool {
        matches!(self, End::Aborted | End::Exited(_) | End::Killed(_))
    }
}

/// A rank.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) who: Who,
    pub(crate) handle: u64,
    pub(crate) communicator: Key<Communicator>,
    /// Its place in the communicator.
    pub(crate) slot: usize,
    /// When the call began that made it, or that it was first seen in.
    pub(crate) born_ns: u64,
    /// Its making was not seen: what it did before is unknown.
    pub(crate) is_late: bool,
    /// Splits of it so far...
    pub(crate) children: i32,
    /// ... which is what NCCL counts too.
    pub(crate) is_children_sure: bool,
    /// Sequence number of its next collective.
    pub(crate) next_seq: u64,
    pub(crate) last_ordinal: Option<u64>,
    /// Operations enqueued that nobody waited for yet.
    pub(crate) outstanding: u64,
    /// When it last enqueued a collective; 0 never.
    pub(crate) enqueued_ns: u64,
    /// When it last enqueued anything, or something of it was waited for.
    pub(crate) progress_ns: u64,
    /// What its process had waited when it last came to a collective, and since then in closers that covered
    /// something of it: the difference to now is what it waited for others.
    pub(crate) waited_ns: u64,
    /// When the last such closer began.
    pub(crate) closer_ns: u64,
    /// Its last operations, oldest first.
    pub(crate) recent: VecDeque<Op>,
    pub(crate) used: u64,
}

impl Member {
    pub(crate) fn process(&self) -> ProcessId {
        self.who.process
    }

    /// Since when it has done nothing on this communicator.
    pub(crate) fn idle_since_ns(&self) -> u64 {
        self.enqueued_ns.max(self.born_ns)
    }

    /// The number of the next collective, which the source says is its `ordinal`th. Says how many were lost.
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

    pub(crate) fn remember(&mut self, op: Op, max: usize) {
        if self.recent.len() >= max.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(op);
    }
}

/// A rank that is about to be.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) who: Who,
    pub(crate) born_ns: u64,
    pub(crate) is_late: bool,
    pub(crate) child_of: Option<ChildOf>,
}

/// Which child of which parent a rank is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct ChildOf {
    pub(crate) parent: Key<Communicator>,
    pub(crate) ordinal: i32,
    pub(crate) parent_rank: u32,
}

impl Draft {
    pub(crate) fn into_member(
        self,
        handle: u64,
        communicator: Key<Communicator>,
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
            closer_ns: 0,
            recent: VecDeque::new(),
            used,
        }
    }
}
