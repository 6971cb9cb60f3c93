//! One operation of one rank, from its call to the closer that covers it.

use crate::observe::Arguments;
use crate::operation::{Operation, payload_bytes};

/// An operation that a rank enqueued.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Op {
    /// Which.
    pub operation: Operation,
    /// `ncclDataType_t`.
    pub datatype: u32,
    /// `ncclRedOp_t`; 0 where the operation has none.
    pub reduction: u32,
    /// Root or the other side's rank; -1 where the operation has none.
    pub peer: i32,
    /// Elements.
    pub count: u64,
    /// Collectives of this rank on this communicator before it. Of a send or receive too, which count none.
    pub seq: u64,
    /// When its own call began.
    pub entry_ns: u64,
    /// How long its own call took, ns: the host's part of enqueueing it.
    pub enqueue_ns: u64,
    /// When the call began that enqueued it: its own, or that of the outermost `ncclGroupEnd`.
    pub arrival_ns: u64,
    /// When that call returned.
    pub enqueued_ns: u64,
}

impl Op {
    /// Payload, bytes; `None` where nobody knows how large an element is.
    pub fn bytes(&self) -> Option<u64> {
        payload_bytes(self.count, self.datatype)
    }

    /// From whom to whom a message of this rank goes; `None` for collectives.
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
