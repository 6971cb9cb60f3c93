//! A row: one function of a GPU library, and where in its call the interesting things stand.
//!
//! Slots count C arguments from 1. The same number means a register or a stack word on each architecture
//! (System V x86-64: 1-6 in registers, 7.. at `[rsp+8]`..; AArch64: 1-8 in registers, 9.. at `[sp]`..), and a
//! `dim3` passed by value takes two positions on both, so a row holds no architecture.

use crate::Cookie;

/// The library that exports a function. Several file names may carry it (`libcudart.so.12`, a static copy).
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Library {
    /// AMD's HIP runtime, libamdhip64.
    Amdhip,
    /// NVIDIA's driver API, libcuda.
    Cuda,
    /// NVIDIA's CUDA runtime, libcudart.
    Cudart,
    /// NCCL, libnccl; AMD's librccl exports the same functions.
    Nccl,
}

/// Which layer a function belongs to. A driver call that the runtime makes itself is not counted again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Api {
    /// The runtime API: CUDA runtime, HIP.
    Runtime = 0,
    /// The driver API below it.
    Driver = 1,
    /// Collective communication above both: NCCL, RCCL.
    Collective = 2,
}

/// What the kernel does with a call. The numbers travel in cookies and recordings: never reuse one.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Action {
    /// Counts and times the call, nothing else.
    Time = 0,
    /// A kernel launch: work enqueued on a stream. Only the entry is probed.
    Launch = 1,
    /// A graph launch: work enqueued on a stream; `handle` is the executable graph.
    GraphLaunch = 2,
    /// A copy: work enqueued on a stream.
    Copy = 3,
    /// A fill: work enqueued on a stream.
    Fill = 4,
    /// PointeeKind allocated: `handle` points to where the address is written. One record a call.
    Alloc = 5,
    /// PointeeKind freed: `handle` is the address. One record a call.
    Free = 6,
    /// Waits for a stream: ends its step.
    StreamSync = 7,
    /// Waits for an event, `handle`: ends the step of what was enqueued before the event was recorded.
    EventSync = 8,
    /// Waits for everything: ends the step of every stream of the process.
    DeviceSync = 9,
    /// Records the event `handle` on a stream: takes a snapshot of the stream.
    EventRecord = 10,
    /// Asks whether the event `handle`, or the stream, is done. "Not ready" is an answer, not an error.
    Query = 11,
    /// The event `handle` is gone; its address may come back as another event.
    EventDestroy = 12,
    /// The stream `handle` is gone. One record a call.
    StreamDestroy = 13,
    /// What is enqueued on the stream from here on is captured into a graph, not run: into a new one, or into `graph`.
    CaptureBegin = 14,
    /// The capture ends; `handle` points to where the graph is written. One record a call.
    CaptureEnd = 15,
    /// The calling thread uses device `handle` from here on.
    SetDevice = 16,
    /// A change that user space wants to see: one record a call, with `handle` and bytes.
    Report = 17,
    /// A new object: `handle` points to where it is written. One record a call.
    Create = 18,
    /// ArgsSpec whole: one record a call, with its arguments and what stood behind them ([`ArgsSpec`]).
    RecordArgs = 19,
    /// The stream waits for the event `handle`: a wait for the stream covers what the event does.
    StreamWait = 20,
    /// A new stream: `handle` points to where it is written, the bytes are its flags. Bit 0 of them says that it does not
    /// wait for the legacy default stream, nor that for it.
    StreamCreate = 21,
    /// A new executable graph, made of `graph`: `handle` points to where it is written. One record a call.
    Instantiate = 22,
    /// The executable graph `handle` is what `graph` is from here on. One record a call.
    GraphUpdate = 23,
    /// The executable graph `handle`, or the graph `graph`, is gone; its address may come back as another. One record a
    /// call.
    GraphDestroy = 24,
    /// `graph` holds more from here on than was captured into it.
    GraphChange = 25,
}

/// Where an argument stands: 0 nowhere, n the n-th C argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ArgPos(pub u8);

impl ArgPos {
    /// The function has no such argument.
    pub const NONE: ArgPos = ArgPos(0);
    /// The stream stands in the launch configuration that the first argument points to.
    pub const IN_CONFIG: ArgPos = ArgPos(15);
}

/// How many bytes a call moves or asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bytes {
    /// The function moves none.
    None,
    /// The value of an argument.
    Arg(u8),
    /// Width times height: the product of an argument and the one after it.
    Product(u8),
    /// Width x height x depth, three words at this offset of the struct the first argument points to, a
    /// multiple of 8 below 512 (`cudaMemcpy3DParms.extent` is at 128).
    Volume(u16),
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[repr(u8)]
pub enum Direction {
    /// Within host memory.
    HostToHost = 0,
    /// To the device.
    HostToDevice = 1,
    /// From the device.
    DeviceToHost = 2,
    /// Within or between devices.
    DeviceToDevice = 3,
    /// Not told: the driver looks at the addresses (`cudaMemcpyDefault`, `cuMemcpyAsync`).
    Unknown = 4,
}

impl Direction {
    /// The direction that a `cudaMemcpyKind` or `hipMemcpyKind` value names.
    pub const fn from_kind(kind: u64) -> Direction {
        match kind {
            0 => Direction::HostToHost,
            1 => Direction::HostToDevice,
            2 => Direction::DeviceToHost,
            3 => Direction::DeviceToDevice,
            _ => Direction::Unknown,
        }
    }
}

/// How a launch says how many threads it starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Grid {
    /// It does not.
    None = 0,
    /// Two `dim3` by value in positions 2-3 and 4-5: x and y in one word, z in the next.
    Dim3 = 1,
    /// Six integers in positions 2-7, blocks then threads.
    Words = 2,
    /// Grid at 0 and block at 12 of the launch configuration that the first argument points to.
    Config = 3,
    /// Three integers in positions 2-4 that already count threads (`hipExtModuleLaunchKernel`).
    Threads = 4,
}

/// Where a copy's direction comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DirectionSource {
    /// The symbol says it.
    Fixed(Direction),
    /// An argument holds a `cudaMemcpyKind`.
    Arg(u8),
}

/// How much is read behind a pointer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum PointeeKind {
    /// Nothing.
    None = 0,
    /// An `int`, 4 bytes.
    Int = 1,
    /// A pointer or handle, 8 bytes.
    Word = 2,
    /// An `ncclUniqueId`, 128 bytes.
    Id = 3,
    /// As many `int`s as [`ArgsSpec::count`] says.
    Ints = 4,
    /// As many pointers or handles as [`ArgsSpec::count`] says.
    Words = 5,
    /// What earlier calls of the thread had not yet written where their [`PointeeKind::Word`] goes, and what stands there
    /// now: pairs of address and handle, zeroes for none. A return without any is told briefly.
    Written = 6,
}

impl PointeeKind {
    /// The most items of a list that are read.
    pub const ITEMS: u64 = 64;

    /// Bytes, of a list of `count` items.
    #[inline(always)]
    pub const fn bytes(self, count: u64) -> u64 {
        let items = if count > PointeeKind::ITEMS { PointeeKind::ITEMS } else { count };
        match self {
            PointeeKind::None => 0,
            PointeeKind::Int => 4,
            PointeeKind::Word => 8,
            PointeeKind::Id => 128,
            PointeeKind::Ints => 4 * items,
            PointeeKind::Words => 8 * items,
            PointeeKind::Written => 16 * crate::record::OUTS as u64,
        }
    }
}

/// What is read behind which argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pointee {
    /// The pointer.
    pub arg: ArgPos,
    /// How much.
    pub kind: PointeeKind,
}

impl Pointee {
    /// Nothing is read.
    pub const NONE: Pointee = Pointee { arg: ArgPos::NONE, kind: PointeeKind::None };
}

/// What the record of an [`Action::RecordArgs`] brings along.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ArgsSpec {
    /// C arguments, at most [`crate::record::ARGUMENTS`].
    pub arguments: u8,
    /// Read when the function is entered.
    pub entry: Pointee,
    /// Read when it returns.
    pub exit: Pointee,
    /// How many items a list has.
    pub count: ArgPos,
    /// Argument 3 is a struct of 128 bytes by value: on x86-64 it lies on the stack and takes no register, on AArch64 a
    /// pointer to it stands in its slot. The record has its address on both, and the arguments behind it in theirs.
    pub by_value: bool,
    /// Moves data. One that the library makes within another is no call of its own.
    pub is_operation: bool,
    /// The handle by which calls that the library took on are counted, and their number told.
    pub counted: ArgPos,
    /// The handle that is no longer from here on: the next of this address is counted anew.
    pub ends: ArgPos,
}

impl ArgsSpec {
    /// Nothing.
    pub const NONE: ArgsSpec = ArgsSpec {
        arguments: 0,
        entry: Pointee::NONE,
        exit: Pointee::NONE,
        count: ArgPos::NONE,
        by_value: false,
        is_operation: false,
        counted: ArgPos::NONE,
        ends: ArgPos::NONE,
    };
}

/// Where the arguments of a function stand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wiring {
    /// The stream; [`ArgPos::NONE`] means the default stream.
    pub stream: ArgPos,
    /// The event, executable graph, address or pointer to it that [`Action`] speaks of.
    pub handle: ArgPos,
    /// The graph that is no executable one: what a capture goes on with, or an executable graph is made of.
    pub graph: ArgPos,
    /// Bytes moved or asked for.
    pub bytes: Bytes,
    /// Direction of a copy.
    pub direction: DirectionSource,
    /// Threads started.
    pub grid: Grid,
    /// The call returns only when its work is done: a copy from the device then ends a step.
    pub blocking: bool,
    /// What is told of an [`Action::RecordArgs`].
    pub args: ArgsSpec,
}

/// One probed function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    /// Its number in cookies and recordings. Never reused; below [`crate::record::ROWS`].
    pub id: u16,
    /// The library that exports it.
    pub library: Library,
    /// Its layer.
    pub api: Api,
    /// The exported symbol, and the value of `gpu.cuda.operation.name`.
    pub symbol: &'static str,
    /// The twin that takes stream 0 for the thread's own default stream (`_ptsz`, `_ptds`), if there is one.
    pub twin: Option<&'static str>,
    /// What to do with a call.
    pub action: Action,
    /// Where its arguments stand.
    pub wiring: Wiring,
}

impl Probe {
    /// True where the return is probed too. Launches are too many to time each.
    pub const fn is_timed(&self) -> bool {
        !matches!(self.action, Action::Launch)
    }

    /// Returns the row packed for its own symbol.
    pub const fn cookie(&self) -> Cookie {
        Cookie::pack(self, false, self.is_timed())
    }
}
