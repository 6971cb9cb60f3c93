//! Memory, errors and copies, from individual calls and from sums.

mod common;

use common::*;
use event::{Event, OperationTotal, ProcessId};
use gpu::Settings;
use opentelemetry_proto::tonic::trace::v1::Span;
use probe_abi::Direction;
use probe_abi::record::flag;

const OF_NVIDIA: &str = "gpu.api.vendor=nvidia";
const COMPLETE: &str = "gpu.memory.coverage=complete";

#[test]
fn unfreed_allocations_are_reported() {
    let mut program = Program::new(100);
    program.allocate(0x10, 3_000, 0);
    program.wait(4 * SECOND);
    program.allocate(0x20, 500, 0);
    program.free(0x20);
    program.allocate(0x30, 70, 0);
    let output = analysed(&events(&[program], false), Settings::default());
    let last = output.last_of(100);
    assert_eq!(values(last, "gpu.cuda.memory.allocations")[OF_NVIDIA], 3_570.0);
    assert_eq!(values(last, "gpu.cuda.memory.free.bytes")[OF_NVIDIA], 500.0);
    assert_eq!(values(last, "gpu.cuda.memory.live")[COMPLETE], 3_070.0);
    let age = values(last, "gpu.cuda.memory.oldest.age")[COMPLETE];
    assert!((5.0..5.5).contains(&age), "{age}");
}

/// Of what a process allocated before the agent attached, only the frees are seen.
#[test]
fn memory_of_a_late_process_is_marked_as_partial() {
    let mut program = Program::new(100);
    program.free(0x10);
    program.free(0);
    program.allocate(0x20, 500, 0);
    let mut events = events(&[program], false);
    for event in &mut events {
        if let Event::Call(call) = event {
            call.header.flags |= flag::LATE;
        }
    }
    let output = analysed(&events, Settings::default());
    let last = output.last_of(100);
    assert_eq!(values(last, "gpu.cuda.memory.live")["gpu.memory.coverage=partial"], 500.0);
    assert!(values(last, "gpu.cuda.memory.oldest.age").contains_key("gpu.memory.coverage=partial"));
    assert_eq!(values(output.account(), "warptap.allocation.unknown.frees")[""], 1.0);
}

#[test]
fn a_failed_allocation_is_an_error_only() {
    let mut program = Program::new(100);
    program.allocate(0x10, 1 << 40, 2);
    program.allocate(0x10, 1 << 40, 2);
    program.allocate(0x10, 10, 0);
    let output = analysed(&events(&[program], false), Settings::default());
    let last = output.last_of(100);
    assert_eq!(values(last, "gpu.cuda.memory.live")[COMPLETE], 10.0);
    let error = "error.type=cudaErrorMemoryAllocation,gpu.api.vendor=nvidia";
    let errors = values(last, "gpu.cuda.errors");
    assert_eq!(errors[&format!("{error},gpu.cuda.operation.name=cudaMalloc")], 2.0);
    let counts = values(last, "gpu.cuda.operation.count");
    let failed = format!("{error},gpu.cuda.api=runtime,gpu.cuda.operation.name=cudaMalloc");
    assert_eq!(counts[&failed], 2.0);
    assert_eq!(counts["gpu.api.vendor=nvidia,gpu.cuda.api=runtime,gpu.cuda.operation.name=cudaMalloc"], 1.0);
}

#[test]
fn failed_allocation_is_logged_with_held_memory() {
    let mut program = Program::new(100);
    program.allocate(0x10, 40 << 30, 0);
    program.allocate(0x20, 2 << 20, 0);
    program.free(0x20);
    program.wait(SECOND);
    program.allocate(0x30, 1 << 40, 2);
    let output = analysed(&events(&[program], false), Settings::default());
    let [(_, log)] = output.logs("gpu.memory.allocation.failed")[..] else { panic!("one record") };
    let attributes = [
        ("error.type", "cudaErrorMemoryAllocation"),
        ("gpu.cuda.operation.name", "cudaMalloc"),
        ("gpu.memory.count", "1"),
        ("gpu.memory.coverage", "complete"),
        ("gpu.memory.freed.sizes", "2097152"),
        ("gpu.memory.largest", "42949672960"),
        ("gpu.memory.live", "42949672960"),
        ("gpu.memory.requested", "1099511627776"),
    ];
    for (key, expected) in attributes {
        assert_eq!(text(&log.attributes, key), expected, "{key}");
    }
    let age: f64 = text(&log.attributes, "gpu.memory.freed.ages").parse().unwrap();
    assert!((1.0..1.01).contains(&age), "{age}");
    assert_eq!(
        show(log.body.as_ref()),
        "cudaMalloc of 1048576.0 MiB failed with cudaErrorMemoryAllocation: the process holds 40960.0 MiB in 1 allocations"
    );
}

#[test]
fn repeated_allocation_failures_are_limited() {
    let mut program = Program::new(100);
    (0..200).for_each(|_| program.allocate(0x10, 1 << 40, 2));
    let output = analysed(&events(&[program], false), Settings::default());
    let logged = output.logs("gpu.memory.allocation.failed").len() as f64;
    assert_eq!(logged, 5.0);
    assert_eq!(logged + values(output.account(), "warptap.allocation.logs_suppressed")[""], 200.0);
}

#[test]
fn leak_is_logged_once_and_once_when_it_ends() {
    let mut program = Program::new(100);
    program.allocate(0x10, 1 << 30, 0);
    program.leak(12, 24 << 20);
    (0..12).for_each(|minute| program.free(0x10_0000 + minute));
    (0..90).for_each(|_| {
        program.decode(5 * MS);
        program.wait(2 * SECOND);
    });
    let output = analysed(&events(&[program], false), Settings::default());
    let logged = output.logs("gpu.memory.leak");
    let [(_, suspected), (_, recovered)] = logged[..] else { panic!("{logged:?}") };
    assert_eq!(text(&suspected.attributes, "gpu.memory.leak.state"), "suspected");
    assert_eq!(text(&suspected.attributes, "gpu.memory.leak.size.min"), "16777216");
    let growth = number(&suspected.attributes, "gpu.memory.leak.growth");
    assert!(growth >= f64::from((5 * 24) << 20), "{growth}");
    assert_eq!(growth, number(&suspected.attributes, "gpu.memory.leak.size.growth"));
    assert_eq!(text(&recovered.attributes, "gpu.memory.leak.state"), "recovered");
}

#[test]
fn outlier_of_a_decode_names_the_oldest_allocations() {
    let mut program = Program::new(100);
    program.allocate(0x10, 15 << 30, 0);
    program.wait(SECOND);
    program.allocate(0x20, 40 << 30, 0);
    program.serve(700, 5 * MS);
    program.decode(40 * MS);
    program.serve(100, 5 * MS);
    program.prefill(200 * MS);
    program.serve(20, 5 * MS);
    let output = analysed(&events(&[program], false), Settings::default());
    let of = |phase: &str| {
        let is_of = |span: &&&Span| text(&span.attributes, "gpu.step.phase") == phase;
        let spans = output.outliers();
        *spans.iter().find(is_of).unwrap_or_else(|| panic!("an outlier of {phase}"))
    };
    let (decode, prefill) = (of("decode"), of("prefill"));
    assert_eq!(text(&decode.attributes, "gpu.memory.oldest.sizes"), "16106127360;42949672960");
    let ages = text(&decode.attributes, "gpu.memory.oldest.ages");
    let ages: Vec<f64> = ages.split(';').map(|age| age.parse().unwrap()).collect();
    assert!((ages[0] - ages[1] - 1.0).abs() < 0.001, "{ages:?}");
    assert_eq!(number(&decode.attributes, "gpu.memory.oldest.age"), ages[0]);
    assert!(prefill.attributes.iter().all(|a| !a.key.starts_with("gpu.memory.oldest.sizes")));
    assert!(prefill.attributes.iter().any(|a| a.key == "gpu.memory.oldest.age"));
}

#[test]
fn pool_and_virtual_memory_is_counted() {
    let mut program = Program::new(100);
    program.call("cudaMallocAsync", US, |c| (c.handle, c.bytes) = (Some(0x10), 5));
    program.call("cuMemCreate", US, |c| (c.handle, c.bytes, c.stream) = (Some(0x10), 70, 0));
    program.call("cuMemMap", US, |c| (c.handle, c.bytes, c.stream) = (Some(0x999), 70, 0));
    program.call("cuMemCreate", US, |c| (c.handle, c.bytes, c.stream) = (Some(0x11), 900, 0));
    program.call("cuMemRelease", US, |c| (c.handle, c.stream) = (Some(0x10), 0));
    let output = analysed(&events(&[program.clone()], false), Settings::default());
    assert_eq!(values(output.last_of(100), "gpu.cuda.memory.live")[COMPLETE], 905.0);
    program.call("cudaFreeAsync", US, |c| c.handle = Some(0x10));
    let output = analysed(&events(&[program], false), Settings::default());
    assert_eq!(values(output.last_of(100), "gpu.cuda.memory.live")[COMPLETE], 900.0);
    assert_eq!(values(output.last_of(100), "gpu.cuda.memory.allocations")[OF_NVIDIA], 975.0);
}

#[test]
fn allocations_above_the_bound_are_counted_as_untracked() {
    let mut program = Program::new(100);
    for address in 0..20_000 {
        program.call("cudaMalloc", US, |c| (c.handle, c.bytes, c.stream) = (Some(address + 1), 1, 0));
    }
    let output = analysed(&events(&[program], false), Settings::default());
    let live = values(output.last_of(100), "gpu.cuda.memory.live")[COMPLETE];
    let untracked = values(output.account(), "warptap.allocation.untracked")[""];
    assert_eq!(live + untracked, 20_000.0);
    assert_eq!(values(output.last_of(100), "gpu.cuda.memory.allocations")[OF_NVIDIA], 20_000.0);
    assert!(untracked > 0.0);
}

#[test]
fn copies_are_summed_by_direction_and_fills_separately() {
    let mut program = Program::new(100);
    program.serve(60, 5 * MS);
    program.call("cudaMemsetAsync", US, |c| c.bytes = 640);
    program.decode(5 * MS);
    let output = analysed(&events(&[program], false), Settings::default());
    let last = output.last_of(100);
    let copied = values(last, "gpu.cuda.memory.copy.bytes");
    let to_device = f64::from(61 * 4096 + 3 * (1 << 20));
    assert_eq!(copied["cuda.memcpy.kind=MemcpyHostToDevice,gpu.api.vendor=nvidia"], to_device);
    assert_eq!(copied["cuda.memcpy.kind=MemcpyDeviceToHost,gpu.api.vendor=nvidia"], f64::from(61 * 512));
    assert_eq!(values(last, "gpu.cuda.memset.bytes")[OF_NVIDIA], 640.0);
}

/// What an ended process had enqueued is reported without a call; it was attributed to NVIDIA. So was everything of a
/// process after totals of RCCL, which exports NCCL's names.
#[test]
fn copies_of_hip_processes_are_of_amd() {
    let mut program = Program::new(100);
    program.call("hipMemcpyAsync", US, |c| (c.bytes, c.direction) = (4096, Direction::HostToDevice));
    let mut events = events(&[program], true);
    let process = ProcessId { pid: 100, start_ns: 100_000 };
    let rccl = OperationTotal { process, row: row("ncclAllReduce"), calls: 1, ..OperationTotal::default() };
    let last = events.len() - 1;
    events.insert(last, Event::Operation(Box::new(rccl)));
    let output = analysed(&events, Settings::default());
    let copied = values(output.last_of(100), "gpu.cuda.memory.copy.bytes");
    assert_eq!(copied.keys().collect::<Vec<_>>(), ["cuda.memcpy.kind=MemcpyHostToDevice,gpu.api.vendor=amd"]);
}

#[test]
fn too_many_kinds_of_errors_share_a_series() {
    let mut program = Program::new(100);
    let timed = probe_abi::PROBES.iter().filter(|p| p.is_timed() && p.library == probe_abi::Library::Cudart);
    for row in timed.take(30) {
        for result in 1..40 {
            program.call(row.symbol, US, |c| (c.result, c.handle) = (result, Some(1)));
        }
    }
    let output = analysed(&events(&[program], false), Settings::default());
    let errors = values(output.last_of(100), "gpu.cuda.errors");
    assert!(errors.len() <= 257, "{}", errors.len());
    assert!(errors["otel.metric.overflow=true"] > 0.0);
    assert_eq!(values(output.account(), "warptap.series.overflow")[""], 1.0);
}

#[test]
fn durations_equal_the_kernel_histogram() {
    let mut program = Program::new(100);
    let raw: Vec<u64> = (0..500).map(|n| 40 + n * n * 31).collect();
    raw.iter().for_each(|ns| program.call("cudaStreamWaitEvent", *ns, |_| {}));
    let output = analysed(&events(&[program], false), Settings::default());
    let [point] = distributions(output.last_of(100), "gpu.cuda.operation.duration") else {
        panic!("one function was called")
    };
    assert_eq!((point.scale, point.zero_threshold, point.count), (2, (-24f64).exp2(), 500));
    assert_eq!(point.sum, Some(raw.iter().sum::<u64>() as f64 / 1e9));
    for (low, high, count) in buckets(point) {
        let inside = raw.iter().filter(|ns| **ns as f64 / 1e9 > low && **ns as f64 / 1e9 <= high).count();
        assert_eq!(count as usize, inside, "({low}, {high}]");
    }
}
