//! Thinning: holds the [budget](crate::budget) by attaching the probes of a process for a part of the time only.
//!
//! The trap of a probe costs most of a hit, so that only detaching makes it cheaper. Links of uprobe_multi can be of a
//! single process; then no other process has a breakpoint for them. A process that is thinned gets a window in each period;
//! the processes that map the same files get links of their own meanwhile ([`files`]).
//!
//! Calls outside of windows are [estimated](estimate), and steps that were not observed [whole] are marked like those of
//! a late process. Synchronizing calls, graphs, memory and collectives stay attached, so that durations remain true.
//!
//! This is called by the thread that reads records; attaching and detaching are done by [threads of their own](jobs).

mod estimate;
mod files;
mod jobs;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use event::{Overhead, ProcessId, StepRecord};
use probe_abi::PROBES;
use probe_abi::record::{ROWS, flag};

use self::estimate::{Estimate, ProcessClock, Window};
use self::files::{Need, SplitFile, Thinned, USERS_MAX};
use self::jobs::{Linkable, Made, Report, Seen, WindowJob};
use self::whole::Whole;
use crate::budget::{Budget, CLASSES, Change, ClassSet, INTERVAL_NS, ProbeClass, ThinningLevel};
use crate::cost::Calibration;
use crate::interval::Interval;
use crate::kernel::Kernel;
use crate::libraries::{Libraries, LibraryKey};
use crate::totals::{self, CallReader, RowCalls};

/// A process that is thinned, or was.
struct Process {
    /// The classes whose probes it has in windows only.
    classes: ClassSet,
    estimate: Estimate,
    whole: Whole,
    /// Hits when the last window ended.
    calls: Box<RowCalls>,
    /// When the next window begins.
    next_ns: u64,
    /// A window is open, or about to be.
    is_open: bool,
    /// State of the pseudo-random begin of windows.
    random: u64,
}

/// What was read at the end of the last interval.
#[derive(Default)]
struct LastRead {
    at_ns: u64,
    calls: BTreeMap<u32, Box<RowCalls>>,
    suppressed: u64,
}

/// The budget and the processes that are thinned to hold it.
pub struct Thinning {
    budget: Budget,
    processes: BTreeMap<u32, Process>,
    files: BTreeMap<LibraryKey, SplitFile>,
    /// Files that cannot be split, and processes whose share is above the budget, which were logged.
    refused: BTreeSet<LibraryKey>,
    exceeded: BTreeSet<u32>,
    interval: Interval,
    last: LastRead,
    /// Runs of programs for each hit: more than one where the runtime's own driver calls are probed, too.
    runs_per_hit: f64,
    reader: Arc<CallReader>,
    reports: (Sender<Report>, Receiver<Report>),
}

impl Thinning {
    /// Returns what holds a budget, if there is one and this kernel allows it. Logs once if it does not.
    pub fn start(kernel: &Kernel, share: Option<f64>, calibration: &Calibration) -> Option<Thinning> {
        let (share, costs) = (share?, calibration.costs);
        if costs.launch_ns == 0 || costs.timed_ns == 0 {
            tracing::warn!("the overhead budget is not held: the cost of a probe could not be measured");
            return None;
        }
        if !calibration.links_processes {
            tracing::warn!(
                "the overhead budget is not held: probes of a single process need Linux 6.10 or newer"
            );
            return None;
        }
        let reader = CallReader::new(kernel.multi.as_ref()?)?;
        Some(Thinning::new(Budget::new(share, costs), reader))
    }

    /// Creates a budget that nothing has used yet.
    fn new(budget: Budget, reader: CallReader) -> Thinning {
        Thinning {
            budget,
            processes: BTreeMap::new(),
            files: BTreeMap::new(),
            refused: BTreeSet::new(),
            exceeded: BTreeSet::new(),
            interval: Interval::new(INTERVAL_NS),
            last: LastRead::default(),
            runs_per_hit: 1.0,
            reader: Arc::new(reader),
            reports: channel(),
        }
    }

    /// Takes reports, observes the hits of the traced processes, and applies the levels that follow. Call it before
    /// records are read.
    pub fn turn(
        &mut self,
        kernel: &mut Kernel,
        libraries: &mut Libraries,
        traced: impl Iterator<Item = u32>,
        now_ns: u64,
    ) {
        while let Ok(report) = self.reports.1.try_recv() {
            self.take(report, libraries);
        }
        if self.interval.is_due(now_ns) {
            self.observe(kernel, traced, now_ns);
        }
        if !self.processes.is_empty() || !self.files.is_empty() {
            self.switch(libraries, now_ns);
            self.split(kernel, libraries);
            self.open_windows(libraries, now_ns);
        }
    }

    /// Marks a step that was not observed whole.
    pub fn mark_step(&mut self, step: &mut StepRecord) {
        if let Some(process) = self.processes.get_mut(&step.header.pid)
            && !process.whole.contains(step)
        {
            step.header.flags |= flag::UNARMED;
        }
    }

    /// Returns the estimated number of calls of a row that were not observed.
    pub fn unobserved(&self, pid: u32, row: u16) -> u64 {
        self.processes.get(&pid).map_or(0, |process| process.estimate.unobserved(row))
    }

    /// Returns the cost of the probes to a process.
    pub fn overhead(&self, process: ProcessId, at_ns: u64) -> Overhead {
        let level = self.budget.level(process.pid);
        let attached = |class| if level.classes.contains(class) { level.duty() } else { 1.0 };
        let share = self.budget.share(process.pid);
        Overhead { at_ns, process, share, attached: ProbeClass::THINNABLE.map(attached) }
    }

    /// Estimates the last calls of a process that ended.
    pub fn end(&mut self, pid: u32, at_ns: u64) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.estimate.end(at_ns);
        }
    }

    /// Removes a process that ended.
    pub fn remove(&mut self, pid: u32) {
        self.budget.remove(pid);
        self.processes.remove(&pid);
        self.exceeded.remove(&pid);
        self.last.calls.remove(&pid);
    }

    fn observe(&mut self, kernel: &Kernel, traced: impl Iterator<Item = u32>, now_ns: u64) {
        let interval_ns = now_ns.saturating_sub(std::mem::replace(&mut self.last.at_ns, now_ns));
        let now = traced.filter_map(|pid| Some((pid, self.reader.calls(pid)?)));
        let now: BTreeMap<u32, Box<RowCalls>> = now.collect();
        let hits: BTreeMap<u32, [u64; CLASSES]> = now
            .iter()
            .map(|(pid, calls)| {
                (*pid, self.last.calls.get(pid).map_or([0; CLASSES], |before| by_class(before, calls)))
            })
            .collect();
        self.last.calls = now;
        self.count_suppressed(kernel, hits.values().flatten().sum());
        for (pid, hits) in hits {
            let hits = runs(&hits, self.runs_per_hit);
            if let Some(change) = self.budget.interval(pid, now_ns, interval_ns, &hits) {
                log_change(pid, &change);
                self.processes.entry(pid).or_insert_with(|| Process::new(pid, now_ns));
            }
            self.log_exceeded(pid);
        }
    }

    /// Determines how many programs run for a hit: the kernel counts the runtime's driver calls for all processes together.
    fn count_suppressed(&mut self, kernel: &Kernel, hits: u64) {
        let suppressed = totals::suppressed(kernel);
        let more = suppressed.saturating_sub(std::mem::replace(&mut self.last.suppressed, suppressed));
        if hits > 0 {
            self.runs_per_hit = 1.0 + more as f64 / hits as f64;
        }
    }

    fn log_exceeded(&mut self, pid: u32) {
        if !self.budget.is_exceeded(pid) {
            self.exceeded.remove(&pid);
        } else if self.budget.level(pid).classes.is_empty() && self.exceeded.insert(pid) {
            let share = percent(self.budget.share(pid));
            tracing::warn!(pid, %share, "probes exceed the overhead budget, and those of {} are never detached", ProbeClass::Essential.name());
        }
    }

    /// Lets a process without an open window have the classes of its level.
    fn switch(&mut self, libraries: &Libraries, now_ns: u64) {
        for (pid, process) in &mut self.processes {
            let level = self.budget.level(*pid);
            if !process.is_open
                && process.classes != level.classes
                && can_split(libraries, &mut self.refused, *pid)
            {
                process.classes = level.classes;
                process.next_ns = now_ns + process.wait_ns(level);
            }
        }
    }

    /// Changes the links of files where the processes or their classes changed.
    fn split(&mut self, kernel: &mut Kernel, libraries: &mut Libraries) {
        let thinned = self.processes.iter().filter(|(_, process)| !process.classes.is_empty());
        let thinned: Thinned = thinned.map(|(pid, process)| (*pid, process.classes)).collect();
        for file in thinned.keys().flat_map(|pid| libraries.files_of(*pid)).collect::<BTreeSet<_>>() {
            if !self.files.contains_key(&file) {
                let split = split_file(kernel, libraries, &file, &self.reader);
                self.files.extend(split.map(|split| (file, split)));
            }
        }
        let none = BTreeSet::new();
        let mut shared = Vec::new();
        for (file, split) in &mut self.files {
            let users = libraries.users(file).unwrap_or(&none);
            match split.need(*file, users, &thinned) {
                Need::Nothing => {}
                Need::Change(change) => drop(jobs::change(*change, self.reports.0.clone())),
                Need::Shared(links) => shared.push((*file, links)),
            }
        }
        for (file, links) in shared {
            let rest = self.files.remove(&file).map(SplitFile::into_links).unwrap_or_default();
            jobs::close_later(rest.into_iter().chain(libraries.put_thinnable(&file, links)).collect());
        }
    }

    fn open_windows(&mut self, libraries: &Libraries, now_ns: u64) {
        for (pid, process) in &mut self.processes {
            let is_due = !process.classes.is_empty() && !process.is_open && now_ns >= process.next_ns;
            let split = libraries.files_of(*pid).filter_map(|file| self.files.get(&file));
            let split: Vec<&SplitFile> = split.collect();
            if !is_due || split.is_empty() || split.iter().any(|file| file.is_pending(*pid, process.classes))
            {
                continue;
            }
            let level = self.budget.level(*pid);
            let files = split.iter().map(|file| file.linkable.clone()).collect();
            let job = WindowJob {
                pid: *pid,
                classes: process.classes,
                files,
                open_ns: level.window_ns(),
                reader: Arc::clone(&self.reader),
            };
            process.next_ns = now_ns + process.wait_ns(level);
            process.is_open = jobs::window(job, self.reports.0.clone());
        }
    }

    fn take(&mut self, report: Report, libraries: &Libraries) {
        match report {
            Report::Opened { pid, at_ns } => self.with(pid, |process| process.whole.attach(at_ns)),
            Report::Closing { pid, at_ns } => self.with(pid, |process| process.whole.detach(at_ns)),
            Report::Window { pid, seen } => self.end_window(pid, seen),
            Report::Changed { file, made } => self.changed(file, made, libraries),
        }
    }

    fn with(&mut self, pid: u32, run: impl FnOnce(&mut Process)) {
        if let Some(process) = self.processes.get_mut(&pid) {
            run(process);
        }
    }

    fn end_window(&mut self, pid: u32, seen: Option<Seen>) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        process.is_open = false;
        let (Some(seen), Some(now)) = (seen, self.reader.calls(pid)) else { return };
        let Seen { classes, open, close, calls: [first, last] } = seen;
        let runs = runs(&by_class(&first, &last), self.runs_per_hit);
        let costs = self.budget.costs().by_class(&runs);
        let cost_ns = classes.iter().map(|class| costs[class as usize]).sum();
        let hits = rows(classes, &first, &last);
        let stray = [rows(classes, &process.calls, &first), rows(classes, &last, &now)].concat();
        process.estimate.window(&Window { classes, open, close, hits: &hits, stray: &stray, cost_ns });
        process.calls = now;
        self.budget.window(pid, close.at_ns.saturating_sub(open.at_ns), &runs);
    }

    fn changed(&mut self, file: LibraryKey, made: Made, libraries: &Libraries) {
        let Made { links, shared, moments } = made;
        if let Some(split) = self.files.get_mut(&file) {
            split.changed(links, shared);
        }
        for (pid, (moment, calls)) in moments {
            let Some(process) = self.processes.get_mut(&pid) else { continue };
            process.change(moment);
            process.calls = calls.unwrap_or_else(|| process.calls.clone());
            let mut files = libraries.files_of(pid).filter_map(|file| self.files.get(&file));
            if process.classes.is_empty() && !files.any(|file| file.is_pending(pid, process.classes)) {
                process.whole.attach(moment.at_ns);
            }
        }
    }
}

impl Process {
    fn new(pid: u32, now_ns: u64) -> Process {
        Process {
            classes: ClassSet::NONE,
            estimate: Estimate::default(),
            whole: Whole::default(),
            calls: Box::new([0; ROWS]),
            next_ns: 0,
            is_open: false,
            random: now_ns ^ u64::from(pid) << 32 | 1,
        }
    }

    /// Applies a change of the links to what is estimated.
    fn change(&mut self, at: ProcessClock) {
        for class in ProbeClass::THINNABLE {
            match self.classes.contains(class) {
                true => self.estimate.detach(class, at),
                false => self.estimate.attach(class, at),
            }
        }
    }

    /// Returns the time from the begin of a window to that of the next one: on average a period, at least three quarters.
    fn wait_ns(&mut self, level: ThinningLevel) -> u64 {
        // Xorshift: enough to have no pattern in common with a program.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let period_ns = level.period_ns();
        period_ns * 3 / 4 + self.random % (period_ns / 2)
    }
}

fn split_file(
    kernel: &mut Kernel,
    libraries: &mut Libraries,
    key: &LibraryKey,
    reader: &Arc<CallReader>,
) -> Option<SplitFile> {
    let (shared, file, points) = libraries.take_thinnable(key)?;
    match kernel.multi.as_mut().map(|multi| multi.thinnable(&points)) {
        Some(Ok(plans)) => {
            Some(SplitFile::new(Linkable { file, plans: Arc::new(plans) }, shared, Arc::clone(reader)))
        }
        _ => {
            jobs::close_later(libraries.put_thinnable(key, shared).into_iter().collect());
            None
        }
    }
}

/// Returns whether the files of a process can be split; logs once if one cannot.
fn can_split(libraries: &Libraries, refused: &mut BTreeSet<LibraryKey>, pid: u32) -> bool {
    let is_shared = |file: &LibraryKey| libraries.users(file).is_some_and(|users| users.len() > USERS_MAX);
    let Some(file) = libraries.files_of(pid).find(is_shared) else { return true };
    if refused.insert(file) {
        tracing::warn!(
            pid,
            max = USERS_MAX,
            "probes exceed the overhead budget and stay attached: too many processes map the same library"
        );
    }
    false
}

/// Returns the runs of programs for hits.
fn runs(hits: &[u64; CLASSES], per_hit: f64) -> [u64; CLASSES] {
    hits.map(|hits| (hits as f64 * per_hit) as u64)
}

/// Returns the hits of each class between two reads.
fn by_class(before: &RowCalls, now: &RowCalls) -> [u64; CLASSES] {
    let mut hits = [0; CLASSES];
    for probe in PROBES {
        let row = usize::from(probe.id);
        hits[ProbeClass::of(probe) as usize] += now[row].saturating_sub(before[row]);
    }
    hits
}

/// Returns the hits of each row of these classes between two reads.
fn rows(classes: ClassSet, before: &RowCalls, now: &RowCalls) -> Vec<(u16, u64)> {
    let probes = PROBES.iter().filter(|probe| classes.contains(ProbeClass::of(probe)));
    let hits = probes.map(|p| (p.id, now[usize::from(p.id)].saturating_sub(before[usize::from(p.id)])));
    hits.filter(|(_, hits)| *hits > 0).collect()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn log_change(pid: u32, change: &Change) {
    let share = percent(change.share);
    if change.to.classes.is_empty() {
        return tracing::info!(pid, %share, "the probes of a process are attached all the time again");
    }
    let thinned: Vec<&str> = change.to.classes.iter().map(ProbeClass::name).collect();
    let attached = format!("1/{}", 1u32 << change.to.halvings);
    tracing::info!(
        pid,
        %share,
        thinned = thinned.join(", "),
        %attached,
        "the probes of a process are attached for a part of the time, to hold the overhead budget: its counts are estimates"
    );
}
