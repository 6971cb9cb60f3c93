//! Operations, datatypes and reductions with NCCL's own names and numbers (nccl.h of 2.32).
//!
//! Differences between operations are in `Operation::row`, sizes and names of datatypes in [`DATATYPES`]. Values come
//! from another process and are only used as table keys.

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

/// Name and size in bytes of each `ncclDataType_t`, by its number.
pub const DATATYPES: [(&str, u64); 12] = [
    ("int8", 1),
    ("uint8", 1),
    ("int32", 4),
    ("uint32", 4),
    ("int64", 8),
    ("uint64", 8),
    ("float16", 2),
    ("float32", 4),
    ("float64", 8),
    ("bfloat16", 2),
    ("float8e4m3", 1),
    ("float8e5m2", 1),
];

/// Names of the built-in `ncclRedOp_t`, by their numbers.
pub const REDUCTIONS: [&str; 5] = ["sum", "prod", "max", "min", "avg"];

/// Returns a datatype's name; `unknown` for unassigned numbers.
pub fn datatype_name(number: u32) -> &'static str {
    DATATYPES.get(number as usize).map_or("unknown", |(name, _)| name)
}

/// Returns the payload of `count` elements in bytes; `None` if the size of an element is unknown.
pub fn payload_bytes(count: u64, datatype: u32) -> Option<u64> {
    DATATYPES.get(datatype as usize).map(|(_, size)| count.saturating_mul(*size))
}

/// Returns a reduction's name; `user` for one that the program defined.
pub fn reduction_name(number: u32) -> &'static str {
    REDUCTIONS.get(number as usize).copied().unwrap_or("user")
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

    #[test]
    fn bytes_are_count_times_the_header_s_sizes() {
        let sizes: Vec<u64> = (0..12).map(|datatype| payload_bytes(1, datatype).unwrap()).collect();
        assert_eq!(sizes, [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1]);
        assert_eq!(payload_bytes(1, 12), None);
        assert_eq!(payload_bytes(u64::MAX, 7), Some(u64::MAX));
    }

    #[test]
    fn reductions_from_five_on_are_user_defined() {
        assert_eq!([0, 4, 5, u32::MAX].map(reduction_name), ["sum", "avg", "user", "user"]);
        assert_eq!([0, 9, 12].map(datatype_name), ["int8", "bfloat16", "unknown"]);
    }
}
