//! Events in, telemetry out: the whole of the receiver but its clock, its threads and its source.
//!
//! The one idea: time is an event. Collections happen where event time passes their instants, so that a recording
//! gives the same bytes as the machine it was made on, in batches of any size, as often as it is read.
//!
//! ```text
//! Event -> steps::Engine -> Step -> meters of its process --+-- collection --> metrics, a resource each
//!   |                        `----> outlier: span, record --+-- at once -----> traces, logs
//!   `---> operations, memory, account ----------------------'
//! ```
//!
//! Bounded: processes ([`Settings::processes_max`], the one unseen for longest makes room), spans (a limit for each
//! process), series, allocations and exemplars. What is left out is counted in [`crate::account`].

mod ranks;
mod recall;

use std::collections::{BTreeMap, VecDeque};

use event::{CallRecord, Event, ProcessId, ProcessInfo, StepRecord, TraceContext};
use opentelemetry_proto::tonic::metrics::v1::ResourceMetrics;
use opentelemetry_proto::tonic::resource::v1::Resource;
use sdk::{Limit, Records, Undelivered, Window, overflowing, tidy};
use steps::{Engine, Finding, Outlier, Step};
use table::Probe;
use table::detail::Detail;

use crate::account::{Account, State};
use crate::batch::{Sink, metrics, of_resource};
use crate::clock::Clock;
use crate::collectives::tell::Limits;
use crate::collectives::{CollectiveSettings, Collectives};
use crate::contexts::Relation;
use crate::detail::{Call, DetailSettings, Trouble};
use crate::instruments::scope;
use crate::keep::Unkept;
use crate::memory::{self, Effect};
use crate::tell;
use crate::traced::{Bounds, Traced};

/// Ended processes that are remembered, so that a late event does not begin them again.
const ENDED_MAX: usize = 1024;

/// Something found, shown on its way into telemetry.
#[derive(Clone, Copy, Debug)]
pub enum Found<'a> {
    /// Of steps.
    Step(&'a Finding),
    /// Of collectives.
    Collective(&'a nccl::Finding),
}

/// Is shown everything that is found.
pub type Look<'a> = &'a mut dyn FnMut(Found<'_>);

/// How an analysis works.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often metrics are collected, in event time; 0 counts as 1.
    pub collection_interval_ns: u64,
    /// What is said of the machine on every resource: `host.name` and the like.
    pub host: Vec<(String, String)>,
    /// Processes that have series at a time.
    pub processes_max: usize,
    /// Spans that a process may emit at once.
    pub spans_burst: u32,
    /// Spans that a process may emit in the long run.
    pub spans_per_minute: u32,
    /// What an outlier's span is to the span that was active on its thread.
    pub relation: Relation,
    /// How steps are classified and judged.
    pub steps: steps::Settings,
    /// How collectives are analysed and told.
    pub collectives: CollectiveSettings,
    /// When a process is told in detail.
    pub detail: DetailSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            collection_interval_ns: 10_000_000_000,
            host: Vec::new(),
            processes_max: 256,
            spans_burst: 10,
            spans_per_minute: 30,
            relation: Relation::default(),
            steps: steps::Settings::default(),
            collectives: CollectiveSettings::default(),
            detail: DetailSettings::default(),
        }
    }
}

/// The analysis.
#[derive(Debug)]
pub struct Analyzer {
    settings: Settings,
    engine: Engine,
    /// None where nobody looks at them.
    collectives: Option<Collectives>,
    clock: Clock,
    trouble: Trouble,
    /// When collecting began, since 1970, fixed at the first collection.
    start_unix: Option<u64>,
    first_ns: Option<u64>,
    collect_at_ns: u64,
    processes: BTreeMap<ProcessId, Traced>,
    ended: VecDeque<ProcessId>,
    /// What is known of evicted processes, should they come back.
    evicted: VecDeque<ProcessInfo>,
    records: Records,
    account: Account,
    receiver: Resource,
    /// Keys of kept records that are to go.
    gone: Vec<String>,
    /// When baselines are told next to whoever keeps them.
    baselines_at_ns: u64,
}

impl Analyzer {
    /// An analysis that has seen nothing.
    pub fn new(settings: Settings) -> Analyzer {
        Analyzer {
            engine: Engine::new(settings.steps),
            collectives: settings.collectives.is_enabled.then(|| Collectives::new(&settings.collectives)),
            receiver: sdk::encoded(&sdk::receiver(&settings.host)),
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
            gone: Vec::new(),
            baselines_at_ns: 0,
        }
    }

    /// Takes one event; what it makes ready goes to `sink`.
    pub fn observe(&mut self, event: &Event, sink: Sink<'_>) {
        self.observe_with(event, sink, &mut |_| {});
    }

    /// The same, showing `look` every finding on the way.
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
            Event::Account(probes) => self.account.probes = Some((**probes).clone()),
            Event::Lost { reason, count, .. } => self.account.lose(*reason, *count),
            Event::Told(told) => self.told(told, sink),
            Event::UnderWay(_)
            | Event::Launched(_)
            | Event::Device(_)
            | Event::Clocks(_)
            | Event::Clock(_)
            | Event::Exit { .. }
            | Event::Tick { .. } => {}
        }
        // Before steps: a wait's collectives say what it waited for.
        self.with_collectives(sink, |collectives, teller| collectives.observe(event, teller, look));
        self.find(|engine, out| engine.observe(event, &mut |finding| out(finding)), sink, look);
        self.with_collectives(sink, |collectives, teller| collectives.tell(teller, look));
        if let Event::Exit { process, at_ns, .. } = event {
            self.end(*process, *at_ns, sink);
        }
    }

    /// How much detail the source is to be asked for, since this was last asked.
    pub fn take_details(&mut self) -> Vec<(ProcessId, Option<Detail>)> {
        self.trouble.take_changes()
    }

    /// What whoever delivers could not deliver, since the beginning.
    pub fn set_undelivered(&mut self, undelivered: Undelivered) {
        self.account.undelivered = undelivered;
    }

    /// What could not be kept of what is to outlive the receiver, since the beginning.
    pub fn set_unkept(&mut self, unkept: Unkept) {
        self.account.unkept = unkept;
    }

    /// Collects everything recorded up to `at_ns`.
    pub fn collect(&mut self, at_ns: u64, sink: Sink<'_>) {
        self.emit_metrics(at_ns, true, sink);
    }

    /// The source has ended: finds what was held back, and collects for the last time. No event may follow.
    pub fn finish(&mut self, sink: Sink<'_>) {
        self.finish_with(sink, &mut |_| {});
    }

    /// The same, showing `look` every finding on the way.
    pub fn finish_with(&mut self, sink: Sink<'_>, look: Look<'_>) {
        self.with_collectives(sink, |collectives, teller| collectives.finish(teller, look));
        self.find(|engine, out| engine.finish(&mut |finding| out(finding)), sink, look);
        self.emit_metrics(self.clock.now_ns(), false, sink);
    }

    /// Event time has come to `at_ns`: collects if it is time. Of several collections missed, the last one says all.
    fn advance(&mut self, at_ns: u64, sink: Sink<'_>, look: Look<'_>) {
        let interval = self.settings.collection_interval_ns.max(1);
        if self.first_ns.is_none() {
            self.first_ns = Some(at_ns);
            self.collect_at_ns = at_ns.saturating_add(interval);
        }
        if at_ns >= self.collect_at_ns && self.collect_at_ns < u64::MAX {
            let missed = (at_ns - self.collect_at_ns) / interval;
            let due_ns = self.collect_at_ns + missed * interval;
            self.collect_at_ns = due_ns.saturating_add(interval);
            let tick = Event::Tick { at_ns: due_ns };
            self.with_collectives(sink, |collectives, teller| collectives.observe(&tick, teller, look));
            self.find(|engine, out| engine.observe(&tick, &mut |finding| out(finding)), sink, look);
            self.with_collectives(sink, |collectives, teller| collectives.tell(teller, look));
            self.collect(due_ns, sink);
        }
        self.clock.see(at_ns);
        self.trouble.advance(at_ns);
    }

    fn describe(&mut self, info: &ProcessInfo, sink: Sink<'_>) {
        self.ended.retain(|ended| *ended != info.process);
        self.evicted.retain(|evicted| evicted.process != info.process);
        if let Some(traced) = self.processes.get_mut(&info.process) {
            traced.describe(info);
        } else {
            self.make_room(sink);
            let (now_ns, bounds) = (self.clock.now_ns(), self.bounds());
            self.processes.insert(info.process, Traced::new(info, &self.settings.host, now_ns, bounds));
        }
        if let Some(traced) = self.processes.get(&info.process) {
            tell::seen(traced, info, &self.records, &self.clock, sink);
        }
    }

    fn bounds(&self) -> Bounds {
        let of_collectives = &self.settings.collectives;
        Bounds {
            relation: self.settings.relation,
            spans: Limit::new(self.settings.spans_per_minute, self.settings.spans_burst),
            limits: Limits::new(of_collectives.verdicts_per_minute, of_collectives.verdicts_burst),
            ranks: of_collectives.communicators_max,
        }
    }

    /// The process of an event, begun where it was never described; none where it has ended.
    fn traced(&mut self, process: ProcessId, sink: Sink<'_>) -> Option<&mut Traced> {
        if !self.processes.contains_key(&process) {
            if self.ended.contains(&process) {
                self.account.orphaned += 1;
                return None;
            }
            let (info, now_ns, bounds) = (self.recalled(process), self.clock.now_ns(), self.bounds());
            self.make_room(sink);
            self.processes.insert(process, Traced::new(&info, &self.settings.host, now_ns, bounds));
        }
        let now_ns = self.clock.now_ns();
        let traced = self.processes.get_mut(&process)?;
        traced.last_seen_ns = now_ns;
        Some(traced)
    }

    /// What was known of a process before it was evicted; its series begin now.
    fn recalled(&mut self, process: ProcessId) -> ProcessInfo {
        let at = self.evicted.iter().position(|info| info.process == process);
        let info = at.and_then(|at| self.evicted.remove(at));
        ProcessInfo { process, at_ns: self.clock.now_ns(), ..info.unwrap_or_default() }
    }

    fn segment(&mut self, record: &StepRecord, sink: Sink<'_>) {
        if let Some(traced) = self.traced((&record.header).into(), sink) {
            traced.segment(record);
        }
    }

    fn context(&mut self, context: &TraceContext, sink: Sink<'_>) {
        if let Some(traced) = self.traced((&context.header).into(), sink) {
            traced.contexts.see(context);
        }
    }

    fn call(&mut self, record: &CallRecord, sink: Sink<'_>) {
        let Some(row) = table::row(record.header.row) else { return };
        let process = (&record.header).into();
        let calls_max = self.trouble.calls_max(process);
        let Some(traced) = self.traced(process, sink) else { return };
        // The folds hold it: it is told once more, for what it says itself.
        if record.header.is_detail() {
            return traced.calls.see(Call::of(record), calls_max);
        }
        if !traced.call(row, record) {
            self.account.untracked += 1;
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
        let is_told = memory::tell::failed(traced, row, record, records, clock, sink);
        account.unsaid_failures += u64::from(!is_told);
    }

    fn make_room(&mut self, sink: Sink<'_>) {
        while self.processes.len() >= self.settings.processes_max.max(1) {
            let idle = self.processes.iter().min_by_key(|(id, traced)| (traced.last_seen_ns, **id));
            let Some((&process, traced)) = idle else { return };
            self.account.evicted += 1;
            self.evicted.push_back(traced.info().clone());
            if self.evicted.len() > self.settings.processes_max {
                self.evicted.pop_front();
            }
            self.flush(process, self.clock.now_ns(), sink);
        }
    }

    fn end(&mut self, process: ProcessId, at_ns: u64, sink: Sink<'_>) {
        self.trouble.end(process);
        self.flush(process, at_ns.max(self.clock.now_ns()), sink);
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(process);
    }

    /// A process's last values; its series end.
    fn flush(&mut self, process: ProcessId, at_ns: u64, sink: Sink<'_>) {
        let Some(mut traced) = self.processes.remove(&process) else { return };
        let (last, _) = traced.collect(&self.clock, at_ns);
        self.account.overflowed += series_overflowing(&last);
        if last.scope_metrics.iter().any(|s| !s.metrics.is_empty()) {
            sink(metrics(vec![last], false));
        }
    }

    /// Takes over what the engine finds when it is told something.
    fn find(
        &mut self,
        told: impl FnOnce(&mut Engine, &mut dyn FnMut(Finding)),
        sink: Sink<'_>,
        look: Look<'_>,
    ) {
        let Analyzer { engine, collectives, processes, records, account, clock, trouble, .. } = self;
        told(engine, &mut |finding| {
            look(Found::Step(&finding));
            if let (Finding::Step(step), Some(collectives)) = (&finding, &mut *collectives) {
                collectives.note(step);
            }
            let process = match &finding {
                Finding::Step(step) => step.process,
                Finding::BaselineShift(shift) => shift.process,
            };
            let Some(traced) = processes.get_mut(&process) else { return account.orphaned += 1 };
            match &finding {
                Finding::Step(step) if is_measured(step) => {
                    traced.step(step);
                    if let Some(leak) = traced.memory.step(step.end_ns) {
                        memory::tell::leak(traced, &leak, records, clock, sink);
                    }
                    trouble.outlier(step.process, step.outlier, step.end_ns);
                    if step.outlier != Outlier::None {
                        tell::outlier(traced, step, records, account, clock, sink);
                    }
                }
                Finding::Step(_) => account.unmeasured += 1,
                Finding::BaselineShift(shift) => tell::shift(traced, shift, records, clock, sink),
            }
        });
    }

    fn emit_metrics(&mut self, at_ns: u64, is_repeated: bool, sink: Sink<'_>) {
        self.look_at_ranks();
        let (clock, mut is_last) = (&self.clock, false);
        let collect = |traced: &mut Traced| {
            let (collected, ends) = traced.collect(clock, at_ns);
            is_last |= ends;
            collected
        };
        let mut all: Vec<ResourceMetrics> = self.processes.values_mut().map(collect).collect();
        all.retain(|r| r.scope_metrics.iter().any(|s| !s.metrics.is_empty()));
        let ended = std::mem::take(&mut self.account.overflowed);
        let overflowing = all.iter().map(series_overflowing).sum::<u64>() + ended;
        all.insert(0, self.about_itself(at_ns, overflowing));
        sink(metrics(all, is_repeated && !is_last));
    }

    fn about_itself(&mut self, at_ns: u64, overflowing: u64) -> ResourceMetrics {
        let first_ns = self.first_ns.unwrap_or(at_ns);
        let start = *self.start_unix.get_or_insert(self.clock.unix(first_ns));
        let window = Window { start, time: self.clock.unix(at_ns).max(start) };
        let state = State {
            processes: self.processes.len(),
            overflowing,
            tally: self.engine.tally(),
            collectives: self.collectives.as_ref().map(Collectives::tally),
        };
        let mut own = self.account.metrics(window, state);
        tidy(&mut own, window);
        of_resource(self.receiver.clone(), own)
    }
}

/// When an event happened; a process was seen when it was described.
fn when(event: &Event) -> Option<u64> {
    match event {
        Event::Process(info) => Some(info.at_ns).filter(|at_ns| *at_ns > 0),
        other => other.at_ns(),
    }
}

/// Series of a process that stand for others.
fn series_overflowing(collected: &ResourceMetrics) -> u64 {
    collected.scope_metrics.iter().map(|scope| overflowing(&scope.metrics)).sum()
}

/// A step has a duration if its beginning is known and somebody waited for its end.
fn is_measured(step: &Step) -> bool {
    step.is_start_known && !step.is_unfinished
}
