//! Who is who: a communicator's name, a rank's number, and how surely each is known.
//!
//! The one idea: a fact carries its source, sources are ordered by how much they can be believed, and a better one
//! replaces a worse one. What nobody told is unknown, and stays so: nothing here has a default that looks like a fact.

use std::fmt;

use event::ProcessId;

/// A communicator's name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CommunicatorId {
    /// The name: NCCL's `commHash`, or a hash of ours.
    pub hash: u64,
    /// Where it is from.
    pub source: IdSource,
}

/// Where a communicator's name is from.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum IdSource {
    /// A hash of ours that only this process has: other ranks of the communicator have other ones.
    Local = 0,
    /// A hash of ours, of what all ranks share: the same on each of them, but not NCCL's.
    Ours = 1,
    /// NCCL's hash, by a rule that was not seen at work for this version or function.
    Expected = 2,
    /// NCCL's own `commHash`.
    Nccl = 3,
}

/// Where a fact is from, the least certain first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Source {
    /// Nobody told.
    #[default]
    Unknown = 0,
    /// The process's environment: true of the job's first communicator, likely.
    Environment = 1,
    /// A flight record of an earlier run of this agent.
    Restored = 2,
    /// Reckoned from what all ranks passed to a split or shrink.
    Reckoned = 3,
    /// NCCL's answer to the program (`ncclCommCount`, `ncclCommUserRank`).
    Asked = 4,
    /// An argument of the call that made the communicator.
    Init = 5,
}

/// A number and where it is from.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fact {
    /// The number; `None` where nobody told.
    pub value: Option<u32>,
    /// Who told.
    pub source: Source,
}

impl IdSource {
    /// The source as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            IdSource::Local => "local",
            IdSource::Ours => "warptap",
            IdSource::Expected => "expected",
            IdSource::Nccl => "nccl",
        }
    }

    /// The source of this number.
    pub fn from_number(number: u8) -> Option<IdSource> {
        [IdSource::Local, IdSource::Ours, IdSource::Expected, IdSource::Nccl]
            .get(usize::from(number))
            .copied()
    }
}

impl CommunicatorId {
    /// True where every rank of the communicator has the same name for it.
    pub const fn is_shared(self) -> bool {
        !matches!(self.source, IdSource::Local)
    }
}

impl fmt::Display for CommunicatorId {
    /// The hash as NCCL's logs write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.hash)
    }
}

impl Source {
    /// The source as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Unknown => "unknown",
            Source::Environment => "environment",
            Source::Restored => "restored",
            Source::Reckoned => "inferred",
            Source::Asked => "queried",
            Source::Init => "init",
        }
    }

    /// The source of this number.
    pub fn from_number(number: u8) -> Option<Source> {
        let all = [
            Source::Unknown,
            Source::Environment,
            Source::Restored,
            Source::Reckoned,
            Source::Asked,
            Source::Init,
        ];
        all.get(usize::from(number)).copied()
    }
}

impl Fact {
    /// What `source` tells. A negative number is no fact.
    pub fn told(value: i32, source: Source) -> Fact {
        u32::try_from(value).map_or(Fact::default(), |value| Fact { value: Some(value), source })
    }

    /// The same of an optional number.
    pub(crate) fn maybe(value: Option<u32>, source: Source) -> Fact {
        value.map_or(Fact::default(), |value| Fact { value: Some(value), source })
    }

    /// Takes another source's word where it is better. True where the two say different things.
    pub(crate) fn learn(&mut self, other: Fact) -> bool {
        let differs = matches!((self.value, other.value), (Some(a), Some(b)) if a != b);
        if other.value.is_some() && other.source >= self.source {
            *self = other;
        }
        differs
    }
}

/// A rank: one handle of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Who {
    /// The communicator.
    pub communicator: CommunicatorId,
    /// Its rank.
    pub rank: Fact,
    /// Ranks of the communicator.
    pub nranks: Fact,
    /// The process.
    pub process: ProcessId,
    /// The thread that last made a call on it.
    pub tid: u32,
    /// The device by its number in the process; -1 where it is not known.
    pub device: i32,
}

impl fmt::Display for Who {
    /// The rank, or the process where that is all that is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rank.value {
            Some(rank) => write!(f, "rank {rank} (process {})", self.process.pid),
            None => write!(f, "process {} (rank unknown)", self.process.pid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_better_source_replaces_a_worse_one_and_never_the_other_way() {
        let mut fact = Fact::default();
        assert!(!fact.learn(Fact::told(3, Source::Environment)));
        assert!(fact.learn(Fact::told(5, Source::Asked)));
        assert!(fact.learn(Fact::told(3, Source::Environment)));
        assert_eq!(fact, Fact::told(5, Source::Asked));
        assert!(!fact.learn(Fact::default()));
        assert_eq!(fact.value, Some(5));
    }

    #[test]
    fn rank_zero_is_a_fact_and_minus_one_is_none() {
        assert_eq!(Fact::told(0, Source::Init).value, Some(0));
        assert_eq!(Fact::told(-1, Source::Init), Fact::default());
    }

    #[test]
    fn numbers_and_names_are_the_sources_own() {
        for number in 0..6 {
            let source = Source::from_number(number).unwrap();
            assert_eq!(source as u8, number);
        }
        for number in 0..4 {
            assert_eq!(IdSource::from_number(number).unwrap() as u8, number);
        }
        assert_eq!((Source::from_number(6), IdSource::from_number(4)), (None, None));
    }
}
