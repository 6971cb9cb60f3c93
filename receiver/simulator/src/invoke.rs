//! One real call: a request in the caller's words, laid out by the C prototype, made, and timed.
//!
//! The one idea: every argument of these APIs is a word or two, so one function type with fourteen words serves
//! them all; a callee ignores the words beyond its own.

#![allow(unsafe_code, reason = "this is where C functions are called; each block says what must hold")]

use crate::model::call::Function;
use crate::model::clock;
use crate::prototype::{Role, prototype};

/// Words of the longest call, `hipExtModuleLaunchKernel`.
pub const WORDS_MAX: usize = 14;
/// Bytes of the largest struct passed by pointer, in words: `cudaMemcpy3DPeerParms`, with room to spare.
const STRUCT_WORDS: usize = 24;
/// What [`Role::Other`] arguments hold, plus their place: no address, and of a value that no other has.
const FILLER: u64 = 0x5e00_0000_0000;

/// What to call a function with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// The function.
    pub function: Function,
    /// Its index, [`Function::at`]'s.
    pub index: usize,
    /// The kernel.
    pub kernel: u64,
    /// The stream.
    pub stream: u64,
    /// The event, executable graph, address or device.
    pub handle: u64,
    /// The graph that is no executable one.
    pub graph: u64,
    /// Bytes of a row, and rows: the function's bytes are their product.
    pub bytes: [u64; 2],
    /// A `cudaMemcpyKind`.
    pub kind: u64,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Arguments that mean nothing here have each a value of its own, instead of zero.
    pub fill: bool,
}

impl Request {
    /// A call of the function with this index, all arguments zero.
    pub fn new(index: usize, function: Function) -> Request {
        Request {
            function,
            index,
            kernel: 0,
            stream: 0,
            handle: 0,
            graph: 0,
            bytes: [0, 1],
            kind: 0,
            grid: [1; 3],
            block: [1; 3],
            fill: false,
        }
    }

    /// Threads that the call starts.
    pub fn threads(&self) -> u64 {
        self.grid.iter().chain(&self.block).map(|side| u64::from(*side)).fold(1, u64::wrapping_mul)
    }
}

/// A call's arguments where the callee can find them.
struct Layout {
    words: [u64; WORDS_MAX],
    count: usize,
    behind: [u64; STRUCT_WORDS],
    out: u64,
}

impl Layout {
    /// The arguments; pointers are still to be set, by [`Layout::point`].
    fn of(request: &Request, roles: &[Role]) -> Layout {
        let mut layout = Layout { words: [0; WORDS_MAX], count: 0, behind: [0; STRUCT_WORDS], out: 0 };
        for role in roles {
            layout.push_role(request, *role);
        }
        layout
    }

    fn push(&mut self, word: u64) {
        self.words[self.count] = word;
        self.count += 1;
    }

    fn push_role(&mut self, r: &Request, role: Role) {
        match role {
            Role::Kernel => self.push(r.kernel),
            Role::Stream => self.push(r.stream),
            Role::Handle => self.push(r.handle),
            Role::Graph => self.push(r.graph),
            Role::Bytes => self.push(r.bytes[0].wrapping_mul(r.bytes[1])),
            Role::Width => self.push(r.bytes[0]),
            Role::Height => self.push(r.bytes[1]),
            Role::Kind => self.push(r.kind),
            Role::Grid => self.push_dim3(r.grid),
            Role::Block => self.push_dim3(r.block),
            Role::Grid3 => self.push_each(r.grid),
            Role::Block3 => self.push_each(r.block),
            Role::Threads3 => self.push_each([0, 1, 2].map(|at| r.grid[at].wrapping_mul(r.block[at]))),
            Role::Config => self.push_config(r),
            Role::Params(at) => self.push_params(r, usize::from(at) / 8),
            Role::Out => self.push(0),
            Role::Other => self.push(if r.fill { FILLER + 0x11 * (self.count as u64 + 1) } else { 0 }),
        }
    }

    fn push_each(&mut self, sides: [u32; 3]) {
        for side in sides {
            self.push(side.into());
        }
    }

    fn push_dim3(&mut self, [x, y, z]: [u32; 3]) {
        self.push(u64::from(x) | u64::from(y) << 32);
        self.push(z.into());
    }

    /// `cudaLaunchConfig_t`: grid, block, shared memory, stream.
    fn push_config(&mut self, r: &Request) {
        let [g, b] = [r.grid, r.block].map(|sides| sides.map(u64::from));
        self.behind[..5].copy_from_slice(&[
            g[0] | g[1] << 32,
            g[2] | b[0] << 32,
            b[1] | b[2] << 32,
            0,
            r.stream,
        ]);
        self.push(0);
    }

    /// `cudaMemcpy3DParms`: of its fields the extent alone matters.
    fn push_params(&mut self, r: &Request, at: usize) {
        self.behind[at..at + 3].copy_from_slice(&[r.bytes[0], r.bytes[1], 1]);
        self.push(0);
    }

    /// Sets the pointers into this layout. It must not move any more.
    fn point(&mut self, roles: &[Role]) {
        for (at, role) in roles.iter().enumerate() {
            // Pointers stand before any argument of more than one word, so place and word agree.
            match role {
                Role::Config | Role::Params(_) => self.words[at] = self.behind.as_ptr() as u64,
                Role::Out => self.words[at] = &raw mut self.out as u64,
                _ => {}
            }
        }
    }
}

/// What a call came to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Its argument words, as laid out.
    pub words: [u64; WORDS_MAX],
    /// How many of them its prototype has.
    pub count: usize,
    /// What it returned.
    pub result: u32,
    /// What it wrote where its out pointer points.
    pub written: u64,
    /// CLOCK_MONOTONIC before, ns.
    pub entry_ns: u64,
    /// CLOCK_MONOTONIC after, ns.
    pub exit_ns: u64,
}

type Words =
    unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// Calls the function at `address`.
///
/// # Safety
/// `address` is that of `request.function` in a loaded stub library; handles in the request are its own or such
/// as it does not follow.
pub unsafe fn invoke(address: usize, request: &Request) -> Outcome {
    let roles = prototype(&request.function).unwrap_or_default();
    let mut layout = Layout::of(request, roles);
    layout.point(roles);
    let w = layout.words;
    let entry_ns = clock::now_ns();
    // SAFETY: by the caller's promise it is a C function of this prototype; words beyond it are ignored, and the
    // pointers among the words point into `layout`, which outlives the call.
    let result = unsafe {
        let function = std::mem::transmute::<usize, Words>(address);
        function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13])
    };
    let exit_ns = clock::now_ns();
    // SAFETY: `out` is a live field; the callee may have written it behind the compiler's back.
    let written = unsafe { (&raw const layout.out).read_volatile() };
    Outcome { words: w, count: layout.count, result, written, entry_ns, exit_ns }
}
