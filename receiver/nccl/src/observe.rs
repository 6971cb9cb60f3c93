//! Observations of NCCL and its streams: the only input of this crate.
//!
//! An observation is a call that *returned*, with its arguments and the memory it wrote, or another event that is
//! visible from outside the process. Time and loss are observations as well. The argument positions for probe records
//! are in [`crate::functions`].
//!
//! Times are CLOCK_MONOTONIC ns of one machine. Observations are ordered by [`Observation::at_ns`] as far as the source
//! can: small disorder between threads is tolerated, calls of one thread must be in order.

use event::{ExitStatus, ProcessId};
use probe_abi::record::StreamKey;

use crate::hash::UniqueId;
use crate::operation::Operation;

/// `ncclInProgress`: a non-blocking communicator has taken the call on.
pub const IN_PROGRESS: u32 = 7;

/// One observed event.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// An NCCL function returned.
    Call(NcclCall),
    /// A function of the GPU runtime or driver that waits for streams or orders them returned.
    Stream(StreamCall),
    /// A thread is inside a call that has not returned. Repeated while the call lasts.
    OngoingCall(OngoingCall),
    /// Launcher variables in the environment of a process. Best sent before its first call.
    Environment(Environment),
    /// Version of the NCCL library that a process uses.
    Library {
        /// Process concerned by the observation.
        process: ProcessId,
        /// `NCCL_VERSION_CODE`; 0 for a library with other version numbers.
        version: u32,
    },
    /// A step of a process ended; stored for the flight recorder.
    Step(StepNote),
    /// A process ended.
    Exit {
        /// Process concerned by the observation.
        process: ProcessId,
        /// Time of the end, ns.
        at_ns: u64,
        /// Exit status of the process.
        status: ExitStatus,
    },
    /// Records of unknown processes were lost.
    Lost {
        /// Time of detection, ns.
        at_ns: u64,
        /// Number of lost records.
        count: u64,
    },
    /// Time passed without another observation.
    Tick {
        /// Current time, ns.
        at_ns: u64,
    },
}

/// One call of an NCCL function.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclCall {
    /// Process that made the call.
    pub process: ProcessId,
    /// The calling thread.
    pub tid: u32,
    /// Time of entry, ns.
    pub entry_ns: u64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Result, an `ncclResult_t`.
    pub result: u32,
    /// Current device of the thread by its number in the process; -1 if unknown.
    pub device: i32,
    /// Function and its decoded arguments.
    pub function: Function,
}

impl NcclCall {
    /// Returns the time of the return, ns.
    pub fn exit_ns(&self) -> u64 {
        self.entry_ns.saturating_add(self.duration_ns)
    }

    /// Returns true if NCCL accepted the call.
    pub fn has_succeeded(&self) -> bool {
        self.result == 0 || self.result == IN_PROGRESS
    }
}

/// A pointer to the memory that receives a communicator's handle.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Out {
    /// Address in the process.
    pub at: u64,
    /// Value at the return; 0 if it is written later, as inside a group.
    pub handle: u64,
}

/// An NCCL function with its decoded arguments. Handles are addresses in the process, used only as identities.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// `ncclGetUniqueId`: needed because `ncclCommInitAll` calls it and shows its id nowhere else.
    GetUniqueId {
        /// The id that it wrote.
        id: Box<UniqueId>,
    },
    /// `ncclCommInitRank`, `ncclCommInitRankConfig`, `ncclCommInitRankScalable`.
    Init {
        /// The new communicator.
        out: Out,
        /// Number of ranks.
        nranks: i32,
        /// Number of the rank.
        rank: i32,
        /// The id, or the first of several; `None` if it could not be read.
        id: Option<Box<UniqueId>>,
    },
    /// `ncclCommInitAll`: the rank is the index in the list.
    InitAll {
        /// The new communicators that were read.
        handles: Vec<u64>,
        /// Argument `ndev`.
        count: i32,
        /// The devices that were read; empty for a NULL argument: then the device is the rank.
        devices: Vec<i32>,
    },
    /// A call of `ncclCommSplit`.
    Split {
        /// Handle of the parent.
        parent: u64,
        /// Ranks of one color form a child; -1 (`NCCL_SPLIT_NOCOLOR`) has none.
        color: i32,
        /// Orders the ranks of a child.
        key: i32,
        /// The child communicator.
        child: Out,
    },
    /// `ncclCommShrink`, since NCCL 2.27.
    Shrink {
        /// Handle of the parent.
        parent: u64,
        /// The excluded ranks that were read.
        excluded: Vec<i32>,
        /// Number of excluded ranks.
        excluded_count: i32,
        /// The child communicator.
        child: Out,
    },
    /// `ncclCommGrow`, since NCCL 2.29.
    Grow {
        /// Handle of the parent; 0 for a new rank.
        parent: u64,
        /// Number of ranks of the child.
        nranks: i32,
        /// Rank number; -1 for a rank of the parent.
        rank: i32,
        /// The child communicator.
        child: Out,
    },
    /// Value at an [`Out`] without handle, read after its group ended; not an NCCL function.
    Written(Out),
    /// A call of `ncclCommFinalize`.
    Finalize {
        /// Handle of the communicator.
        comm: u64,
    },
    /// A call of `ncclCommDestroy`.
    Destroy {
        /// Handle of the communicator.
        comm: u64,
    },
    /// A call of `ncclCommAbort`.
    Abort {
        /// Handle of the communicator.
        comm: u64,
    },
    /// A call of `ncclCommCount`.
    Count {
        /// Handle of the communicator.
        comm: u64,
        /// Number of ranks that it wrote.
        value: i32,
    },
    /// A call of `ncclCommUserRank`.
    UserRank {
        /// Handle of the communicator.
        comm: u64,
        /// Rank number that it wrote.
        value: i32,
    },
    /// A call of `ncclCommCuDevice`.
    CuDevice {
        /// Handle of the communicator.
        comm: u64,
        /// Device number that it wrote.
        value: i32,
    },
    /// An operation that moves data.
    Operation(Arguments),
    /// A call of `ncclGroupStart`.
    GroupStart,
    /// A call of `ncclGroupEnd`.
    GroupEnd,
}

/// Arguments of an operation that moves data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arguments {
    /// Operation that was called.
    pub operation: Operation,
    /// Handle of the communicator.
    pub comm: u64,
    /// Stream that the operation is enqueued on.
    pub stream: StreamKey,
    /// Number of elements, as the function counts them.
    pub count: u64,
    /// Data type, an `ncclDataType_t`.
    pub datatype: u32,
    /// `ncclRedOp_t`; 0 if the operation has none.
    pub reduction: u32,
    /// Root or peer rank; -1 if the operation has none. 0 is a rank.
    pub peer: i32,
    /// Earlier successful collectives of this process on this handle, if the source counts them; makes losses exact.
    pub ordinal: Option<u64>,
    /// The call began before all libraries of its process were probed: a wait for it may not have been seen, so its wait
    /// time is not reported.
    pub is_unarmed: bool,
}

/// A call that waits for streams or orders them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamCall {
    /// Process that made the call.
    pub process: ProcessId,
    /// The calling thread.
    pub tid: u32,
    /// Time of entry, ns.
    pub entry_ns: u64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Effect of the call. Failed calls are not observed.
    pub action: StreamAction,
}

impl StreamCall {
    /// Returns the time of the return, ns.
    pub fn exit_ns(&self) -> u64 {
        self.entry_ns.saturating_add(self.duration_ns)
    }
}

/// Effect of a call on streams, for functions of the CUDA runtime, the driver and HIP.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StreamAction {
    /// Waited for all work of a stream (`cudaStreamSynchronize`, a synchronous copy from the device): a sync call.
    Sync(StreamKey),
    /// Waited for an event (`cudaEventSynchronize`): a sync call for work enqueued before the event's record.
    EventSync(u64),
    /// Waited for work enqueued on a stream before this instant: a sync call from a source that resolved the event
    /// itself, see [`probe_abi::record::StepRecord::recorded_ns`].
    SyncUntil(StreamKey, u64),
    /// Waited for all streams of the process (`cudaDeviceSynchronize`): a sync call.
    DeviceSync,
    /// `cudaEventRecord`: event, stream.
    Record(u64, StreamKey),
    /// `cudaStreamWaitEvent`: stream, event.
    WaitEvent(StreamKey, u64),
    /// A call of `cudaStreamBeginCapture`.
    BeginCapture(StreamKey),
    /// A call of `cudaStreamEndCapture`.
    EndCapture(StreamKey),
    /// `cudaStreamDestroy`: enqueued work continues, but no later call can wait for the stream.
    DestroyStream(StreamKey),
    /// `cudaEventDestroy`: the address may be reused for another event.
    DestroyEvent(u64),
}

/// A thread inside a call that has not returned.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OngoingCall {
    /// Process concerned by the observation.
    pub process: ProcessId,
    /// Thread inside the call.
    pub tid: u32,
    /// Time of entry, ns.
    pub entry_ns: u64,
    /// Time at which the call was seen, ns.
    pub at_ns: u64,
}

/// Values of `RANK`, `WORLD_SIZE` and similar variables.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Environment {
    /// Process concerned by the observation.
    pub process: ProcessId,
    /// `RANK` or the launcher's equivalent.
    pub rank: Option<u32>,
    /// `WORLD_SIZE` or the launcher's equivalent.
    pub world_size: Option<u32>,
    /// Hash of rendezvous address and run id, equal for all processes of one job only; 0 if unknown.
    pub job: u64,
}

/// A step in the flight recorder.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StepNote {
    /// Process concerned by the observation.
    pub process: ProcessId,
    /// Time of the end, ns.
    pub end_ns: u64,
    /// Duration, ns.
    pub duration_ns: u64,
    /// Sequence number of the source.
    pub sequence: u64,
}

impl Observation {
    /// Returns the time at which it was complete, ns; `None` if it has no time.
    pub fn at_ns(&self) -> Option<u64> {
        match self {
            Observation::Call(call) => Some(call.exit_ns()),
            Observation::Stream(call) => Some(call.exit_ns()),
            Observation::OngoingCall(call) => Some(call.at_ns),
            Observation::Environment(_) | Observation::Library { .. } => None,
            Observation::Step(step) => Some(step.end_ns),
            Observation::Exit { at_ns, .. }
            | Observation::Lost { at_ns, .. }
            | Observation::Tick { at_ns } => Some(*at_ns),
        }
    }
}
