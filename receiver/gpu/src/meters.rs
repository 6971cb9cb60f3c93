//! Metrics of one process that are recorded as they happen: steps, copies, memory, errors.
//!
//! A step costs about 200 ns: four recordings, each a hash of one to four static attributes. Copied bytes are added
//! up and recorded on collection. Nothing is allocated for an existing series.

use std::collections::BTreeMap;

use instrumentation::Instruments;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram};
use opentelemetry_proto::tonic::metrics::v1::Metric;
use probe_abi::fold::Counter as Work;
use probe_abi::record::StepRecord;
use semconv::value::{CudaMemcpyKind, GpuApiVendor, GpuStepOutlier, GpuStepPhase, GpuStepStatistic};
use semconv::{attribute, metric};
use steps::{BaselineLevel, Outlier, Step};

use crate::instruments::instruments;
use crate::memory::Memory;
use crate::points::seconds;

/// The copy direction of each counter of a step.
const COPIES: [(Work, CudaMemcpyKind); 4] = [
    (Work::BytesToDevice, CudaMemcpyKind::HostToDevice),
    (Work::BytesFromDevice, CudaMemcpyKind::DeviceToHost),
    (Work::BytesOnDevice, CudaMemcpyKind::DeviceToDevice),
    (Work::BytesElsewhere, CudaMemcpyKind::Default),
];

/// The instruments of one process.
#[derive(Debug)]
pub(crate) struct Meters {
    instruments: Instruments,
    duration: Histogram<f64>,
    enqueue: Histogram<f64>,
    wait: Histogram<f64>,
    gap: Histogram<f64>,
    baseline: Gauge<f64>,
    host_bound: Gauge<f64>,
    outliers: Counter<u64>,
    copied: Counter<u64>,
    filled: Counter<u64>,
    allocated: Counter<u64>,
    freed: Counter<u64>,
    errors: Counter<u64>,
    live: Gauge<u64>,
    oldest: Gauge<f64>,
    /// Attributes of the process's model, on every duration.
    model: Vec<KeyValue>,
    by_outlier: BTreeMap<(GpuStepOutlier, GpuStepPhase), Vec<KeyValue>>,
    /// Bytes since the last collection by vendor.
    bytes: [Bytes; GpuApiVendor::ALL.len()],
    /// Bytes since the last collection of segments that ended without a call, before any call had shown the vendor.
    unattributed: Bytes,
}

/// Bytes copied, in the order of [`COPIES`], then filled.
type Bytes = [u64; COPIES.len() + 1];

impl Meters {
    /// Creates empty instruments.
    pub(crate) fn new() -> Meters {
        let instruments = instruments();
        Meters {
            duration: instruments.histogram(metric::GPU_STEP_DURATION),
            enqueue: instruments.histogram(metric::GPU_STEP_ENQUEUE_DURATION),
            wait: instruments.histogram(metric::GPU_STEP_WAIT_DURATION),
            gap: instruments.histogram(metric::GPU_STEP_GAP_DURATION),
            baseline: instruments.f64_gauge(metric::GPU_STEP_BASELINE),
            host_bound: instruments.f64_gauge(metric::GPU_STEP_HOST_BOUND_RATIO),
            outliers: instruments.u64_counter(metric::GPU_STEP_OUTLIERS),
            copied: instruments.u64_counter(metric::GPU_CUDA_MEMORY_COPY_BYTES),
            filled: instruments.u64_counter(metric::GPU_CUDA_MEMSET_BYTES),
            allocated: instruments.u64_counter(metric::GPU_CUDA_MEMORY_ALLOCATIONS),
            freed: instruments.u64_counter(metric::GPU_CUDA_MEMORY_FREE_BYTES),
            errors: instruments.u64_counter(metric::GPU_CUDA_ERRORS),
            live: instruments.u64_gauge(metric::GPU_CUDA_MEMORY_LIVE),
            oldest: instruments.f64_gauge(metric::GPU_CUDA_MEMORY_OLDEST_AGE),
            instruments,
            model: Vec::new(),
            by_outlier: BTreeMap::new(),
            bytes: Default::default(),
            unattributed: Bytes::default(),
        }
    }

    /// Sets the provider and the model of later durations.
    pub(crate) fn set_model(&mut self, provider: Option<&str>, model: Option<&str>) {
        let provider = provider.map(|p| KeyValue::new(attribute::GEN_AI_PROVIDER_NAME, p.to_owned()));
        let model = model.map(|m| KeyValue::new(attribute::GEN_AI_REQUEST_MODEL, m.to_owned()));
        self.model = provider.into_iter().chain(model).collect();
        self.by_outlier.clear();
    }

    /// Records the times of a step.
    pub(crate) fn step(&mut self, step: &Step) {
        let (outlier, phase) = (step.outlier, step.phase);
        let model = &self.model;
        let attributes = self.by_outlier.entry((outlier, phase)).or_insert_with(|| {
            let own = [
                KeyValue::new(attribute::GPU_STEP_OUTLIER, outlier.as_str()),
                KeyValue::new(attribute::GPU_STEP_PHASE, phase.as_str()),
            ];
            model.iter().cloned().chain(own).collect()
        });
        self.duration.record(seconds(step.duration_ns), attributes);
        let phase = [KeyValue::new(attribute::GPU_STEP_PHASE, phase.as_str())];
        self.enqueue.record(seconds(step.enqueue_ns), &phase);
        self.wait.record(seconds(step.wait_ns), &phase);
        if step.gap_ns > 0 {
            self.gap.record(seconds(step.gap_ns), &phase);
        }
        if step.outlier != Outlier::None {
            self.outlier(step);
        }
    }

    /// Adds the copied and filled bytes of a segment. Those without a vendor are added to the one known at the collection.
    pub(crate) fn work(&mut self, vendor: Option<GpuApiVendor>, record: &StepRecord) {
        let counters = COPIES.map(|(counter, _)| counter).into_iter().chain([Work::BytesFilled]);
        let bytes = vendor.map_or(&mut self.unattributed, |vendor| &mut self.bytes[vendor as usize]);
        for (bytes, counter) in bytes.iter_mut().zip(counters) {
            *bytes = bytes.saturating_add(record.work[counter as usize]);
        }
    }

    fn record_bytes(&mut self, vendor: GpuApiVendor) {
        let unattributed = std::mem::take(&mut self.unattributed);
        for (bytes, more) in self.bytes[vendor as usize].iter_mut().zip(unattributed) {
            *bytes = bytes.saturating_add(more);
        }
        let bytes = std::mem::take(&mut self.bytes);
        for (vendor, bytes) in GpuApiVendor::ALL.into_iter().zip(bytes) {
            let [copied @ .., filled] = bytes;
            let of_vendor = || KeyValue::new(attribute::GPU_API_VENDOR, vendor.as_str());
            for ((_, kind), copied) in COPIES.into_iter().zip(copied).filter(|(_, bytes)| *bytes > 0) {
                let kind = KeyValue::new(attribute::CUDA_MEMCPY_KIND, kind.as_str());
                self.copied.add(copied, &[kind, of_vendor()]);
            }
            if filled > 0 {
                self.filled.add(filled, &[of_vendor()]);
            }
        }
    }

    /// Counts an outlier, with or without a span.
    fn outlier(&self, step: &Step) {
        let attributes = [
            KeyValue::new(attribute::GPU_STEP_CAUSE, step.cause().as_str()),
            KeyValue::new(attribute::GPU_STEP_OUTLIER, step.outlier.as_str()),
            KeyValue::new(attribute::GPU_STEP_PHASE, step.phase.as_str()),
        ];
        self.outliers.add(1, &attributes);
    }

    /// Records allocated memory.
    pub(crate) fn allocate(&self, vendor: GpuApiVendor, bytes: u64) {
        self.allocated.add(bytes, &[KeyValue::new(attribute::GPU_API_VENDOR, vendor.as_str())]);
    }

    /// Records freed memory.
    pub(crate) fn free(&self, vendor: GpuApiVendor, bytes: u64) {
        self.freed.add(bytes, &[KeyValue::new(attribute::GPU_API_VENDOR, vendor.as_str())]);
    }

    /// Counts a failed call.
    pub(crate) fn error(&self, error: &'static str, vendor: GpuApiVendor, operation: &'static str) {
        let attributes = [
            KeyValue::new(attribute::ERROR_TYPE, error),
            KeyValue::new(attribute::GPU_API_VENDOR, vendor.as_str()),
            KeyValue::new(attribute::GPU_CUDA_OPERATION_NAME, operation),
        ];
        self.errors.add(1, &attributes);
    }

    /// Records allocated memory and the age of the oldest allocation, for a collection.
    pub(crate) fn record_memory(&self, memory: &Memory, now_ns: u64) {
        let coverage = [KeyValue::new(attribute::GPU_MEMORY_COVERAGE, memory.coverage().as_str())];
        self.live.record(memory.live_bytes(), &coverage);
        self.oldest.record(seconds(memory.oldest_age_ns(now_ns).unwrap_or(0)), &coverage);
    }

    /// Records the baseline of a phase, for a collection.
    pub(crate) fn usual(&self, phase: GpuStepPhase, level: &BaselineLevel) {
        let rows = [(GpuStepStatistic::Mean, level.mean_ns), (GpuStepStatistic::P95, level.p95_ns)];
        for (statistic, ns) in rows {
            let attributes = [
                KeyValue::new(attribute::GPU_STEP_PHASE, phase.as_str()),
                KeyValue::new(attribute::GPU_STEP_STATISTIC, statistic.as_str()),
            ];
            self.baseline.record(ns / 1e9, &attributes);
        }
    }

    /// Records the host's share of the time of a phase, for a collection.
    pub(crate) fn share(&self, phase: GpuStepPhase, host_bound: f64) {
        self.host_bound.record(host_bound, &[KeyValue::new(attribute::GPU_STEP_PHASE, phase.as_str())]);
    }

    /// Returns all metrics. `vendor` is that of the process's GPU library.
    pub(crate) fn collect(&mut self, vendor: GpuApiVendor) -> Vec<Metric> {
        self.record_bytes(vendor);
        self.instruments.collect()
    }
}
