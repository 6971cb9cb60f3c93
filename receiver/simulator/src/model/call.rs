//! A call as its row reads it: raw argument words in, meanings out.
//!
//! The one idea: a stub decodes its arguments by the row's wiring, as the kernel programs do, while the player
//! encodes them by the C prototype. Two tables of one truth, and every call checks one against the other.

use std::sync::LazyLock;

use probe_abi::{Action, ArgPos, Bytes, Direction, DirectionSource, Grid, Library, PROBES, Probe};

use super::extra::EXTRA;

/// What a call does to the device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(u32)]
pub enum Effect {
    /// Nothing: the call is only there to be called.
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
    /// Allocates host memory.
    HostAlloc = 7,
    /// Frees host memory.
    HostFree = 8,
    /// Waits for a stream.
    StreamSync = 9,
    /// Waits for an event.
    EventSync = 10,
    /// Waits for the device.
    DeviceSync = 11,
    /// Records an event on a stream.
    EventRecord = 12,
    /// Asks for a stream.
    StreamQuery = 13,
    /// Asks for an event.
    EventQuery = 14,
    /// Makes a stream wait for an event.
    StreamWaitEvent = 15,
    /// Makes a stream.
    StreamCreate = 16,
    /// Ends a stream.
    StreamDestroy = 17,
    /// Makes an event.
    EventCreate = 18,
    /// Ends an event.
    EventDestroy = 19,
    /// Begins to capture a stream's work into a graph.
    CaptureBegin = 20,
    /// Ends the capture and gives the graph.
    CaptureEnd = 21,
    /// Makes an executable graph.
    Instantiate = 22,
    /// Ends an executable graph.
    ExecDestroy = 23,
    /// Chooses the thread's device.
    SetDevice = 24,
    /// Makes an executable graph what a graph is.
    ExecUpdate = 25,
    /// Ends a graph.
    GraphDestroy = 26,
}

/// Symbols that an action alone does not explain: the first part that a symbol contains decides.
const BY_SYMBOL: &[(&str, Effect)] = &[
    ("AllocHost", Effect::HostAlloc),
    ("EventCreate", Effect::EventCreate),
    ("EventQuery", Effect::EventQuery),
    ("FreeHost", Effect::HostFree),
    ("HostAlloc", Effect::HostAlloc),
    ("HostFree", Effect::HostFree),
    ("HostMalloc", Effect::HostAlloc),
    ("MallocHost", Effect::HostAlloc),
    ("MemCreate", Effect::Alloc),
    ("MemPoolCreate", Effect::Alloc),
    ("MemPoolDestroy", Effect::Free),
    ("MemRelease", Effect::Free),
    ("StreamQuery", Effect::StreamQuery),
];

impl Effect {
    /// What the function with this index does, looked up once for all.
    pub fn at(index: usize) -> Effect {
        static EFFECTS: LazyLock<Vec<Effect>> =
            LazyLock::new(|| PROBES.iter().chain(EXTRA).map(Effect::of).collect());
        EFFECTS.get(index / 2).copied().unwrap_or_default()
    }

    /// What the function of this row does.
    pub fn of(probe: &Probe) -> Effect {
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
            Action::GraphDestroy if probe.wiring.handle == ArgPos::NONE => Effect::GraphDestroy,
            Action::GraphDestroy => Effect::ExecDestroy,
            Action::GraphChange => Effect::Nothing,
            Action::Time | Action::Query | Action::Report | Action::Create => Effect::by_symbol(probe.symbol),
            Action::RecordArgs => Effect::Nothing,
        }
    }

    fn by_symbol(symbol: &str) -> Effect {
        BY_SYMBOL
            .iter()
            .find(|(part, _)| symbol.contains(part))
            .map_or(Effect::Nothing, |(_, effect)| *effect)
    }
}

/// A function of a stub library: a row or one of its twins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Function {
    /// The row.
    pub probe: &'static Probe,
    /// True for the twin whose stream 0 is the thread's own.
    pub is_twin: bool,
}

impl Function {
    /// The function that a generated stub passes on as `index`: twice the row's place, plus 1 for the twin.
    pub fn at(index: usize) -> Option<Function> {
        let place = index / 2;
        let probe = PROBES.get(place).or_else(|| EXTRA.get(place - PROBES.len()))?;
        Some(Function { probe, is_twin: index % 2 == 1 })
    }

    /// Every function of the device's libraries with its index, twins included, probed or not. NCCL's are not among
    /// them: its stub is written by hand, since they pass structs.
    pub fn all() -> impl Iterator<Item = (usize, Function)> {
        let is_new = |extra: &Probe| PROBES.iter().all(|p| p.symbol != extra.symbol);
        let all = PROBES.iter().chain(EXTRA).enumerate().filter(|(_, p)| p.library != Library::Nccl);
        all.filter(move |(place, probe)| *place < PROBES.len() || is_new(probe)).flat_map(|(place, probe)| {
            let own = (2 * place, Function { probe, is_twin: false });
            let twin = probe.twin.map(|_| (2 * place + 1, Function { probe, is_twin: true }));
            [Some(own), twin].into_iter().flatten()
        })
    }

    /// The exported name.
    pub fn symbol(&self) -> &'static str {
        if self.is_twin { self.probe.twin.unwrap_or(self.probe.symbol) } else { self.probe.symbol }
    }
}

/// A decoded call. Layout shared by the libraries.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Call {
    /// [`Function::at`]'s index.
    pub index: u32,
    /// What it does.
    pub effect: Effect,
    /// The stream, as passed.
    pub stream: u64,
    /// The row's handle, as passed.
    pub handle: u64,
    /// Bytes moved or asked for.
    pub bytes: u64,
    /// Threads started.
    pub threads: u64,
    /// The direction of a copy, as [`Direction`]'s number.
    pub direction: u32,
    /// 1 where the call returns only when its work is done.
    pub blocking: u32,
    /// The row's graph, as passed.
    pub graph: u64,
}

/// The argument words of a call under way, by C argument from 1.
pub trait Words {
    /// The n-th argument, n from 1.
    fn word(&self, n: u8) -> u64;
    /// Four bytes at `offset` of the struct that the first argument points to.
    fn half_behind_first(&self, offset: u16) -> u32;
    /// Eight bytes there.
    fn word_behind_first(&self, offset: u16) -> u64 {
        let low = u64::from(self.half_behind_first(offset));
        low | u64::from(self.half_behind_first(offset + 4)) << 32
    }
}

/// Offset of the stream in a launch configuration (`cudaLaunchConfig_t`, `CUlaunchConfig`).
const CONFIG_STREAM_AT: u16 = 32;

/// Reads a call by its row.
pub fn decode(index: u32, function: &Function, words: &impl Words) -> Call {
    let wiring = &function.probe.wiring;
    Call {
        index,
        effect: Effect::at(index as usize),
        stream: match wiring.stream {
            ArgPos::IN_CONFIG => words.word_behind_first(CONFIG_STREAM_AT),
            slot => optional(words, slot),
        },
        handle: optional(words, wiring.handle),
        bytes: bytes(wiring.bytes, words),
        threads: threads(wiring.grid, words),
        direction: match wiring.direction {
            DirectionSource::Fixed(direction) => direction as u32,
            DirectionSource::Arg(slot) => Direction::from_kind(words.word(slot) & 0xffff_ffff) as u32,
        },
        blocking: u32::from(wiring.blocking),
        graph: optional(words, wiring.graph),
    }
}

fn optional(words: &impl Words, slot: ArgPos) -> u64 {
    if slot == ArgPos::NONE { 0 } else { words.word(slot.0) }
}

fn bytes(rule: Bytes, words: &impl Words) -> u64 {
    match rule {
        Bytes::None => 0,
        Bytes::Arg(slot) => words.word(slot),
        Bytes::Product(slot) => words.word(slot).wrapping_mul(words.word(slot + 1)),
        Bytes::Volume(at) => {
            let side = |n: u16| words.word_behind_first(at + 8 * n);
            side(0).wrapping_mul(side(1)).wrapping_mul(side(2))
        }
    }
}

fn threads(grid: Grid, words: &impl Words) -> u64 {
    let low = |n: u8| words.word(n) & 0xffff_ffff;
    let sides: [u64; 6] = match grid {
        Grid::None => return 0,
        Grid::Dim3 => [low(2), words.word(2) >> 32, low(3), low(4), words.word(4) >> 32, low(5)],
        Grid::Words => [low(2), low(3), low(4), low(5), low(6), low(7)],
        Grid::Threads => [low(2), low(3), low(4), 1, 1, 1],
        Grid::Config => [0, 4, 8, 12, 16, 20].map(|at| u64::from(words.half_behind_first(at))),
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

    impl Words for Given {
        fn word(&self, n: u8) -> u64 {
            self.words[usize::from(n) - 1]
        }

        fn half_behind_first(&self, offset: u16) -> u32 {
            self.config[usize::from(offset) / 4]
        }
    }

    fn check(symbol: &str, words: &[u64], config: &[u32], expected: Call) {
        let (index, function) = Function::all().find(|(_, f)| f.symbol() == symbol).unwrap();
        let mut given = Given { words: [0; 14], config: [0; 48] };
        given.words[..words.len()].copy_from_slice(words);
        given.config[..config.len()].copy_from_slice(config);
        let expected = Call { index: index as u32, ..expected };
        assert_eq!(decode(index as u32, &function, &given), expected, "{symbol}");
    }

    #[test]
    fn arguments_are_read_where_the_row_says() {
        let unknown = Direction::Unknown as u32;
        let launch = Call { effect: Effect::Launch, direction: unknown, stream: 8, ..Call::default() };
        let dim3 = [1, 2 | 3 << 32, 5, 7 | 11 << 32, 13, 99, 98, 8];
        check("cudaLaunchKernel_ptsz", &dim3, &[], Call { threads: 30_030, ..launch });
        let words = [1, 2, 3, 5, 7, 11, 13, 98, 8];
        check("cuLaunchKernel", &words, &[], Call { threads: 30_030, ..launch });
        check("hipExtModuleLaunchKernel", &words, &[], Call { threads: 30, ..launch });
        let config = [2, 3, 5, 7, 11, 13, 0, 0, 8, 0];
        check("cudaLaunchKernelExC", &[1], &config, Call { threads: 30_030, ..launch });
        let copy = Call {
            effect: Effect::Copy,
            bytes: 42,
            direction: Direction::DeviceToHost as u32,
            ..Call::default()
        };
        check("cudaMemcpy2DAsync", &[1, 2, 3, 4, 6, 7, 2, 9], &[], Call { stream: 9, ..copy });
        check("cuMemcpyDtoH_v2", &[1, 2, 42], &[], Call { blocking: 1, ..copy });
    }

    #[test]
    fn every_row_that_makes_or_ends_an_object_has_an_effect() {
        for (_, f) in
            Function::all().filter(|(_, f)| matches!(f.probe.action, Action::Create | Action::Query))
        {
            assert_ne!(Effect::of(f.probe), Effect::Nothing, "{}: name it in BY_SYMBOL", f.symbol());
        }
    }
}
