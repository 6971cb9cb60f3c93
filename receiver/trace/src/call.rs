//! A complete call of a GPU library with the values that a probe reads.
//!
//! Sources of calls (profiler traces, logs of players, tests) produce this type, and [`crate::fold::Folder`] folds them
//! as the kernel programs do. The values that the wiring of a row reads from registers are named fields.

use probe_abi::record::StreamKey;
use probe_abi::{Direction, Probe};

use event::ProcessId;

/// A call from its entry to its return.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Call {
    /// The calling process.
    pub process: ProcessId,
    /// The calling thread.
    pub tid: u32,
    /// Id of the probe row in [`probe_abi::PROBES`].
    pub row: u16,
    /// True for the per-thread twin of the row (`_ptsz`, `_ptds`, `_spt`).
    pub is_twin: bool,
    /// When the call was entered, CLOCK_MONOTONIC ns.
    pub entry_ns: u64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Return value: 0 or the error number of the library.
    pub result: u32,
    /// Handle of the stream; 0 for the default stream.
    pub stream: u64,
    /// Handle that the row defines: event, graph, address or device. `None` if the source does not contain it.
    pub handle: Option<u64>,
    /// Graph that a capture continues, or that an executable graph is created from; 0 for none.
    pub graph: u64,
    /// Bytes copied, filled or requested.
    pub bytes: u64,
    /// Threads started by a launch: blocks times threads per block.
    pub threads: u64,
    /// Identity of the launched function or graph in its process: its address, or a hash of its content.
    pub identity: u64,
    /// Direction of a copy.
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
    /// Returns the probe row; `None` if this build has none with that id.
    pub fn probe(&self) -> Option<&'static Probe> {
        probe_abi::row(self.row)
    }

    /// Returns when the call returned, ns.
    pub fn exit_ns(&self) -> u64 {
        self.entry_ns.saturating_add(self.duration_ns)
    }

    /// Returns the key of the stream.
    pub fn stream_key(&self) -> StreamKey {
        StreamKey::of(self.process.pid, self.tid, self.stream, self.is_twin)
    }
}
