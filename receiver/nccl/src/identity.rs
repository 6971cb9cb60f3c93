//! Identity of ranks: a communicator's name, a rank's number, and the certainty of each.
//!
//! Every fact has a source. Sources are ordered by reliability, and a better one replaces a worse one. Facts without a
//! source stay unknown: no default value can be mistaken for a fact.

use std::fmt;

use event::ProcessId;

/// A communicator's name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct CommunicatorId {
    /// NCCL's `commHash`, or a computed hash.
    pub hash: u64,
    /// Origin of the hash.
    pub source: IdSource,
}

/// Origin of a communicator's name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum IdSource {
    /// Hash computed from values of one process: other ranks of the communicator have different names.
    Local = 0,
    /// Hash computed from values that all ranks share: equal on each rank, but not NCCL's.
    Warptap = 1,
    /// NCCL's hash by a rule that is unverified for this version or function.
    Expected = 2,
    /// NCCL's own `commHash`.
    Nccl = 3,
}

/// Origin of a fact, least certain first.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Source {
    /// No source: the fact is unknown.
    #[default]
    Unknown = 0,
    /// Environment of the process; likely correct for the job's first communicator.
    Environment = 1,
    /// Flight record of an earlier run of this agent.
    Restored = 2,
    /// Inferred from the arguments of all ranks to a split or shrink.
    Inferred = 3,
    /// NCCL's return value to the program (`ncclCommCount`, `ncclCommUserRank`).
    Queried = 4,
    /// Argument of the call that made the communicator.
    Init = 5,
}

/// A number and its source.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Fact {
    /// The number; `None` if it is unknown.
    pub value: Option<u32>,
    /// Source of the number.
    pub source: Source,
}

impl IdSource {
    /// Returns the source as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            IdSource::Local => "local",
            IdSource::Warptap => "warptap",
            IdSource::Expected => "expected",
            IdSource::Nccl => "nccl",
        }
    }

    /// Returns the source with this number.
    pub fn from_number(number: u8) -> Option<IdSource> {
        [IdSource::Local, IdSource::Warptap, IdSource::Expected, IdSource::Nccl]
            .get(usize::from(number))
            .copied()
    }
}

impl CommunicatorId {
    /// Returns true if every rank of the communicator has the same name for it.
    pub const fn is_shared(self) -> bool {
        !matches!(self.source, IdSource::Local)
    }
}

impl fmt::Display for CommunicatorId {
    /// Writes the hash in the format of NCCL's logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.hash)
    }
}

impl Source {
    /// Returns the source as an attribute value.
    pub const fn name(self) -> &'static str {
        match self {
            Source::Unknown => "unknown",
            Source::Environment => "environment",
            Source::Restored => "restored",
            Source::Inferred => "inferred",
            Source::Queried => "queried",
            Source::Init => "init",
        }
    }

    /// Returns the source with this number.
    pub fn from_number(number: u8) -> Option<Source> {
        let all = [
            Source::Unknown,
            Source::Environment,
            Source::Restored,
            Source::Inferred,
            Source::Queried,
            Source::Init,
        ];
        all.get(usize::from(number)).copied()
    }
}

impl Fact {
    /// Returns the fact that `source` reported. A negative number is unknown.
    pub fn new(value: i32, source: Source) -> Fact {
        u32::try_from(value).map_or(Fact::default(), |value| Fact { value: Some(value), source })
    }

    /// Returns the fact that `source` reported, or an unknown one for `None`.
    pub(crate) fn maybe(value: Option<u32>, source: Source) -> Fact {
        value.map_or(Fact::default(), |value| Fact { value: Some(value), source })
    }

    /// Takes another source's value if that source is better. Returns true if the two values differ.
    pub(crate) fn learn(&mut self, other: Fact) -> bool {
        let differs = matches!((self.value, other.value), (Some(a), Some(b)) if a != b);
        if other.value.is_some() && other.source >= self.source {
            *self = other;
        }
        differs
    }
}

/// Identity of a rank: one handle of one process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankIdentity {
    /// Name of the communicator.
    pub communicator: CommunicatorId,
    /// Number of the rank in the communicator.
    pub rank: Fact,
    /// Number of ranks of the communicator.
    pub nranks: Fact,
    /// Process that owns the handle.
    pub process: ProcessId,
    /// Thread that last made a call on the communicator.
    pub tid: u32,
    /// Device number in the process; -1 if unknown.
    pub device: i32,
}

impl fmt::Display for RankIdentity {
    /// Writes the rank, or the process if the rank is unknown.
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
    fn only_a_better_source_replaces_a_fact() {
        let mut fact = Fact::default();
        assert!(!fact.learn(Fact::new(3, Source::Environment)));
        assert!(fact.learn(Fact::new(5, Source::Queried)));
        assert!(fact.learn(Fact::new(3, Source::Environment)));
        assert_eq!(fact, Fact::new(5, Source::Queried));
        assert!(!fact.learn(Fact::default()));
        assert_eq!(fact.value, Some(5));
    }

    #[test]
    fn rank_zero_is_known_and_minus_one_is_unknown() {
        assert_eq!(Fact::new(0, Source::Init).value, Some(0));
        assert_eq!(Fact::new(-1, Source::Init), Fact::default());
    }

    #[test]
    fn each_source_has_a_distinct_number_and_name() {
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
