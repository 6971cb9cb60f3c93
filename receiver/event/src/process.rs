//! Who a process is: an identity that survives pid reuse, and what a backend may know of it.

use probe_abi::record::Header;

/// A process: its pid, and when it began, since pids come back.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ProcessId {
    /// Process id, in the initial pid namespace.
    pub pid: u32,
    /// CLOCK_BOOTTIME ns at its beginning; 0 where it is not known.
    pub start_ns: u64,
}

impl From<&Header> for ProcessId {
    fn from(header: &Header) -> Self {
        ProcessId { pid: header.pid, start_ns: header.process_start_ns }
    }
}

/// What is known of a process.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProcessInfo {
    /// Which process.
    pub process: ProcessId,
    /// When it was described.
    pub at_ns: u64,
    /// `process.executable.name`: the last part of the executable's path.
    pub executable: String,
    /// `process.executable.path` as the process sees it.
    pub executable_path: String,
    /// The command line, its parts.
    pub command: Vec<String>,
    /// `container.id`, from the cgroup; empty outside containers.
    pub container_id: String,
    /// Resource attributes already known of it, such as `k8s.pod.uid`; sorted by key.
    pub attributes: Vec<(String, String)>,
    /// What can be seen of it: libraries attached, by file name. Empty: nothing.
    pub observed: Vec<String>,
    /// What cannot be seen, a sentence each.
    pub gaps: Vec<String>,
}
