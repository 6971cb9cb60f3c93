//! Trace contexts of threads, as their processes publish them.

use probe_abi::record::Header;

/// The span of the application that was active on a thread in a sync call.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TraceContext {
    /// Process, thread and times of the sync call.
    pub header: Header,
    /// Trace id, not all zeroes.
    pub trace_id: [u8; 16],
    /// Span id, not all zeroes.
    pub span_id: [u8; 8],
    /// W3C trace flags; 0 if the publisher does not set them.
    pub trace_flags: u8,
}

impl TraceContext {
    /// Returns when the sync call returned, ns.
    pub fn exit_ns(&self) -> u64 {
        self.header.entry_ns.saturating_add(self.header.duration_ns)
    }

    /// Returns true if the process has sampled the span.
    pub fn is_sampled(&self) -> bool {
        self.trace_flags & 1 == 1
    }
}
