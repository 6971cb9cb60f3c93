//! What happened, as values: the one input of every analysis.
//!
//! The one idea: time, loss and the end of things are events like any other, so that an analysis fed from a
//! recording gives, byte for byte, what it gave live. Nothing here reads a clock, a file or a socket: sources are
//! iterators over bytes or records that somebody else obtained.
//!
//! | module or crate | turns | into |
//! |---|---|---|
//! | [`decode`] | the bytes of one ring record | a [`decode::Record`] |
//! | `trace::fold` | calls in order of entry | the [`Event`]s that the kernel would have sent |
//! | `trace` | a PyTorch profiler trace | calls, annotations, and events |
//! | `recording` | events | bytes, and back |

mod call_args;
mod context;
pub mod decode;
mod exit;
mod hardware;
mod process;

pub use context::TraceContext;
pub use exit::ExitStatus;

pub use call_args::CallArgs;
pub use hardware::{Clocks, Device, ThrottleReason, ThrottleTime};
pub use probe_abi::record::{CallRecord, StepRecord};
pub use process::{ProcessId, ProcessInfo};

use probe_abi::counters::DropReason;
use probe_abi::detail::Detail;

/// One thing that happened. Times are CLOCK_MONOTONIC nanoseconds of the traced machine.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// How the clocks stood to each other; holds until the next one.
    Clock(ClockOffsets),
    /// A process is seen, or is described anew. Comes before anything else of that process.
    Process(Box<ProcessInfo>),
    /// What the launcher of a distributed job told a process. Comes behind its [`Event::Process`].
    LauncherEnv(Box<LauncherEnv>),
    /// A process ended, or runs another program from here on; its last [`Event::Operation`]s came before.
    Exit {
        /// Which process.
        process: ProcessId,
        /// When.
        at_ns: u64,
        /// How.
        status: ExitStatus,
    },
    /// Work on one stream, and the wait that closed it.
    Step(StepRecord),
    /// The trace that a thread worked for when it waited for a step. Comes before the [`Event::Step`]s of that wait.
    Context(TraceContext),
    /// One call that the kernel reports by itself: an allocation, a free, an error, a graph.
    Call(CallRecord),
    /// One call with its arguments, of a library whose calls are told whole: NCCL.
    CallArgs(CallArgs),
    /// A call that is under way, and was when it was looked for before.
    UnderWay(UnderWay),
    /// A GPU is seen, or something of it is new: who uses it.
    Device(Box<Device>),
    /// What held a GPU's clocks down between two looks. Comes behind its [`Event::Device`].
    Clocks(Clocks),
    /// What one function of one process amounts to since the process was first seen.
    Operation(Box<OperationTotal>),
    /// The probes' own account since they were attached.
    Account(Box<Account>),
    /// Records or calls were lost since the last event of this reason.
    Lost {
        /// When it was noticed.
        at_ns: u64,
        /// Why.
        reason: DropReason,
        /// How many.
        count: u64,
    },
    /// Nothing happened up to here: time passes.
    Tick {
        /// Now.
        at_ns: u64,
    },
}

/// A call that has not returned, of a thread whose calls are told: who waits, as long as it lasts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UnderWay {
    /// When it was seen not to have returned.
    pub at_ns: u64,
    /// Which process.
    pub process: ProcessId,
    /// Which thread.
    pub tid: u32,
    /// The row's id in [`probe_abi::PROBES`].
    pub row: u16,
    /// When the call began.
    pub entry_ns: u64,
}

/// Variables of a process's environment by which a launcher (torchrun, mpirun, srun) tells it who it is in its job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LauncherEnv {
    /// Which process.
    pub process: ProcessId,
    /// When they were read.
    pub at_ns: u64,
    /// Name and value, sorted by name.
    pub variables: Vec<(String, String)>,
}

impl LauncherEnv {
    /// The value of the first of these variables that is there.
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        let find = |name: &&str| self.variables.iter().find(|(n, _)| n == name);
        names.iter().find_map(find).map(|(_, value)| value.as_str())
    }
}

/// What to add to a CLOCK_MONOTONIC instant, sampled at `at_ns`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClockOffsets {
    /// When the offsets were read.
    pub at_ns: u64,
    /// To get nanoseconds since 1970.
    pub to_unix_ns: i64,
    /// To get CLOCK_BOOTTIME.
    pub to_boottime_ns: i64,
}

/// Totals of one function of one process. Cumulative: a later one replaces an earlier one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationTotal {
    /// When they were read.
    pub at_ns: u64,
    /// Which process.
    pub process: ProcessId,
    /// The row's id in [`probe_abi::PROBES`].
    pub row: u16,
    /// Calls seen to begin.
    pub calls: u64,
    /// Calls seen to return; 0 for functions that are counted but not timed.
    pub returned: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// Sum of durations, ns.
    pub sum_ns: u64,
    /// Longest duration, ns.
    pub max_ns: u64,
    /// Durations of at most [`probe_abi::histogram::ZERO_NS`].
    pub zero_count: u64,
    /// Counts of the buckets that are not empty: OTLP index at [`probe_abi::histogram::SCALE`], count; sorted.
    pub buckets: Vec<(i32, u64)>,
}

/// The probes' account of themselves: sums since they were attached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// When it was read.
    pub at_ns: u64,
    /// Calls of traced processes seen to begin.
    pub hits: u64,
    /// Calls that live on in the folds alone.
    pub folded: u64,
    /// Calls whose records went to the ring.
    pub delivered: u64,
    /// Calls left out on purpose by sampling.
    pub sampled_out: u64,
    /// Calls lost, by reason in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Driver calls made by the runtime itself: seen, not hits.
    pub suppressed: u64,
    /// Calls of processes that are not traced: seen, not hits.
    pub filtered: u64,
    /// Returns whose entry was not seen.
    pub unmatched: u64,
    /// Waits for an event whose record was not seen.
    pub unknown_events: u64,
    /// Streams that a device synchronisation left open because it closes a bounded number.
    pub unclosed_streams: u64,
    /// Durations left out of the histograms because their map was full.
    pub untimed: u64,
    /// Records put into the ring by the kernel.
    pub records: u64,
    /// Records taken out of the ring.
    pub received: u64,
    /// Runs of the entry and return programs.
    pub runs: u64,
    /// What one run costs the traced thread, ns: measured at start on this machine; 0 where it was not.
    pub run_cost_ns: u64,
    /// Libraries (inodes) attached now.
    pub libraries: u64,
    /// Functions attached now.
    pub functions: u64,
    /// Graphs of which what they hold was not kept because their map was full: launches of them are unknown.
    pub untracked_graphs: u64,
    /// Waits whose thread publishes a trace context that was not told.
    pub dropped_contexts: u64,
}

impl Account {
    /// Calls lost for any reason.
    pub fn lost(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// True where every hit is accounted for, as it must be once no call is under way.
    pub fn is_balanced(&self) -> bool {
        self.hits == self.folded + self.delivered + self.sampled_out + self.lost()
    }
}

impl Event {
    /// When it happened; `None` for the description of a process.
    pub fn at_ns(&self) -> Option<u64> {
        match self {
            Event::Clock(c) => Some(c.at_ns),
            Event::Process(_) => None,
            Event::Exit { at_ns, .. } | Event::Lost { at_ns, .. } | Event::Tick { at_ns } => Some(*at_ns),
            Event::Step(s) => Some(s.header.entry_ns.saturating_add(s.header.duration_ns)),
            Event::Context(c) => Some(c.exit_ns()),
            Event::Call(c) => Some(c.header.entry_ns.saturating_add(c.header.duration_ns)),
            Event::CallArgs(t) => Some(t.exit_ns()),
            Event::UnderWay(u) => Some(u.at_ns),
            Event::LauncherEnv(l) => Some(l.at_ns),
            Event::Device(d) => Some(d.at_ns),
            Event::Clocks(c) => Some(c.to_ns),
            Event::Operation(o) => Some(o.at_ns),
            Event::Account(a) => Some(a.at_ns),
        }
    }
}

/// Where events come from: the kernel, a recording, a profiler trace, a test.
pub trait EventSource {
    /// What reading can fail with.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends the next events, at most a few thousand, to `into`. `Ok(false)` means there will never be more;
    /// `Ok(true)` with nothing appended means none yet.
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, Self::Error>;

    /// Asks for the calls of a process one by one from here on, or, with `None`, for as many as of any process. False
    /// where nothing changes: what is recorded cannot be asked for more.
    fn set_detail(&mut self, _process: ProcessId, _detail: Option<Detail>) -> bool {
        false
    }
}
