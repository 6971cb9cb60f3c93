//! Attaching and detaching in threads of their own, because each waits for milliseconds in the kernel.
//!
//! Measured on Linux 6.18: a link takes 8 ms, which is an RCU grace period, further ones right after it 0.1 ms. Functions
//! are probed within 20 µs of the return. Closing a link takes 30 to 60 ms; nothing is counted from its beginning on.
//!
//! A thread reports what the reading of records must know before it happens, so that no record overtakes its report.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::estimate::ProcessClock;
use crate::budget::{ClassSet, ProbeClass};
use crate::clock;
use crate::libraries::{HeldFile, LibraryKey};
use crate::multi::{ALL_PROCESSES, LinkPlan, Links};
use probe_abi::PROBES;

use crate::totals::{CallReader, RowCalls};

/// An attached file, as a thread needs it to link its functions.
#[derive(Clone)]
pub struct Linkable {
    /// The file, by which it is linked even if its path is gone.
    pub file: Arc<HeldFile>,
    /// How its functions are linked.
    pub plans: Arc<Vec<LinkPlan>>,
}

impl Linkable {
    fn link(&self, classes: ClassSet, pid: u32) -> io::Result<Links> {
        LinkPlan::link(&self.plans, classes, self.file.path(), pid)
    }
}

/// What a thread did.
pub enum Report {
    /// A window of a process is open.
    Opened { pid: u32, at_ns: u64 },
    /// Probes of a process are about to be detached.
    Closing { pid: u32, at_ns: u64 },
    /// A window of a process is over.
    Window { pid: u32, seen: Option<Seen> },
    /// The links of a file are changed.
    Changed { file: LibraryKey, made: Made },
}

/// What was seen in a window, unless nothing could be attached or the process made no call.
pub struct Seen {
    pub classes: ClassSet,
    pub open: ProcessClock,
    pub close: ProcessClock,
    /// Hits at the beginning and at the end.
    pub calls: [Box<RowCalls>; 2],
}

/// The links that a change made.
#[derive(Default)]
pub struct Made {
    /// Links of single processes.
    pub links: BTreeMap<(u32, ProbeClass), Links>,
    /// Links for every process.
    pub shared: Option<Links>,
    /// When the probes of each thinned process changed, and its hits by then.
    pub moments: BTreeMap<u32, (ProcessClock, Option<Box<RowCalls>>)>,
}

/// A change of the links of a file.
pub struct LinkChange {
    pub file: LibraryKey,
    pub linkable: Linkable,
    /// Links for every process are made.
    pub is_shared: bool,
    /// The links of single processes that are made.
    pub link: Vec<(u32, ProbeClass)>,
    /// The links that are closed afterwards.
    pub close: Vec<Links>,
    /// The thinned processes whose probes change.
    pub pids: Vec<u32>,
    pub reader: Arc<CallReader>,
}

/// A window of one process.
pub struct WindowJob {
    pub pid: u32,
    pub classes: ClassSet,
    pub files: Vec<Linkable>,
    pub open_ns: u64,
    pub reader: Arc<CallReader>,
}

/// Starts a thread that changes the links of a file. Returns false if no thread could be started.
pub fn change(job: LinkChange, reports: Sender<Report>) -> bool {
    start(move || {
        let mut made = Made::default();
        if job.is_shared {
            let all = ProbeClass::THINNABLE.into_iter().fold(ClassSet::NONE, ClassSet::with);
            made.shared = logged(job.linkable.link(all, ALL_PROCESSES), ALL_PROCESSES);
        }
        made.links = link_each(&job);
        for pid in &job.pids {
            let _ = reports.send(Report::Closing { pid: *pid, at_ns: clock::now_ns() });
        }
        made.moments = job.pids.iter().map(|pid| (*pid, moment(*pid, &job.reader))).collect();
        close(job.close);
        let _ = reports.send(Report::Changed { file: job.file, made });
    })
}

/// Starts a thread that opens a window and closes it again. Returns false if no thread could be started.
pub fn window(job: WindowJob, reports: Sender<Report>) -> bool {
    start(move || {
        let (pid, classes) = (job.pid, job.classes);
        let linked: Vec<Links> = job.files.iter().filter_map(|f| logged(f.link(classes, pid), pid)).collect();
        let seen = if linked.is_empty() { None } else { job.watch(&reports) };
        close(linked);
        let _ = reports.send(Report::Window { pid, seen });
    })
}

impl WindowJob {
    fn watch(&self, reports: &Sender<Report>) -> Option<Seen> {
        let (open, first) = moment(self.pid, &self.reader);
        let _ = reports.send(Report::Opened { pid: self.pid, at_ns: open.at_ns });
        thread::sleep(Duration::from_nanos(self.open_ns));
        let _ = reports.send(Report::Closing { pid: self.pid, at_ns: clock::now_ns() });
        let (close, last) = moment(self.pid, &self.reader);
        Some(Seen { classes: self.classes, open, close, calls: [first?, last?] })
    }
}

/// Closes links in a thread.
pub fn close_later(links: Vec<Links>) {
    if !links.is_empty() {
        // If no thread can be started, the closure is dropped and the links are closed here.
        start(move || close(links));
    }
}

fn start(job: impl FnOnce() + Send + 'static) -> bool {
    thread::Builder::new().name("thinning".to_owned()).spawn(job).is_ok()
}

/// Makes the links of single processes at once, since all wait for the same grace period.
fn link_each(job: &LinkChange) -> BTreeMap<(u32, ProbeClass), Links> {
    let link = |(pid, class): (u32, ProbeClass)| {
        // What cannot be linked is not tried again.
        let links = logged(job.linkable.link(ClassSet::NONE.with(class), pid), pid).unwrap_or_default();
        ((pid, class), links)
    };
    thread::scope(|scope| {
        let spawned: Vec<_> = job.link.iter().map(|key| scope.spawn(move || link(*key))).collect();
        spawned.into_iter().filter_map(|thread| thread.join().ok()).collect()
    })
}

/// Detaches links: the entries of all of them first.
fn close(links: Vec<Links>) {
    let mut all = Links::default();
    links.into_iter().for_each(|links| all.append(links));
    all.detach();
}

/// Returns the current moment of a process, and its hits.
fn moment(pid: u32, reader: &CallReader) -> (ProcessClock, Option<Box<RowCalls>>) {
    let at_ns = clock::now_ns();
    // A process that has ended makes no calls, whatever its time is.
    let (cpu_ns, calls) = (clock::process_cpu_ns(pid).unwrap_or(0), reader.calls(pid));
    let rows = || PROBES.iter().filter(|probe| ProbeClass::of(probe) == ProbeClass::Essential);
    let essential = calls.iter().flat_map(|calls| rows().map(|probe| calls[usize::from(probe.id)])).sum();
    (ProcessClock { at_ns, cpu_ns, essential }, calls)
}

fn logged(linked: io::Result<Links>, pid: u32) -> Option<Links> {
    // The process may have ended meanwhile.
    linked.inspect_err(|e| tracing::debug!(pid, %e, "cannot attach to a process")).ok()
}
