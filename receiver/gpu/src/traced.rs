//! One traced process: its resource, its recorded data, and the metrics made from them.

use event::{CallRecord, OperationTotal, ProcessInfo, StepRecord};
use instrumentation::{Limit, TimeRange, normalize_with_start};
use nccl::observe::IN_PROGRESS;
use opentelemetry_proto::tonic::metrics::v1::exemplar::Value as ExemplarValue;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, Metric, ResourceMetrics, metric::Data,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use probe_abi::Probe;
use probe_abi::record::flag;
use semconv::value::{GpuApiVendor, GpuStepOutlier, GpuStepPhase};
use semconv::{attribute, metric};
use steps::{BaselineLevel, Step};

use crate::batch::resource_metrics;
use crate::clock::Clock;
use crate::collectives::emit::Limits;
use crate::collectives::meters::Meters as CollectiveMeters;
use crate::contexts::{Contexts, Relation};
use crate::detail::Calls;
use crate::errors::error_type;
use crate::functions::Functions;
use crate::memory::{Effect, Memory, Piece, Space};
use crate::meters::Meters;
use crate::model;
use crate::operations::{Operations, shown_vendor};
use crate::outlier::{Inside, SpanIds};
use crate::overhead::OverheadState;
use crate::points::{gauges, seconds, text};

/// Number of exemplars stored until the next collection. When full, the oldest is evicted.
const EXEMPLARS_MAX: usize = 16;
const PHASES: usize = GpuStepPhase::ALL.len();

/// Limits and settings of one process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Limit of the spans of outliers.
    pub(crate) spans: Limit,
    /// Relation of these spans to those active on their threads.
    pub(crate) relation: Relation,
    /// Limits of log records about collectives.
    pub(crate) limits: Limits,
    /// The maximum number of ranks with series of their own.
    pub(crate) ranks: usize,
    /// The maximum number of names of functions with series of their own.
    pub(crate) kernel_names: usize,
}

/// State of one phase.
#[derive(Clone, Copy, Debug, Default)]
struct Phase {
    /// The baseline, once warmed up.
    usual: Option<BaselineLevel>,
    steps_ns: u64,
    host_bound_ns: u64,
}

/// A traced process.
#[derive(Debug)]
pub(crate) struct Traced {
    host: Vec<(String, String)>,
    info: ProcessInfo,
    resource: Resource,
    provider: Option<String>,
    model: Option<String>,
    /// Vendor of the GPU library that was called last; `None` before the first call that shows it.
    vendor: Option<GpuApiVendor>,
    first_seen_ns: u64,
    /// The start in ns since 1970, fixed at the first collection so that setting the clock does not move it.
    start_unix: Option<u64>,
    pub(crate) last_seen_ns: u64,
    pub(crate) limit: Limit,
    pub(crate) limits: Limits,
    pub(crate) memory: Memory,
    pub(crate) calls: Calls,
    pub(crate) contexts: Contexts,
    pub(crate) relation: Relation,
    pub(crate) overhead: OverheadState,
    pub(crate) functions: Functions,
    kernel_names_max: usize,
    operations: Operations,
    meters: Option<Meters>,
    ranks_max: usize,
    collectives: Option<Box<CollectiveMeters>>,
    last_step: Option<Box<Step>>,
    phases: [Phase; PHASES],
    exemplars: Vec<(GpuStepOutlier, GpuStepPhase, Exemplar)>,
}

/// Whether the effect of a call on memory is tracked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Tracking {
    /// It is, or it has none.
    Done,
    /// Its allocation is above the bound.
    Untracked,
    /// It frees memory whose allocation is not known.
    UnknownFree,
}

impl Traced {
    /// Creates a process without recorded data.
    pub(crate) fn new(info: &ProcessInfo, host: &[(String, String)], now_ns: u64, bounds: Bounds) -> Traced {
        let first_seen_ns = if info.at_ns == 0 { now_ns } else { info.at_ns };
        let mut traced = Traced {
            host: host.to_vec(),
            info: ProcessInfo::default(),
            resource: Resource::default(),
            provider: None,
            model: None,
            vendor: None,
            first_seen_ns,
            start_unix: None,
            last_seen_ns: first_seen_ns,
            limit: bounds.spans,
            limits: bounds.limits,
            memory: Memory::default(),
            calls: Calls::default(),
            contexts: Contexts::default(),
            relation: bounds.relation,
            overhead: OverheadState::default(),
            functions: Functions::default(),
            kernel_names_max: bounds.kernel_names,
            operations: Operations::default(),
            meters: None,
            ranks_max: bounds.ranks,
            collectives: None,
            last_step: None,
            phases: [Phase::default(); PHASES],
            exemplars: Vec::new(),
        };
        traced.describe(info);
        traced
    }

    /// Updates the description of the process.
    pub(crate) fn describe(&mut self, info: &ProcessInfo) {
        self.info = info.clone();
        self.resource = instrumentation::encoded(&instrumentation::process(info, &self.host));
        let known = |key| model::known(info, key).map(str::to_owned);
        self.provider = known(attribute::GEN_AI_PROVIDER_NAME);
        self.model = known(attribute::GEN_AI_REQUEST_MODEL).or(model::model(info).map(str::to_owned));
        if let Some(meters) = &mut self.meters {
            meters.set_model(self.provider.as_deref(), self.model.as_deref());
        }
    }

    /// Returns the description of the process.
    pub(crate) fn info(&self) -> &ProcessInfo {
        &self.info
    }

    /// Returns the resource of its signals.
    pub(crate) fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Returns the provider and the served model, if known.
    pub(crate) fn serves(&self) -> (Option<&str>, Option<&str>) {
        (self.provider.as_deref(), self.model.as_deref())
    }

    /// Returns the vendor of the GPU library that the process uses; NVIDIA if no call has shown it.
    pub(crate) fn vendor(&self) -> GpuApiVendor {
        self.vendor.unwrap_or(GpuApiVendor::Nvidia)
    }

    /// Stores the vendor of a row's library, if the row shows one.
    fn use_library(&mut self, row: u16) {
        self.vendor = probe_abi::row(row).and_then(shown_vendor).or(self.vendor);
    }

    /// Replaces the total of a function.
    pub(crate) fn operation(&mut self, total: &OperationTotal) {
        self.use_library(total.row);
        self.operations.replace(total);
    }

    /// Returns the longest recorded calls within this time, with the usual durations of their functions.
    pub(crate) fn calls_within(&self, start_ns: u64, end_ns: u64) -> Vec<Inside> {
        let calls = self.calls.within(start_ns, end_ns).into_iter();
        calls.map(|call| Inside { call, usual_s: self.operations.usual_s(call.row) }).collect()
    }

    /// Records an individual call.
    pub(crate) fn call(&mut self, row: &'static Probe, call: &CallRecord) -> Tracking {
        self.use_library(row.id);
        let exit_ns = call.header.entry_ns.saturating_add(call.header.duration_ns);
        if let Some(error) = error_type(row, call.result) {
            self.operations.fail(row.id, error, exit_ns, call.header.duration_ns);
            let vendor = self.vendor();
            self.meters().error(error, vendor, row.symbol);
            return Tracking::Done;
        }
        if call.header.flags & flag::LATE != 0 {
            self.memory.set_partial();
        }
        match Effect::of(row) {
            Some(Effect::Allocates(space)) => self.allocate(space, call, exit_ns),
            Some(Effect::Frees(space)) => self.free(space, call, exit_ns),
            None => Tracking::Done,
        }
    }

    fn allocate(&mut self, space: Space, call: &CallRecord, exit_ns: u64) -> Tracking {
        let vendor = self.vendor();
        self.meters().allocate(vendor, call.bytes);
        match self.memory.allocate(space, call.handle, Piece { bytes: call.bytes, at_ns: exit_ns }) {
            true => Tracking::Done,
            false => Tracking::Untracked,
        }
    }

    fn free(&mut self, space: Space, call: &CallRecord, exit_ns: u64) -> Tracking {
        let vendor = self.vendor();
        match self.memory.free(space, call.handle, exit_ns) {
            Some(bytes) => self.meters().free(vendor, bytes),
            // Freeing a null pointer is allowed and frees nothing.
            None if call.handle != 0 => return Tracking::UnknownFree,
            None => {}
        }
        Tracking::Done
    }

    /// Records the work of a closed segment.
    pub(crate) fn segment(&mut self, record: &StepRecord) {
        self.use_library(record.header.row);
        let vendor = self.vendor;
        self.meters().work(vendor, record);
    }

    /// Records the times and the phase of a step.
    pub(crate) fn step(&mut self, step: &Step) {
        let phase = &mut self.phases[step.phase as usize];
        phase.usual = step.baseline.or(phase.usual);
        phase.steps_ns = phase.steps_ns.saturating_add(step.duration_ns);
        phase.host_bound_ns = phase.host_bound_ns.saturating_add(step.enqueue_ns);
        self.meters().step(step);
        match &mut self.last_step {
            Some(last) => last.as_mut().clone_from(step),
            None => self.last_step = Some(Box::new(step.clone())),
        }
    }

    /// Returns the last step.
    pub(crate) fn last_step(&self) -> Option<&Step> {
        self.last_step.as_deref()
    }

    /// Returns the metrics of its collectives.
    pub(crate) fn collectives(&mut self) -> &mut CollectiveMeters {
        let ranks_max = self.ranks_max;
        self.collectives.get_or_insert_with(|| Box::new(CollectiveMeters::new(ranks_max)))
    }

    /// Records an NCCL call.
    pub(crate) fn call_args(&mut self, row: &'static Probe, result: u32) {
        if let Some(error) = error_type(row, result).filter(|_| result != IN_PROGRESS) {
            self.collectives().error(row.symbol, error);
        }
    }

    /// Adds an exemplar that refers to the span of an outlier.
    pub(crate) fn point_to(&mut self, step: &Step, ids: SpanIds, exit_unix: u64) {
        if self.exemplars.len() == EXEMPLARS_MAX {
            self.exemplars.remove(0);
        }
        let exemplar = Exemplar {
            filtered_attributes: vec![text(attribute::GPU_EVENT_ID, step.id.to_string())],
            time_unix_nano: exit_unix,
            span_id: ids.span.to_bytes().to_vec(),
            trace_id: ids.trace.to_bytes().to_vec(),
            value: Some(ExemplarValue::AsDouble(seconds(step.duration_ns))),
        };
        self.exemplars.push((step.outlier, step.phase, exemplar));
    }

    /// Returns all metrics, and whether any series has its last point in them.
    pub(crate) fn collect(&mut self, clock: &Clock, at_ns: u64) -> (ResourceMetrics, bool) {
        let start = *self.start_unix.get_or_insert_with(|| clock.unix(self.first_seen_ns));
        let window = TimeRange { start, time: clock.unix(at_ns).max(start) };
        let mut metrics = self.recorded(at_ns);
        let vendor = self.vendor();
        let names = self.functions.launches(self.kernel_names_max, self.operations.launches(vendor));
        let counted = self.operations.metrics(window, vendor, names.as_ref());
        let counted_names: Vec<String> = counted.iter().map(|m| m.name.clone()).collect();
        metrics.extend(counted);
        metrics.extend(self.functions.sizes(window));
        metrics.extend(self.overhead.metrics(window));
        metrics.extend(self.unobserved(window));
        let (of_collectives, is_last) =
            self.collectives.as_mut().map(|meters| meters.collect(window)).unwrap_or_default();
        metrics.extend(of_collectives);
        // The kernel's totals continue over a restart of the agent, and so does their start.
        let since =
            Some(self.info.since_unix_ns).filter(|ns| *ns > 0).map_or(start, |since| since.min(start));
        let start_of = |name: &str| if counted_names.iter().any(|n| n == name) { since } else { start };
        normalize_with_start(&mut metrics, window.time, &|name, _| start_of(name));
        self.attach_exemplars(&mut metrics);
        (resource_metrics(self.resource.clone(), metrics), is_last)
    }

    fn recorded(&mut self, at_ns: u64) -> Vec<Metric> {
        let vendor = self.vendor();
        let Some(meters) = &mut self.meters else { return Vec::new() };
        if self.memory.was_used() {
            meters.record_memory(&self.memory, at_ns);
        }
        for (phase, now) in GpuStepPhase::ALL.into_iter().zip(self.phases) {
            if let Some(level) = &now.usual {
                meters.usual(phase, level);
            }
            if now.steps_ns > 0 {
                meters.share(phase, now.host_bound_ns as f64 / now.steps_ns as f64);
            }
        }
        meters.collect(vendor)
    }

    /// Returns how long calls may be missing; `None` of a process that was observed from its first call.
    fn unobserved(&self, window: TimeRange) -> Option<Metric> {
        let unobserved_ns = Some(self.info.unobserved_ns).filter(|ns| *ns > 0)?;
        let points = vec![(Vec::new(), Value::AsDouble(seconds(unobserved_ns)))];
        Some(gauges(metric::WARPTAP_PROCESS_UNOBSERVED, window, points))
    }

    fn attach_exemplars(&mut self, metrics: &mut [Metric]) {
        let durations = metrics.iter_mut().find(|m| m.name == metric::GPU_STEP_DURATION.name());
        let Some(Data::ExponentialHistogram(durations)) = durations.and_then(|m| m.data.as_mut()) else {
            return;
        };
        for (outlier, phase, exemplar) in self.exemplars.drain(..) {
            let points = &mut durations.data_points;
            let model = self.model.as_deref();
            if let Some(point) = points.iter_mut().find(|p| is_series(p, outlier, phase, model)) {
                point.exemplars.push(exemplar);
            }
        }
    }

    /// Returns the meters, which are created on first use: most processes on a node never wait for a GPU.
    fn meters(&mut self) -> &mut Meters {
        let (provider, model) = (self.provider.as_deref(), self.model.as_deref());
        self.meters.get_or_insert_with(|| {
            let mut meters = Meters::new();
            meters.set_model(provider, model);
            meters
        })
    }
}

fn is_series(
    point: &ExponentialHistogramDataPoint,
    outlier: GpuStepOutlier,
    phase: GpuStepPhase,
    model: Option<&str>,
) -> bool {
    let has = |key: &str, value: &str| point.attributes.contains(&text(key, value));
    has(attribute::GPU_STEP_OUTLIER, outlier.as_str())
        && has(attribute::GPU_STEP_PHASE, phase.as_str())
        && model.is_none_or(|model| has(attribute::GEN_AI_REQUEST_MODEL, model))
}
