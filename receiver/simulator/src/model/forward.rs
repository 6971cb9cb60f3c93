//! The runtime's way down: which driver function serves a runtime function, and where its arguments go.
//!
//! The one idea: what the real libcudart does in thousands of lines is, seen from a probe, one call of another
//! exported function from libcudart's own code. A row per function says which, so that the suppression of
//! double counts has the real thing to suppress.

use probe_abi::Direction::{self, DeviceToDevice, DeviceToHost, HostToDevice, HostToHost, Unknown};

use super::call::{Call, Words};

/// Where a word of the driver call comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Source {
    /// The n-th argument of the runtime call.
    Word(u8),
    /// The first half of it: x of a `dim3`.
    Low(u8),
    /// The second half of it: y of a `dim3`.
    High(u8),
    /// Nothing.
    Zero,
}
use self::Source::{High, Low, Word, Zero};

/// Words of the longest driver call.
pub const WORDS_MAX: usize = 11;

/// A runtime function and the driver function that serves it.
#[derive(Debug)]
pub struct Route {
    /// Runtime symbol.
    pub runtime: &'static str,
    /// For copies: only in this direction.
    pub direction: Option<Direction>,
    /// Driver symbol.
    pub driver: &'static str,
    /// The driver's arguments.
    pub words: &'static [Source],
}

const ONE: &[Source] = &[Word(1)];
const TWO: &[Source] = &[Word(1), Word(2)];
const THREE: &[Source] = &[Word(1), Word(2), Word(3)];
const LAUNCH: &[Source] =
    &[Word(1), Low(2), High(2), Low(3), Low(4), High(4), Low(5), Word(7), Word(8), Word(6), Zero];
const COPY_ASYNC: &[Source] = &[Word(1), Word(2), Word(3), Word(5)];

const fn to(runtime: &'static str, driver: &'static str, words: &'static [Source]) -> Route {
    Route { runtime, direction: None, driver, words }
}

const fn copy(
    runtime: &'static str,
    way: Direction,
    driver: &'static str,
    words: &'static [Source],
) -> Route {
    Route { runtime, direction: Some(way), driver, words }
}

/// Every runtime function that the driver serves by a probed function of its own, sorted by name.
pub static ROUTES: &[Route] = &[
    to("cudaDeviceSynchronize", "cuCtxSynchronize", &[]),
    to("cudaEventDestroy", "cuEventDestroy_v2", ONE),
    to("cudaEventQuery", "cuEventQuery", ONE),
    to("cudaEventRecord", "cuEventRecord", TWO),
    to("cudaEventRecordWithFlags", "cuEventRecordWithFlags", THREE),
    to("cudaEventSynchronize", "cuEventSynchronize", ONE),
    to("cudaFree", "cuMemFree_v2", ONE),
    to("cudaFreeAsync", "cuMemFreeAsync", TWO),
    to("cudaGraphDestroy", "cuGraphDestroy", ONE),
    to("cudaGraphExecDestroy", "cuGraphExecDestroy", ONE),
    to("cudaGraphExecUpdate", "cuGraphExecUpdate_v2", THREE),
    to("cudaGraphInstantiate", "cuGraphInstantiateWithFlags", THREE),
    to("cudaGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", THREE),
    to("cudaGraphLaunch", "cuGraphLaunch", TWO),
    to("cudaLaunchCooperativeKernel", "cuLaunchCooperativeKernel", LAUNCH),
    to("cudaLaunchKernel", "cuLaunchKernel", LAUNCH),
    to("cudaLaunchKernelExC", "cuLaunchKernelEx", &[Word(1), Word(2), Word(3), Zero]),
    to("cudaMalloc", "cuMemAlloc_v2", TWO),
    to("cudaMallocAsync", "cuMemAllocAsync", THREE),
    to("cudaMallocManaged", "cuMemAllocManaged", THREE),
    copy("cudaMemcpy", DeviceToDevice, "cuMemcpyDtoD_v2", THREE),
    copy("cudaMemcpy", DeviceToHost, "cuMemcpyDtoH_v2", THREE),
    copy("cudaMemcpy", HostToDevice, "cuMemcpyHtoD_v2", THREE),
    copy("cudaMemcpyAsync", DeviceToDevice, "cuMemcpyDtoDAsync_v2", COPY_ASYNC),
    copy("cudaMemcpyAsync", DeviceToHost, "cuMemcpyDtoHAsync_v2", COPY_ASYNC),
    copy("cudaMemcpyAsync", HostToDevice, "cuMemcpyHtoDAsync_v2", COPY_ASYNC),
    copy("cudaMemcpyAsync", HostToHost, "cuMemcpyAsync", COPY_ASYNC),
    copy("cudaMemcpyAsync", Unknown, "cuMemcpyAsync", COPY_ASYNC),
    to("cudaStreamBeginCapture", "cuStreamBeginCapture_v2", TWO),
    to("cudaStreamDestroy", "cuStreamDestroy_v2", ONE),
    to("cudaStreamEndCapture", "cuStreamEndCapture", TWO),
    to("cudaStreamQuery", "cuStreamQuery", ONE),
    to("cudaStreamSynchronize", "cuStreamSynchronize", ONE),
];

impl Route {
    /// The route of a call of the runtime function `symbol` (not its twin's name).
    pub fn of(symbol: &str, call: &Call) -> Option<(usize, &'static Route)> {
        ROUTES.iter().enumerate().find(|(_, route)| {
            route.runtime == symbol && route.direction.is_none_or(|way| way as u32 == call.direction)
        })
    }

    /// The driver's arguments for a runtime call.
    pub fn carry(&self, words: &impl Words) -> [u64; WORDS_MAX] {
        let mut carried = [0; WORDS_MAX];
        for (into, from) in carried.iter_mut().zip(self.words) {
            *into = match *from {
                Word(n) => words.word(n),
                Low(n) => words.word(n) & 0xffff_ffff,
                High(n) => words.word(n) >> 32,
                Zero => 0,
            };
        }
        carried
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::Library;

    use super::super::call::{Function, decode};
    use super::*;

    /// A runtime call whose every argument differs; a struct behind the first whose every word differs.
    struct Distinct;

    impl Words for Distinct {
        fn word(&self, n: u8) -> u64 {
            (u64::from(n) * 0x1001) | (u64::from(n) << 33)
        }

        fn half_behind_first(&self, offset: u16) -> u32 {
            u32::from(offset) + 3
        }
    }

    struct Carried([u64; WORDS_MAX]);

    impl Words for Carried {
        fn word(&self, n: u8) -> u64 {
            self.0.get(usize::from(n) - 1).copied().unwrap_or(0)
        }

        fn half_behind_first(&self, offset: u16) -> u32 {
            Distinct.half_behind_first(offset)
        }
    }

    fn function(library: Library, symbol: &str) -> Function {
        let found =
            Function::all().map(|(_, f)| f).find(|f| f.symbol() == symbol && f.probe.library == library);
        found.unwrap_or_else(|| panic!("{symbol} is no row of {library:?}"))
    }

    #[test]
    fn the_driver_call_means_what_the_runtime_call_meant() {
        for route in ROUTES {
            let runtime = decode(0, &function(Library::Cudart, route.runtime), &Distinct);
            let driver = decode(0, &function(Library::Cuda, route.driver), &Carried(route.carry(&Distinct)));
            let meaning = |c: &Call| (c.effect, c.stream, c.handle, c.bytes, c.threads, c.blocking);
            assert_eq!(meaning(&driver), meaning(&runtime), "{} -> {}", route.runtime, route.driver);
            if let Some(way) = route.direction.filter(|way| *way != HostToHost) {
                assert_eq!(driver.direction, way as u32, "{} -> {}", route.runtime, route.driver);
            }
        }
    }
}
