//! How an engine is set, and its bounds. Every bound has an answer to "what when full" and a counter in
//! [`crate::Tally`].

/// Every value is possible; zeros count as ones where none is meant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Ranks (handles of processes) remembered. Full: the one unused longest is forgotten.
    pub members_max: usize,
    /// Processes remembered. Full: the one unused longest is forgotten, with its ranks.
    pub processes_max: usize,
    /// Threads remembered. Full: the one unused longest is forgotten, with what its open group holds.
    pub threads_max: usize,
    /// Calls that a thread's open group holds. Full: further ones are not followed, only counted.
    pub group_calls_max: usize,
    /// Streams remembered of a process. Full: the one unused longest is forgotten, with what is pending on it.
    pub streams_max: usize,
    /// Operations pending on a stream. Full: the oldest is no longer followed.
    pub pending_max: usize,
    /// Events remembered of a process. Full: the one recorded longest ago is forgotten.
    pub events_max: usize,
    /// Collectives that some ranks of a communicator have reached and others not. Full: the oldest is given up.
    pub rounds_max: usize,
    /// Operations that nobody waits for are given up after this time, ns, unless they hang.
    pub expiry_ns: u64,
    /// Where ranks are on other nodes, so long after the last local one joined, ns, all local ones are expected to
    /// have.
    pub join_grace_ns: u64,
    /// A rank that its peers wait for, or a collective that nobody finishes, is a hang after this time, ns.
    pub hang_timeout_ns: u64,
    /// Ranks that are late.
    pub straggler: StragglerSettings,
    /// Collectives that become traces.
    pub trace: TraceSettings,
    /// Operations of each rank, and steps of each process, that the flight recorder keeps.
    pub recorder_last: usize,
}

/// When a rank counts as late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StragglerSettings {
    /// Less than this behind the middle of its peers, ns, never counts.
    pub lateness_ns_min: u64,
}

/// Which collectives become traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSettings {
    /// The share of all collectives, 0 to 1: the same ones on every rank and node.
    pub rate: f64,
    /// And every one with a skew of at least this on this node, ns; 0 for none.
    pub skew_ns_min: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            members_max: 4096,
            processes_max: 1024,
            threads_max: 4096,
            group_calls_max: 4096,
            streams_max: 256,
            pending_max: 1024,
            events_max: 4096,
            rounds_max: 1024,
            expiry_ns: 600_000_000_000,
            join_grace_ns: 2_000_000_000,
            hang_timeout_ns: 30_000_000_000,
            straggler: StragglerSettings { lateness_ns_min: 2_000_000 },
            trace: TraceSettings { rate: 0.001, skew_ns_min: 10_000_000 },
            recorder_last: 16,
        }
    }
}
