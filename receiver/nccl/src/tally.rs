//! Counts of observed and dropped items.

/// Sums since the start of the engine.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Enqueued operations: collectives, sends and receives. `operations = completed + ended + expired + evicted +
    /// outstanding` always holds.
    pub operations: u64,
    /// Operations covered by a sync call.
    pub completed: u64,
    /// Completed operations without a reported wait, because they began before all libraries of their process were
    /// probed.
    pub waits_unarmed: u64,
    /// Operations pending when their rank, stream or process ended.
    pub ended: u64,
    /// Operations pending for longer than the expiry time.
    pub expired: u64,
    /// Operations dropped to stay within bounds.
    pub evicted: u64,
    /// Operations captured into a graph; counted at capture, since their replays are not seen.
    pub captured: u64,
    /// Operations that NCCL refused, alone or with their group.
    pub failed: u64,
    /// Nested calls that NCCL made inside a counted call.
    pub nested: u64,
    /// Operations dropped because their group was full or its thread was evicted.
    pub groups_overflow: u64,
    /// Operations in groups whose end was not seen when their process ended.
    pub groups_open: u64,
    /// Ends of groups whose start was not seen.
    pub groups_unmatched: u64,
    /// Operations with unknown payload because the element size is unknown.
    pub sizes_unknown: u64,
    /// Ranks that joined.
    pub joined: u64,
    /// Ranks first seen after their creation.
    pub late_attached: u64,
    /// Ranks that left for any reason. `joined - left` are present.
    pub left: u64,
    /// Ranks whose end was not seen because their handle was reused.
    pub replaced: u64,
    /// Ranks evicted to stay within bounds.
    pub members_evicted: u64,
    /// Disagreements between two sources or ranks.
    pub disagreements: u64,
    /// Communicators evicted before their handle was written.
    pub unwritten_evicted: u64,
    /// Collectives that every rank of this node reached.
    pub rounds: u64,
    /// Collectives dropped before every rank had arrived.
    pub rounds_dropped: u64,
    /// Arrivals at dropped collectives.
    pub rounds_stale: u64,
    /// Collectives not compared between ranks because their alignment is unknown.
    pub unaligned: u64,
    /// Collectives known to have been lost.
    pub collectives_lost: u64,
    /// Lost records of unknown content.
    pub records_lost: u64,
    /// Processes evicted to stay within bounds.
    pub processes_evicted: u64,
    /// Threads evicted to stay within bounds.
    pub threads_evicted: u64,
    /// Streams evicted to stay within bounds.
    pub streams_evicted: u64,
    /// Events evicted to stay within bounds.
    pub events_evicted: u64,
    /// Edges between streams evicted to stay within bounds.
    pub edges_evicted: u64,
    /// Waits for events whose record was not seen; they complete nothing.
    pub events_unknown: u64,
    /// Sends and receives not matched with their other side.
    pub pairs_overflow: u64,
}
