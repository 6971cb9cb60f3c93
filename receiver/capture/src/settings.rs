//! What to capture, and how much room to take: what a caller decides before the first probe.

use probe_abi::detail::Detail;

use crate::kernel::MapSizes;

/// What to capture, and how much room to take.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Trace every process that calls a probed function.
    pub trace_all: bool,
    /// Processes to trace where `trace_all` is not set: no other is even looked at.
    pub pids: Vec<u32>,
    /// Probe NCCL and RCCL. Where nobody looks at collectives they are left alone, and cost nothing.
    pub collectives: bool,
    /// Which of the calls that are folded get a record of their own, in processes for which
    /// [`Capture::set_detail`](crate::Capture::set_detail) says nothing else.
    pub detail: Detail,
    /// Look for the traces that threads work for, where their processes publish them.
    pub contexts: bool,
    /// How often [`Event::Operation`]s and [`Event::Account`] come, ns.
    pub totals_every_ns: u64,
    /// How long a library stays attached after its last process, ns.
    pub linger_ns: u64,
    /// Sizes of the kernel's maps.
    pub sizes: MapSizes,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            trace_all: true,
            pids: Vec::new(),
            collectives: true,
            detail: Detail::NONE,
            contexts: true,
            totals_every_ns: 10_000_000_000,
            linger_ns: 60_000_000_000,
            sizes: MapSizes::default(),
        }
    }
}
