//! The settings of a capture.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use probe_abi::detail::Detail;

use crate::kernel::MapSizes;
use crate::selection::Selection;

/// The processes to trace, the events to record, and the sizes of the maps.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Trace every process that calls a probed function.
    pub trace_all: bool,
    /// Pids of the processes to trace if `trace_all` is not set; no other process is scanned.
    pub pids: Vec<u32>,
    /// Which processes are traced if `trace_all` is set. `pids` are traced in any case.
    pub selection: Selection,
    /// Probe NCCL and RCCL. If collectives are not analysed, their functions stay unprobed and cost nothing.
    pub collectives: bool,
    /// Which folded calls are also recorded individually, unless
    /// [`Capture::set_detail`](crate::Capture::set_detail) sets another detail for the process.
    pub detail: Detail,
    /// Read the trace contexts of threads in processes that publish them.
    pub contexts: bool,
    /// Interval of [`Event::Operation`](event::Event::Operation) and [`Event::Account`](event::Event::Account), ns.
    pub totals_every_ns: u64,
    /// Share of its time that a traced thread may spend in probes before they are attached for a part of the time only;
    /// `None` for any.
    pub overhead_budget: Option<f64>,
    /// Time that a library stays attached after its last process, ns.
    pub linger_ns: u64,
    /// Let the kernel expedite its RCU grace periods, on the whole machine, for the milliseconds in which a file is attached,
    /// which otherwise takes 10 to 40 ms.
    pub expedite: bool,
    /// Sizes of the kernel's maps.
    pub sizes: MapSizes,
    /// Where maps and links are pinned, so that they outlive this process; `None` pins nothing.
    pub pin: Option<PinSettings>,
}

/// The pins of an agent.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PinSettings {
    /// A directory on a bpf file system, which is created if it is missing.
    pub path: PathBuf,
    /// Time after the end of the last agent after which the pins are removed.
    pub expire_after: Duration,
    /// Arguments with which this program runs [`guard`](crate::guard). Empty for none: pins then do not expire.
    pub guard: Vec<OsString>,
}

impl PinSettings {
    /// The usual directory, below the usual mount point.
    pub const PATH: &str = "/sys/fs/bpf/warptap";
    /// The usual time until pins expire: longer than an update of a container image.
    pub const EXPIRE_AFTER: Duration = Duration::from_secs(300);
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            trace_all: true,
            pids: Vec::new(),
            selection: Selection::default(),
            collectives: true,
            detail: Detail::NONE,
            contexts: true,
            totals_every_ns: 10_000_000_000,
            overhead_budget: None,
            linger_ns: 60_000_000_000,
            expedite: true,
            sizes: MapSizes::default(),
            pin: None,
        }
    }
}
