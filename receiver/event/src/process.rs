//! Processes: an identity that is unique despite reuse of pids, and a description.

use probe_abi::record::Header;

/// The identity of a process: its pid and start time, since pids are reused.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProcessId {
    /// Process id, in the initial pid namespace.
    pub pid: u32,
    /// CLOCK_BOOTTIME at its start, ns; 0 if unknown.
    pub start_ns: u64,
}

impl From<&Header> for ProcessId {
    fn from(header: &Header) -> Self {
        ProcessId { pid: header.pid, start_ns: header.process_start_ns }
    }
}

/// The description of a process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProcessInfo {
    /// Identity of the process.
    pub process: ProcessId,
    /// When it was described.
    pub at_ns: u64,
    /// `process.executable.name`: the last part of the executable's path.
    pub executable: String,
    /// `process.executable.path` as the process sees it.
    pub executable_path: String,
    /// Arguments of the command line.
    pub command: Vec<String>,
    /// `container.id`, from the cgroup; empty outside containers.
    pub container_id: String,
    /// Known resource attributes, such as `k8s.pod.uid`, sorted by key.
    pub attributes: Vec<(String, String)>,
    /// Coverage: what is observed, such as attached libraries with the number of functions.
    pub observed: Vec<String>,
    /// Gaps in the coverage, each with its reason.
    pub gaps: Vec<String>,
    /// Since when the totals of its functions are counted, ns since 1970, if an earlier agent may have begun; otherwise
    /// 0.
    pub since_unix_ns: u64,
    /// Time during which a library was mapped and not all libraries of the process were probed, ns: calls in that time may
    /// be missing. Of a library that was mapped before the source began, the time begins with the process.
    pub unobserved_ns: u64,
}
