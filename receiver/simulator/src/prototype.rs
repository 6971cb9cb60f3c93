//! The C prototypes of every function: what the n-th argument *is*, independent of any row's wiring.
//!
//! The one idea: the player builds its calls from these, stubs and kernel programs read them by the rows. A row
//! that looks in the wrong place reads another argument's value, and a test sees it. So a new row needs a line
//! here, copied from the header. Checked against CUDA 12.9's `cuda_runtime_api.h` and `cuda.h` and ROCm's
//! `hip_runtime_api.h`. A `dim3` by value is two words on both architectures.

use crate::model::call::Function;

/// What an argument is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A kernel.
    Kernel,
    /// A pointer to a launch configuration that holds grid, block and stream.
    Config,
    /// The grid as a `dim3`: two words.
    Grid,
    /// The block as a `dim3`: two words.
    Block,
    /// The grid as three integers.
    Grid3,
    /// The block as three integers.
    Block3,
    /// Threads in each dimension as three integers.
    Threads3,
    /// The stream.
    Stream,
    /// An event, executable graph, address or device: what the function is about.
    Handle,
    /// A pointer to where the new object is written.
    Out,
    /// A graph that is no executable one.
    Graph,
    /// Bytes.
    Bytes,
    /// Bytes of a row of a rectangle.
    Width,
    /// Rows of a rectangle.
    Height,
    /// A `cudaMemcpyKind`.
    Kind,
    /// A pointer to 3D copy parameters, whose extent stands at this offset.
    Params(u16),
    /// Any other argument.
    Other,
}

use Role::{
    Block, Block3, Bytes, Config, Graph, Grid, Grid3, Handle, Height, Kernel, Kind, Other, Out, Params,
    Stream, Threads3, Width,
};

const LAUNCH: &[Role] = &[Kernel, Grid, Block, Other, Other, Stream];
const DRIVER_LAUNCH: &[Role] = &[Kernel, Grid3, Block3, Other, Stream, Other, Other];
const COPY: &[Role] = &[Other, Other, Bytes];
const COPY_KIND: &[Role] = &[Other, Other, Bytes, Kind];
const COPY_STREAM: &[Role] = &[Other, Other, Bytes, Stream];
const COPY_KIND_STREAM: &[Role] = &[Other, Other, Bytes, Kind, Stream];
const GRAPH: &[Role] = &[Graph];
const HANDLE: &[Role] = &[Handle];
const HANDLE_BYTES: &[Role] = &[Handle, Bytes];
const HANDLE_BYTES_OTHER: &[Role] = &[Handle, Bytes, Other];
const HANDLE_STREAM: &[Role] = &[Handle, Stream];
const HANDLE_STREAM_OTHER: &[Role] = &[Handle, Stream, Other];
const OUT: &[Role] = &[Out];
const OUT_OTHER: &[Role] = &[Out, Other];
const OUT_BYTES: &[Role] = &[Out, Bytes];
const OUT_BYTES_OTHER: &[Role] = &[Out, Bytes, Other];
const OUT_GRAPH_OTHER: &[Role] = &[Out, Graph, Other];
const NODE_GRAPH: &[Role] = &[Other, Graph, Other, Other, Other];
const NODE_GRAPH_DATA: &[Role] = &[Other, Graph, Other, Other, Other, Other];
const STREAM: &[Role] = &[Stream];
const STREAM_HANDLE_OTHER: &[Role] = &[Stream, Handle, Other];
const STREAM_OTHER: &[Role] = &[Stream, Other];
const STREAM_GRAPH: &[Role] = &[Stream, Graph, Other, Other, Other, Other];
const STREAM_OUT: &[Role] = &[Stream, Out];

/// Every function's prototype, sorted by name. A twin has its row's.
static PROTOTYPES: &[(&str, &[Role])] = &[
    ("cuCtxSynchronize", &[]),
    ("cuEventCreate", OUT_OTHER),
    ("cuEventDestroy_v2", HANDLE),
    ("cuEventQuery", HANDLE),
    ("cuEventRecord", HANDLE_STREAM),
    ("cuEventRecordWithFlags", HANDLE_STREAM_OTHER),
    ("cuEventSynchronize", HANDLE),
    ("cuGraphAddChildGraphNode", NODE_GRAPH),
    ("cuGraphAddKernelNode_v2", NODE_GRAPH),
    ("cuGraphAddNode_v2", NODE_GRAPH_DATA),
    ("cuGraphDestroy", GRAPH),
    ("cuGraphExecDestroy", HANDLE),
    ("cuGraphExecUpdate", &[Handle, Graph, Other, Other]),
    ("cuGraphExecUpdate_v2", &[Handle, Graph, Other]),
    ("cuGraphInstantiateWithFlags", OUT_GRAPH_OTHER),
    ("cuGraphInstantiateWithParams", OUT_GRAPH_OTHER),
    ("cuGraphLaunch", HANDLE_STREAM),
    ("cuLaunchCooperativeKernel", &[Kernel, Grid3, Block3, Other, Stream, Other]),
    ("cuLaunchKernel", DRIVER_LAUNCH),
    ("cuLaunchKernelEx", &[Config, Kernel, Other, Other]),
    ("cuMemAllocAsync", &[Out, Bytes, Stream]),
    ("cuMemAllocFromPoolAsync", &[Out, Bytes, Other, Stream]),
    ("cuMemAllocHost_v2", OUT_BYTES),
    ("cuMemAllocManaged", OUT_BYTES_OTHER),
    ("cuMemAllocPitch_v2", &[Out, Other, Width, Height, Other]),
    ("cuMemAlloc_v2", OUT_BYTES),
    ("cuMemCreate", &[Out, Bytes, Other, Other]),
    ("cuMemFreeAsync", HANDLE_STREAM),
    ("cuMemFreeHost", HANDLE),
    ("cuMemFree_v2", HANDLE),
    ("cuMemHostAlloc", OUT_BYTES_OTHER),
    ("cuMemHostRegister_v2", HANDLE_BYTES_OTHER),
    ("cuMemHostUnregister", HANDLE),
    ("cuMemMap", &[Handle, Bytes, Other, Other, Other]),
    ("cuMemPoolCreate", OUT_OTHER),
    ("cuMemPoolDestroy", HANDLE),
    ("cuMemPoolTrimTo", HANDLE_BYTES),
    ("cuMemRelease", HANDLE),
    ("cuMemUnmap", HANDLE_BYTES),
    ("cuMemcpyAsync", COPY_STREAM),
    ("cuMemcpyDtoDAsync_v2", COPY_STREAM),
    ("cuMemcpyDtoD_v2", COPY),
    ("cuMemcpyDtoHAsync_v2", COPY_STREAM),
    ("cuMemcpyDtoH_v2", COPY),
    ("cuMemcpyHtoDAsync_v2", COPY_STREAM),
    ("cuMemcpyHtoD_v2", COPY),
    ("cuStreamBeginCaptureToGraph", STREAM_GRAPH),
    ("cuStreamBeginCapture_v2", STREAM_OTHER),
    ("cuStreamCreate", OUT_BYTES),
    ("cuStreamCreateWithPriority", OUT_BYTES_OTHER),
    ("cuStreamDestroy_v2", STREAM),
    ("cuStreamEndCapture", STREAM_OUT),
    ("cuStreamQuery", STREAM),
    ("cuStreamSynchronize", STREAM),
    ("cuStreamWaitEvent", STREAM_HANDLE_OTHER),
    ("cudaDeviceSynchronize", &[]),
    ("cudaEventCreate", OUT),
    ("cudaEventCreateWithFlags", OUT_OTHER),
    ("cudaEventDestroy", HANDLE),
    ("cudaEventQuery", HANDLE),
    ("cudaEventRecord", HANDLE_STREAM),
    ("cudaEventRecordWithFlags", HANDLE_STREAM_OTHER),
    ("cudaEventSynchronize", HANDLE),
    ("cudaFree", HANDLE),
    ("cudaFreeAsync", HANDLE_STREAM),
    ("cudaFreeHost", HANDLE),
    ("cudaGraphAddChildGraphNode", NODE_GRAPH),
    ("cudaGraphAddKernelNode", NODE_GRAPH),
    ("cudaGraphAddNode", NODE_GRAPH_DATA),
    ("cudaGraphDestroy", GRAPH),
    ("cudaGraphExecDestroy", HANDLE),
    ("cudaGraphExecUpdate", &[Handle, Graph, Other]),
    ("cudaGraphInstantiate", OUT_GRAPH_OTHER),
    ("cudaGraphInstantiateWithFlags", OUT_GRAPH_OTHER),
    ("cudaGraphInstantiateWithParams", OUT_GRAPH_OTHER),
    ("cudaGraphLaunch", HANDLE_STREAM),
    ("cudaHostAlloc", OUT_BYTES_OTHER),
    ("cudaHostRegister", HANDLE_BYTES_OTHER),
    ("cudaHostUnregister", HANDLE),
    ("cudaLaunchCooperativeKernel", LAUNCH),
    ("cudaLaunchKernel", LAUNCH),
    ("cudaLaunchKernelExC", &[Config, Kernel, Other]),
    ("cudaMalloc", OUT_BYTES),
    ("cudaMallocAsync", &[Out, Bytes, Stream]),
    ("cudaMallocFromPoolAsync", &[Out, Bytes, Other, Stream]),
    ("cudaMallocHost", OUT_BYTES),
    ("cudaMallocManaged", OUT_BYTES_OTHER),
    ("cudaMallocPitch", &[Out, Other, Width, Height]),
    ("cudaMemPoolCreate", OUT_OTHER),
    ("cudaMemPoolDestroy", HANDLE),
    ("cudaMemPoolTrimTo", HANDLE_BYTES),
    ("cudaMemcpy", COPY_KIND),
    ("cudaMemcpy2D", &[Other, Other, Other, Other, Width, Height, Kind]),
    ("cudaMemcpy2DAsync", &[Other, Other, Other, Other, Width, Height, Kind, Stream]),
    ("cudaMemcpy3D", &[Params(128)]),
    ("cudaMemcpy3DAsync", &[Params(128), Stream]),
    ("cudaMemcpy3DPeer", &[Params(144)]),
    ("cudaMemcpy3DPeerAsync", &[Params(144), Stream]),
    ("cudaMemcpyAsync", COPY_KIND_STREAM),
    ("cudaMemcpyPeer", &[Other, Other, Other, Other, Bytes]),
    ("cudaMemcpyPeerAsync", &[Other, Other, Other, Other, Bytes, Stream]),
    ("cudaMemset", &[Other, Other, Bytes]),
    ("cudaMemset2DAsync", &[Other, Other, Other, Width, Height, Stream]),
    ("cudaMemsetAsync", COPY_STREAM),
    ("cudaSetDevice", HANDLE),
    ("cudaStreamBeginCapture", STREAM_OTHER),
    ("cudaStreamBeginCaptureToGraph", STREAM_GRAPH),
    ("cudaStreamCreate", OUT),
    ("cudaStreamCreateWithFlags", OUT_BYTES),
    ("cudaStreamCreateWithPriority", OUT_BYTES_OTHER),
    ("cudaStreamDestroy", STREAM),
    ("cudaStreamEndCapture", STREAM_OUT),
    ("cudaStreamQuery", STREAM),
    ("cudaStreamSynchronize", STREAM),
    ("cudaStreamWaitEvent", STREAM_HANDLE_OTHER),
    ("hipDeviceSynchronize", &[]),
    ("hipEventCreate", OUT),
    ("hipEventCreateWithFlags", OUT_OTHER),
    ("hipEventDestroy", HANDLE),
    ("hipEventQuery", HANDLE),
    ("hipEventRecord", HANDLE_STREAM),
    ("hipEventRecordWithFlags", HANDLE_STREAM_OTHER),
    ("hipEventSynchronize", HANDLE),
    ("hipExtLaunchKernel", &[Kernel, Grid, Block, Other, Other, Stream, Other, Other, Other]),
    ("hipExtMallocWithFlags", OUT_BYTES_OTHER),
    (
        "hipExtModuleLaunchKernel",
        &[Kernel, Threads3, Block3, Other, Stream, Other, Other, Other, Other, Other],
    ),
    ("hipFree", HANDLE),
    ("hipFreeAsync", HANDLE_STREAM),
    ("hipFreeHost", HANDLE),
    ("hipGraphAddChildGraphNode", NODE_GRAPH),
    ("hipGraphAddKernelNode", NODE_GRAPH),
    ("hipGraphAddNode", NODE_GRAPH),
    ("hipGraphDestroy", GRAPH),
    ("hipGraphExecDestroy", HANDLE),
    ("hipGraphExecUpdate", &[Handle, Graph, Other, Other]),
    ("hipGraphInstantiate", &[Out, Graph, Other, Other, Other]),
    ("hipGraphInstantiateWithFlags", OUT_GRAPH_OTHER),
    ("hipGraphLaunch", HANDLE_STREAM),
    ("hipHostAlloc", OUT_BYTES_OTHER),
    ("hipHostFree", HANDLE),
    ("hipHostMalloc", OUT_BYTES_OTHER),
    ("hipHostRegister", HANDLE_BYTES_OTHER),
    ("hipHostUnregister", HANDLE),
    ("hipLaunchKernel", LAUNCH),
    ("hipMalloc", OUT_BYTES),
    ("hipMallocAsync", &[Out, Bytes, Stream]),
    ("hipMallocFromPoolAsync", &[Out, Bytes, Other, Stream]),
    ("hipMallocHost", OUT_BYTES),
    ("hipMallocManaged", OUT_BYTES_OTHER),
    ("hipMallocPitch", &[Out, Other, Width, Height]),
    ("hipMemCreate", &[Out, Bytes, Other, Other]),
    ("hipMemMap", &[Handle, Bytes, Other, Other, Other]),
    ("hipMemPoolCreate", OUT_OTHER),
    ("hipMemPoolDestroy", HANDLE),
    ("hipMemPoolTrimTo", HANDLE_BYTES),
    ("hipMemRelease", HANDLE),
    ("hipMemUnmap", HANDLE_BYTES),
    ("hipMemcpy", COPY_KIND),
    ("hipMemcpyAsync", COPY_KIND_STREAM),
    ("hipMemcpyWithStream", COPY_KIND_STREAM),
    ("hipMemsetAsync", COPY_STREAM),
    ("hipModuleLaunchKernel", DRIVER_LAUNCH),
    ("hipSetDevice", HANDLE),
    ("hipStreamBeginCapture", STREAM_OTHER),
    ("hipStreamBeginCaptureToGraph", STREAM_GRAPH),
    ("hipStreamCreate", OUT),
    ("hipStreamCreateWithFlags", OUT_BYTES),
    ("hipStreamCreateWithPriority", OUT_BYTES_OTHER),
    ("hipStreamDestroy", STREAM),
    ("hipStreamEndCapture", STREAM_OUT),
    ("hipStreamQuery", STREAM),
    ("hipStreamSynchronize", STREAM),
    ("hipStreamWaitEvent", STREAM_HANDLE_OTHER),
];

/// The roles of a function's arguments, in order; `None` where this file lacks its line.
pub fn prototype(function: &Function) -> Option<&'static [Role]> {
    let at = PROTOTYPES.binary_search_by_key(&function.probe.symbol, |(symbol, _)| symbol).ok()?;
    Some(PROTOTYPES[at].1)
}

/// True where one of the function's arguments is `role`.
pub fn has(function: &Function, role: Role) -> bool {
    prototype(function).is_some_and(|roles| roles.contains(&role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prototypes_are_sorted_and_unique() {
        let disorder = PROTOTYPES.windows(2).find(|w| w[0].0 >= w[1].0);
        assert_eq!(disorder, None);
    }

    #[test]
    fn every_function_has_a_prototype() {
        for (_, function) in Function::all() {
            let symbol = function.probe.symbol;
            assert!(prototype(&function).is_some(), "{symbol}: add its C prototype to src/prototype.rs");
        }
    }

    #[test]
    fn a_prototype_is_of_a_function_that_exists() {
        for (symbol, _) in PROTOTYPES {
            assert!(
                Function::all().any(|(_, f)| f.probe.symbol == *symbol),
                "{symbol} is exported by no stub"
            );
        }
    }
}
