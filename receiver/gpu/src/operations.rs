//! Metrics of the functions of one process, from the kernel's counters: calls, durations, launches, waits.
//!
//! The kernel counts all calls of a function together and reports each failed one individually. Failed calls are
//! subtracted from the total and added to the series of their error, once a total includes them, so that no series
//! decreases.

use std::collections::BTreeMap;

use event::OperationTotal;
use instrumentation::TimeRange;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use probe_abi::{Action, Api, Library, Probe};
use semconv::{attribute, metric, value};

use crate::functions::LaunchSeries;
use crate::points::{self, Durations, text};

/// Value of `gpu.cuda.kernel.name` for all functions without a series of their own, as other conventions have it.
const OTHERS: &str = "_OTHER";
/// Minimum number of calls of a function with a usual duration.
const USUAL_CALLS_MIN: u64 = 10;
/// The maximum number of failed calls of a function that no total includes yet. Above it they stay in the total.
const WAITING_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Operation {
    calls: u64,
    /// Estimated calls that were not observed.
    unobserved: u64,
    returned: u64,
    all: Durations,
    read_at_ns: u64,
    failed: BTreeMap<&'static str, Durations>,
    /// Return time, error and duration.
    waiting: Vec<(u64, &'static str, u64)>,
}

/// The functions of one process by probe row.
#[derive(Debug, Default)]
pub(crate) struct Operations {
    rows: BTreeMap<u16, Operation>,
}

impl Operations {
    /// Records a failed call.
    pub(crate) fn fail(&mut self, row: u16, error: &'static str, exit_ns: u64, duration_ns: u64) {
        let operation = self.rows.entry(row).or_default();
        let is_late = exit_ns <= operation.read_at_ns;
        if !is_late && operation.waiting.len() < WAITING_MAX {
            operation.waiting.push((exit_ns, error, duration_ns));
        }
    }

    /// Replaces the total of a function. Unknown rows are ignored.
    pub(crate) fn replace(&mut self, total: &OperationTotal) {
        let operation = self.rows.entry(total.row).or_default();
        operation.calls = operation.calls.max(total.calls);
        operation.unobserved = operation.unobserved.max(total.unobserved);
        operation.returned = operation.returned.max(total.returned);
        operation.read_at_ns = operation.read_at_ns.max(total.at_ns);
        operation.all.sum_ns = total.sum_ns;
        operation.all.max_ns = (total.returned > 0).then_some(total.max_ns);
        operation.all.zero_count = total.zero_count;
        operation.all.set_buckets(&total.buckets);
        operation.sort_out_failed();
    }

    /// Returns the usual duration of a call of this function in s: the median of all calls in its last total;
    /// `None` if there were too few.
    pub(crate) fn usual_s(&self, row: u16) -> Option<f64> {
        let operation = self.rows.get(&row).filter(|o| o.returned >= USUAL_CALLS_MIN)?;
        operation.all.median_s()
    }

    /// Returns the number of kernel launches by the libraries of a vendor, estimated ones included.
    pub(crate) fn launches(&self, of: value::GpuApiVendor) -> u64 {
        let launches = |(id, operation): (&u16, &Operation)| {
            let row = probe_abi::row(*id).filter(|row| row.action == Action::Launch && vendor(row) == of)?;
            (row.api != Api::Collective).then(|| operation.calls.saturating_add(operation.unobserved))
        };
        self.rows.iter().filter_map(launches).fold(0, u64::saturating_add)
    }

    /// Returns the metrics of all functions. `names` are the GPU functions that were launched by the libraries of `vendor`.
    pub(crate) fn metrics(
        &self,
        window: TimeRange,
        vendor: value::GpuApiVendor,
        names: Option<&LaunchSeries>,
    ) -> Vec<Metric> {
        let known = self.rows.iter().filter_map(|(id, o)| Some((probe_abi::row(*id)?, o)));
        // Collectives have their own metrics.
        let known = known.filter(|(row, _)| row.api != Api::Collective);
        let known: Vec<(&Probe, &Operation)> = known.collect();
        let launches = |action| launches(&known, action);
        let made = [
            (metric::GPU_CUDA_OPERATION_COUNT, counts(&known)),
            (metric::GPU_CUDA_OPERATION_ESTIMATED, estimated(&known)),
            (metric::GPU_CUDA_KERNEL_LAUNCH_CALLS, by_name(launches(Action::Launch), vendor, names)),
            (metric::GPU_CUDA_GRAPH_LAUNCH_CALLS, launches(Action::GraphLaunch)),
        ];
        let sums = made.into_iter().filter(|(_, points)| !points.is_empty());
        let mut metrics: Vec<Metric> =
            sums.map(|(metric, points)| points::sums(metric, window, points)).collect();
        let made = [
            (metric::GPU_CUDA_OPERATION_DURATION, durations(&known)),
            (metric::GPU_CUDA_SYNC_DURATION, waits(&known)),
        ];
        let histograms = made.into_iter().filter(|(_, points)| !points.is_empty());
        metrics.extend(histograms.map(|(metric, points)| points::histograms(metric, window, points)));
        metrics
    }
}

impl Operation {
    fn sort_out_failed(&mut self) {
        let read_at_ns = self.read_at_ns;
        for (_, error, duration_ns) in self.waiting.extract_if(.., |(exit_ns, ..)| *exit_ns <= read_at_ns) {
            self.failed.entry(error).or_default().add(duration_ns);
        }
    }

    fn failed_count(&self) -> u64 {
        self.failed.values().map(Durations::count).sum()
    }

    fn succeeded(&self) -> Durations {
        let mut rest = self.all.clone();
        self.failed.values().for_each(|failed| rest.subtract(failed));
        rest
    }
}

/// Returns the vendor that a call of the row shows; `None` for collectives, since RCCL exports NCCL's names.
pub(crate) fn shown_vendor(row: &Probe) -> Option<value::GpuApiVendor> {
    (row.library != Library::Nccl).then(|| vendor(row))
}

/// Returns the vendor of the row's library.
fn vendor(row: &Probe) -> value::GpuApiVendor {
    match row.library {
        Library::Amdhip => value::GpuApiVendor::Amd,
        Library::Cuda | Library::Cudart | Library::Nccl => value::GpuApiVendor::Nvidia,
    }
}

fn attributes(row: &Probe, error: Option<&str>) -> Vec<KeyValue> {
    let api = match row.api {
        Api::Driver => value::GpuCudaApi::Driver,
        Api::Runtime | Api::Collective => value::GpuCudaApi::Runtime,
    };
    let error = error.map(|e| text(attribute::ERROR_TYPE, e));
    let own = [
        text(attribute::GPU_API_VENDOR, vendor(row).as_str()),
        text(attribute::GPU_CUDA_API, api.as_str()),
        text(attribute::GPU_CUDA_OPERATION_NAME, row.symbol),
    ];
    error.into_iter().chain(own).collect()
}

fn counts(known: &[(&Probe, &Operation)]) -> Vec<(Vec<KeyValue>, Value)> {
    let mut points = Vec::new();
    for (row, operation) in known {
        // Timed calls are counted on return; otherwise a failed call would be counted twice until then.
        let all = if row.is_timed() { operation.returned } else { operation.calls };
        let all = all.saturating_add(operation.unobserved);
        let succeeded = all.saturating_sub(operation.failed_count());
        points.push((attributes(row, None), points::count(succeeded)));
        for (error, failed) in &operation.failed {
            points.push((attributes(row, Some(error)), points::count(failed.count())));
        }
    }
    points
}

/// Returns the estimated calls of the functions that have any.
fn estimated(known: &[(&Probe, &Operation)]) -> Vec<(Vec<KeyValue>, Value)> {
    let thinned = known.iter().filter(|(_, operation)| operation.unobserved > 0);
    thinned.map(|(row, operation)| (attributes(row, None), points::count(operation.unobserved))).collect()
}

fn durations(known: &[(&Probe, &Operation)]) -> Vec<(Vec<KeyValue>, Durations)> {
    let mut points = Vec::new();
    for (row, operation) in known.iter().filter(|(_, o)| o.returned > 0) {
        points.push((attributes(row, None), operation.succeeded()));
        for (error, failed) in &operation.failed {
            points.push((attributes(row, Some(error)), failed.clone()));
        }
    }
    points
}

fn launches(known: &[(&Probe, &Operation)], action: Action) -> Vec<(Vec<KeyValue>, Value)> {
    let mut calls: BTreeMap<value::GpuApiVendor, u64> = BTreeMap::new();
    for (row, operation) in known.iter().filter(|(row, _)| row.action == action) {
        let sum = calls.entry(vendor(row)).or_default();
        *sum = sum.saturating_add(operation.calls).saturating_add(operation.unobserved);
    }
    let point = |(vendor, calls): (value::GpuApiVendor, u64)| {
        (vec![text(attribute::GPU_API_VENDOR, vendor.as_str())], points::count(calls))
    };
    calls.into_iter().map(point).collect()
}

/// Replaces the point of a vendor by one for each name, and one for all others.
fn by_name(
    points: Vec<(Vec<KeyValue>, Value)>,
    of: value::GpuApiVendor,
    names: Option<&LaunchSeries>,
) -> Vec<(Vec<KeyValue>, Value)> {
    let Some(names) = names else { return points };
    let vendor = text(attribute::GPU_API_VENDOR, of.as_str());
    let others = Some((OTHERS, names.others)).filter(|(_, launches)| *launches > 0);
    let named = names.named.iter().map(|(name, launches)| (name.as_str(), *launches)).chain(others);
    let point = |(name, launches): (&str, u64)| {
        (vec![vendor.clone(), text(attribute::GPU_CUDA_KERNEL_NAME, name)], points::count(launches))
    };
    let of_others = points.iter().filter(|(attributes, _)| !attributes.contains(&vendor)).cloned();
    of_others.chain(named.map(point)).collect()
}

/// Returns the kind of wait of a row, if it is a sync call.
fn sync_kind(row: &Probe) -> Option<value::GpuCudaSyncKind> {
    match row.action {
        Action::StreamSync => Some(value::GpuCudaSyncKind::Stream),
        Action::EventSync => Some(value::GpuCudaSyncKind::Event),
        Action::DeviceSync => Some(value::GpuCudaSyncKind::Device),
        Action::Copy if row.wiring.blocking => Some(value::GpuCudaSyncKind::Memcpy),
        _ => None,
    }
}

fn waits(known: &[(&Probe, &Operation)]) -> Vec<(Vec<KeyValue>, Durations)> {
    let mut waits: BTreeMap<(value::GpuApiVendor, value::GpuCudaSyncKind), Durations> = BTreeMap::new();
    for (row, operation) in known.iter().filter(|(_, o)| o.returned > 0) {
        if let Some(kind) = sync_kind(row) {
            waits.entry((vendor(row), kind)).or_default().merge(&operation.all);
        }
    }
    let point = |((vendor, kind), durations): ((value::GpuApiVendor, value::GpuCudaSyncKind), Durations)| {
        let vendor = text(attribute::GPU_API_VENDOR, vendor.as_str());
        (vec![vendor, text(attribute::GPU_CUDA_SYNC_KIND, kind.as_str())], durations)
    };
    waits.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests;
