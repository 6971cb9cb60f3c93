//! Memory, errors, copies: what single calls and sums of them say.

mod common;

use common::*;
use gpu::Settings;

const OF_NVIDIA: &str = "gpu.api.vendor=nvidia";

#[test]
fn memory_is_what_was_allocated_and_not_freed() {
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
    assert_eq!(values(last, "gpu.cuda.memory.live")[""], 3_070.0);
    let age = values(last, "gpu.cuda.memory.oldest.age")[""];
    assert!((5.0..5.5).contains(&age), "{age}");
}

#[test]
fn an_allocation_that_failed_allocates_nothing_and_is_an_error() {
    let mut program = Program::new(100);
    program.allocate(0x10, 1 << 40, 2);
    program.allocate(0x10, 1 << 40, 2);
    program.allocate(0x10, 10, 0);
    let output = analysed(&events(&[program], false), Settings::default());
    let last = output.last_of(100);
    assert_eq!(values(last, "gpu.cuda.memory.live")[""], 10.0);
    let error = "error.type=cudaErrorMemoryAllocation,gpu.api.vendor=nvidia";
    let errors = values(last, "gpu.cuda.errors");
    assert_eq!(errors[&format!("{error},gpu.cuda.operation.name=cudaMalloc")], 2.0);
    let counts = values(last, "gpu.cuda.operation.count");
    let failed = format!("{error},gpu.cuda.api=runtime,gpu.cuda.operation.name=cudaMalloc");
    assert_eq!(counts[&failed], 2.0);
    assert_eq!(counts["gpu.api.vendor=nvidia,gpu.cuda.api=runtime,gpu.cuda.operation.name=cudaMalloc"], 1.0);
}

#[test]
fn allocations_beyond_the_bound_are_counted_as_untracked() {
    let mut program = Program::new(100);
    for address in 0..20_000 {
        program.call("cudaMalloc", US, |c| (c.handle, c.bytes, c.stream) = (Some(address + 1), 1, 0));
    }
    let output = analysed(&events(&[program], false), Settings::default());
    let live = values(output.last_of(100), "gpu.cuda.memory.live")[""];
    let untracked = values(output.account(), "warptap.allocation.untracked")[""];
    assert_eq!(live + untracked, 20_000.0);
    assert_eq!(values(output.last_of(100), "gpu.cuda.memory.allocations")[OF_NVIDIA], 20_000.0);
    assert!(untracked > 0.0);
}

#[test]
fn copies_are_summed_by_direction_and_fills_by_themselves() {
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

#[test]
fn more_kinds_of_errors_than_expected_share_one_series_which_is_counted() {
    let mut program = Program::new(100);
    let timed = table::PROBES.iter().filter(|p| p.is_timed() && p.library == table::Library::Cudart);
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
fn kernel_made_durations_are_the_calls_durations() {
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
