//! The live source of events: what the kernel says, and what /proc adds.
//!
//! One thread calls [`Capture::read`] every few milliseconds. Each call drains the ring, looks at a bounded number of
//! processes, and now and then reads the folds. Nothing here waits, and nothing runs in the background.

use std::collections::BTreeMap;

use event::{Account, Event, EventSource, ExitStatus, Launched, ProcessId};
use table::counters::Drop;
use table::detail::Detail;
use table::record::{Kind, RANGES, RuntimeCode};

use event::decode::{DecodeError, Record};

use crate::attach::{self, Attach};
use crate::every::Every;
use crate::kernel::Kernel;
use crate::libraries::{Libraries, Sight};
use crate::maps::{self, Mapping};
use crate::processes::Processes;
use crate::publishers::Publishers;
use crate::settings::Settings;
use crate::totals::{self, Share};
use crate::under_way::Watch;
use crate::{CaptureError, clock, cost, proc, unfinished};

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
    lost: [u64; Drop::ALL.len()],
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
    /// say. Records say so ([`table::record::Header::is_detail`]); launches, of which no return is seen, and queries get
    /// none. False where the process has ended, or another has its place: then nothing changes.
    pub fn set_detail(&mut self, process: ProcessId, detail: Option<Detail>) -> bool {
        let is_alive = self.processes.get_mut(process.pid).is_some_and(|f| f.traced == Some(process));
        is_alive && self.put_detail(process.pid, detail)
    }

    fn put_detail(&mut self, pid: u32, detail: Option<Detail>) -> bool {
        let place = Detail::place(pid);
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

    fn list(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let pids = proc::pids();
        let gone: Vec<u32> = self.processes.pids().filter(|pid| !pids.contains(pid)).collect();
        for pid in gone {
            self.end(pid, now_ns, ExitStatus::Unknown, into);
        }
        for pid in pids {
            if self.trace_all && self.processes.get_mut(pid).is_none() {
                self.processes.follow(pid, now_ns);
                self.processes.hurry(pid);
            }
        }
        self.libraries.sweep(now_ns, self.linger_ns);
    }

    fn look(&mut self, pid: u32, now_ns: u64, into: &mut Vec<Event>) {
        let Ok(text) = proc::read_text(format!("/proc/{pid}/maps")) else { return };
        let mappings = maps::parse(&text);
        let (mut visible, mut blind) = self.attach_all(pid, &mappings);
        self.look_for_contexts(pid, &mappings, &mut visible, &mut blind);
        self.libraries.retain(pid, &mappings.iter().map(|m| m.file).collect::<Vec<_>>(), now_ns);
        let Some(followed) = self.processes.get_mut(pid) else { return };
        if followed.visible != visible || followed.blind != blind {
            (followed.visible, followed.blind) = (visible, blind);
            if let Some(process) = followed.traced {
                self.describe(process, now_ns, into);
            }
        }
    }

    /// A process without a probed library has no step to name, and is not looked into.
    fn look_for_contexts(
        &mut self,
        pid: u32,
        mappings: &[Mapping],
        visible: &mut Vec<String>,
        blind: &mut Vec<String>,
    ) {
        if !self.contexts || visible.is_empty() {
            return self.publishers.forget(&mut self.kernel, pid);
        }
        match self.publishers.look(&mut self.kernel, pid, mappings) {
            Some(Sight::Seen(what)) => visible.push(what),
            Some(Sight::Blind(why)) => blind.push(why),
            Some(Sight::Other) | None => {}
        }
    }

    fn attach_all(&mut self, pid: u32, mappings: &[Mapping]) -> (Vec<String>, Vec<String>) {
        if pid == std::process::id() {
            return Default::default();
        }
        let mut code = RuntimeCode::default();
        let (mut seen, mut blind) = (Vec::new(), Vec::new());
        let mut found: Vec<(&Mapping, table::Library, bool)> =
            mappings.iter().filter_map(|m| Some((m, m.library()?, false))).collect();
        found.extend(inside(mappings));
        found.dedup_by_key(|(m, _, _)| m.file);
        found.retain(|(_, library, _)| self.collectives || *library != table::Library::Nccl);
        for (mapping, library, inside) in found {
            let sight =
                self.libraries.attach(&mut self.kernel, self.attach.as_ref(), pid, mapping, library, inside);
            match sight {
                Sight::Seen(what) => seen.push(what),
                Sight::Blind(why) => blind.push(why),
                Sight::Other => {}
            }
        }
        let runtime = mappings.iter().filter(|m| m.library() == Some(table::Library::Cudart));
        for (place, mapping) in code.iter_mut().zip(runtime.take(RANGES)) {
            *place = [mapping.start, mapping.end];
        }
        self.tell_runtime(pid, code);
        (seen, blind)
    }

    /// Where the runtime lies in a process, so that its own calls of the driver are not counted twice.
    fn tell_runtime(&mut self, pid: u32, code: RuntimeCode) {
        if self.runtime.get(&pid).copied().unwrap_or_default() == code {
            return;
        }
        if code == RuntimeCode::default() {
            return self.forget_runtime(pid);
        }
        match self.kernel.runtime.insert(pid, code, 0) {
            Ok(()) => drop(self.runtime.insert(pid, code)),
            Err(e) => {
                tracing::warn!(pid, %e, "driver calls made by the runtime will count twice in this process")
            }
        }
    }

    fn describe(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        let mut info = proc::describe(process, at_ns);
        if let Some(followed) = self.processes.get_mut(process.pid) {
            (info.visible, info.blind) = (followed.visible.clone(), followed.blind.clone());
        }
        into.push(Event::Process(Box::new(info)));
        let variables = proc::launched(process.pid);
        if !variables.is_empty() {
            into.push(Event::Launched(Box::new(Launched { process, at_ns, variables })));
        }
    }

    /// A record names a process: makes sure that it was described first.
    fn know(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        if self.processes.get_mut(process.pid).is_none() {
            self.processes.follow(process.pid, at_ns);
        }
        let Some(followed) = self.processes.get_mut(process.pid) else { return };
        match followed.traced {
            Some(known) if known == process => return,
            Some(_) => self.end(process.pid, at_ns, ExitStatus::Unknown, into),
            None => {}
        }
        self.processes.follow(process.pid, at_ns);
        if let Some(followed) = self.processes.get_mut(process.pid) {
            followed.traced = Some(process);
        }
        self.look(process.pid, at_ns, into);
        self.describe(process, at_ns, into);
    }

    fn forget_runtime(&mut self, pid: u32) {
        if self.runtime.remove(&pid).is_some() {
            let _ = self.kernel.runtime.remove(&pid);
        }
    }

    /// A process ended: its last figures, then its end, and room for the next of its pid.
    fn end(&mut self, pid: u32, at_ns: u64, status: ExitStatus, into: &mut Vec<Event>) {
        let Some(followed) = self.processes.forget(pid) else { return };
        self.libraries.retain(pid, &[], at_ns);
        self.forget_runtime(pid);
        self.publishers.forget(&mut self.kernel, pid);
        // Whoever has this pid next was not named.
        let _ = self.kernel.filter.remove(&pid);
        if let Some(process) = followed.traced {
            self.close(process, at_ns, status, into);
        }
    }

    /// A process runs another program: what it was has ended. It may have been looked at since, as what it is now:
    /// that is looked at again and replaced, never taken away in between.
    fn exec(&mut self, pid: u32, at_ns: u64, now_ns: u64, into: &mut Vec<Event>) {
        if !self.trace_all && self.processes.get_mut(pid).is_none() {
            return;
        }
        let traced = self.processes.get_mut(pid).and_then(|f| f.traced.take());
        if let Some(process) = traced {
            self.close(process, at_ns, ExitStatus::Unknown, into);
        }
        self.publishers.forget(&mut self.kernel, pid);
        self.processes.follow(pid, now_ns);
        self.look(pid, now_ns, into);
    }

    /// The last figures of a traced process, and its end.
    fn close(&mut self, process: ProcessId, at_ns: u64, status: ExitStatus, into: &mut Vec<Event>) {
        let pid = process.pid;
        self.put_detail(pid, None);
        self.unfinished(process, at_ns, into);
        let share = totals::operations(&self.kernel, process, at_ns, into);
        if totals::forget(&mut self.kernel, pid) {
            self.retired.add(share);
        }
        totals::forget_durations(&mut self.kernel, pid);
        totals::forget_graphs(&mut self.kernel, pid);
        into.push(Event::Exit { process, at_ns, status });
    }

    /// Steps that nothing will close any more.
    fn unfinished(&mut self, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) {
        let mut keys: Vec<[u32; 4]> =
            self.kernel.streams.keys().flatten().filter(|k| k[0] == process.pid).collect();
        keys.sort_unstable();
        for key in keys {
            if let Some(fold) = unfinished::take(&mut self.kernel, key) {
                into.extend(unfinished::unfinished_step(process, key, &fold, at_ns).map(Event::Step));
            }
        }
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
            Record::Told(told) => {
                self.know((&told.header).into(), told.header.entry_ns, into);
                into.push(Event::Told(told));
            }
            Record::Process(process) => {
                let (kind, header) = (process.kind, &process.header);
                match kind {
                    Kind::ProcessExit => self.end(header.pid, header.entry_ns, process.status, into),
                    Kind::ProcessExec => self.exec(header.pid, header.entry_ns, now_ns, into),
                    _ if header.pid != std::process::id() => self.know(header.into(), header.entry_ns, into),
                    _ => {}
                }
            }
        }
    }

    fn tell_loss(&mut self, now_ns: u64, into: &mut Vec<Event>) {
        let dropped = totals::dropped(&totals::counters(&self.kernel));
        for ((reason, before), now) in Drop::ALL.into_iter().zip(&mut self.lost).zip(dropped) {
            let count = now - std::mem::replace(before, now);
            if count > 0 {
                into.push(Event::Lost { at_ns: now_ns, reason, count });
            }
        }
        into.push(Event::Tick { at_ns: now_ns });
    }
}

/// A program that carries the runtime inside itself: it uses the driver and has no runtime library.
fn inside(mappings: &[Mapping]) -> Option<(&Mapping, table::Library, bool)> {
    let has = |library| mappings.iter().any(|m| m.library() == Some(library));
    let main = mappings.first()?;
    (has(table::Library::Cuda) && !has(table::Library::Cudart)).then_some((
        main,
        table::Library::Cudart,
        true,
    ))
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
