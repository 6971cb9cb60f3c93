//! Decodes the arguments of a call by its probe row.
//!
//! The stub decodes by the row's wiring, as the kernel programs do, while the player encodes by the C prototype, so that
//! each call checks one table against the other.

use std::sync::LazyLock;

use probe_abi::{Action, ArgPos, Bytes, Direction, DirectionSource, Grid, Library, PROBES, Probe};

use super::extra::EXTRA;

/// The effect of a call on the device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum Effect {
    /// No effect.
    #[default]
    Nothing = 0,
    /// Enqueues a kernel.
    Launch = 1,
    /// Enqueues a graph.
    GraphLaunch = 2,
    /// Enqueues a copy.
    Copy = 3,
    /// Enqueues a fill.
    Fill = 4,
    /// Allocates device memory.
    Alloc = 5,
    /// Frees device memory.
    Free = 6,
    /// Allocates host memory, or creates an object that has no effect of its own.
    HostAlloc = 7,
    /// Frees host memory or such an object; no effect on other addresses.
    HostFree = 8,
    /// Waits for a stream.
    StreamSync = 9,
    /// Waits for an event.
    EventSync = 10,
    /// Waits for the device.
    DeviceSync = 11,
    /// Records an event on a stream.
    EventRecord = 12,
    /// Queries a stream.
    StreamQuery = 13,
    /// Queries an event.
    EventQuery = 14,
    /// Makes a stream wait for an event.
    StreamWaitEvent = 15,
    /// Creates a stream.
    StreamCreate = 16,
    /// Destroys a stream.
    StreamDestroy = 17,
    /// Creates an event.
    EventCreate = 18,
    /// Destroys an event.
    EventDestroy = 19,
    /// Begins to capture a stream's work into a graph.
    CaptureBegin = 20,
    /// Ends the capture and returns the graph.
    CaptureEnd = 21,
    /// Instantiates an executable graph.
    Instantiate = 22,
    /// Destroys an executable graph.
    ExecDestroy = 23,
    /// Sets the thread's device.
    SetDevice = 24,
    /// Updates an executable graph.
    ExecUpdate = 25,
    /// Destroys a graph.
    GraphDestroy = 26,
    /// Looks up a function and returns its handle.
    FunctionHandle = 27,
}

impl Effect {
    /// Returns the effect of the function at an index.
    pub fn at(index: usize) -> Effect {
        static EFFECTS: LazyLock<Vec<Effect>> =
            LazyLock::new(|| PROBES.iter().chain(EXTRA).map(Effect::of).collect());
        EFFECTS.get(index / 2).copied().unwrap_or_default()
    }

    /// Returns the effect of a row. Actions that several kinds of functions share are distinguished by their wiring.
    pub fn of(probe: &Probe) -> Effect {
        let has_handle = probe.wiring.handle != ArgPos::NONE;
        match probe.action {
            Action::Launch => Effect::Launch,
            Action::GraphLaunch => Effect::GraphLaunch,
            Action::Copy => Effect::Copy,
            Action::Fill => Effect::Fill,
            Action::Alloc => Effect::Alloc,
            Action::Free => Effect::Free,
            Action::StreamSync => Effect::StreamSync,
            Action::EventSync => Effect::EventSync,
            Action::DeviceSync => Effect::DeviceSync,
            Action::EventRecord => Effect::EventRecord,
            Action::EventDestroy => Effect::EventDestroy,
            Action::StreamDestroy => Effect::StreamDestroy,
            Action::CaptureBegin => Effect::CaptureBegin,
            Action::CaptureEnd => Effect::CaptureEnd,
            Action::SetDevice => Effect::SetDevice,
            Action::StreamWait => Effect::StreamWaitEvent,
            Action::StreamCreate => Effect::StreamCreate,
            Action::Instantiate => Effect::Instantiate,
            Action::GraphUpdate => Effect::ExecUpdate,
            Action::GraphDestroy if has_handle => Effect::ExecDestroy,
            Action::GraphDestroy => Effect::GraphDestroy,
            Action::Query if has_handle => Effect::EventQuery,
            Action::Query => Effect::StreamQuery,
            Action::Time if has_handle => Effect::EventCreate,
            Action::Create | Action::AllocPhysical => Effect::HostAlloc,
            Action::FreePhysical => Effect::HostFree,
            Action::NameFunction | Action::AliasFunction => Effect::FunctionHandle,
            Action::Report if probe.wiring.bytes == Bytes::None => Effect::HostFree,
            Action::Time | Action::Report | Action::GraphChange | Action::RegisterFunction => Effect::Nothing,
            Action::RecordArgs => Effect::Nothing,
        }
    }
}

/// A function of a stub library: a row or its twin.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StubFunction {
    /// Probe row.
    pub probe: &'static Probe,
    /// Whether it is the twin, for which stream 0 is the thread's own default stream.
    pub is_twin: bool,
}

impl StubFunction {
    /// Returns the function that a generated stub passes as `index`: twice the row's index, plus 1 for the twin.
    pub fn at(index: usize) -> Option<StubFunction> {
        let row = index / 2;
        let probe = PROBES.get(row).or_else(|| EXTRA.get(row - PROBES.len()))?;
        Some(StubFunction { probe, is_twin: index % 2 == 1 })
    }

    /// Returns every function of the device libraries with its index: rows, twins, and those without a probe. NCCL's are
    /// declared in `nccl/functions.rs`.
    pub fn all() -> impl Iterator<Item = (usize, StubFunction)> {
        let is_new = |extra: &Probe| PROBES.iter().all(|p| p.symbol != extra.symbol);
        let all = PROBES.iter().chain(EXTRA).enumerate().filter(|(_, p)| p.library != Library::Nccl);
        all.filter(move |(row, probe)| *row < PROBES.len() || is_new(probe)).flat_map(|(row, probe)| {
            let own = (2 * row, StubFunction { probe, is_twin: false });
            let twin = probe.twin.map(|_| (2 * row + 1, StubFunction { probe, is_twin: true }));
            [Some(own), twin].into_iter().flatten()
        })
    }

    /// Returns the exported symbol.
    pub fn symbol(&self) -> &'static str {
        if self.is_twin { self.probe.twin.unwrap_or(self.probe.symbol) } else { self.probe.symbol }
    }
}

/// A decoded call. All libraries and the player share its layout.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct DecodedCall {
    /// Index of the function, see [`StubFunction::at`].
    pub index: u32,
    /// Effect of the call.
    pub effect: Effect,
    /// Stream argument.
    pub stream: u64,
    /// Handle argument.
    pub handle: u64,
    /// Bytes copied, set or allocated.
    pub bytes: u64,
    /// Threads that a launch starts.
    pub threads: u64,
    /// Direction of a copy, the number of a [`Direction`].
    pub direction: u32,
    /// 1 if the call returns only when its work is done.
    pub blocking: u32,
    /// Graph argument.
    pub graph: u64,
}

/// The argument words of a call in progress, by C argument from 1.
pub trait ArgumentWords {
    /// Returns the n-th argument, n from 1.
    fn word(&self, n: u8) -> u64;
    /// Reads four bytes at `offset` of the struct that the first argument points to.
    fn first_struct_half(&self, offset: u16) -> u32;
    /// Reads eight bytes at `offset` of the struct that the first argument points to.
    fn first_struct_word(&self, offset: u16) -> u64 {
        let low = u64::from(self.first_struct_half(offset));
        low | u64::from(self.first_struct_half(offset + 4)) << 32
    }
}

/// Offset of the stream in a launch configuration (`cudaLaunchConfig_t`, `CUlaunchConfig`).
const CONFIG_STREAM_AT: u16 = 32;

/// Decodes a call by its row.
pub fn decode(index: u32, function: &StubFunction, words: &impl ArgumentWords) -> DecodedCall {
    let wiring = &function.probe.wiring;
    DecodedCall {
        index,
        effect: Effect::at(index as usize),
        stream: match wiring.stream {
            ArgPos::IN_CONFIG => words.first_struct_word(CONFIG_STREAM_AT),
            slot => optional(words, slot),
        },
        handle: optional(words, wiring.handle),
        bytes: bytes(wiring.bytes, words) << wiring.element_shift,
        threads: threads(wiring.grid, words),
        direction: match wiring.direction {
            DirectionSource::Fixed(direction) => direction as u32,
            DirectionSource::Arg(slot) => Direction::from_kind(words.word(slot) & 0xffff_ffff) as u32,
        },
        blocking: u32::from(wiring.blocking),
        graph: optional(words, wiring.graph),
    }
}

fn optional(words: &impl ArgumentWords, slot: ArgPos) -> u64 {
    if slot == ArgPos::NONE { 0 } else { words.word(slot.0) }
}

fn bytes(rule: Bytes, words: &impl ArgumentWords) -> u64 {
    match rule {
        Bytes::None => 0,
        Bytes::Arg(slot) => words.word(slot),
        Bytes::Product(slot) => words.word(slot).wrapping_mul(words.word(slot + 1)),
        Bytes::Volume(at) => {
            let side = |n: u16| words.first_struct_word(at + 8 * n);
            side(0).wrapping_mul(side(1)).wrapping_mul(side(2))
        }
        Bytes::Area(at) => words.first_struct_word(at).wrapping_mul(words.first_struct_word(at + 8)),
    }
}

fn threads(grid: Grid, words: &impl ArgumentWords) -> u64 {
    let low = |n: u8| words.word(n) & 0xffff_ffff;
    let sides: [u64; 6] = match grid {
        Grid::None => return 0,
        Grid::Dim3 => [low(2), words.word(2) >> 32, low(3), low(4), words.word(4) >> 32, low(5)],
        Grid::Words => [low(2), low(3), low(4), low(5), low(6), low(7)],
        Grid::Threads => [low(2), low(3), low(4), 1, 1, 1],
        Grid::Config => [0, 4, 8, 12, 16, 20].map(|at| u64::from(words.first_struct_half(at))),
    };
    sides.into_iter().fold(1, u64::wrapping_mul)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given {
        words: [u64; 14],
        config: [u32; 48],
    }

    impl ArgumentWords for Given {
        fn word(&self, n: u8) -> u64 {
            self.words[usize::from(n) - 1]
        }

        fn first_struct_half(&self, offset: u16) -> u32 {
            self.config[usize::from(offset) / 4]
        }
    }

    fn check(symbol: &str, words: &[u64], config: &[u32], expected: DecodedCall) {
        let (index, function) = StubFunction::all().find(|(_, f)| f.symbol() == symbol).unwrap();
        let mut given = Given { words: [0; 14], config: [0; 48] };
        given.words[..words.len()].copy_from_slice(words);
        given.config[..config.len()].copy_from_slice(config);
        let expected = DecodedCall { index: index as u32, ..expected };
        assert_eq!(decode(index as u32, &function, &given), expected, "{symbol}");
    }

    #[test]
    fn arguments_are_read_from_the_positions_of_the_row() {
        let unknown = Direction::Unknown as u32;
        let launch =
            DecodedCall { effect: Effect::Launch, direction: unknown, stream: 8, ..DecodedCall::default() };
        let dim3 = [1, 2 | 3 << 32, 5, 7 | 11 << 32, 13, 99, 98, 8];
        check("cudaLaunchKernel_ptsz", &dim3, &[], DecodedCall { threads: 30_030, ..launch });
        let words = [1, 2, 3, 5, 7, 11, 13, 98, 8];
        check("cuLaunchKernel", &words, &[], DecodedCall { threads: 30_030, ..launch });
        check("hipExtModuleLaunchKernel", &words, &[], DecodedCall { threads: 30, ..launch });
        let config = [2, 3, 5, 7, 11, 13, 0, 0, 8, 0];
        check("cudaLaunchKernelExC", &[1], &config, DecodedCall { threads: 30_030, ..launch });
        let copy = DecodedCall {
            effect: Effect::Copy,
            bytes: 42,
            direction: Direction::DeviceToHost as u32,
            ..DecodedCall::default()
        };
        check("cudaMemcpy2DAsync", &[1, 2, 3, 4, 6, 7, 2, 9], &[], DecodedCall { stream: 9, ..copy });
        check("cuMemcpyDtoH_v2", &[1, 2, 42], &[], DecodedCall { blocking: 1, ..copy });
    }

    #[test]
    fn every_row_that_creates_or_queries_has_an_effect() {
        for (_, f) in StubFunction::all()
            .filter(|(_, f)| matches!(f.probe.action, Action::Create | Action::AllocPhysical | Action::Query))
        {
            assert_ne!(Effect::of(f.probe), Effect::Nothing, "{}: name it in Effect::of", f.symbol());
        }
    }
}
