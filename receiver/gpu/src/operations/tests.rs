//! Conversion of totals to points, and attribution of failed calls to their errors.

use opentelemetry_proto::tonic::metrics::v1::metric::Data;

use super::*;

const WINDOW: TimeRange = TimeRange { start: 1, time: 2 };

fn row(symbol: &str) -> u16 {
    probe_abi::PROBES.iter().find(|p| p.symbol == symbol).unwrap().id
}

fn total(symbol: &str, at_ns: u64, durations: &[u64]) -> OperationTotal {
    let mut all = Durations::default();
    durations.iter().for_each(|ns| all.add(*ns));
    let count = durations.len() as u64;
    OperationTotal {
        at_ns,
        row: row(symbol),
        calls: count,
        returned: count,
        sum_ns: all.sum_ns,
        max_ns: all.max_ns.unwrap_or(0),
        zero_count: all.zero_count,
        buckets: all.buckets,
        ..OperationTotal::default()
    }
}

/// Returns the count and the sum in ns of each point of a metric, by the value of its last attribute except the
/// name.
fn points(operations: &Operations, name: &str) -> Vec<(String, u64, u64)> {
    let metrics = operations.metrics(WINDOW, value::GpuApiVendor::Nvidia, None);
    let Some(metric) = metrics.into_iter().find(|m| m.name == name) else { return Vec::new() };
    let label = |attributes: &[KeyValue]| {
        let values =
            attributes.iter().map(|a| format!("{:?}", a.value.as_ref().unwrap().value.as_ref().unwrap()));
        let joined = values.collect::<Vec<_>>().join(" ");
        joined.replace("StringValue(\"", "").replace("\")", "")
    };
    match metric.data.unwrap() {
        Data::Sum(sum) => {
            let value =
                |v: Option<Value>| if let Some(Value::AsInt(n)) = v { n as u64 } else { panic!("{v:?}") };
            sum.data_points.into_iter().map(|p| (label(&p.attributes), value(p.value), 0)).collect()
        }
        Data::ExponentialHistogram(h) => {
            let sum = |s: Option<f64>| (s.unwrap() * 1e9).round() as u64;
            h.data_points.into_iter().map(|p| (label(&p.attributes), p.count, sum(p.sum))).collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_later_total_replaces_an_earlier_one() {
    let mut operations = Operations::default();
    operations.replace(&total("cudaMalloc", 10, &[100, 200]));
    operations.replace(&total("cudaMalloc", 20, &[100, 200, 300]));
    let want = vec![("nvidia runtime cudaMalloc".to_owned(), 3, 600)];
    assert_eq!(points(&operations, "gpu.cuda.operation.duration"), want);
}

#[test]
fn a_failed_call_is_counted_once_under_its_error() {
    let mut operations = Operations::default();
    operations.fail(row("cudaMalloc"), "cudaErrorMemoryAllocation", 15, 300);
    assert_eq!(points(&operations, "gpu.cuda.operation.duration"), vec![]);
    operations.replace(&total("cudaMalloc", 20, &[100, 200, 300]));
    let want = vec![
        ("nvidia runtime cudaMalloc".to_owned(), 2, 300),
        ("cudaErrorMemoryAllocation nvidia runtime cudaMalloc".to_owned(), 1, 300),
    ];
    assert_eq!(points(&operations, "gpu.cuda.operation.duration"), want);
    let counts: Vec<u64> = points(&operations, "gpu.cuda.operation.count").iter().map(|p| p.1).collect();
    assert_eq!(counts, [2, 1]);
}

#[test]
fn a_failed_call_after_the_total_is_in_the_next() {
    let mut operations = Operations::default();
    operations.fail(row("cudaMalloc"), "cudaErrorMemoryAllocation", 25, 300);
    operations.replace(&total("cudaMalloc", 20, &[100, 200]));
    assert_eq!(points(&operations, "gpu.cuda.operation.duration").len(), 1);
    operations.replace(&total("cudaMalloc", 30, &[100, 200, 300]));
    assert_eq!(points(&operations, "gpu.cuda.operation.duration")[1].1, 1);
}

#[test]
fn no_series_decreases() {
    let mut operations = Operations::default();
    operations.replace(&total("cudaMalloc", 20, &[100, 200, 300]));
    // The record arrives after the total that counts the call.
    operations.fail(row("cudaMalloc"), "cudaErrorMemoryAllocation", 15, 300);
    operations.replace(&total("cudaMalloc", 30, &[100, 200, 300]));
    assert_eq!(points(&operations, "gpu.cuda.operation.duration")[0].1, 3);
}

#[test]
fn launches_are_added_by_vendor() {
    let mut operations = Operations::default();
    for symbol in ["cudaLaunchKernel", "cuLaunchKernelEx", "hipLaunchKernel"] {
        operations.replace(&OperationTotal { returned: 0, ..total(symbol, 10, &[1, 1]) });
    }
    operations.replace(&total("cudaGraphLaunch", 10, &[5]));
    let want = vec![("amd".to_owned(), 2, 0), ("nvidia".to_owned(), 4, 0)];
    assert_eq!(points(&operations, "gpu.cuda.kernel.launch.calls"), want);
    assert_eq!(points(&operations, "gpu.cuda.graph.launch.calls"), vec![("nvidia".to_owned(), 1, 0)]);
}

#[test]
fn waits_are_grouped_by_sync_kind() {
    let mut operations = Operations::default();
    for symbol in ["cudaStreamSynchronize", "cuStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy"] {
        operations.replace(&total(symbol, 10, &[1_000, 2_000]));
    }
    operations.replace(&total("cudaMemcpyAsync", 10, &[7]));
    let kinds: Vec<(String, u64)> =
        points(&operations, "gpu.cuda.sync.duration").into_iter().map(|(k, n, _)| (k, n)).collect();
    let want = [("nvidia event", 2), ("nvidia memcpy", 2), ("nvidia stream", 4)];
    assert_eq!(kinds, want.map(|(k, n)| (k.to_owned(), n)));
}

#[test]
fn untimed_functions_have_a_count_without_durations() {
    let mut operations = Operations::default();
    operations.replace(&OperationTotal {
        calls: 7,
        row: row("cudaLaunchKernel"),
        ..OperationTotal::default()
    });
    assert_eq!(points(&operations, "gpu.cuda.operation.count")[0].1, 7);
    assert_eq!(points(&operations, "gpu.cuda.operation.duration"), vec![]);
}

#[test]
fn unknown_rows_are_ignored() {
    let mut operations = Operations::default();
    operations.replace(&OperationTotal { calls: 7, row: 255, ..OperationTotal::default() });
    assert_eq!(operations.metrics(WINDOW, value::GpuApiVendor::Nvidia, None), vec![]);
}
