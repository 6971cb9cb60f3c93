//! Routes from runtime functions to the driver functions that implement them, with their arguments.
//!
//! A probe sees of the real libcudart one call of an exported driver function from libcudart's own code. A route makes
//! the same call, so that tests cover the suppression of driver calls made by the runtime. A runtime function without a
//! route acts on the device directly.

use probe_abi::Direction::{self, DeviceToDevice, DeviceToHost, HostToDevice, HostToHost, Unknown};

use super::call::{ArgumentWords, DecodedCall};

/// The source of an argument of the driver call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WordSource {
    /// The n-th argument of the runtime call.
    Word(u8),
    /// The lower half of the n-th argument: x of a `dim3`.
    Low(u8),
    /// The upper half of the n-th argument: y of a `dim3`.
    High(u8),
    /// Zero.
    Zero,
}
use self::WordSource::{High, Low, Word, Zero};

/// Number of arguments of the longest driver call.
pub const WORDS_MAX: usize = 11;

/// A runtime function and the driver function that implements it.
#[derive(Debug)]
pub struct Route {
    /// Runtime symbol.
    pub runtime: &'static str,
    /// Direction of a copy to which the route is restricted.
    pub direction: Option<Direction>,
    /// Driver symbol.
    pub driver: &'static str,
    /// Arguments of the driver call.
    pub words: &'static [WordSource],
}

const ONE: &[WordSource] = &[Word(1)];
const TWO: &[WordSource] = &[Word(1), Word(2)];
const THREE: &[WordSource] = &[Word(1), Word(2), Word(3)];
const LAUNCH: &[WordSource] =
    &[Word(1), Low(2), High(2), Low(3), Low(4), High(4), Low(5), Word(7), Word(8), Word(6), Zero];
const COPY_ASYNC: &[WordSource] = &[Word(1), Word(2), Word(3), Word(5)];

const fn to(runtime: &'static str, driver: &'static str, words: &'static [WordSource]) -> Route {
    Route { runtime, direction: None, driver, words }
}

const fn copy(
    runtime: &'static str,
    direction: Direction,
    driver: &'static str,
    words: &'static [WordSource],
) -> Route {
    Route { runtime, direction: Some(direction), driver, words }
}

/// Routes sorted by runtime function.
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
    /// Returns the index and route of a call of the runtime function `symbol`, which is not a twin's.
    pub fn of(symbol: &str, call: &DecodedCall) -> Option<(usize, &'static Route)> {
        ROUTES.iter().enumerate().find(|(_, route)| {
            route.runtime == symbol && route.direction.is_none_or(|d| d as u32 == call.direction)
        })
    }

    /// Returns the driver's arguments for a runtime call.
    pub fn arguments(&self, words: &impl ArgumentWords) -> [u64; WORDS_MAX] {
        let mut arguments = [0; WORDS_MAX];
        for (into, from) in arguments.iter_mut().zip(self.words) {
            *into = match *from {
                Word(n) => words.word(n),
                Low(n) => words.word(n) & 0xffff_ffff,
                High(n) => words.word(n) >> 32,
                Zero => 0,
            };
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use probe_abi::Library;

    use super::super::call::{StubFunction, decode};
    use super::*;

    /// A runtime call whose arguments all differ, as do the words of the struct that the first points to.
    struct Distinct;

    impl ArgumentWords for Distinct {
        fn word(&self, n: u8) -> u64 {
            (u64::from(n) * 0x1001) | (u64::from(n) << 33)
        }

        fn first_struct_half(&self, offset: u16) -> u32 {
            u32::from(offset) + 3
        }
    }

    struct DriverCall([u64; WORDS_MAX]);

    impl ArgumentWords for DriverCall {
        fn word(&self, n: u8) -> u64 {
            self.0.get(usize::from(n) - 1).copied().unwrap_or(0)
        }

        fn first_struct_half(&self, offset: u16) -> u32 {
            Distinct.first_struct_half(offset)
        }
    }

    fn function(library: Library, symbol: &str) -> StubFunction {
        let found =
            StubFunction::all().map(|(_, f)| f).find(|f| f.symbol() == symbol && f.probe.library == library);
        found.unwrap_or_else(|| panic!("{symbol} is not a row of {library:?}"))
    }

    #[test]
    fn driver_calls_mean_what_their_runtime_calls_mean() {
        for route in ROUTES {
            let runtime = decode(0, &function(Library::Cudart, route.runtime), &Distinct);
            let driver =
                decode(0, &function(Library::Cuda, route.driver), &DriverCall(route.arguments(&Distinct)));
            let meaning = |c: &DecodedCall| (c.effect, c.stream, c.handle, c.bytes, c.threads, c.blocking);
            assert_eq!(meaning(&driver), meaning(&runtime), "{} -> {}", route.runtime, route.driver);
            if let Some(direction) = route.direction.filter(|d| *d != HostToHost) {
                assert_eq!(driver.direction, direction as u32, "{} -> {}", route.runtime, route.driver);
            }
        }
    }
}
