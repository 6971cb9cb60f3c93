//! The analysis: events in, telemetry out. The receiver adds a clock, threads and a source.
//!
//! Time is an event. Metrics are collected when event time passes an interval, so a recording gives the same bytes as the
//! machine that it was made on, for batches of any size and on every replay.
//!
//! ```text
//! Event -> steps::Engine -> Step -> meters of its process --+-- collection --> metrics, a resource each
//!   |                        `----> outlier: span, record --+-- at once -----> traces, logs
//!   `---> operations, memory, account ----------------------'
//! ```
//!
//! Bounded: processes ([`Settings::processes_max`]; the one silent longest is evicted), spans (a limit for each process),
//! series, allocations and exemplars. Drops are counted in [`crate::account`].

mod collecting;
mod processes;
mod ranks;
mod restore;
mod settings;

use std::collections::{BTreeMap, VecDeque};

use event::{CallRecord, Event, ProcessId, ProcessInfo, StepRecord, TraceContext};
use instrumentation::{DroppedItems, Records};
use opentelemetry_proto::tonic::resource::v1::Resource;
use persist::PersistDrops;
use probe_abi::Probe;
use probe_abi::detail::Detail;
use steps::{Engine, Finding, Outlier, Step};

use crate::account::Account;
use crate::batch::Sink;
use crate::clock::Clock;
use crate::collectives::Collectives;
use crate::detail::{Call, Trouble};
use crate::emit;
use crate::instruments::scope;
use crate::memory::{self, Effect};
use crate::traced::{Traced, Tracking};

pub use settings::{Found, Look, Settings, WorkloadRule};

/// The analysis of all processes.
#[derive(Debug)]
pub struct Analyzer {
    settings: Settings,
    engine: Engine,
    /// `None` if collectives are disabled.
    collectives: Option<Collectives>,
    clock: Clock,
    trouble: Trouble,
    /// Start of the metrics in ns since 1970, fixed at the first collection.
    start_unix: Option<u64>,
    first_ns: Option<u64>,
    collect_at_ns: u64,
    processes: BTreeMap<ProcessId, Traced>,
    ended: VecDeque<ProcessId>,
    /// Descriptions of evicted processes, for events that follow.
    evicted: VecDeque<ProcessInfo>,
    records: Records,
    account: Account,
    receiver: Resource,
    /// Keys of stored records to delete.
    deleted_records: Vec<String>,
    /// Time of the next write of baselines.
    baselines_at_ns: u64,
    /// Findings of the current event; empty between events.
    findings: Vec<Finding>,
}

impl Analyzer {
    /// Creates an analysis without state.
    pub fn new(settings: Settings) -> Analyzer {
        Analyzer {
            engine: Engine::new(settings.steps),
            collectives: settings.collectives.is_enabled.then(|| Collectives::new(&settings.collectives)),
            receiver: instrumentation::encoded(&instrumentation::receiver(&settings.host)),
            trouble: Trouble::new(settings.detail),
            settings,
            clock: Clock::default(),
            start_unix: None,
            first_ns: None,
            collect_at_ns: 0,
            processes: BTreeMap::new(),
            ended: VecDeque::new(),
            evicted: VecDeque::new(),
            records: Records::new(scope()),
            account: Account::default(),
            deleted_records: Vec::new(),
            baselines_at_ns: 0,
            findings: Vec::new(),
        }
    }

    /// Observes an event and sends the resulting telemetry to `sink`.
    pub fn observe(&mut self, event: &Event, sink: Sink<'_>) {
        self.observe_with(event, sink, &mut |_| {});
    }

    /// Observes an event as [`Analyzer::observe`] does, and calls `look` with every finding.
    pub fn observe_with(&mut self, event: &Event, sink: Sink<'_>, look: Look<'_>) {
        if let Event::Clock(offsets) = event {
            self.clock.set(*offsets);
        }
        if let Some(at_ns) = when(event) {
            self.advance(at_ns, sink, look);
        }
        match event {
            Event::Process(info) => self.describe(info, sink),
            Event::Step(record) => self.segment(record, sink),
            Event::Context(context) => self.context(context, sink),
            Event::Call(record) => self.call(record, sink),
            Event::Operation(total) => {
                if let Some(traced) = self.traced(total.process, sink) {
                    traced.operation(total);
                }
            }
            Event::Function(function) => {
                if let Some(traced) = self.traced(function.process, sink) {
                    traced.functions.describe(function);
                }
            }
            Event::Launch(launch) => {
                if let Some(traced) = self.traced(ProcessId::from(&launch.header), sink) {
                    traced.functions.sample(launch);
                }
            }
            Event::FunctionTotal(total) => {
                if let Some(traced) = self.traced(total.process, sink) {
                    traced.functions.replace(total);
                }
            }
            Event::Overhead(overhead) => {
                if let Some(traced) = self.traced(overhead.process, sink) {
                    traced.overhead.replace(overhead);
                }
            }
            Event::Account(probes) => self.account.probes = Some((**probes).clone()),
            Event::Lost { reason, count, .. } => self.account.lose(*reason, *count),
            Event::Armed { at_ns, mapped_ns, .. } => self.account.discovery.arm(*mapped_ns, *at_ns),
            Event::Selection { excluded, discarded, unfiltered, .. } => {
                self.account.selection = Some([*excluded, *discarded, *unfiltered]);
            }
            Event::Discovery { follows_mappings, mappings_lost, unreached, .. } => {
                self.account.discovery.update(*follows_mappings, *mappings_lost, *unreached);
            }
            Event::Files { counts, .. } => self.account.discovery.set_files(*counts),
            Event::CallArgs(args) => self.call_args(args, sink),
            Event::UnderWay(_)
            | Event::LauncherEnv(_)
            | Event::Device(_)
            | Event::Clocks(_)
            | Event::Clock(_)
            | Event::Exit { .. }
            | Event::Tick { .. } => {}
        }
        // Before steps: collectives record the peer waits that steps use.
        self.with_collectives(sink, |collectives, emitter| collectives.observe(event, emitter, look));
        self.engine.observe(event, &mut self.findings);
        if let Event::Process(info) = event {
            self.hint(info);
        }
        self.report_findings(sink, look);
        self.with_collectives(sink, |collectives, emitter| collectives.report(emitter, look));
        if let Event::Exit { process, at_ns, .. } = event {
            self.end(*process, *at_ns, sink);
        }
    }

    /// Applies what the configuration says of a process. It precedes what the process says of itself.
    fn hint(&mut self, info: &ProcessInfo) {
        if let Some(rule) = self.settings.workloads.iter().find(|rule| rule.matches(info)) {
            self.engine.set_hint(info.process, Some(rule.hint));
        }
    }

    /// Returns the changes of detail that the source should apply, since the last call.
    pub fn take_details(&mut self) -> Vec<(ProcessId, Option<Detail>)> {
        self.trouble.take_changes()
    }

    /// Sets the number of items that could not be delivered since the start.
    pub fn set_dropped_items(&mut self, dropped_items: DroppedItems) {
        self.account.dropped_items = dropped_items;
    }

    /// Sets the numbers of records that could not be persisted since the start.
    pub fn set_persist_drops(&mut self, drops: PersistDrops) {
        self.account.persist_drops = drops;
    }

    /// Reports deferred findings and collects metrics after the end of the source. No event may follow.
    pub fn finish(&mut self, sink: Sink<'_>) {
        self.finish_with(sink, &mut |_| {});
    }

    /// Finishes as [`Analyzer::finish`] does, and calls `look` with every finding.
    pub fn finish_with(&mut self, sink: Sink<'_>, look: Look<'_>) {
        self.with_collectives(sink, |collectives, emitter| collectives.finish(emitter, look));
        self.engine.finish(&mut self.findings);
        self.report_findings(sink, look);
        self.emit_metrics(self.clock.now_ns(), false, sink);
    }

    fn segment(&mut self, record: &StepRecord, sink: Sink<'_>) {
        if let Some(traced) = self.traced((&record.header).into(), sink) {
            traced.segment(record);
        }
    }

    fn context(&mut self, context: &TraceContext, sink: Sink<'_>) {
        if let Some(traced) = self.traced((&context.header).into(), sink) {
            traced.contexts.add(context);
        }
    }

    fn call(&mut self, record: &CallRecord, sink: Sink<'_>) {
        let Some(row) = probe_abi::row(record.header.row) else { return };
        let process = (&record.header).into();
        let calls_max = self.trouble.calls_max(process);
        let Some(traced) = self.traced(process, sink) else { return };
        // The call is already in the folds; the record adds its own times.
        if record.header.is_detail() {
            return traced.calls.push(Call::of(record), calls_max);
        }
        match traced.call(row, record) {
            Tracking::Done => {}
            Tracking::Untracked => self.account.untracked += 1,
            Tracking::UnknownFree => self.account.unknown_frees += 1,
        }
        if record.result != 0 && matches!(Effect::of(row), Some(Effect::Allocates(_))) {
            self.allocation_failed(process, row, record, sink);
        }
    }

    fn allocation_failed(
        &mut self,
        process: ProcessId,
        row: &'static Probe,
        record: &CallRecord,
        sink: Sink<'_>,
    ) {
        let Analyzer { processes, records, account, clock, .. } = self;
        let Some(traced) = processes.get_mut(&process) else { return };
        let is_logged = memory::emit::failed(traced, row, record, records, clock, sink);
        account.suppressed_failures += u64::from(!is_logged);
    }

    /// Reports the findings of the engine.
    fn report_findings(&mut self, sink: Sink<'_>, look: Look<'_>) {
        let Analyzer { findings, collectives, processes, records, account, clock, trouble, .. } = self;
        for finding in findings.drain(..) {
            look(Found::Step(&finding));
            if let (Finding::Step(step), Some(collectives)) = (&finding, &mut *collectives) {
                collectives.note(step);
            }
            let process = match &finding {
                Finding::Step(step) => step.process,
                Finding::BaselineShift(shift) => shift.process,
            };
            let Some(traced) = processes.get_mut(&process) else {
                account.orphaned += 1;
                continue;
            };
            match &finding {
                Finding::Step(step) if is_measured(step) => {
                    traced.step(step);
                    if let Some(leak) = traced.memory.step(step.end_ns) {
                        memory::emit::leak(traced, &leak, records, clock, sink);
                    }
                    trouble.outlier(step.process, step.outlier, step.end_ns);
                    if step.outlier != Outlier::None {
                        emit::outlier(traced, step, records, account, clock, sink);
                    }
                }
                Finding::Step(_) => account.unmeasured += 1,
                Finding::BaselineShift(shift) => emit::shift(traced, shift, records, clock, sink),
            }
        }
    }
}

/// Returns the time of an event; that of a process is the time of its description.
fn when(event: &Event) -> Option<u64> {
    match event {
        Event::Process(info) => Some(info.at_ns).filter(|at_ns| *at_ns > 0),
        other => other.at_ns(),
    }
}

/// Returns whether a step has a duration: its start is known and a call waited for its end.
fn is_measured(step: &Step) -> bool {
    step.is_start_known && !step.is_unfinished
}
