//! Probe rows: every probed function. To probe another one, add a row here.
//!
//! Sorted by id. Ids are part of recordings: never reuse one, retire it in place. Positions are those of the CUDA 12.9
//! and 13.5 headers (`cuda_runtime_api.h`, `cuda.h`), of ROCm 7's `hip_runtime_api.h` and of nccl.h 2.32; `pncclX` is
//! an alias of `ncclX` at the same address. Not probed: `__cudaLaunchKernel`, which jumps into `cudaLaunchKernel`, so
//! that one call would count twice; fills of 3D memory (`cudaMemset3D`, `hipMemset3D`), which take structs by value, at
//! positions that differ by architecture; copies of arrays and symbols.

mod columns;

use self::columns::{cuda, cudart, hip, moves, nccl};
use crate::Cookie;
use crate::nccl::{Operation, Role};
use crate::probe::Action::{
    AliasFunction, Alloc, AllocPhysical, CaptureBegin, CaptureEnd, Copy, Create, DeviceSync, EventDestroy,
    EventRecord, EventSync, Fill, Free, FreePhysical, GraphChange, GraphDestroy, GraphLaunch, GraphUpdate,
    Instantiate, Launch, NameFunction, Query, RegisterFunction, Report, SetDevice, StreamCreate,
    StreamDestroy, StreamSync, StreamWait, Time,
};
use crate::probe::Bytes::{Area, Arg, Product, Volume};
use crate::probe::Direction::{DeviceToDevice, DeviceToHost, HostToDevice, Unknown};
use crate::probe::{Grid, Library, PointeeKind, Probe};

/// Every probed function, sorted by id. Of the ids below 256, 29, 38, 39, 211 and 255 are free.
pub static PROBES: &[Probe] = &[
    // CUDA runtime: work.
    cudart(1, "cudaLaunchKernel", Launch).twin("cudaLaunchKernel_ptsz").grid(Grid::Dim3).stream(8),
    cudart(2, "cudaLaunchCooperativeKernel", Launch)
        .twin("cudaLaunchCooperativeKernel_ptsz")
        .grid(Grid::Dim3)
        .stream(8),
    cudart(3, "cudaLaunchKernelExC", Launch).twin("cudaLaunchKernelExC_ptsz").grid(Grid::Config).stream(15),
    cudart(4, "cudaGraphLaunch", GraphLaunch).twin("cudaGraphLaunch_ptsz").handle(1).stream(2),
    cudart(5, "cudaMemcpy", Copy).twin("cudaMemcpy_ptds").bytes(Arg(3)).kind(4).blocking(),
    cudart(6, "cudaMemcpyAsync", Copy).twin("cudaMemcpyAsync_ptsz").bytes(Arg(3)).kind(4).stream(5),
    cudart(7, "cudaMemcpy2D", Copy).twin("cudaMemcpy2D_ptds").bytes(Product(5)).kind(7).blocking(),
    cudart(8, "cudaMemcpy2DAsync", Copy).twin("cudaMemcpy2DAsync_ptsz").bytes(Product(5)).kind(7).stream(8),
    cudart(9, "cudaMemcpyPeer", Copy).bytes(Arg(5)).direction(DeviceToDevice).blocking(),
    cudart(10, "cudaMemcpyPeerAsync", Copy).bytes(Arg(5)).direction(DeviceToDevice).stream(6),
    cudart(11, "cudaMemcpy3D", Copy)
        .twin("cudaMemcpy3D_ptds")
        .bytes(Volume(128))
        .direction(Unknown)
        .blocking(),
    cudart(12, "cudaMemcpy3DAsync", Copy)
        .twin("cudaMemcpy3DAsync_ptsz")
        .bytes(Volume(128))
        .direction(Unknown)
        .stream(2),
    cudart(13, "cudaMemcpy3DPeer", Copy)
        .twin("cudaMemcpy3DPeer_ptds")
        .bytes(Volume(144))
        .direction(DeviceToDevice)
        .blocking(),
    cudart(14, "cudaMemcpy3DPeerAsync", Copy)
        .twin("cudaMemcpy3DPeerAsync_ptsz")
        .bytes(Volume(144))
        .direction(DeviceToDevice)
        .stream(2),
    cudart(15, "cudaMemset", Fill).twin("cudaMemset_ptds").bytes(Arg(3)),
    cudart(16, "cudaMemsetAsync", Fill).twin("cudaMemsetAsync_ptsz").bytes(Arg(3)).stream(4),
    cudart(17, "cudaMemset2DAsync", Fill).twin("cudaMemset2DAsync_ptsz").bytes(Product(4)).stream(6),
    // CUDA runtime: more copies and fills. The stream of a batch is the ninth argument of CUDA 12 and the eighth of CUDA
    // 13, which has no `failIdx`, and its sizes are a list: it is counted and timed, but is no work of a step.
    cudart(18, "cudaMemcpyBatchAsync", Time).twin("cudaMemcpyBatchAsync_ptsz"),
    cudart(19, "cudaMemset2D", Fill).twin("cudaMemset2D_ptds").bytes(Product(4)),
    // CUDA runtime: memory.
    cudart(20, "cudaMalloc", Alloc).handle(1).bytes(Arg(2)),
    cudart(21, "cudaMallocManaged", Alloc).handle(1).bytes(Arg(2)),
    cudart(22, "cudaMallocAsync", Alloc).twin("cudaMallocAsync_ptsz").handle(1).bytes(Arg(2)).stream(3),
    cudart(23, "cudaMallocFromPoolAsync", Alloc)
        .twin("cudaMallocFromPoolAsync_ptsz")
        .handle(1)
        .bytes(Arg(2))
        .stream(4),
    cudart(24, "cudaHostAlloc", Create).handle(1).bytes(Arg(2)),
    cudart(25, "cudaMallocHost", Create).handle(1).bytes(Arg(2)),
    cudart(26, "cudaFree", Free).handle(1),
    cudart(27, "cudaFreeAsync", Free).twin("cudaFreeAsync_ptsz").handle(1).stream(2),
    cudart(28, "cudaFreeHost", Report).handle(1),
    // CUDA runtime: waiting.
    cudart(30, "cudaStreamSynchronize", StreamSync).twin("cudaStreamSynchronize_ptsz").stream(1),
    cudart(31, "cudaDeviceSynchronize", DeviceSync),
    cudart(32, "cudaEventRecord", EventRecord).twin("cudaEventRecord_ptsz").handle(1).stream(2),
    cudart(33, "cudaEventRecordWithFlags", EventRecord)
        .twin("cudaEventRecordWithFlags_ptsz")
        .handle(1)
        .stream(2),
    cudart(34, "cudaEventSynchronize", EventSync).handle(1),
    cudart(35, "cudaEventQuery", Query).handle(1),
    cudart(36, "cudaStreamQuery", Query).twin("cudaStreamQuery_ptsz").stream(1),
    cudart(37, "cudaStreamWaitEvent", StreamWait).twin("cudaStreamWaitEvent_ptsz").stream(1).handle(2),
    // CUDA runtime: graphs, streams, events, devices.
    cudart(40, "cudaStreamBeginCapture", CaptureBegin).twin("cudaStreamBeginCapture_ptsz").stream(1),
    cudart(41, "cudaStreamEndCapture", CaptureEnd).twin("cudaStreamEndCapture_ptsz").stream(1).handle(2),
    cudart(42, "cudaGraphInstantiate", Instantiate).handle(1).graph(2),
    cudart(43, "cudaGraphInstantiateWithFlags", Instantiate).handle(1).graph(2),
    cudart(44, "cudaGraphInstantiateWithParams", Instantiate)
        .twin("cudaGraphInstantiateWithParams_ptsz")
        .handle(1)
        .graph(2),
    cudart(45, "cudaGraphExecUpdate", GraphUpdate).handle(1).graph(2),
    cudart(46, "cudaGraphExecDestroy", GraphDestroy).handle(1),
    cudart(47, "cudaSetDevice", SetDevice).handle(1),
    cudart(48, "cudaStreamCreate", StreamCreate).handle(1),
    cudart(49, "cudaStreamCreateWithFlags", StreamCreate).handle(1).bytes(Arg(2)),
    cudart(50, "cudaStreamCreateWithPriority", StreamCreate).handle(1).bytes(Arg(2)),
    cudart(51, "cudaStreamDestroy", StreamDestroy).stream(1),
    cudart(52, "cudaEventCreate", Time).handle(1),
    cudart(53, "cudaEventCreateWithFlags", Time).handle(1),
    cudart(54, "cudaEventDestroy", EventDestroy).handle(1),
    // CUDA runtime: more memory. The size of `cudaMalloc3D` and of arrays is not an argument.
    cudart(55, "cudaMallocPitch", Alloc).handle(1).bytes(Product(3)),
    cudart(56, "cudaHostRegister", Report).handle(1).bytes(Arg(2)),
    cudart(57, "cudaHostUnregister", Report).handle(1),
    cudart(58, "cudaMemPoolCreate", Create).handle(1),
    cudart(59, "cudaMemPoolDestroy", Report).handle(1),
    cudart(60, "cudaMemPoolTrimTo", Report).handle(1).bytes(Arg(2)),
    // CUDA runtime: more graph functions. Of those that add a node, the ones that add kernels.
    cudart(61, "cudaGraphDestroy", GraphDestroy).graph(1),
    cudart(62, "cudaGraphAddKernelNode", GraphChange).graph(2),
    cudart(63, "cudaGraphAddNode", GraphChange).graph(2),
    cudart(64, "cudaGraphAddChildGraphNode", GraphChange).graph(2),
    cudart(65, "cudaStreamBeginCaptureToGraph", CaptureBegin)
        .twin("cudaStreamBeginCaptureToGraph_ptsz")
        .stream(1)
        .graph(2),
    // CUDA driver: more copies, and fills. The direction of 2D and 3D copies is not known: their struct has it as two types of
    // memory.
    cuda(66, "cuMemcpy", Copy).twin("cuMemcpy_ptds").bytes(Arg(3)).direction(Unknown).blocking(),
    cuda(67, "cuMemcpyPeer", Copy)
        .twin("cuMemcpyPeer_ptds")
        .bytes(Arg(5))
        .direction(DeviceToDevice)
        .blocking(),
    cuda(68, "cuMemcpyPeerAsync", Copy)
        .twin("cuMemcpyPeerAsync_ptsz")
        .bytes(Arg(5))
        .direction(DeviceToDevice)
        .stream(6),
    cuda(69, "cuMemcpy2D_v2", Copy).twin("cuMemcpy2D_v2_ptds").bytes(Area(112)).direction(Unknown).blocking(),
    cuda(70, "cuMemcpy2DUnaligned_v2", Copy)
        .twin("cuMemcpy2DUnaligned_v2_ptds")
        .bytes(Area(112))
        .direction(Unknown)
        .blocking(),
    cuda(71, "cuMemcpy2DAsync_v2", Copy)
        .twin("cuMemcpy2DAsync_v2_ptsz")
        .bytes(Area(112))
        .direction(Unknown)
        .stream(2),
    cuda(72, "cuMemcpy3D_v2", Copy)
        .twin("cuMemcpy3D_v2_ptds")
        .bytes(Volume(176))
        .direction(Unknown)
        .blocking(),
    cuda(73, "cuMemcpy3DAsync_v2", Copy)
        .twin("cuMemcpy3DAsync_v2_ptsz")
        .bytes(Volume(176))
        .direction(Unknown)
        .stream(2),
    cuda(74, "cuMemcpy3DPeer", Copy)
        .twin("cuMemcpy3DPeer_ptds")
        .bytes(Volume(176))
        .direction(DeviceToDevice)
        .blocking(),
    cuda(75, "cuMemcpy3DPeerAsync", Copy)
        .twin("cuMemcpy3DPeerAsync_ptsz")
        .bytes(Volume(176))
        .direction(DeviceToDevice)
        .stream(2),
    cuda(76, "cuMemsetD8_v2", Fill).twin("cuMemsetD8_v2_ptds").bytes(Arg(3)),
    cuda(77, "cuMemsetD8Async", Fill).twin("cuMemsetD8Async_ptsz").bytes(Arg(3)).stream(4),
    cuda(78, "cuMemsetD16_v2", Fill).twin("cuMemsetD16_v2_ptds").bytes(Arg(3)).elements_of(2),
    cuda(79, "cuMemsetD16Async", Fill).twin("cuMemsetD16Async_ptsz").bytes(Arg(3)).elements_of(2).stream(4),
    cuda(80, "cuMemsetD32_v2", Fill).twin("cuMemsetD32_v2_ptds").bytes(Arg(3)).elements_of(4),
    cuda(81, "cuMemsetD32Async", Fill).twin("cuMemsetD32Async_ptsz").bytes(Arg(3)).elements_of(4).stream(4),
    cuda(82, "cuMemsetD2D8_v2", Fill).twin("cuMemsetD2D8_v2_ptds").bytes(Product(4)),
    cuda(83, "cuMemsetD2D8Async", Fill).twin("cuMemsetD2D8Async_ptsz").bytes(Product(4)).stream(6),
    cuda(84, "cuMemsetD2D16_v2", Fill).twin("cuMemsetD2D16_v2_ptds").bytes(Product(4)).elements_of(2),
    cuda(85, "cuMemsetD2D16Async", Fill)
        .twin("cuMemsetD2D16Async_ptsz")
        .bytes(Product(4))
        .elements_of(2)
        .stream(6),
    cuda(86, "cuMemsetD2D32_v2", Fill).twin("cuMemsetD2D32_v2_ptds").bytes(Product(4)).elements_of(4),
    cuda(87, "cuMemsetD2D32Async", Fill)
        .twin("cuMemsetD2D32Async_ptsz")
        .bytes(Product(4))
        .elements_of(4)
        .stream(6),
    // HIP: more copies and fills, those of the default stream first.
    hip(88, "hipMemcpy2D", Copy).twin("hipMemcpy2D_spt").bytes(Product(5)).kind(7).blocking(),
    hip(89, "hipMemcpyPeer", Copy).bytes(Arg(5)).direction(DeviceToDevice).blocking(),
    hip(90, "hipMemcpyDtoH", Copy).bytes(Arg(3)).direction(DeviceToHost).blocking(),
    hip(91, "hipMemcpyHtoD", Copy).bytes(Arg(3)).direction(HostToDevice).blocking(),
    hip(92, "hipMemcpyDtoD", Copy).bytes(Arg(3)).direction(DeviceToDevice).blocking(),
    hip(93, "hipMemset", Fill).twin("hipMemset_spt").bytes(Arg(3)),
    hip(94, "hipMemset2D", Fill).twin("hipMemset2D_spt").bytes(Product(4)),
    hip(95, "hipMemsetD8", Fill).bytes(Arg(3)),
    hip(96, "hipMemsetD16", Fill).bytes(Arg(3)).elements_of(2),
    hip(97, "hipMemsetD32", Fill).bytes(Arg(3)).elements_of(4),
    hip(98, "hipMemcpy2DAsync", Copy).twin("hipMemcpy2DAsync_spt").bytes(Product(5)).kind(7).stream(8),
    hip(99, "hipMemcpyPeerAsync", Copy).bytes(Arg(5)).direction(DeviceToDevice).stream(6),
    // CUDA driver: work.
    cuda(100, "cuLaunchKernel", Launch).twin("cuLaunchKernel_ptsz").grid(Grid::Words).stream(9),
    cuda(101, "cuLaunchKernelEx", Launch).twin("cuLaunchKernelEx_ptsz").grid(Grid::Config).stream(15),
    cuda(102, "cuLaunchCooperativeKernel", Launch)
        .twin("cuLaunchCooperativeKernel_ptsz")
        .grid(Grid::Words)
        .stream(9),
    cuda(103, "cuGraphLaunch", GraphLaunch).twin("cuGraphLaunch_ptsz").handle(1).stream(2),
    cuda(104, "cuMemcpyHtoD_v2", Copy)
        .twin("cuMemcpyHtoD_v2_ptds")
        .bytes(Arg(3))
        .direction(HostToDevice)
        .blocking(),
    cuda(105, "cuMemcpyDtoH_v2", Copy)
        .twin("cuMemcpyDtoH_v2_ptds")
        .bytes(Arg(3))
        .direction(DeviceToHost)
        .blocking(),
    cuda(106, "cuMemcpyDtoD_v2", Copy)
        .twin("cuMemcpyDtoD_v2_ptds")
        .bytes(Arg(3))
        .direction(DeviceToDevice)
        .blocking(),
    cuda(107, "cuMemcpyHtoDAsync_v2", Copy)
        .twin("cuMemcpyHtoDAsync_v2_ptsz")
        .bytes(Arg(3))
        .direction(HostToDevice)
        .stream(4),
    cuda(108, "cuMemcpyDtoHAsync_v2", Copy)
        .twin("cuMemcpyDtoHAsync_v2_ptsz")
        .bytes(Arg(3))
        .direction(DeviceToHost)
        .stream(4),
    cuda(109, "cuMemcpyDtoDAsync_v2", Copy)
        .twin("cuMemcpyDtoDAsync_v2_ptsz")
        .bytes(Arg(3))
        .direction(DeviceToDevice)
        .stream(4),
    cuda(110, "cuMemcpyAsync", Copy).twin("cuMemcpyAsync_ptsz").bytes(Arg(3)).direction(Unknown).stream(4),
    // CUDA driver: memory.
    cuda(111, "cuMemAllocFromPoolAsync", Alloc)
        .twin("cuMemAllocFromPoolAsync_ptsz")
        .handle(1)
        .bytes(Arg(2))
        .stream(4),
    cuda(112, "cuMemAllocPitch_v2", Alloc).handle(1).bytes(Product(3)),
    cuda(113, "cuMemHostAlloc", Create).handle(1).bytes(Arg(2)),
    cuda(114, "cuMemAllocHost_v2", Create).handle(1).bytes(Arg(2)),
    cuda(115, "cuMemAlloc_v2", Alloc).handle(1).bytes(Arg(2)),
    cuda(116, "cuMemAllocAsync", Alloc).twin("cuMemAllocAsync_ptsz").handle(1).bytes(Arg(2)).stream(3),
    cuda(117, "cuMemAllocManaged", Alloc).handle(1).bytes(Arg(2)),
    cuda(118, "cuMemFree_v2", Free).handle(1),
    cuda(119, "cuMemFreeAsync", Free).twin("cuMemFreeAsync_ptsz").handle(1).stream(2),
    cuda(120, "cuMemCreate", AllocPhysical).handle(1).bytes(Arg(2)),
    cuda(121, "cuMemMap", Report).handle(1).bytes(Arg(2)),
    cuda(122, "cuMemUnmap", Report).handle(1).bytes(Arg(2)),
    cuda(123, "cuMemRelease", FreePhysical).handle(1),
    cuda(124, "cuMemFreeHost", Report).handle(1),
    cuda(125, "cuMemHostRegister_v2", Report).handle(1).bytes(Arg(2)),
    cuda(126, "cuMemHostUnregister", Report).handle(1),
    cuda(127, "cuMemPoolCreate", Create).handle(1),
    cuda(128, "cuMemPoolDestroy", Report).handle(1),
    cuda(129, "cuMemPoolTrimTo", Report).handle(1).bytes(Arg(2)),
    // CUDA driver: waiting, graphs.
    cuda(130, "cuStreamSynchronize", StreamSync).twin("cuStreamSynchronize_ptsz").stream(1),
    cuda(131, "cuCtxSynchronize", DeviceSync),
    cuda(132, "cuEventRecord", EventRecord).twin("cuEventRecord_ptsz").handle(1).stream(2),
    cuda(133, "cuEventRecordWithFlags", EventRecord).twin("cuEventRecordWithFlags_ptsz").handle(1).stream(2),
    cuda(134, "cuEventSynchronize", EventSync).handle(1),
    cuda(135, "cuEventQuery", Query).handle(1),
    cuda(136, "cuStreamQuery", Query).twin("cuStreamQuery_ptsz").stream(1),
    cuda(137, "cuStreamBeginCapture_v2", CaptureBegin).twin("cuStreamBeginCapture_v2_ptsz").stream(1),
    cuda(138, "cuStreamEndCapture", CaptureEnd).twin("cuStreamEndCapture_ptsz").stream(1).handle(2),
    cuda(139, "cuGraphInstantiateWithFlags", Instantiate).handle(1).graph(2),
    cuda(140, "cuGraphExecDestroy", GraphDestroy).handle(1),
    cuda(141, "cuStreamDestroy_v2", StreamDestroy).stream(1),
    cuda(142, "cuEventDestroy_v2", EventDestroy).handle(1),
    cuda(143, "cuStreamWaitEvent", StreamWait).twin("cuStreamWaitEvent_ptsz").stream(1).handle(2),
    cuda(144, "cuStreamCreate", StreamCreate).handle(1).bytes(Arg(2)),
    cuda(145, "cuStreamCreateWithPriority", StreamCreate).handle(1).bytes(Arg(2)),
    cuda(146, "cuGraphExecUpdate_v2", GraphUpdate).handle(1).graph(2),
    cuda(147, "cuGraphDestroy", GraphDestroy).graph(1),
    cuda(148, "cuGraphInstantiateWithParams", Instantiate)
        .twin("cuGraphInstantiateWithParams_ptsz")
        .handle(1)
        .graph(2),
    cuda(149, "cuStreamBeginCaptureToGraph", CaptureBegin)
        .twin("cuStreamBeginCaptureToGraph_ptsz")
        .stream(1)
        .graph(2),
    // HIP.
    hip(150, "hipLaunchKernel", Launch).twin("hipLaunchKernel_spt").grid(Grid::Dim3).stream(8),
    hip(151, "hipExtLaunchKernel", Launch).grid(Grid::Dim3).stream(8),
    hip(152, "hipModuleLaunchKernel", Launch).grid(Grid::Words).stream(9),
    hip(153, "hipExtModuleLaunchKernel", Launch).grid(Grid::Threads).stream(9),
    hip(154, "hipGraphLaunch", GraphLaunch).twin("hipGraphLaunch_spt").handle(1).stream(2),
    hip(155, "hipMemcpy", Copy).twin("hipMemcpy_spt").bytes(Arg(3)).kind(4).blocking(),
    hip(156, "hipMemcpyAsync", Copy).twin("hipMemcpyAsync_spt").bytes(Arg(3)).kind(4).stream(5),
    hip(157, "hipMemcpyWithStream", Copy).bytes(Arg(3)).kind(4).stream(5).blocking(),
    hip(158, "hipMemsetAsync", Fill).twin("hipMemsetAsync_spt").bytes(Arg(3)).stream(4),
    hip(159, "hipGraphDestroy", GraphDestroy).graph(1),
    hip(160, "hipMalloc", Alloc).handle(1).bytes(Arg(2)),
    hip(161, "hipMallocAsync", Alloc).handle(1).bytes(Arg(2)).stream(3),
    hip(162, "hipMallocManaged", Alloc).handle(1).bytes(Arg(2)),
    hip(163, "hipFree", Free).handle(1),
    hip(164, "hipFreeAsync", Free).handle(1).stream(2),
    hip(165, "hipHostMalloc", Create).handle(1).bytes(Arg(2)),
    hip(166, "hipHostFree", Report).handle(1),
    hip(167, "hipGraphAddKernelNode", GraphChange).graph(2),
    hip(168, "hipGraphAddNode", GraphChange).graph(2),
    hip(169, "hipGraphAddChildGraphNode", GraphChange).graph(2),
    hip(170, "hipStreamSynchronize", StreamSync).twin("hipStreamSynchronize_spt").stream(1),
    hip(171, "hipDeviceSynchronize", DeviceSync),
    hip(172, "hipEventRecord", EventRecord).twin("hipEventRecord_spt").handle(1).stream(2),
    hip(173, "hipEventRecordWithFlags", EventRecord).handle(1).stream(2),
    hip(174, "hipEventSynchronize", EventSync).handle(1),
    hip(175, "hipEventQuery", Query).handle(1),
    hip(176, "hipStreamQuery", Query).twin("hipStreamQuery_spt").stream(1),
    hip(177, "hipStreamWaitEvent", StreamWait).twin("hipStreamWaitEvent_spt").stream(1).handle(2),
    hip(178, "hipStreamBeginCapture", CaptureBegin).twin("hipStreamBeginCapture_spt").stream(1),
    hip(179, "hipStreamEndCapture", CaptureEnd).twin("hipStreamEndCapture_spt").stream(1).handle(2),
    hip(180, "hipGraphInstantiate", Instantiate).handle(1).graph(2),
    hip(181, "hipGraphInstantiateWithFlags", Instantiate).handle(1).graph(2),
    hip(182, "hipGraphExecUpdate", GraphUpdate).handle(1).graph(2),
    hip(183, "hipGraphExecDestroy", GraphDestroy).handle(1),
    hip(184, "hipSetDevice", SetDevice).handle(1),
    hip(185, "hipStreamDestroy", StreamDestroy).stream(1),
    hip(186, "hipEventDestroy", EventDestroy).handle(1),
    hip(187, "hipStreamCreate", StreamCreate).handle(1),
    hip(188, "hipStreamCreateWithFlags", StreamCreate).handle(1).bytes(Arg(2)),
    hip(189, "hipStreamCreateWithPriority", StreamCreate).handle(1).bytes(Arg(2)),
    // NCCL and RCCL: operations. The `Config` forms (2.32) have one more argument, which is not recorded.
    moves(190, "ncclAllReduce", Operation::AllReduce, 7),
    moves(191, "ncclReduceScatter", Operation::ReduceScatter, 7),
    moves(192, "ncclAllGather", Operation::AllGather, 6),
    moves(193, "ncclReduce", Operation::Reduce, 8),
    moves(194, "ncclBroadcast", Operation::Broadcast, 7),
    moves(195, "ncclBcast", Operation::Broadcast, 6),
    moves(196, "ncclSend", Operation::Send, 6),
    moves(197, "ncclRecv", Operation::Recv, 6),
    moves(198, "ncclAlltoAll", Operation::AllToAll, 6),
    moves(199, "ncclGather", Operation::Gather, 7),
    moves(200, "ncclScatter", Operation::Scatter, 7),
    moves(201, "ncclAllReduceConfig", Operation::AllReduce, 7),
    moves(202, "ncclReduceScatterConfig", Operation::ReduceScatter, 7),
    moves(203, "ncclAllGatherConfig", Operation::AllGather, 6),
    moves(204, "ncclReduceConfig", Operation::Reduce, 8),
    moves(205, "ncclBroadcastConfig", Operation::Broadcast, 7),
    moves(206, "ncclAlltoAllConfig", Operation::AllToAll, 6),
    moves(207, "ncclGatherConfig", Operation::Gather, 7),
    moves(208, "ncclScatterConfig", Operation::Scatter, 7),
    nccl(209, "ncclGroupStart", Role::GroupStart, 0),
    nccl(210, "ncclGroupEnd", Role::GroupEnd, 0).exit(0, PointeeKind::Written),
    // NCCL and RCCL: communicators.
    nccl(212, "ncclCommInitRank", Role::Init, 4)
        .ranks(2, 4)
        .by_value()
        .entry(3, PointeeKind::Id)
        .exit(1, PointeeKind::Word),
    nccl(213, "ncclCommInitRankConfig", Role::Init, 5)
        .ranks(2, 4)
        .by_value()
        .entry(3, PointeeKind::Id)
        .exit(1, PointeeKind::Word),
    nccl(214, "ncclCommInitRankScalable", Role::Init, 6)
        .ranks(2, 3)
        .entry(5, PointeeKind::Id)
        .exit(1, PointeeKind::Word),
    nccl(215, "ncclCommInitAll", Role::InitAll, 3)
        .count(2)
        .entry(3, PointeeKind::Ints)
        .exit(1, PointeeKind::Words),
    nccl(216, "ncclCommSplit", Role::Split, 5).comm(1).color_and_key(2, 3).exit(4, PointeeKind::Word),
    nccl(217, "ncclCommShrink", Role::Shrink, 6)
        .comm(1)
        .count(3)
        .entry(2, PointeeKind::Ints)
        .exit(4, PointeeKind::Word),
    nccl(218, "ncclCommGrow", Role::Grow, 6)
        .comm(1)
        .ranks(2, 4)
        .entry(3, PointeeKind::Id)
        .exit(5, PointeeKind::Word),
    nccl(219, "ncclCommFinalize", Role::Finalize, 1).comm(1),
    nccl(220, "ncclCommDestroy", Role::Destroy, 1).comm(1).ends(1),
    nccl(221, "ncclCommAbort", Role::Abort, 1).comm(1).ends(1),
    nccl(222, "ncclCommCount", Role::Count, 2).comm(1).exit(2, PointeeKind::Int),
    nccl(223, "ncclCommUserRank", Role::UserRank, 2).comm(1).exit(2, PointeeKind::Int),
    nccl(224, "ncclCommCuDevice", Role::CuDevice, 2).comm(1).exit(2, PointeeKind::Int),
    nccl(225, "ncclGetUniqueId", Role::GetUniqueId, 1).exit(1, PointeeKind::Id),
    nccl(226, "ncclGetVersion", Role::Version, 1).exit(1, PointeeKind::Int),
    // HIP: more memory.
    hip(227, "hipMallocFromPoolAsync", Alloc).handle(1).bytes(Arg(2)).stream(4),
    hip(228, "hipExtMallocWithFlags", Alloc).handle(1).bytes(Arg(2)),
    hip(229, "hipMallocPitch", Alloc).handle(1).bytes(Product(3)),
    hip(230, "hipHostAlloc", Create).handle(1).bytes(Arg(2)),
    hip(231, "hipMallocHost", Create).handle(1).bytes(Arg(2)),
    hip(232, "hipFreeHost", Report).handle(1),
    hip(233, "hipHostRegister", Report).handle(1).bytes(Arg(2)),
    hip(234, "hipHostUnregister", Report).handle(1),
    hip(235, "hipMemCreate", AllocPhysical).handle(1).bytes(Arg(2)),
    hip(236, "hipMemMap", Report).handle(1).bytes(Arg(2)),
    hip(237, "hipMemUnmap", Report).handle(1).bytes(Arg(2)),
    hip(238, "hipMemRelease", FreePhysical).handle(1),
    hip(239, "hipMemPoolCreate", Create).handle(1),
    hip(240, "hipMemPoolDestroy", Report).handle(1),
    hip(241, "hipMemPoolTrimTo", Report).handle(1).bytes(Arg(2)),
    // RCCL only: an older name of `ncclAlltoAll`. Its `ncclAllToAllv` has nine arguments and is seen as the sends and
    // receives that it makes.
    moves(242, "ncclAllToAll", Operation::AllToAll, 6),
    // CUDA driver and HIP: more graph functions.
    cuda(243, "cuGraphAddKernelNode_v2", GraphChange).graph(2),
    cuda(244, "cuGraphAddNode_v2", GraphChange).graph(2),
    cuda(245, "cuGraphAddChildGraphNode", GraphChange).graph(2),
    cuda(246, "cuGraphExecUpdate", GraphUpdate).handle(1).graph(2),
    hip(247, "hipStreamBeginCaptureToGraph", CaptureBegin).stream(1).graph(2),
    // HIP: more copies and fills.
    hip(248, "hipMemcpyDtoHAsync", Copy).bytes(Arg(3)).direction(DeviceToHost).stream(4),
    hip(249, "hipMemcpyHtoDAsync", Copy).bytes(Arg(3)).direction(HostToDevice).stream(4),
    hip(250, "hipMemcpyDtoDAsync", Copy).bytes(Arg(3)).direction(DeviceToDevice).stream(4),
    hip(251, "hipMemset2DAsync", Fill).twin("hipMemset2DAsync_spt").bytes(Product(4)).stream(6),
    hip(252, "hipMemsetD8Async", Fill).bytes(Arg(3)).stream(4),
    hip(253, "hipMemsetD16Async", Fill).bytes(Arg(3)).elements_of(2).stream(4),
    hip(254, "hipMemsetD32Async", Fill).bytes(Arg(3)).elements_of(4).stream(4),
    // Names of functions. Compilers generate the calls of the registering ones (`crt/host_runtime.h`).
    cudart(256, "__cudaRegisterFunction", RegisterFunction),
    cudart(257, "cudaLibraryGetKernel", NameFunction).handle(1).bytes(Arg(3)),
    cudart(258, "cudaGetFuncBySymbol", AliasFunction).handle(1).bytes(Arg(2)),
    cuda(259, "cuModuleGetFunction", NameFunction).handle(1).bytes(Arg(3)),
    cuda(260, "cuLibraryGetKernel", NameFunction).handle(1).bytes(Arg(3)),
    cuda(261, "cuKernelGetFunction", AliasFunction).handle(1).bytes(Arg(2)),
    hip(262, "__hipRegisterFunction", RegisterFunction),
    hip(263, "hipModuleGetFunction", NameFunction).handle(1).bytes(Arg(3)),
    hip(264, "hipGetFuncBySymbol", AliasFunction).handle(1).bytes(Arg(2)),
];

/// Returns the row with this id.
pub fn row(id: u16) -> Option<&'static Probe> {
    PROBES.binary_search_by_key(&id, |p| p.id).ok().map(|at| &PROBES[at])
}

/// Returns each symbol of a library with its cookie: rows and their twins. `timed` probes the return of launches, too,
/// for programs that link the runtime statically (see ARCHITECTURE.md).
pub fn attach_points(library: Library, timed: bool) -> impl Iterator<Item = (&'static str, Cookie)> {
    PROBES.iter().filter(move |p| p.library == library).flat_map(move |p| {
        let timed = timed || p.is_timed();
        let own = (p.symbol, Cookie::pack(p, false, timed));
        core::iter::once(own).chain(p.twin.map(|t| (t, Cookie::pack(p, true, timed))))
    })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::collections::BTreeSet;

    use super::*;
    use crate::probe::{Action::RecordArgs, ArgPos, ArgsSpec, Bytes, Pointee};
    use crate::record::ROWS;

    #[test]
    fn ids_are_sorted_unique_and_bounded() {
        assert!(PROBES.windows(2).all(|w| w[0].id < w[1].id));
        assert!(PROBES.iter().all(|p| usize::from(p.id) < ROWS));
    }

    #[test]
    fn symbols_of_a_library_are_unique() {
        for library in [Library::Amdhip, Library::Cuda, Library::Cudart, Library::Nccl] {
            let symbols: std::vec::Vec<_> = attach_points(library, false).map(|(s, _)| s).collect();
            let unique: BTreeSet<_> = symbols.iter().collect();
            assert_eq!(unique.len(), symbols.len(), "{library:?}");
        }
    }

    #[test]
    fn rows_have_the_arguments_that_their_action_needs() {
        for p in PROBES {
            let w = &p.wiring;
            let needs_handle = matches!(
                p.action,
                Alloc
                    | Free
                    | EventSync
                    | EventRecord
                    | EventDestroy
                    | StreamCreate
                    | StreamWait
                    | GraphLaunch
                    | CaptureEnd
                    | Create
                    | AllocPhysical
                    | FreePhysical
                    | Instantiate
                    | GraphUpdate
                    | SetDevice
                    | NameFunction
                    | AliasFunction
            );
            assert!(
                !matches!(p.action, Instantiate | GraphUpdate | GraphChange) || w.graph != ArgPos::NONE,
                "{}: no graph",
                p.symbol
            );
            let is_one = (w.handle == ArgPos::NONE) != (w.graph == ArgPos::NONE);
            assert!(p.action != GraphDestroy || is_one, "{}: a graph, or an executable one", p.symbol);
            assert!(!needs_handle || w.handle != ArgPos::NONE, "{}: no handle", p.symbol);
            assert!(
                !matches!(p.action, StreamSync | StreamDestroy | StreamWait) || w.stream != ArgPos::NONE,
                "{}",
                p.symbol
            );
            assert!(p.action != Launch || w.grid != Grid::None, "{}: a launch without a grid", p.symbol);
            assert!(!matches!(p.action, Copy | Fill) || w.bytes != Bytes::None, "{}: no bytes", p.symbol);
            if let Area(at) | Volume(at) = w.bytes {
                assert!(at % 8 == 0 && at < 512, "{}: offset {at}", p.symbol);
            }
            assert!(w.element_shift <= 2, "{}", p.symbol);
            assert_eq!(w.grid == Grid::Config, w.stream == ArgPos::IN_CONFIG, "{}", p.symbol);
        }
    }

    /// These had no row, so that their bytes were in no step.
    #[test]
    fn copies_and_fills_of_driver_and_hip_are_folded() {
        let of = |symbol: &str| PROBES.iter().find(|p| p.symbol == symbol).map(|p| p.action);
        let copies = [
            "cuMemcpy",
            "cuMemcpyPeerAsync",
            "cuMemcpy2D_v2",
            "cuMemcpy3DAsync_v2",
            "hipMemcpy2D",
            "hipMemcpyDtoH",
        ];
        assert!(copies.into_iter().all(|symbol| of(symbol) == Some(Copy)));
        let fills = ["cuMemsetD32Async", "cuMemsetD2D8_v2", "hipMemset", "hipMemsetD16"];
        assert!(fills.into_iter().all(|symbol| of(symbol) == Some(Fill)));
    }

    #[test]
    fn recorded_arguments_exist_and_their_memory_fits_the_record() {
        use crate::record::{ARGUMENTS, MEMORY_AT_ENTRY, MEMORY_AT_EXIT};
        for p in PROBES {
            let (t, records_args) = (&p.wiring.args, p.action == RecordArgs);
            assert_eq!(records_args, p.library == Library::Nccl, "{}", p.symbol);
            assert!(records_args || *t == ArgsSpec::NONE, "{}", p.symbol);
            assert!(usize::from(t.arguments) <= ARGUMENTS, "{}", p.symbol);
            for position in [t.entry.arg, t.exit.arg, t.count, t.counted, t.ends, t.stream, t.nranks, t.rank]
            {
                assert!(position.0 <= t.arguments, "{}", p.symbol);
            }
            assert!(t.entry.kind.bytes(u64::MAX) <= MEMORY_AT_ENTRY as u64, "{}", p.symbol);
            assert!(t.exit.kind.bytes(u64::MAX) <= MEMORY_AT_EXIT as u64, "{}", p.symbol);
            let is_list = |b: Pointee| matches!(b.kind, PointeeKind::Ints | PointeeKind::Words);
            assert_eq!(is_list(t.entry) || is_list(t.exit), t.count != ArgPos::NONE, "{}", p.symbol);
        }
    }

    #[test]
    fn a_row_is_found_by_its_id() {
        assert_eq!(row(34).map(|p| p.symbol), Some("cudaEventSynchronize"));
        assert_eq!(row(0), None);
    }
}
