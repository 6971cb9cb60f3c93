//! The trace that a thread works for, as its process publishes it.

use probe_abi::record::Header;

/// The span that was active on a thread when it waited for a step: the application's own.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TraceContext {
    /// Who waited, and when: `entry_ns` and `duration_ns` are those of the step's closer.
    pub header: Header,
    /// The trace; not all zeroes.
    pub trace_id: [u8; 16],
    /// The span; not all zeroes.
    pub span_id: [u8; 8],
    /// W3C trace flags; 0 also where the publisher does not say.
    pub trace_flags: u8,
}

impl TraceContext {
    /// When the wait ended.
    pub fn exit_ns(&self) -> u64 {
        self.header.entry_ns.saturating_add(self.header.duration_ns)
    }

    /// True where the span is exported, as far as its process has decided.
    pub fn is_sampled(&self) -> bool {
        self.trace_flags & 1 == 1
    }
}
