//! What was observed of NCCL and of the streams it works on: the one input of this crate.
//!
//! The one idea: an observation is a call that *returned*, with what stood in its arguments and what it wrote
//! through its pointers, or something else that a source can know without being inside the process. Time and loss
//! are observations like any other. Who makes them of probe records finds the slots in [`crate::functions`].
//!
//! Times are CLOCK_MONOTONIC ns of one machine. Observations come in the order of their [`Observation::at_ns`],
//! as far as the source can: small disorder between threads is tolerated, within a thread there is none.

use event::{ExitStatus, ProcessId};
use probe_abi::record::StreamKey;

use crate::hash::UniqueId;
use crate::operation::Operation;

/// `ncclInProgress`: a non-blocking communicator has taken the call on.
pub const IN_PROGRESS: u32 = 7;

/// One thing observed.
#[derive(Clone, Debug, PartialEq)]
pub enum Observation {
    /// An NCCL function returned.
    Call(Call),
    /// A function of the GPU runtime or driver returned that waits, or orders streams.
    Stream(StreamCall),
    /// A thread is seen to be inside a call that has not returned. Told again and again while it lasts.
    UnderWay(UnderWay),
    /// What the environment of a process says. Best told before its first call.
    Environment(Environment),
    /// The version of the NCCL that a process uses.
    Library {
        /// Which process.
        process: ProcessId,
        /// `NCCL_VERSION_CODE`; 0 for a library that is not NCCL nor counts like it.
        version: u32,
    },
    /// A step of a process ended: kept for the flight recorder.
    Step(StepNote),
    /// A process ended.
    Exit {
        /// Which.
        process: ProcessId,
        /// When.
        at_ns: u64,
        /// How.
        status: ExitStatus,
    },
    /// Records were lost; whose is not known.
    Lost {
        /// When that was noticed.
        at_ns: u64,
        /// How many.
        count: u64,
    },
    /// Time passes.
    Tick {
        /// Now.
        at_ns: u64,
    },
}

/// One call of an NCCL function.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Who called.
    pub process: ProcessId,
    /// The calling thread.
    pub tid: u32,
    /// When it began.
    pub entry_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// `ncclResult_t`.
    pub result: u32,
    /// The thread's current device by its number in the process; -1 where it is not known.
    pub device: i32,
    /// Which function, and what was read of it.
    pub function: Function,
}

impl Call {
    /// When it returned.
    pub fn exit_ns(&self) -> u64 {
        self.entry_ns.saturating_add(self.duration_ns)
    }

    /// True where NCCL took the call on.
    pub fn has_succeeded(&self) -> bool {
        self.result == 0 || self.result == IN_PROGRESS
    }
}

/// A pointer to where a function writes a communicator's handle.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Out {
    /// Where it points to.
    pub at: u64,
    /// What stood there at the return; 0 nothing, as inside a group, where it is written later.
    pub handle: u64,
}

/// An NCCL function and what was read of its call. Handles are addresses in the process: identities, never pointers.
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// `ncclGetUniqueId`: told because `ncclCommInitAll` calls it and shows its id nowhere else.
    GetUniqueId {
        /// What it wrote.
        id: Box<UniqueId>,
    },
    /// `ncclCommInitRank`, `ncclCommInitRankConfig`, `ncclCommInitRankScalable`.
    Init {
        /// The new communicator.
        out: Out,
        /// Argument.
        nranks: i32,
        /// Argument.
        rank: i32,
        /// The id, or the first of several; `None` where it could not be read.
        id: Option<Box<UniqueId>>,
    },
    /// `ncclCommInitAll`: rank is the place in the list.
    InitAll {
        /// The new communicators, as far as they were read.
        handles: Vec<u64>,
        /// Argument `ndev`.
        count: i32,
        /// The devices, as far as they were read; empty where the argument was NULL: then device is rank.
        devices: Vec<i32>,
    },
    /// `ncclCommSplit`.
    Split {
        /// The parent.
        parent: u64,
        /// Ranks of one color stay together; -1 (`NCCL_SPLIT_NOCOLOR`) gets none.
        color: i32,
        /// Orders the ranks.
        key: i32,
        /// The child.
        child: Out,
    },
    /// `ncclCommShrink`, since NCCL 2.27.
    Shrink {
        /// The parent.
        parent: u64,
        /// The ranks left out, as far as they were read.
        excluded: Vec<i32>,
        /// How many there are.
        excluded_count: i32,
        /// The child.
        child: Out,
    },
    /// `ncclCommGrow`, since NCCL 2.29.
    Grow {
        /// The parent; 0 for a rank that is new.
        parent: u64,
        /// Ranks of the child.
        nranks: i32,
        /// -1 for a rank that is not new.
        rank: i32,
        /// The child.
        child: Out,
    },
    /// What an [`Out`] with no handle points to, read after the group that it was in: no function of NCCL.
    Written(Out),
    /// `ncclCommFinalize`.
    Finalize {
        /// Which.
        comm: u64,
    },
    /// `ncclCommDestroy`.
    Destroy {
        /// Which.
        comm: u64,
    },
    /// `ncclCommAbort`.
    Abort {
        /// Which.
        comm: u64,
    },
    /// `ncclCommCount`.
    Count {
        /// Which.
        comm: u64,
        /// What it wrote.
        value: i32,
    },
    /// `ncclCommUserRank`.
    UserRank {
        /// Which.
        comm: u64,
        /// What it wrote.
        value: i32,
    },
    /// `ncclCommCuDevice`.
    CuDevice {
        /// Which.
        comm: u64,
        /// What it wrote.
        value: i32,
    },
    /// An operation that moves data.
    Operation(Arguments),
    /// `ncclGroupStart`.
    GroupStart,
    /// `ncclGroupEnd`.
    GroupEnd,
}

/// The arguments of an operation that moves data.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Arguments {
    /// Which.
    pub operation: Operation,
    /// The communicator's handle.
    pub comm: u64,
    /// The stream.
    pub stream: StreamKey,
    /// Elements, as the function counts them.
    pub count: u64,
    /// `ncclDataType_t`.
    pub datatype: u32,
    /// `ncclRedOp_t`; 0 where the operation has none.
    pub reduction: u32,
    /// Root or the other side's rank; -1 where the operation has none. 0 is a rank.
    pub peer: i32,
    /// Successful collectives of this process on this handle before this one, if the source counts them: shows a loss exactly.
    pub ordinal: Option<u64>,
}

/// A call that waits for streams or orders them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamCall {
    /// Who called.
    pub process: ProcessId,
    /// The calling thread.
    pub tid: u32,
    /// When it began.
    pub entry_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// What it does. Calls that failed are not told.
    pub action: StreamAction,
}

impl StreamCall {
    /// When it returned.
    pub fn exit_ns(&self) -> u64 {
        self.entry_ns.saturating_add(self.duration_ns)
    }
}

/// What a call does to streams. The runtime's functions, the driver's and HIP's alike.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum StreamAction {
    /// Waited for all work of a stream (`cudaStreamSynchronize`, a synchronous copy from the device): a closer.
    Sync(StreamKey),
    /// Waited for an event (`cudaEventSynchronize`): a closer of what was enqueued before it was recorded.
    EventSync(u64),
    /// Waited for what was enqueued on a stream before this instant: a closer, told by a source that resolved the
    /// event itself, as [`probe_abi::record::StepRecord::recorded_ns`].
    SyncUntil(StreamKey, u64),
    /// Waited for all streams of the process (`cudaDeviceSynchronize`): a closer.
    DeviceSync,
    /// `cudaEventRecord`: event, stream.
    Record(u64, StreamKey),
    /// `cudaStreamWaitEvent`: stream, event.
    WaitEvent(StreamKey, u64),
    /// `cudaStreamBeginCapture`.
    BeginCapture(StreamKey),
    /// `cudaStreamEndCapture`.
    EndCapture(StreamKey),
    /// `cudaStreamDestroy`: work under way goes on, but nobody can wait for the stream any more.
    DestroyStream(StreamKey),
    /// `cudaEventDestroy`: the address may come back as another event.
    DestroyEvent(u64),
}

/// A thread inside a call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnderWay {
    /// Which process.
    pub process: ProcessId,
    /// Which thread.
    pub tid: u32,
    /// When the call began.
    pub entry_ns: u64,
    /// When it was seen not to have returned.
    pub at_ns: u64,
}

/// What `RANK`, `WORLD_SIZE` and their like say.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Environment {
    /// Whose.
    pub process: ProcessId,
    /// `RANK`, or what the launcher calls it.
    pub rank: Option<u32>,
    /// `WORLD_SIZE`, or what the launcher calls it.
    pub world_size: Option<u32>,
    /// The same for all processes of one job and no other: a hash of rendezvous address and run id; 0 not known.
    pub job: u64,
}

/// A step as the flight recorder keeps it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StepNote {
    /// Whose.
    pub process: ProcessId,
    /// When it ended.
    pub end_ns: u64,
    /// How long it took.
    pub duration_ns: u64,
    /// Its number with the source.
    pub sequence: u64,
}

impl Observation {
    /// When it was complete; `None` where it has no time.
    pub fn at_ns(&self) -> Option<u64> {
        match self {
            Observation::Call(call) => Some(call.exit_ns()),
            Observation::Stream(call) => Some(call.exit_ns()),
            Observation::UnderWay(call) => Some(call.at_ns),
            Observation::Environment(_) | Observation::Library { .. } => None,
            Observation::Step(step) => Some(step.end_ns),
            Observation::Exit { at_ns, .. }
            | Observation::Lost { at_ns, .. }
            | Observation::Tick { at_ns } => Some(*at_ns),
        }
    }
}
