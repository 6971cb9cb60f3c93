//! Makes one call: lays a request out by the C prototype, calls the function and takes the times.
//!
//! Every argument of these APIs is one or two words, so all functions are called with fourteen words; a C function ignores
//! words after its own.

#![allow(unsafe_code, reason = "C functions are called; each block states its requirements")]

use crate::model::call::StubFunction;
use crate::model::clock;
use crate::prototype::{ArgumentRole, prototype};

/// Words of the arguments of the longest call, `hipExtModuleLaunchKernel`.
pub const WORDS_MAX: usize = 14;
/// Bytes of the largest struct passed by pointer, in words: `CUDA_MEMCPY3D`.
const STRUCT_WORDS: usize = 25;
/// Value of [`ArgumentRole::Other`] arguments, to which their position is added. Not a valid address.
const FILLER: u64 = 0x5e00_0000_0000;

/// The arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Function to call.
    pub function: StubFunction,
    /// Index of the function, see [`StubFunction::at`].
    pub index: usize,
    /// Kernel argument.
    pub kernel: u64,
    /// Stream argument.
    pub stream: u64,
    /// Event, executable graph, address or device.
    pub handle: u64,
    /// Graph, not executable.
    pub graph: u64,
    /// Bytes per row and number of rows; the bytes of the call are their product.
    pub bytes: [u64; 2],
    /// Direction, a `cudaMemcpyKind`.
    pub kind: u64,
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Whether other arguments have distinct values instead of zero.
    pub fill: bool,
}

impl Request {
    /// Returns a request with all arguments zero.
    pub fn new(index: usize, function: StubFunction) -> Request {
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

    /// Returns the number of threads that the call starts.
    pub fn threads(&self) -> u64 {
        self.grid.iter().chain(&self.block).map(|side| u64::from(*side)).fold(1, u64::wrapping_mul)
    }
}

/// The arguments of a call, with the memory they point to.
struct Layout {
    words: [u64; WORDS_MAX],
    count: usize,
    pointee: [u64; STRUCT_WORDS],
    out: u64,
}

impl Layout {
    /// Returns the arguments, without pointers, which [`Layout::point`] sets.
    fn of(request: &Request, roles: &[ArgumentRole]) -> Layout {
        let mut layout = Layout { words: [0; WORDS_MAX], count: 0, pointee: [0; STRUCT_WORDS], out: 0 };
        for role in roles {
            layout.push_role(request, *role);
        }
        layout
    }

    fn push(&mut self, word: u64) {
        self.words[self.count] = word;
        self.count += 1;
    }

    fn push_role(&mut self, r: &Request, role: ArgumentRole) {
        match role {
            ArgumentRole::Kernel => self.push(r.kernel),
            ArgumentRole::Stream => self.push(r.stream),
            ArgumentRole::Handle => self.push(r.handle),
            ArgumentRole::Graph => self.push(r.graph),
            ArgumentRole::Bytes | ArgumentRole::Name | ArgumentRole::Elements(_) => {
                self.push(r.bytes[0].wrapping_mul(r.bytes[1]))
            }
            ArgumentRole::Width | ArgumentRole::WidthElements(_) => self.push(r.bytes[0]),
            ArgumentRole::Height => self.push(r.bytes[1]),
            ArgumentRole::Kind => self.push(r.kind),
            ArgumentRole::Grid => self.push_dim3(r.grid),
            ArgumentRole::Block => self.push_dim3(r.block),
            ArgumentRole::Grid3 => self.push_each(r.grid),
            ArgumentRole::Block3 => self.push_each(r.block),
            ArgumentRole::Threads3 => {
                self.push_each([0, 1, 2].map(|at| r.grid[at].wrapping_mul(r.block[at])))
            }
            ArgumentRole::Config => self.push_config(r),
            ArgumentRole::Params(at) => self.push_params(r, usize::from(at) / 8, 1),
            // The word behind the area is that of another field.
            ArgumentRole::AreaParams(at) => self.push_params(r, usize::from(at) / 8, FILLER),
            ArgumentRole::Out => self.push(0),
            ArgumentRole::Other => {
                self.push(if r.fill { FILLER + 0x11 * (self.count as u64 + 1) } else { 0 })
            }
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

    /// Writes a `cudaLaunchConfig_t`: grid, block, shared memory, stream.
    fn push_config(&mut self, r: &Request) {
        let [g, b] = [r.grid, r.block].map(|sides| sides.map(u64::from));
        self.pointee[..5].copy_from_slice(&[
            g[0] | g[1] << 32,
            g[2] | b[0] << 32,
            b[1] | b[2] << 32,
            0,
            r.stream,
        ]);
        self.push(0);
    }

    /// Writes the extent of copy parameters.
    fn push_params(&mut self, r: &Request, at: usize, depth: u64) {
        self.pointee[at..at + 3].copy_from_slice(&[r.bytes[0], r.bytes[1], depth]);
        self.push(0);
    }

    /// Sets the pointers into this layout, which must not be moved afterwards.
    fn point(&mut self, roles: &[ArgumentRole]) {
        for (at, role) in roles.iter().enumerate() {
            // Pointers precede arguments of two words, so position and word index are equal.
            match role {
                ArgumentRole::Config | ArgumentRole::Params(_) | ArgumentRole::AreaParams(_) => {
                    self.words[at] = self.pointee.as_ptr() as u64
                }
                ArgumentRole::Out => self.words[at] = &raw mut self.out as u64,
                _ => {}
            }
        }
    }
}

/// The result of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Argument words.
    pub words: [u64; WORDS_MAX],
    /// Number of argument words of the prototype.
    pub count: usize,
    /// Return value.
    pub result: u32,
    /// Value written to the out pointer.
    pub written: u64,
    /// Time before the call, CLOCK_MONOTONIC ns.
    pub entry_ns: u64,
    /// Time after the call, CLOCK_MONOTONIC ns.
    pub exit_ns: u64,
}

type Words =
    unsafe extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u32;

/// Calls the function of a request at `address`.
///
/// # Safety
/// `address` is that of `request.function` in a loaded stub library; handles in the request are valid for it or never
/// dereferenced.
pub unsafe fn invoke(address: usize, request: &Request) -> Outcome {
    let roles = prototype(&request.function).unwrap_or_default();
    let mut layout = Layout::of(request, roles);
    layout.point(roles);
    let w = layout.words;
    let entry_ns = clock::now_ns();
    // SAFETY: by the caller's promise a C function of this prototype; words after its own are ignored, and pointers
    // among the words point into `layout`, which outlives the call.
    let result = unsafe {
        let function = std::mem::transmute::<usize, Words>(address);
        function(w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13])
    };
    let exit_ns = clock::now_ns();
    // SAFETY: `out` is a live field, which the callee may have written.
    let written = unsafe { (&raw const layout.out).read_volatile() };
    Outcome { words: w, count: layout.count, result, written, entry_ns, exit_ns }
}
