//! NCCL's operations and functions, with NCCL's own names and numbers (nccl.h of 2.32).
//!
//! A row of an NCCL function names its [`Role`], and its argument positions follow from it or are columns of the row.
//! The kernel programs know neither: they record arguments, which `nccl` decodes.

/// An operation that moves data.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Operation {
    /// `ncclAllReduce`.
    #[default]
    AllReduce = 0,
    /// `ncclReduceScatter`.
    ReduceScatter = 1,
    /// `ncclAllGather`.
    AllGather = 2,
    /// `ncclReduce`.
    Reduce = 3,
    /// `ncclBroadcast`, and `ncclBcast` which calls it.
    Broadcast = 4,
    /// `ncclAlltoAll`, since NCCL 2.28.
    AllToAll = 5,
    /// `ncclGather`, since NCCL 2.28.
    Gather = 6,
    /// `ncclScatter`, since NCCL 2.28.
    Scatter = 7,
    /// `ncclSend`.
    Send = 8,
    /// `ncclRecv`.
    Recv = 9,
}

/// Meaning of an operation's peer argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Peer {
    /// The operation has no peer.
    None,
    /// The root rank.
    Root,
    /// The rank on the other side.
    Other,
}

/// Properties of an operation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Row {
    name: &'static str,
    peer: Peer,
    is_collective: bool,
    reduces: bool,
}

const fn collective(name: &'static str, peer: Peer, reduces: bool) -> Row {
    Row { name, peer, is_collective: true, reduces }
}

const fn point_to_point(name: &'static str) -> Row {
    Row { name, peer: Peer::Other, is_collective: false, reduces: false }
}

impl Operation {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Operation; 10] = [
        Operation::AllReduce,
        Operation::ReduceScatter,
        Operation::AllGather,
        Operation::Reduce,
        Operation::Broadcast,
        Operation::AllToAll,
        Operation::Gather,
        Operation::Scatter,
        Operation::Send,
        Operation::Recv,
    ];

    /// Returns the name used in NCCL's logs and in attributes.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns true if every rank of the communicator takes part, so that all ranks count it alike.
    pub const fn is_collective(self) -> bool {
        self.row().is_collective
    }

    /// Returns true if the call has a reduction.
    pub const fn reduces(self) -> bool {
        self.row().reduces
    }

    /// Returns the meaning of the peer argument.
    pub const fn peer(self) -> Peer {
        self.row().peer
    }

    /// Returns true if the call has a root or peer rank.
    pub const fn has_peer(self) -> bool {
        !matches!(self.peer(), Peer::None)
    }

    /// Returns the operation with this number.
    pub fn from_number(number: u8) -> Option<Operation> {
        Operation::ALL.get(usize::from(number)).copied()
    }

    const fn row(self) -> Row {
        match self {
            Operation::AllReduce => collective("AllReduce", Peer::None, true),
            Operation::ReduceScatter => collective("ReduceScatter", Peer::None, true),
            Operation::AllGather => collective("AllGather", Peer::None, false),
            Operation::Reduce => collective("Reduce", Peer::Root, true),
            Operation::Broadcast => collective("Broadcast", Peer::Root, false),
            Operation::AllToAll => collective("AlltoAll", Peer::None, false),
            Operation::Gather => collective("Gather", Peer::Root, false),
            Operation::Scatter => collective("Scatter", Peer::Root, false),
            Operation::Send => point_to_point("Send"),
            Operation::Recv => point_to_point("Recv"),
        }
    }
}

/// What an NCCL function does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A function that moves data.
    Operation(Operation),
    /// A function that makes a communicator from an id.
    Init,
    /// `ncclCommInitAll`.
    InitAll,
    /// `ncclGetUniqueId`.
    GetUniqueId,
    /// `ncclCommSplit`.
    Split,
    /// `ncclCommShrink`.
    Shrink,
    /// `ncclCommGrow`.
    Grow,
    /// `ncclCommFinalize`.
    Finalize,
    /// `ncclCommDestroy`.
    Destroy,
    /// `ncclCommAbort`.
    Abort,
    /// `ncclCommCount`.
    Count,
    /// `ncclCommUserRank`.
    UserRank,
    /// `ncclCommCuDevice`.
    CuDevice,
    /// `ncclGroupStart`.
    GroupStart,
    /// `ncclGroupEnd`.
    GroupEnd,
    /// `ncclGetVersion`.
    Version,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_rows_agree() {
        for (at, operation) in Operation::ALL.into_iter().enumerate() {
            assert_eq!(operation as usize, at);
            assert_eq!(Operation::from_number(at as u8), Some(operation));
            let others = Operation::ALL.into_iter().filter(|o| o.name() == operation.name());
            assert_eq!(others.count(), 1, "{}", operation.name());
        }
        assert_eq!(Operation::from_number(10), None);
    }
}
