//! Probe rows: a function of a GPU library, and which of its arguments have a meaning.
//!
//! Positions count C arguments from 1. A position is the same register or stack word on each architecture (System V
//! x86-64: 1-6 in registers, 7.. at `[rsp+8]`..; AArch64: 1-8 in registers, 9.. at `[sp]`..), and a `dim3` passed by
//! value takes two positions on both, so a row is independent of the architecture.

use crate::Cookie;
use crate::nccl::Role;

/// Library that exports a function. Several files may contain it (`libcudart.so.12`, a static copy).
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

/// Layer of a function. A driver call that the runtime makes itself is not counted again.
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

/// How the kernel programs treat a call. The numbers are part of cookies and recordings: never reuse one.
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
    /// Memory is allocated: `handle` points to where the address is written. One record a call.
    Alloc = 5,
    /// Memory is freed: `handle` is the address. One record a call.
    Free = 6,
    /// Waits for a stream and ends its step.
    StreamSync = 7,
    /// Waits for the event `handle` and ends the step of the work enqueued before the event was recorded.
    EventSync = 8,
    /// Waits for the device and ends the step of each of its streams.
    DeviceSync = 9,
    /// Records the event `handle` on a stream, which takes a snapshot of the stream.
    EventRecord = 10,
    /// Queries whether the event `handle`, or the stream, is done. "Not ready" is an answer, not an error.
    Query = 11,
    /// Destroys the event `handle`; its address may be another event's later.
    EventDestroy = 12,
    /// Destroys the stream. One record a call.
    StreamDestroy = 13,
    /// Begins a capture: later calls on the stream add to a graph, a new one or `graph`, instead of enqueuing work.
    CaptureBegin = 14,
    /// Ends the capture; `handle` points to where the graph is written. One record a call.
    CaptureEnd = 15,
    /// Makes the calling thread use device `handle`.
    SetDevice = 16,
    /// A change that user space needs to see: one record a call, with `handle` and bytes.
    Report = 17,
    /// Creates an object: `handle` points to where it is written. One record a call.
    Create = 18,
    /// Recorded with its arguments and the memory that they point to ([`ArgsSpec`]). One record a call.
    RecordArgs = 19,
    /// Makes the stream wait for the event `handle`: a wait for the stream covers the event's frontier.
    StreamWait = 20,
    /// Creates a stream: `handle` points to where it is written, the bytes are its flags. With bit 0 set, it and the
    /// legacy default stream do not wait for each other.
    StreamCreate = 21,
    /// Instantiates `graph` as an executable graph: `handle` points to where it is written. One record a call.
    Instantiate = 22,
    /// Updates the executable graph `handle` to the contents of `graph`. One record a call.
    GraphUpdate = 23,
    /// Destroys the executable graph `handle`, or the graph `graph`; its address may be another's later. One record a
    /// call.
    GraphDestroy = 24,
    /// Adds to `graph` more than was captured into it.
    GraphChange = 25,
    /// Allocates physical memory: `handle` points to where its handle is written. One record a call.
    AllocPhysical = 26,
    /// Frees the physical memory `handle`. One record a call.
    FreePhysical = 27,
    /// Registers a function: argument 2 is its host address, argument 4 the name of the device function. Only the entry
    /// is probed, and nothing is recorded: user space reads the name when the function is launched.
    RegisterFunction = 28,
    /// Looks a function up by name: `handle` points to where its handle is written, and the bytes are the address of the
    /// name. One record a call.
    NameFunction = 29,
    /// Returns another handle of a function: `handle` points to where it is written, and the bytes are the former handle.
    /// One record a call.
    AliasFunction = 30,
}

/// Position of a C argument, from 1; 0 for none.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ArgPos(pub u8);

impl ArgPos {
    /// The function has no such argument.
    pub const NONE: ArgPos = ArgPos(0);
    /// The stream is in the launch configuration that the first argument points to.
    pub const IN_CONFIG: ArgPos = ArgPos(15);
}

/// Source of the number of bytes that a call moves or allocates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Bytes {
    /// The function has no bytes.
    None,
    /// The value of an argument.
    Arg(u8),
    /// Width times height: the product of an argument and the next one.
    Product(u8),
    /// Width x height x depth: three words at this offset of the struct that the first argument points to, a multiple
    /// of 8 below 512 (`cudaMemcpy3DParms.extent` is at 128).
    Volume(u16),
    /// Width x height: two words at this offset of the struct that the first argument points to, a multiple of 8 below 512
    /// (`CUDA_MEMCPY2D.WidthInBytes` is at 112).
    Area(u16),
}

/// Direction of a copy.
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
    /// Not known: the driver derives it from the addresses (`cudaMemcpyDefault`, `cuMemcpyAsync`).
    Unknown = 4,
}

impl Direction {
    /// Returns the direction of a `cudaMemcpyKind` or `hipMemcpyKind` value.
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

/// Source of the number of threads that a launch starts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Grid {
    /// The function launches no kernel.
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

/// Source of a copy's direction.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DirectionSource {
    /// The symbol implies the direction.
    Fixed(Direction),
    /// An argument of type `cudaMemcpyKind`.
    Arg(u8),
}

/// Memory that is read through a pointer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum PointeeKind {
    /// No memory is read.
    None = 0,
    /// An `int`, 4 bytes.
    Int = 1,
    /// A pointer or handle, 8 bytes.
    Word = 2,
    /// An `ncclUniqueId`, 128 bytes.
    Id = 3,
    /// A list of `int`s with [`ArgsSpec::count`] items.
    Ints = 4,
    /// A list of pointers or handles with [`ArgsSpec::count`] items.
    Words = 5,
    /// Handles that earlier calls of the thread had not yet written through their [`PointeeKind::Word`] pointers, as
    /// pairs of address and current value, zeroes for none. If there are none, the record is a short one.
    Written = 6,
}

impl PointeeKind {
    /// Largest number of list items that are read.
    pub const ITEMS: u64 = 64;

    /// Returns the size in bytes; of a list with `count` items.
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

/// An argument and the memory that it points to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Pointee {
    /// Position of the pointer.
    pub arg: ArgPos,
    /// Kind of the memory.
    pub kind: PointeeKind,
}

impl Pointee {
    /// No memory is read.
    pub const NONE: Pointee = Pointee { arg: ArgPos::NONE, kind: PointeeKind::None };
}

/// Call arguments that the record of an [`Action::RecordArgs`] row contains.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ArgsSpec {
    /// Number of C arguments, at most [`crate::record::ARGUMENTS`].
    pub arguments: u8,
    /// Memory read at the entry.
    pub entry: Pointee,
    /// Memory read at the return.
    pub exit: Pointee,
    /// Position of the number of list items.
    pub count: ArgPos,
    /// Argument 3 is a struct of 128 bytes by value: on x86-64 it is on the stack and takes no register, on AArch64 a
    /// pointer to it is passed. The record has its address on both; later arguments keep their positions.
    pub by_value: bool,
    /// What the function does; `None` for functions without recorded arguments.
    pub role: Option<Role>,
    /// Position of the communicator.
    pub comm: ArgPos,
    /// Position of the number of elements that an operation moves. The next argument is their datatype.
    pub elements: ArgPos,
    /// Position of the reduction operator.
    pub reduction: ArgPos,
    /// Position of the root or peer rank; for `ncclCommSplit` of the color.
    pub peer: ArgPos,
    /// Position of the stream that an operation is enqueued on.
    pub stream: ArgPos,
    /// Position of the number of ranks.
    pub nranks: ArgPos,
    /// Position of the rank; for `ncclCommSplit` of the key.
    pub rank: ArgPos,
    /// Position of the handle by which accepted calls are numbered.
    pub counted: ArgPos,
    /// Position of the handle destroyed by this call; a later object at the same address is counted separately.
    pub ends: ArgPos,
}

impl ArgsSpec {
    /// No memory is read.
    pub const NONE: ArgsSpec = ArgsSpec {
        arguments: 0,
        entry: Pointee::NONE,
        exit: Pointee::NONE,
        count: ArgPos::NONE,
        by_value: false,
        role: None,
        comm: ArgPos::NONE,
        elements: ArgPos::NONE,
        reduction: ArgPos::NONE,
        peer: ArgPos::NONE,
        stream: ArgPos::NONE,
        nranks: ArgPos::NONE,
        rank: ArgPos::NONE,
        counted: ArgPos::NONE,
        ends: ArgPos::NONE,
    };

    /// Returns true if the function moves data. A call that the library makes within another is not counted.
    pub const fn is_operation(&self) -> bool {
        matches!(self.role, Some(Role::Operation(_)))
    }
}

/// Meaning of the arguments of a function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Wiring {
    /// Position of the stream; [`ArgPos::NONE`] means the default stream.
    pub stream: ArgPos,
    /// Position of the event, executable graph or address that [`Action`] refers to, or of a pointer to it.
    pub handle: ArgPos,
    /// Position of the graph, as opposed to an executable graph: the one that a capture continues or an executable
    /// graph is made of.
    pub graph: ArgPos,
    /// Source of the bytes moved or allocated.
    pub bytes: Bytes,
    /// Size of the elements that [`Wiring::bytes`] counts, as a power of two: 0 for bytes, 1 or 2 for fills with words.
    pub element_shift: u8,
    /// Source of a copy's direction.
    pub direction: DirectionSource,
    /// Source of the number of threads started.
    pub grid: Grid,
    /// The call returns only when its work is done: a copy from the device then ends a step.
    pub blocking: bool,
    /// Call arguments of an [`Action::RecordArgs`] row.
    pub args: ArgsSpec,
}

impl Wiring {
    /// The wiring of a call without any of these arguments.
    pub const NONE: Wiring = Wiring {
        stream: ArgPos::NONE,
        handle: ArgPos::NONE,
        graph: ArgPos::NONE,
        bytes: Bytes::None,
        element_shift: 0,
        direction: DirectionSource::Fixed(Direction::Unknown),
        grid: Grid::None,
        blocking: false,
        args: ArgsSpec::NONE,
    };
}

/// One probed function.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Probe {
    /// Number in cookies and recordings. Never reused; below [`crate::record::ROWS`].
    pub id: u16,
    /// Library that exports the function.
    pub library: Library,
    /// Layer of the function.
    pub api: Api,
    /// Exported symbol, and the value of `gpu.cuda.operation.name`.
    pub symbol: &'static str,
    /// Symbol of the twin whose stream 0 is the thread's own default stream (`_ptsz`, `_ptds`), if there is one.
    pub twin: Option<&'static str>,
    /// How a call is treated.
    pub action: Action,
    /// Meaning of its arguments.
    pub wiring: Wiring,
}

impl Probe {
    /// Returns true if the return is probed, too. Launches are too frequent, and registrations return nothing.
    pub const fn is_timed(&self) -> bool {
        !matches!(self.action, Action::Launch | Action::RegisterFunction)
    }

    /// Returns the row packed for its own symbol.
    pub const fn cookie(&self) -> Cookie {
        Cookie::pack(self, false, self.is_timed())
    }
}
