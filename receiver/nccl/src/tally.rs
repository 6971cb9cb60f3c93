//! What was counted: everything seen, and everything given up to stay within bounds.

/// Sums since the beginning.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Operations that were enqueued: collectives, sends and receives. `operations = completed + ended +
    /// expired + forgotten + outstanding`, always.
    pub operations: u64,
    /// Of those, a closer covered.
    pub completed: u64,
    /// Of those, pending when their rank, stream or process ended.
    pub ended: u64,
    /// Of those, pending for too long.
    pub expired: u64,
    /// Of those, given up to make room.
    pub forgotten: u64,
    /// Operations that went into a graph: counted when they were captured, their replays are not seen.
    pub captured: u64,
    /// Operations that NCCL refused, alone or with their group.
    pub failed: u64,
    /// Calls that NCCL made itself of one that was counted.
    pub nested: u64,
    /// Operations in groups that hold too many, or whose thread was forgotten: seen, not followed.
    pub groups_overflow: u64,
    /// Operations in groups whose end was not seen when their process ended.
    pub groups_open: u64,
    /// Ends of groups whose beginning was not seen.
    pub groups_unmatched: u64,
    /// Operations whose payload is not known: an element's size is not.
    pub sizes_unknown: u64,
    /// Ranks that came.
    pub joined: u64,
    /// Of those, first seen in the middle of their work.
    pub late_attached: u64,
    /// Ranks that went, whatever the reason. `joined - left` are there.
    pub left: u64,
    /// Of those, whose end was not seen: their handle came back as another.
    pub replaced: u64,
    /// Of those, forgotten to make room.
    pub members_evicted: u64,
    /// Times that two sources or ranks said different things.
    pub disagreements: u64,
    /// Communicators whose handle was not written yet, given up to make room.
    pub unwritten_evicted: u64,
    /// Collectives that every rank of this node came to.
    pub rounds: u64,
    /// Collectives given up before every rank had come.
    pub rounds_given_up: u64,
    /// Ranks that came after that.
    pub rounds_stale: u64,
    /// Collectives that are not compared between ranks: which belong together is not known.
    pub unaligned: u64,
    /// Collectives known to have been lost.
    pub collectives_lost: u64,
    /// Records of unknown content that were lost.
    pub records_lost: u64,
    /// Processes forgotten to make room.
    pub processes_evicted: u64,
    /// Threads forgotten to make room.
    pub threads_evicted: u64,
    /// Streams forgotten to make room.
    pub streams_evicted: u64,
    /// Events forgotten to make room.
    pub events_evicted: u64,
    /// Waits of a stream for another forgotten to make room.
    pub edges_evicted: u64,
    /// Waits for events whose record was not seen: they close nothing.
    pub events_unknown: u64,
    /// Sends and receives that are not matched with their other side.
    pub pairs_overflow: u64,
}
