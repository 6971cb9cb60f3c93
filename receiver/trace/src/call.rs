//! One call of a GPU library, read to the end: what a probe would have seen of it.
//!
//! The one idea: whoever knows calls rather than records (a profiler trace, a player's log, a test) speaks this
//! type, and [`crate::fold::Folder`] makes of them what the kernel programs would have made. What a row's wiring
//! would read from registers stands here by name.

use probe_abi::record::StreamKey;
use probe_abi::{Action, Direction, Probe};

use event::ProcessId;

/// One call, from its entry to its return.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call {
    /// Who called.
    pub process: ProcessId,
    /// The calling thread.
    pub tid: u32,
    /// The row's id in [`probe_abi::PROBES`].
    pub row: u16,
    /// True for the row's per-thread twin (`_ptsz`, `_ptds`, `_spt`).
    pub is_twin: bool,
    /// When it began, CLOCK_MONOTONIC ns.
    pub entry_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// What it returned: 0 or the library's error number.
    pub result: u32,
    /// The stream's handle; 0 the default stream.
    pub stream: u64,
    /// What the row's handle names: event, graph, address, device. `None` where the source does not tell.
    pub handle: Option<u64>,
    /// The graph that a capture goes on with, or that an executable graph is made of; 0 for none.
    pub graph: u64,
    /// Bytes copied, filled or asked for.
    pub bytes: u64,
    /// Threads started by a launch: blocks times threads per block.
    pub threads: u64,
    /// Tells the launched function or graph from others of its process: its address, or a hash of what it is.
    pub identity: u64,
    /// Which way a copy goes.
    pub direction: Direction,
}

impl Default for Call {
    fn default() -> Self {
        Call {
            process: ProcessId::default(),
            tid: 0,
            row: 0,
            is_twin: false,
            entry_ns: 0,
            duration_ns: 0,
            result: 0,
            stream: 0,
            handle: None,
            graph: 0,
            bytes: 0,
            threads: 0,
            identity: 0,
            direction: Direction::Unknown,
        }
    }
}

impl Call {
    /// Its row; `None` where this build knows none of that number.
    pub fn probe(&self) -> Option<&'static Probe> {
        probe_abi::row(self.row)
    }

    /// When it returned, ns.
    pub fn exit_ns(&self) -> u64 {
        self.entry_ns.saturating_add(self.duration_ns)
    }

    /// The stream it means.
    pub fn stream_key(&self) -> StreamKey {
        StreamKey::of(self.process.pid, self.tid, self.stream, self.is_twin)
    }

    /// True where it returned an error. A query's "not ready" is an answer.
    pub fn has_failed(&self, action: Action) -> bool {
        action.has_failed(self.result)
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::NOT_READY;

    use super::*;

    #[test]
    fn not_ready_is_an_error_everywhere_but_in_a_query() {
        let call = Call { result: NOT_READY, ..Call::default() };
        assert!(!call.has_failed(Action::Query));
        assert!(call.has_failed(Action::StreamSync));
        assert!(Call { result: 1, ..call }.has_failed(Action::Query));
    }
}
