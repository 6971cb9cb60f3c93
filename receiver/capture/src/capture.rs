//! The live source of events: records and folds of the kernel programs, and descriptions of processes from /proc.
//!
//! One thread calls [`Capture::read`] every few milliseconds, and [`Capture::wait`] in between. Each read drains the
//! ring, scans processes for a limited time to attach to what they map, and periodically reads the folds. Nothing but the
//! wait blocks for more than 100 ms: processes are inspected by a thread of its own ([`crate::inspect`]), and
//! [`crate::thinning`] has one to attach and detach. The kernel can delay an attachment, which [`crate::stall`] reports.

mod adopt;
mod discovery;
mod exits;
mod hand_over;
mod overhead;
mod rest;
mod scan;
mod selecting;

use std::collections::BTreeMap;
use std::time::Duration;

use event::{Account, Event, EventSource, FileCounts, ProcessId};
use probe_abi::Library;
use probe_abi::counters::DropReason;
use probe_abi::detail::Detail;
use probe_abi::record::{RecordKind, RuntimeCode};

use event::decode::{DecodeError, Record};

use self::discovery::Finder;
use self::hand_over::{FormerCalls, HandOver};
use self::rest::Rest;
use self::selecting::Selector;

use crate::arming::Arming;
use crate::attach::{self, Attach};
use crate::budget::HitCosts;
use crate::expedite::expedited;
use crate::fragments::Fragments;
use crate::functions::Functions;
use crate::inspect::ProcessInspector;
use crate::interval::Interval;
use crate::kernel::Kernel;
use crate::libraries::Libraries;
use crate::pins::{self, CarriedTotals, Pins};
use crate::processes::Processes;
use crate::publishers::Publishers;
use crate::scan_queue::ScanQueue;
use crate::settings::Settings;
use crate::stall::StallWatch;
use crate::thinning::Thinning;
use crate::totals::{self, Share};
use crate::under_way::CallSampler;
use crate::{CaptureError, clock, cost, proc, readiness};

/// Records taken from the ring in one call.
const RECORDS_PER_READ: usize = 8_192;
/// Libraries whose programs are loaded before a process maps them, NCCL first. HIP's are loaded when they are needed.
const EXPECTED: [Library; 3] = [Library::Nccl, Library::Cudart, Library::Cuda];
const LIST_EVERY_NS: u64 = 2_000_000_000;
const DROPS_EVERY_NS: u64 = 100_000_000;
const SAMPLE_CALLS_EVERY_NS: u64 = 1_000_000_000;
/// Time for which the answers of a process that is to be traced are awaited; later ones are taken by reads.
const TRACE_FOR_NS: u64 = 2_000_000_000;
const CLOCK_EVERY_NS: u64 = 10_000_000_000;

/// The live source of events.
pub struct Capture {
    kernel: Kernel,
    attach: Box<dyn Attach>,
    libraries: Libraries,
    pins: Option<Pins>,
    /// Processes of an earlier agent that are not described yet, with the time of its last read, ns.
    adopted: Vec<(ProcessId, u64)>,
    /// Totals that programs with other objects counted.
    carried: CarriedTotals,
    hand_over: Option<HandOver>,
    former_calls: FormerCalls,
    arming: Arming,
    finder: Finder,
    waiting: ScanQueue,
    rest: Rest,
    processes: Processes,
    selector: Selector,
    publishers: Publishers,
    functions: Functions,
    fragments: Fragments,
    stalls: StallWatch,
    inspector: ProcessInspector,
    contexts: bool,
    runtime: BTreeMap<u32, RuntimeCode>,
    retired: Share,
    lost: [u64; DropReason::ALL.len()],
    received: u64,
    undecoded: u64,
    hit_cost_ns: u64,
    thinning: Option<Thinning>,
    trace_all: bool,
    collectives: bool,
    linger_ns: u64,
    list_interval: Interval,
    drops_interval: Interval,
    clock_interval: Interval,
    totals_interval: Interval,
    calls: CallSampler,
    calls_interval: Interval,
}

impl Capture {
    /// Loads the kernel programs and starts to scan processes for libraries.
    pub fn start(settings: &Settings) -> Result<Capture, CaptureError> {
        let (mut kernel, pins) = pins::load(settings)?;
        readiness::log_limits();
        let attach = attach::best(&mut kernel);
        let attach = if settings.expedite { expedited(attach) } else { attach };
        let calibration = match &pins {
            Some(pins) => pins.progress().calibration(),
            None => cost::calibrate(&mut kernel, attach.as_ref()),
        };
        let HitCosts { launch_ns, timed_ns } = calibration.costs;
        tracing::info!(attach = attach.name(), launch_ns, timed_ns, "kernel programs are loaded");
        let thinning = Thinning::start(&kernel, settings.overhead_budget, &calibration);
        let mut capture = Capture {
            kernel,
            attach,
            libraries: Libraries::default(),
            pins,
            adopted: Vec::new(),
            carried: CarriedTotals::default(),
            hand_over: None,
            former_calls: FormerCalls::default(),
            arming: Arming::default(),
            finder: Finder::open(),
            waiting: ScanQueue::default(),
            rest: Rest::default(),
            processes: Processes::default(),
            selector: Selector::new(settings.selection.clone()),
            publishers: Publishers::default(),
            functions: Functions::new(),
            fragments: Fragments::default(),
            stalls: StallWatch::start(),
            inspector: ProcessInspector::new("gpu-inspect"),
            contexts: settings.contexts,
            runtime: BTreeMap::new(),
            retired: Share::default(),
            lost: Default::default(),
            received: 0,
            undecoded: 0,
            hit_cost_ns: launch_ns,
            thinning,
            trace_all: settings.trace_all,
            collectives: settings.collectives,
            linger_ns: settings.linger_ns,
            list_interval: Interval::new(LIST_EVERY_NS),
            drops_interval: Interval::new(DROPS_EVERY_NS),
            clock_interval: Interval::new(CLOCK_EVERY_NS),
            totals_interval: Interval::new(settings.totals_every_ns),
            calls: CallSampler::default(),
            calls_interval: Interval::new(SAMPLE_CALLS_EVERY_NS),
        };
        capture.kernel.set_detail(settings.detail)?;
        capture.adopt(&settings.pids);
        if let Some(multi) = capture.kernel.multi.as_mut().filter(|_| settings.trace_all) {
            multi.expect(if settings.collectives { &EXPECTED } else { &EXPECTED[1..] });
        }
        for pid in &settings.pids {
            capture.trace(*pid)?;
        }
        capture.take_over();
        Ok(capture)
    }

    /// Traces a process even if [`Settings::trace_all`] is not set.
    pub fn trace(&mut self, pid: u32) -> Result<(), CaptureError> {
        // If its libraries are attached already, its calls are counted from here on.
        self.find_runtime(pid);
        let named = self.kernel.filter.insert(pid, 1, 0);
        named.map_err(|e| CaptureError::Load { what: "the process filter", reason: e.to_string() })?;
        self.arming.admit(pid, clock::now_ns());
        self.processes.track(pid, clock::now_ns());
        let began_ns = clock::now_ns();
        while clock::now_ns() < began_ns + TRACE_FOR_NS {
            self.inspector.begin_turn();
            self.scan(pid, clock::now_ns(), None, &mut Vec::new());
            if !self.inspector.awaits(pid) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Sets which folded calls of a process are also recorded individually; `None` restores the default of the
    /// settings. Such records are marked ([`probe_abi::record::Header::is_detail`]); launches, whose return is not probed,
    /// and queries have none. Returns false, and changes nothing, if the process has ended or its slot is taken.
    pub fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        let is_alive = self.processes.get_mut(process.pid).is_some_and(|f| f.traced == Some(process));
        is_alive && self.put_detail(process.pid, detail)
    }

    fn put_detail(&mut self, pid: u32, detail: Option<Detail>) -> bool {
        let slot = Detail::slot(pid);
        let Ok(now) = self.kernel.details.get(&slot, 0) else { return false };
        if now != 0 && (now >> 32) as u32 != pid {
            return false;
        }
        let word = detail.map_or(0, |detail| detail.word(pid));
        self.kernel.details.set(slot, word, 0).is_ok()
    }

    /// Returns how functions are attached: `uprobe_multi` or `perf uprobes`.
    pub fn attach_name(&self) -> &'static str {
        self.attach.name()
    }

    /// Returns what is observed of a process, and the gaps in it, each as text.
    pub fn coverage(&mut self, pid: u32) -> Option<(Vec<String>, Vec<String>)> {
        self.processes.get_mut(pid).map(|f| (f.observed.clone(), f.gaps.clone()))
    }

    /// Returns the current account of the probes.
    pub fn account(&self) -> Account {
        let (libraries, functions) = self.libraries.attached();
        Account {
            received: self.received,
            run_cost_ns: self.hit_cost_ns,
            libraries,
            functions,
            since_unix_ns: self.pins.as_ref().map_or(0, |pins| pins.progress().since_unix_ns),
            ..totals::account(&self.kernel, self.retired, clock::now_ns())
        }
    }

    /// Appends the operation totals of every traced process, and the account.
    pub fn read_totals(&mut self, into: &mut Vec<Event>) {
        let now_ns = clock::now_ns();
        for process in self.processes.traced() {
            self.estimated_operations(process, now_ns, into);
            self.functions.totals(&self.kernel, process, now_ns, into);
            into.extend(self.overhead(process, now_ns));
        }
        into.push(Event::Account(Box::new(self.account())));
        into.push(self.finder.event(now_ns));
        let counts = FileCounts { unanswered: self.inspector.late(), ..self.libraries.counts() };
        into.push(Event::Files { at_ns: now_ns, counts });
        into.extend(self.selection_event(now_ns));
    }

    /// Reads records from the ring. Returns false if there may be more.
    fn drain(&mut self, now_ns: u64, into: &mut Vec<Event>) -> bool {
        for _ in 0..RECORDS_PER_READ {
            let Some(item) = self.kernel.ring.next() else { return true };
            let record = event::decode::decode(&item);
            drop(item);
            self.received += 1;
            match record {
                Ok(record) if self.former_calls.contain(&record) => {}
                Ok(record) => self.take(record, now_ns, into),
                Err(e) => self.count_undecoded(&e),
            }
        }
        false
    }

    fn count_undecoded(&mut self, error: &DecodeError) {
        if self.undecoded == 0 {
            tracing::error!(%error, "cannot decode a kernel record: the kernel object does not match this agent");
        }
        self.undecoded += 1;
    }

    fn take(&mut self, record: Record, now_ns: u64, into: &mut Vec<Event>) {
        // The agent launches a function itself to measure what probes cost.
        if matches!(&record, Record::Function(launch) if launch.header.pid == std::process::id()) {
            return;
        }
        if let Some(header) = hand_over::header(&record).copied()
            && !self.admits(&header, into)
        {
            return;
        }
        match record {
            Record::Step(mut step) => {
                self.arming.mark_step(&mut step, proc::has_gpu_open);
                self.thinning.iter_mut().for_each(|thinning| thinning.mark_step(&mut step));
                self.fragments.mark_step(&mut step);
                into.push(Event::Step(step));
            }
            Record::Context(context) => into.push(Event::Context(context)),
            Record::Function(launch) => self.functions.launch(&self.kernel, &launch, into),
            Record::Call(mut call) => {
                self.arming.mark_call(&mut call, proc::has_gpu_open);
                self.functions.call(&self.kernel, &call, into);
                into.push(Event::Call(call));
            }
            Record::CallArgs(mut args) => {
                self.arming.mark_args(&mut args, proc::has_gpu_open);
                into.push(Event::CallArgs(args));
            }
            Record::Process(process) => {
                let (kind, header) = (process.kind, &process.header);
                match kind {
                    RecordKind::ProcessExit => {
                        self.process_exited(header.pid, header.entry_ns, process.status, into)
                    }
                    RecordKind::ProcessExec => {
                        self.process_replaced(header.pid, header.entry_ns, now_ns, into)
                    }
                    _ if header.pid != std::process::id() => {
                        self.ensure_described(header.into(), header.entry_ns, into);
                    }
                    _ => {}
                }
            }
        }
    }

    fn report_drops(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let dropped = totals::values(&totals::counters(&self.kernel).dropped);
        for ((reason, before), now) in DropReason::ALL.into_iter().zip(&mut self.lost).zip(dropped) {
            let count = now - std::mem::replace(before, now);
            if count > 0 {
                into.push(Event::Lost { at_ns: now_ns, reason, count });
            }
        }
        into.push(Event::Tick { at_ns: now_ns });
    }
}

impl EventSource for Capture {
    type Error = CaptureError;

    fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        Capture::set_detail(self, process, detail)
    }

    fn read(&mut self, into: &mut Vec<Event>) -> Result<bool, CaptureError> {
        let now_ns = clock::now_ns();
        if self.clock_interval.is_due(now_ns) {
            into.push(Event::Clock(clock::offsets()));
        }
        self.inspector.begin_turn().into_iter().for_each(|pid| self.processes.scan_soon(pid));
        self.describe_adopted(into);
        // Before records are read, which it marks.
        self.hold_budget(now_ns);
        self.read_former(now_ns, into);
        // Drained before processes are listed, because only the exit record holds the exit status, and is the last one. An
        // earlier agent may have left more than one read takes.
        let is_drained = self.drain(now_ns, into);
        self.store_progress(now_ns);
        self.functions.advance(now_ns, into);
        self.libraries.take_rescans(now_ns).into_iter().for_each(|pid| self.processes.scan_soon(pid));
        self.scan_waiting(now_ns, into);
        if is_drained && self.list_interval.is_due(now_ns) {
            self.list_processes(now_ns, into);
        }
        self.check_inventory();
        if self.calls_interval.is_due(now_ns) {
            self.sample_calls(now_ns, into);
        }
        if self.drops_interval.is_due(now_ns) {
            self.report_drops(now_ns, into);
        }
        if self.totals_interval.is_due(now_ns) {
            self.read_totals(into);
        }
        Ok(true)
    }

    fn wait(&mut self) -> bool {
        self.wait_for_mappings()
    }
}
