//! Events: the input of every analysis.
//!
//! Passing of time, drops and exits are events too, so that an analysis of a recording has the same result, byte for
//! byte, as the live one. This crate does not read clocks, files or sockets: sources iterate over bytes or records that
//! their caller provides.
//!
//! | module or crate | turns | into |
//! |---|---|---|
//! | [`decode`] | the bytes of one ring record | a [`decode::Record`] |
//! | `trace::fold` | calls in order of entry | the [`Event`]s that the kernel would have sent |
//! | `trace` | a PyTorch profiler trace | calls, annotations, and events |
//! | `recording` | events | bytes, and back |

mod call_args;
mod class;
mod context;
pub mod decode;
mod exit;
mod files;
mod function;
mod hardware;
mod process;

pub use context::TraceContext;
pub use exit::ExitStatus;
pub use files::{EvictionReason, FileCounts, RefusalReason};
pub use function::{FunctionTotal, GpuFunction};

pub use call_args::CallArgs;
pub use class::{CLASSES, ClassSet, ProbeClass};
pub use hardware::{Clocks, Device, ThrottleReason, ThrottleTime};
pub use probe_abi::function::FunctionRecord;
pub use probe_abi::record::{CallRecord, StepRecord};
pub use process::{ProcessId, ProcessInfo};

use std::ops::{Index, IndexMut};
use std::sync::atomic::Ordering::Relaxed;

use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::detail::Detail;
use probe_abi::histogram::{Durations, OFFSET};

/// An observation of the traced machine. Times are its CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "most are steps, and a box would be an allocation for each")]
pub enum Event {
    /// Offsets between the clocks, valid until the next ones.
    Clock(ClockOffsets),
    /// The description of a process. The first one precedes all other events of the process; a later one replaces it.
    Process(Box<ProcessInfo>),
    /// The variables that the launcher of a distributed job set for a process. Follows its [`Event::Process`].
    LauncherEnv(Box<LauncherEnv>),
    /// A process exited or executed another program. Follows its last [`Event::Operation`]s.
    Exit {
        /// Identity of the process.
        process: ProcessId,
        /// When it ended.
        at_ns: u64,
        /// Its exit status.
        status: ExitStatus,
    },
    /// The work of a step on one stream, and the sync call that ended it.
    Step(StepRecord),
    /// The trace context of a thread in a sync call. Precedes the [`Event::Step`]s that the call ended.
    Context(TraceContext),
    /// A call that is recorded individually: an allocation, a free, an error, a graph, or a sampled call.
    Call(CallRecord),
    /// A function that a process launched for the first time; again when its name is known or has changed. Precedes the
    /// [`Event::Step`]s that contain the function, except where its name takes longer to determine.
    Function(Box<GpuFunction>),
    /// A sampled launch of a function, with its dimensions. Follows the [`Event::Function`].
    Launch(FunctionRecord),
    /// The launches of a function.
    FunctionTotal(FunctionTotal),
    /// A call with its arguments, of a library such as NCCL.
    CallArgs(CallArgs),
    /// A call that has not returned, and had not at the previous sample either.
    UnderWay(UnderWay),
    /// A GPU, when it is first seen and when its processes change.
    Device(Box<Device>),
    /// Reductions of the clocks of a GPU between two samples. Follows its [`Event::Device`].
    Clocks(Clocks),
    /// Totals of a function in a process since the process was first seen.
    Operation(Box<OperationTotal>),
    /// The cost of the probes to a process.
    Overhead(Box<Overhead>),
    /// The account of the probes since they were attached.
    Account(Box<Account>),
    /// All libraries that a process has mapped are probed.
    Armed {
        /// When the last of them was probed.
        at_ns: u64,
        /// The process id.
        pid: u32,
        /// When the kernel reported the first mapping.
        mapped_ns: u64,
    },
    /// How the libraries of processes are found.
    Discovery {
        /// The current time.
        at_ns: u64,
        /// The kernel reports mappings; otherwise processes are scanned.
        follows_mappings: bool,
        /// Reports that were lost since the source began. All processes are scanned after a loss.
        mappings_lost: u64,
        /// Processes that ended before a library that they had mapped was probed, since the source began.
        unreached: u64,
    },
    /// How many processes the selection leaves out.
    Selection {
        /// The current time.
        at_ns: u64,
        /// Processes that use a probed library and are excluded now.
        excluded: u64,
        /// Records of excluded processes that were discarded since the source began.
        discarded: u64,
        /// Excluded processes for which the kernel's filter was full, since the source began.
        unfiltered: u64,
    },
    /// Library files that are not probed.
    Files {
        /// The current time.
        at_ns: u64,
        /// The counts.
        counts: FileCounts,
    },
    /// Records or calls were dropped since the last event with this reason.
    Lost {
        /// When the drops were noticed.
        at_ns: u64,
        /// The reason why they were dropped.
        reason: DropReason,
        /// Number of dropped records or calls.
        count: u64,
    },
    /// The passing of time: all earlier events have been delivered.
    Tick {
        /// The current time.
        at_ns: u64,
    },
}

/// A call that has not returned, of a thread whose call arguments are recorded.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct UnderWay {
    /// When it was sampled.
    pub at_ns: u64,
    /// Identity of the process.
    pub process: ProcessId,
    /// Id of the calling thread.
    pub tid: u32,
    /// Id of the probe row in [`probe_abi::PROBES`].
    pub row: u16,
    /// When the call was entered.
    pub entry_ns: u64,
}

/// Environment variables by which a launcher (torchrun, mpirun, srun) sets the rank of a process in its job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LauncherEnv {
    /// Identity of the process.
    pub process: ProcessId,
    /// When they were read.
    pub at_ns: u64,
    /// Names and values, sorted by name.
    pub variables: Vec<(String, String)>,
}

impl LauncherEnv {
    /// Returns the value of the first of these variables that is set.
    pub fn first(&self, names: &[&str]) -> Option<&str> {
        let find = |name: &&str| self.variables.iter().find(|(n, _)| n == name);
        names.iter().find_map(find).map(|(_, value)| value.as_str())
    }
}

/// Offsets from CLOCK_MONOTONIC to other clocks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ClockOffsets {
    /// When the offsets were read.
    pub at_ns: u64,
    /// Nanoseconds to add for Unix time.
    pub to_unix_ns: i64,
    /// Nanoseconds to add for CLOCK_BOOTTIME.
    pub to_boottime_ns: i64,
}

/// Cumulative totals of a function in a process; later ones replace earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperationTotal {
    /// When they were read.
    pub at_ns: u64,
    /// Identity of the process.
    pub process: ProcessId,
    /// Id of the probe row in [`probe_abi::PROBES`].
    pub row: u16,
    /// Number of calls that were entered.
    pub calls: u64,
    /// Calls returned; 0 for functions that are counted and not timed.
    pub returned: u64,
    /// Calls that returned an error.
    pub errors: u64,
    /// Sum of durations, ns.
    pub sum_ns: u64,
    /// Longest duration, ns.
    pub max_ns: u64,
    /// Durations of at most [`probe_abi::histogram::ZERO_NS`].
    pub zero_count: u64,
    /// Non-empty buckets, sorted: OTLP index at [`probe_abi::histogram::SCALE`], count.
    pub buckets: Vec<(i32, u64)>,
    /// Estimated number of calls that were not observed, because the probe was detached for a part of the time. `calls`
    /// does not contain them.
    pub unobserved: u64,
}

/// The cost of the probes to a process, and what was given up to hold the overhead budget.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Overhead {
    /// When it was determined.
    pub at_ns: u64,
    /// Identity of the process.
    pub process: ProcessId,
    /// Largest share of its time that a thread may have spent in probes, in the last second: all calls of the process are
    /// taken for those of one thread.
    pub share: f64,
    /// Share of the time for which the probes of the classes in [`ProbeClass::THINNABLE`] are attached.
    pub attached: [f64; ProbeClass::THINNABLE.len()],
}

impl OperationTotal {
    /// Adds the calls that returned, counted by a histogram of the kernel's.
    pub fn add(&mut self, durations: &Durations) {
        self.returned += durations.buckets.0.iter().map(|count| count.load(Relaxed)).sum::<u64>();
        self.errors += durations.errors.load(Relaxed);
        self.sum_ns += durations.sum_ns.load(Relaxed);
        self.max_ns = self.max_ns.max(durations.max_ns.load(Relaxed));
        let [zero, buckets @ ..] = &durations.buckets.0;
        self.zero_count += zero.load(Relaxed);
        for (index, count) in (OFFSET..).zip(buckets).map(|(index, count)| (index, count.load(Relaxed))) {
            match self.buckets.binary_search_by_key(&index, |bucket| bucket.0) {
                Ok(at) => self.buckets[at].1 += count,
                Err(at) if count > 0 => self.buckets.insert(at, (index, count)),
                Err(_) => {}
            }
        }
    }
}

/// Counters of the probes since they were attached.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Account {
    /// When the counters were read.
    pub at_ns: u64,
    /// Entries of probed functions in traced processes.
    pub hits: u64,
    /// Hits that were folded.
    pub folded: u64,
    /// Hits that were recorded individually.
    pub delivered: u64,
    /// Hits that were left out by sampling.
    pub sampled_out: u64,
    /// Dropped hits by reason, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Calls that are not hits, and anomalies, by [`SelfCounter`].
    pub other: [u64; SelfCounter::ALL.len()],
    /// Records that the kernel wrote to the ring.
    pub records: u64,
    /// Records that were read from the ring.
    pub received: u64,
    /// Runs of the entry and return programs.
    pub runs: u64,
    /// Cost of a run to the traced thread, ns, measured at start; 0 if it was not measured.
    pub run_cost_ns: u64,
    /// Library files that are attached.
    pub libraries: u64,
    /// Functions that are attached.
    pub functions: u64,
    /// Since when everything is counted, ns since 1970, if that was before this agent started; otherwise 0.
    pub since_unix_ns: u64,
}

impl Index<SelfCounter> for Account {
    type Output = u64;

    fn index(&self, counter: SelfCounter) -> &u64 {
        &self.other[counter as usize]
    }
}

impl IndexMut<SelfCounter> for Account {
    fn index_mut(&mut self, counter: SelfCounter) -> &mut u64 {
        &mut self.other[counter as usize]
    }
}

impl Account {
    /// Returns the number of calls that are not hits.
    pub fn ignored(&self) -> u64 {
        SelfCounter::ALL.into_iter().filter(|counter| counter.is_ignored()).map(|counter| self[counter]).sum()
    }

    /// Returns the number of hits dropped for any reason.
    pub fn lost(&self) -> u64 {
        self.dropped.iter().sum()
    }

    /// Returns true if every hit has a fate, which holds when no call is under way.
    pub fn is_balanced(&self) -> bool {
        self.hits == self.folded + self.delivered + self.sampled_out + self.lost()
    }
}

impl Event {
    /// Returns when the event happened; `None` for the description of a process.
    pub fn at_ns(&self) -> Option<u64> {
        match self {
            Event::Clock(c) => Some(c.at_ns),
            Event::Process(_) => None,
            Event::Exit { at_ns, .. }
            | Event::Armed { at_ns, .. }
            | Event::Discovery { at_ns, .. }
            | Event::Files { at_ns, .. }
            | Event::Selection { at_ns, .. }
            | Event::Lost { at_ns, .. }
            | Event::Tick { at_ns } => Some(*at_ns),
            Event::Step(s) => Some(s.header.entry_ns.saturating_add(s.header.duration_ns)),
            Event::Context(c) => Some(c.exit_ns()),
            Event::Call(c) => Some(c.header.entry_ns.saturating_add(c.header.duration_ns)),
            Event::CallArgs(t) => Some(t.exit_ns()),
            Event::UnderWay(u) => Some(u.at_ns),
            Event::LauncherEnv(l) => Some(l.at_ns),
            Event::Device(d) => Some(d.at_ns),
            Event::Clocks(c) => Some(c.to_ns),
            Event::Operation(o) => Some(o.at_ns),
            Event::Overhead(o) => Some(o.at_ns),
            Event::Account(a) => Some(a.at_ns),
            Event::Function(f) => Some(f.at_ns),
            Event::Launch(launch) => Some(launch.header.entry_ns),
            Event::FunctionTotal(total) => Some(total.at_ns),
        }
    }
}

/// A source of events: the kernel, a recording, a profiler trace, a test.
pub trait EventSource {
    /// The error of a read.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Appends the next events, at most a few thousand, to `into`. Returns false at the end of the source; true without
    /// new events means that there are none yet.
    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, Self::Error>;

    /// Waits until there may be events, at most some milliseconds. Returns false at once if the source cannot wait.
    fn wait(&mut self) -> bool {
        false
    }

    /// Sets which calls of a process are recorded individually; `None` restores the default. Returns false if the source
    /// does not support it, as recordings do not.
    fn set_detail(&mut self, _process: ProcessId, _detail: Option<Detail>) -> bool {
        false
    }
}
