//! The settings of a capture.

use probe_abi::detail::Detail;

use crate::kernel::MapSizes;

/// The processes to trace, the events to record, and the sizes of the maps.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// Trace every process that calls a probed function.
    pub trace_all: bool,
    /// Pids of the processes to trace if `trace_all` is not set; no other process is scanned.
    pub pids: Vec<u32>,
    /// Probe NCCL and RCCL. If collectives are not analysed, their functions stay unprobed and cost nothing.
    pub collectives: bool,
    /// Which folded calls are also recorded individually, unless
    /// [`Capture::set_detail`](crate::Capture::set_detail) sets another detail for the process.
    pub detail: Detail,
    /// Read the trace contexts of threads in processes that publish them.
    pub contexts: bool,
    /// Interval of [`Event::Operation`](event::Event::Operation) and [`Event::Account`](event::Event::Account), ns.
    pub totals_every_ns: u64,
    /// Time that a library stays attached after its last process, ns.
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
