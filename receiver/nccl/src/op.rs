//! An operation of one rank, from its call to the sync call that covers it.

use crate::observe::Arguments;
use crate::operation::{Operation, payload_bytes};

/// An operation that a rank enqueued.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Op {
    /// Kind of the operation.
    pub operation: Operation,
    /// Data type, an `ncclDataType_t`.
    pub datatype: u32,
    /// `ncclRedOp_t`; 0 where the operation has none.
    pub reduction: u32,
    /// Root or peer rank; -1 if the operation has none.
    pub peer: i32,
    /// Number of elements.
    pub count: u64,
    /// Earlier collectives of this rank on this communicator. Sends and receives have it too, but do not count.
    pub seq: u64,
    /// Entry of its own call, ns.
    pub entry_ns: u64,
    /// Duration of its own call, ns: the host's part of enqueueing it.
    pub enqueue_ns: u64,
    /// Entry of the call that enqueued it, ns: its own, or the outermost `ncclGroupEnd`.
    pub arrival_ns: u64,
    /// Return of that call, ns.
    pub enqueued_ns: u64,
}

impl Op {
    /// Returns the payload in bytes; `None` if the size of an element is unknown.
    pub fn bytes(&self) -> Option<u64> {
        payload_bytes(self.count, self.datatype)
    }

    /// Returns sender and receiver of a message of this rank; `None` for collectives.
    pub(crate) fn ends(&self, rank: u32) -> Option<(u32, u32)> {
        let peer = u32::try_from(self.peer).ok()?;
        match self.operation {
            Operation::Send => Some((rank, peer)),
            Operation::Recv => Some((peer, rank)),
            _ => None,
        }
    }

    pub(crate) fn new(arguments: &Arguments, entry_ns: u64, enqueue_ns: u64) -> Op {
        Op {
            operation: arguments.operation,
            datatype: arguments.datatype,
            reduction: arguments.reduction,
            peer: arguments.peer,
            count: arguments.count,
            seq: 0,
            entry_ns,
            enqueue_ns,
            arrival_ns: entry_ns,
            enqueued_ns: entry_ns.saturating_add(enqueue_ns),
        }
    }
}
