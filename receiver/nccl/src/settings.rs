//! Settings and bounds of an engine. Every bound has a documented overflow behaviour and a counter in [`crate::Tally`].

/// Settings of an engine. Every value is valid; a bound of zero counts as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Maximum number of ranks (handles of processes); the least recently used is evicted.
    pub members_max: usize,
    /// Maximum number of processes; the least recently used is evicted with its ranks.
    pub processes_max: usize,
    /// Maximum number of threads; the least recently used is evicted with the calls of its open group.
    pub threads_max: usize,
    /// Maximum number of pending calls in a thread's open group; further calls are only counted.
    pub group_calls_max: usize,
    /// Maximum number of streams per process; the least recently used is evicted with its pending operations.
    pub streams_max: usize,
    /// Maximum number of pending operations per stream; the oldest is dropped.
    pub pending_max: usize,
    /// Maximum number of events per process; the least recently recorded is evicted.
    pub events_max: usize,
    /// Maximum number of open rounds per communicator; the oldest is dropped.
    pub rounds_max: usize,
    /// Time after which operations that no call waits for expire, ns, unless they hang.
    pub expiry_ns: u64,
    /// Time after the last local rank joined, ns, at which a communicator with ranks on other nodes is assumed to have
    /// all its local ranks.
    pub join_grace_ns: u64,
    /// Time after which an awaited rank, or a collective that does not complete, is a hang, ns.
    pub hang_timeout_ns: u64,
    /// Detection of late ranks.
    pub straggler: StragglerSettings,
    /// Selection of collectives that become traces.
    pub trace: TraceSettings,
    /// Number of operations per rank, and steps per process, in the flight recorder.
    pub recorder_last: usize,
}

/// Thresholds for a late rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StragglerSettings {
    /// Minimum delay after the middle of its peers, ns.
    pub lateness_ns_min: u64,
}

/// Selection of collectives that become traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSettings {
    /// Share of all collectives, 0 to 1; the same collectives on every rank and node.
    pub rate: f64,
    /// Minimum skew on this node above which every collective is traced, ns; 0 for none.
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
