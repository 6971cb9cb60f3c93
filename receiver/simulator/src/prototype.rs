//! The C prototypes of the device libraries' functions: the role of each argument, independent of the probe rows.
//!
//! The player encodes calls by these; stubs and kernel programs decode them by the rows. A row with a wrong argument
//! position reads another argument's value, which a test detects. So a new row needs a line here, copied from the header.
//! Checked against CUDA 12.9's `cuda_runtime_api.h` and `cuda.h` and ROCm's `hip_runtime_api.h`. A `dim3` by value is two
//! words on both architectures.

use crate::model::call::StubFunction;

/// The role of an argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ArgumentRole {
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
    /// The event, executable graph, address or device that the function acts on.
    Handle,
    /// A pointer to which the new object is written.
    Out,
    /// A graph, not executable.
    Graph,
    /// A number of bytes.
    Bytes,
    /// Bytes per row of a 2D copy.
    Width,
    /// Rows of a 2D copy.
    Height,
    /// A `cudaMemcpyKind`.
    Kind,
    /// A pointer to the name of a function that is registered, in place of the bytes.
    Name,
    /// A pointer to 3D copy parameters, with the extent at this offset.
    Params(u16),
    /// A number of elements of this many bytes each.
    Elements(u8),
    /// Elements of this many bytes per row of a 2D fill.
    WidthElements(u8),
    /// A pointer to 2D copy parameters, with width and height at this offset.
    AreaParams(u16),
    /// Any other argument.
    Other,
}

impl ArgumentRole {
    /// Returns true for the width of a row.
    pub(crate) fn is_width(self) -> bool {
        matches!(self, Self::Width | Self::WidthElements(_))
    }

    /// Returns the bytes of a unit of an argument that the size of the call follows from.
    pub(crate) fn unit(self) -> Option<u64> {
        match self {
            Self::Elements(bytes) | Self::WidthElements(bytes) => Some(bytes.into()),
            Self::Bytes | Self::Width | Self::Params(_) | Self::AreaParams(_) => Some(1),
            _ => None,
        }
    }
}

use ArgumentRole::{
    AreaParams, Block, Block3, Bytes, Config, Elements, Graph, Grid, Grid3, Handle, Height, Kernel, Kind,
    Name, Other, Out, Params, Stream, Threads3, Width, WidthElements,
};

const LAUNCH: &[ArgumentRole] = &[Kernel, Grid, Block, Other, Other, Stream];
const DRIVER_LAUNCH: &[ArgumentRole] = &[Kernel, Grid3, Block3, Other, Stream, Other, Other];
const COPY: &[ArgumentRole] = &[Other, Other, Bytes];
const PEER: &[ArgumentRole] = &[Other, Other, Other, Other, Bytes];
const PEER_STREAM: &[ArgumentRole] = &[Other, Other, Other, Other, Bytes, Stream];
const COPY_KIND: &[ArgumentRole] = &[Other, Other, Bytes, Kind];
const COPY_STREAM: &[ArgumentRole] = &[Other, Other, Bytes, Stream];
const COPY_KIND_STREAM: &[ArgumentRole] = &[Other, Other, Bytes, Kind, Stream];
const GRAPH: &[ArgumentRole] = &[Graph];
const HANDLE: &[ArgumentRole] = &[Handle];
const HANDLE_BYTES: &[ArgumentRole] = &[Handle, Bytes];
const HANDLE_BYTES_OTHER: &[ArgumentRole] = &[Handle, Bytes, Other];
const HANDLE_STREAM: &[ArgumentRole] = &[Handle, Stream];
const HANDLE_STREAM_OTHER: &[ArgumentRole] = &[Handle, Stream, Other];
const OUT: &[ArgumentRole] = &[Out];
const OUT_OTHER: &[ArgumentRole] = &[Out, Other];
const OUT_BYTES: &[ArgumentRole] = &[Out, Bytes];
const OUT_BYTES_OTHER: &[ArgumentRole] = &[Out, Bytes, Other];
const OUT_GRAPH_OTHER: &[ArgumentRole] = &[Out, Graph, Other];
const NODE_GRAPH: &[ArgumentRole] = &[Other, Graph, Other, Other, Other];
const NODE_GRAPH_DATA: &[ArgumentRole] = &[Other, Graph, Other, Other, Other, Other];
const OUT_OTHER_BYTES: &[ArgumentRole] = &[Out, Other, Bytes];
const REGISTER: &[ArgumentRole] = &[Other, Kernel, Other, Name, Other, Other, Other, Other, Other, Other];
const STREAM: &[ArgumentRole] = &[Stream];
const STREAM_HANDLE_OTHER: &[ArgumentRole] = &[Stream, Handle, Other];
const STREAM_OTHER: &[ArgumentRole] = &[Stream, Other];
const STREAM_GRAPH: &[ArgumentRole] = &[Stream, Graph, Other, Other, Other, Other];
const STREAM_OUT: &[ArgumentRole] = &[Stream, Out];

/// Prototypes sorted by symbol. A twin has that of its row.
static PROTOTYPES: &[(&str, &[ArgumentRole])] = &[
    ("__cudaRegisterFunction", REGISTER),
    ("__hipRegisterFunction", REGISTER),
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
    ("cuKernelGetFunction", OUT_BYTES),
    ("cuLaunchCooperativeKernel", &[Kernel, Grid3, Block3, Other, Stream, Other]),
    ("cuLaunchKernel", DRIVER_LAUNCH),
    ("cuLaunchKernelEx", &[Config, Kernel, Other, Other]),
    ("cuLibraryGetKernel", OUT_OTHER_BYTES),
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
    ("cuMemcpy", COPY),
    ("cuMemcpy2DAsync_v2", &[AreaParams(112), Stream]),
    ("cuMemcpy2DUnaligned_v2", &[AreaParams(112)]),
    ("cuMemcpy2D_v2", &[AreaParams(112)]),
    ("cuMemcpy3DAsync_v2", &[Params(176), Stream]),
    ("cuMemcpy3DPeer", &[Params(176)]),
    ("cuMemcpy3DPeerAsync", &[Params(176), Stream]),
    ("cuMemcpy3D_v2", &[Params(176)]),
    ("cuMemcpyAsync", COPY_STREAM),
    ("cuMemcpyDtoDAsync_v2", COPY_STREAM),
    ("cuMemcpyDtoD_v2", COPY),
    ("cuMemcpyDtoHAsync_v2", COPY_STREAM),
    ("cuMemcpyDtoH_v2", COPY),
    ("cuMemcpyHtoDAsync_v2", COPY_STREAM),
    ("cuMemcpyHtoD_v2", COPY),
    ("cuMemcpyPeer", PEER),
    ("cuMemcpyPeerAsync", PEER_STREAM),
    ("cuMemsetD16Async", &[Other, Other, Elements(2), Stream]),
    ("cuMemsetD16_v2", &[Other, Other, Elements(2)]),
    ("cuMemsetD2D16Async", &[Other, Other, Other, WidthElements(2), Height, Stream]),
    ("cuMemsetD2D16_v2", &[Other, Other, Other, WidthElements(2), Height]),
    ("cuMemsetD2D32Async", &[Other, Other, Other, WidthElements(4), Height, Stream]),
    ("cuMemsetD2D32_v2", &[Other, Other, Other, WidthElements(4), Height]),
    ("cuMemsetD2D8Async", &[Other, Other, Other, Width, Height, Stream]),
    ("cuMemsetD2D8_v2", &[Other, Other, Other, Width, Height]),
    ("cuMemsetD32Async", &[Other, Other, Elements(4), Stream]),
    ("cuMemsetD32_v2", &[Other, Other, Elements(4)]),
    ("cuMemsetD8Async", &[Other, Other, Bytes, Stream]),
    ("cuMemsetD8_v2", &[Other, Other, Bytes]),
    ("cuModuleGetFunction", OUT_OTHER_BYTES),
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
    ("cudaGetFuncBySymbol", OUT_BYTES),
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
    ("cudaLibraryGetKernel", OUT_OTHER_BYTES),
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
    ("cudaMemcpyBatchAsync", &[Other; 9]),
    ("cudaMemcpyPeer", PEER),
    ("cudaMemcpyPeerAsync", PEER_STREAM),
    ("cudaMemset", &[Other, Other, Bytes]),
    ("cudaMemset2D", &[Other, Other, Other, Width, Height]),
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
    ("hipGetFuncBySymbol", OUT_BYTES),
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
    ("hipMemcpy2D", &[Other, Other, Other, Other, Width, Height, Kind]),
    ("hipMemcpy2DAsync", &[Other, Other, Other, Other, Width, Height, Kind, Stream]),
    ("hipMemcpyAsync", COPY_KIND_STREAM),
    ("hipMemcpyDtoD", COPY),
    ("hipMemcpyDtoDAsync", COPY_STREAM),
    ("hipMemcpyDtoH", COPY),
    ("hipMemcpyDtoHAsync", COPY_STREAM),
    ("hipMemcpyHtoD", COPY),
    ("hipMemcpyHtoDAsync", COPY_STREAM),
    ("hipMemcpyPeer", PEER),
    ("hipMemcpyPeerAsync", PEER_STREAM),
    ("hipMemcpyWithStream", COPY_KIND_STREAM),
    ("hipMemset", COPY),
    ("hipMemset2D", &[Other, Other, Other, Width, Height]),
    ("hipMemset2DAsync", &[Other, Other, Other, Width, Height, Stream]),
    ("hipMemsetAsync", COPY_STREAM),
    ("hipMemsetD16", &[Other, Other, Elements(2)]),
    ("hipMemsetD16Async", &[Other, Other, Elements(2), Stream]),
    ("hipMemsetD32", &[Other, Other, Elements(4)]),
    ("hipMemsetD32Async", &[Other, Other, Elements(4), Stream]),
    ("hipMemsetD8", &[Other, Other, Bytes]),
    ("hipMemsetD8Async", &[Other, Other, Bytes, Stream]),
    ("hipModuleGetFunction", OUT_OTHER_BYTES),
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

/// Returns the roles of a function's arguments, in order; `None` if this file lacks its line.
pub fn prototype(function: &StubFunction) -> Option<&'static [ArgumentRole]> {
    let at = PROTOTYPES.binary_search_by_key(&function.probe.symbol, |(symbol, _)| symbol).ok()?;
    Some(PROTOTYPES[at].1)
}

/// Returns true if an argument of the function has the role.
pub fn has(function: &StubFunction, role: ArgumentRole) -> bool {
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
        for (_, function) in StubFunction::all() {
            let symbol = function.probe.symbol;
            assert!(prototype(&function).is_some(), "{symbol}: add its C prototype to src/prototype.rs");
        }
    }

    #[test]
    fn every_prototype_belongs_to_a_function() {
        for (symbol, _) in PROTOTYPES {
            assert!(
                StubFunction::all().any(|(_, f)| f.probe.symbol == *symbol),
                "{symbol} is exported by no stub"
            );
        }
    }
}
