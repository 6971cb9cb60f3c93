//! The function of each word, by API.

use super::ScriptApi;

/// A verb, and its function in the CUDA runtime, the driver API and HIP; empty if the stub library has none.
type Row = (&'static str, [&'static str; 3]);

/// Sorted by word. `copy` with a stream is `copyasync`.
static VERBS: &[Row] = &[
    ("capture begin", ["cudaStreamBeginCapture", "cuStreamBeginCapture_v2", "hipStreamBeginCapture"]),
    ("capture end", ["cudaStreamEndCapture", "cuStreamEndCapture", "hipStreamEndCapture"]),
    ("copy d2d", ["cudaMemcpy", "cuMemcpyDtoD_v2", "hipMemcpy"]),
    ("copy d2h", ["cudaMemcpy", "cuMemcpyDtoH_v2", "hipMemcpy"]),
    ("copy default", ["cudaMemcpy", "", "hipMemcpy"]),
    ("copy h2d", ["cudaMemcpy", "cuMemcpyHtoD_v2", "hipMemcpy"]),
    ("copy h2h", ["cudaMemcpy", "", "hipMemcpy"]),
    ("copyasync d2d", ["cudaMemcpyAsync", "cuMemcpyDtoDAsync_v2", "hipMemcpyAsync"]),
    ("copyasync d2h", ["cudaMemcpyAsync", "cuMemcpyDtoHAsync_v2", "hipMemcpyAsync"]),
    ("copyasync default", ["cudaMemcpyAsync", "cuMemcpyAsync", "hipMemcpyAsync"]),
    ("copyasync h2d", ["cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2", "hipMemcpyAsync"]),
    ("copyasync h2h", ["cudaMemcpyAsync", "cuMemcpyAsync", "hipMemcpyAsync"]),
    ("destroy captured", ["cudaGraphDestroy", "cuGraphDestroy", "hipGraphDestroy"]),
    ("destroy event", ["cudaEventDestroy", "cuEventDestroy_v2", "hipEventDestroy"]),
    ("destroy graph", ["cudaGraphExecDestroy", "cuGraphExecDestroy", "hipGraphExecDestroy"]),
    ("destroy stream", ["cudaStreamDestroy", "cuStreamDestroy_v2", "hipStreamDestroy"]),
    ("event", ["cudaEventCreateWithFlags", "cuEventCreate", "hipEventCreateWithFlags"]),
    ("fill", ["cudaMemsetAsync", "", "hipMemsetAsync"]),
    ("free", ["cudaFree", "cuMemFree_v2", "hipFree"]),
    ("function lookup", ["cudaLibraryGetKernel", "cuModuleGetFunction", "hipModuleGetFunction"]),
    ("function register", ["__cudaRegisterFunction", "", "__hipRegisterFunction"]),
    ("graphlaunch", ["cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"]),
    ("hostalloc", ["cudaHostAlloc", "", "hipHostMalloc"]),
    ("hostfree", ["cudaFreeHost", "", "hipHostFree"]),
    ("instantiate", ["cudaGraphInstantiate", "cuGraphInstantiateWithFlags", "hipGraphInstantiate"]),
    ("launch", ["cudaLaunchKernel", "cuLaunchKernel", "hipLaunchKernel"]),
    ("launchex", ["cudaLaunchKernelExC", "cuLaunchKernelEx", "hipExtModuleLaunchKernel"]),
    ("malloc", ["cudaMalloc", "cuMemAlloc_v2", "hipMalloc"]),
    ("query event", ["cudaEventQuery", "cuEventQuery", "hipEventQuery"]),
    ("query stream", ["cudaStreamQuery", "cuStreamQuery", "hipStreamQuery"]),
    ("record", ["cudaEventRecord", "cuEventRecord", "hipEventRecord"]),
    ("stream", ["cudaStreamCreateWithFlags", "cuStreamCreate", "hipStreamCreateWithFlags"]),
    ("sync device", ["cudaDeviceSynchronize", "cuCtxSynchronize", "hipDeviceSynchronize"]),
    ("sync event", ["cudaEventSynchronize", "cuEventSynchronize", "hipEventSynchronize"]),
    ("sync stream", ["cudaStreamSynchronize", "cuStreamSynchronize", "hipStreamSynchronize"]),
    ("update", ["cudaGraphExecUpdate", "cuGraphExecUpdate_v2", "hipGraphExecUpdate"]),
    ("wait", ["cudaStreamWaitEvent", "cuStreamWaitEvent", "hipStreamWaitEvent"]),
];

/// Returns the function of a verb; `None` if the API has none.
pub(crate) fn symbol(api: ScriptApi, word: &str) -> Option<&'static str> {
    let at = VERBS.binary_search_by_key(&word, |(name, _)| name).ok()?;
    let symbol = VERBS[at].1[api as usize];
    (!symbol.is_empty()).then_some(symbol)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::by_symbol;

    #[test]
    fn verbs_are_sorted_and_name_functions_of_their_api() {
        assert!(VERBS.windows(2).all(|w| w[0].0 < w[1].0));
        for (word, symbols) in VERBS {
            for (api, symbol) in [ScriptApi::Cuda, ScriptApi::Driver, ScriptApi::Hip].into_iter().zip(symbols)
            {
                let library = by_symbol(symbol).map(|(_, f)| f.probe.library);
                let expected = api.libraries().last().copied();
                assert!(symbol.is_empty() || library == expected, "{word}: {symbol}");
            }
        }
    }
}
