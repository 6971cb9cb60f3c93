//! The live source of events: what the kernel says, and what /proc adds.
//!
//! One thread calls [`Capture::read`] every few milliseconds. Each call drains the ring, looks at a bounded number of
//! processes, and now and then reads the folds. Nothing here waits, and nothing runs in the background.

mod lives;
mod looks;

use std::collections::BTreeMap;

use event::{Account, Event, EventSource, ProcessId};
use probe_abi::counters::DropReason;
use probe_abi::detail::Detail;
use probe_abi::record::{RecordKind, RuntimeCode};

use event::decode::{DecodeError, Record};

use crate::attach::{self, Attach};
use crate::every::Every;
use crate::kernel::Kernel;
use crate::libraries::Libraries;
use crate::processes::Processes;
use crate::publishers::Publishers;
use crate::settings::Settings;
use crate::totals::{self, Share};
use crate::under_way::Watch;
use crate::{CaptureError, clock, cost};

/// Records taken from the ring in one call.
const RECORDS_PER_READ: usize = 8_192;
/// Processes looked at in one call.
const LOOKS_PER_READ: usize = 32;
const LIST_EVERY_NS: u64 = 2_000_000_000;
const LOSS_EVERY_NS: u64 = 100_000_000;
const WATCH_EVERY_NS: u64 = 1_000_000_000;
const CLOCK_EVERY_NS: u64 = 10_000_000_000;

/// The live source.
pub struct Capture {
    kernel: Kernel,
    attach: Box<dyn Attach>,
    libraries: Libraries,
    processes: Processes,
    publishers: Publishers,
    contexts: bool,
    runtime: BTreeMap<u32, RuntimeCode>,
    retired: Share,
    lost: [u64; DropReason::ALL.len()],
    received: u64,
    undecoded: u64,
    hit_cost_ns: u64,
    trace_all: bool,
    collectives: bool,
    linger_ns: u64,
    list: Every,
    loss: Every,
    clock: Every,
    totals: Every,
    watch: Watch,
    watch_every: Every,
}

impl Capture {
    /// Loads the programs and begins to look for libraries. Nothing else on the machine is changed.
    pub fn start(settings: &Settings) -> Result<Capture, CaptureError> {
        let mut kernel = Kernel::load(&settings.sizes, settings.trace_all)?;
        let attach = attach::best(&mut kernel);
        let hit_cost_ns = cost::hit_cost_ns(&mut kernel, attach.as_ref());
        tracing::info!(attach = attach.name(), hit_cost_ns, "kernel programs are loaded");
        let mut capture = Capture {
            kernel,
            attach,
            libraries: Libraries::default(),
            processes: Processes::default(),
            publishers: Publishers::default(),
            contexts: settings.contexts,
            runtime: BTreeMap::new(),
            retired: Share::default(),
            lost: Default::default(),
            received: 0,
            undecoded: 0,
            hit_cost_ns,
            trace_all: settings.trace_all,
            collectives: settings.collectives,
            linger_ns: settings.linger_ns,
            list: Every::new(LIST_EVERY_NS),
            loss: Every::new(LOSS_EVERY_NS),
            clock: Every::new(CLOCK_EVERY_NS),
            totals: Every::new(settings.totals_every_ns),
            watch: Watch::default(),
            watch_every: Every::new(WATCH_EVERY_NS),
        };
        capture.kernel.set_detail(settings.detail)?;
        for pid in &settings.pids {
            capture.trace(*pid)?;
        }
        Ok(capture)
    }

    /// Traces a process, also where not all are.
    pub fn trace(&mut self, pid: u32) -> Result<(), CaptureError> {
        let named = self.kernel.filter.insert(pid, 1, 0);
        named.map_err(|e| CaptureError::Load { what: "the process filter", reason: e.to_string() })?;
        self.processes.follow(pid, clock::now_ns());
        self.look(pid, clock::now_ns(), &mut Vec::new());
        Ok(())
    }

    /// Which of the calls of a process that are folded get a record of their own from here on; `None`: as the settings
    /// say. Records say so ([`probe_abi::record::Header::is_detail`]); launches, of which no return is seen, and queries get
    /// none. False where the process has ended, or another has its place: then nothing changes.
    pub fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        let is_alive = self.processes.get_mut(process.pid).is_some_and(|f| f.traced == Some(process));
        is_alive && self.put_detail(process.pid, detail)
    }

    fn put_detail(&mut self, pid: u32, detail: Option<Detail>) -> bool {
        let place = Detail::slot(pid);
        let Ok(now) = self.kernel.details.get(&place, 0) else { return false };
        if now != 0 && (now >> 32) as u32 != pid {
            return false;
        }
        let word = detail.map_or(0, |detail| detail.word(pid));
        self.kernel.details.set(place, word, 0).is_ok()
    }

    /// How functions are attached: `uprobe_multi` or `perf uprobes`.
    pub fn attach_name(&self) -> &'static str {
        self.attach.name()
    }

    /// What can be seen of a process, and what cannot, a sentence each.
    pub fn sight(&mut self, pid: u32) -> Option<(Vec<String>, Vec<String>)> {
        self.processes.get_mut(pid).map(|f| (f.visible.clone(), f.blind.clone()))
    }

    /// The account as it stands now.
    pub fn account(&self) -> Account {
        let (libraries, functions) = self.libraries.attached();
        Account {
            received: self.received,
            run_cost_ns: self.hit_cost_ns,
            libraries,
            functions,
            ..totals::account(&self.kernel, self.retired, clock::now_ns())
        }
    }

    /// Appends the totals of every process, and the account.
    pub fn read_totals(&mut self, into: &mut Vec<Event>) {
        let now_ns = clock::now_ns();
        for process in self.processes.traced() {
            totals::operations(&self.kernel, process, now_ns, into);
        }
        into.push(Event::Account(Box::new(self.account())));
    }

    fn drain(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        for _ in 0..RECORDS_PER_READ {
            let Some(item) = self.kernel.ring.next() else { return };
            let record = event::decode::decode(&item);
            drop(item);
            self.received += 1;
            match record {
                Ok(record) => self.take(record, now_ns, into),
                Err(e) => self.refuse(&e),
            }
        }
    }

    fn refuse(&mut self, error: &DecodeError) {
        if self.undecoded == 0 {
            tracing::error!(%error, "a record from the kernel makes no sense: object and agent do not match");
        }
        self.undecoded += 1;
    }

    fn take(&mut self, record: Record, now_ns: u64, into: &mut Vec<Event>) {
        match record {
            Record::Step(step) => {
                self.know((&step.header).into(), step.header.entry_ns, into);
                into.push(Event::Step(step));
            }
            Record::Context(context) => {
                self.know((&context.header).into(), context.header.entry_ns, into);
                into.push(Event::Context(context));
            }
            Record::Call(call) => {
                self.know((&call.header).into(), call.header.entry_ns, into);
                into.push(Event::Call(call));
            }
            Record::CallArgs(told) => {
                self.know((&told.header).into(), told.header.entry_ns, into);
                into.push(Event::CallArgs(told));
            }
            Record::Process(process) => {
                let (kind, header) = (process.kind, &process.header);
                match kind {
                    RecordKind::ProcessExit => self.end(header.pid, header.entry_ns, process.status, into),
                    RecordKind::ProcessExec => self.exec(header.pid, header.entry_ns, now_ns, into),
                    _ if header.pid != std::process::id() => self.know(header.into(), header.entry_ns, into),
                    _ => {}
                }
            }
        }
    }

    fn tell_loss(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let dropped = totals::dropped(&totals::counters(&self.kernel));
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
        if self.clock.is_due(now_ns) {
            into.push(Event::Clock(clock::offsets()));
        }
        // Before it is looked who is gone: how, the kernel alone tells.
        self.drain(now_ns, into);
        if self.list.is_due(now_ns) {
            self.list(now_ns, into);
        }
        for pid in self.processes.due(now_ns, LOOKS_PER_READ) {
            self.look(pid, now_ns, into);
        }
        if self.watch_every.is_due(now_ns) {
            self.watch.look(&self.kernel, now_ns, into);
        }
        if self.loss.is_due(now_ns) {
            self.tell_loss(now_ns, into);
        }
        if self.totals.is_due(now_ns) {
            self.read_totals(into);
        }
        Ok(true)
    }
}
