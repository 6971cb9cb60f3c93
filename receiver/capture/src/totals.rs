//! Reads the kernel's folds: durations by process and function, and the programs' account of every call.
//!
//! Figures of processes that ended are added to one [`Share`], so that the account stays exact after their map entries
//! are removed.

use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use event::{Account, Event, OperationTotal, ProcessId};
use probe_abi::PROBES;
use probe_abi::counters::{Counters, SelfCounter};
use probe_abi::histogram::Durations;
use probe_abi::hot::{HotDurations, HotProcess};
use probe_abi::record::{OperationKey, ProcessFold, ROWS};
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

use crate::kernel::{COUNTER_WORDS, HOT_DURATION_WORDS, HOT_PROCESS_WORDS, Kernel, PROCESS_WORDS, Words};
use crate::multi::Multi;
use crate::sys;

/// The counters of one process for the check that every hit has a fate.
#[derive(Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, PartialEq)]
#[repr(C)]
pub struct Share {
    /// Calls seen to begin.
    pub hits: u64,
    /// Calls that were folded and got no record.
    pub folded: u64,
}

impl Share {
    /// Adds the share of another process.
    pub fn add(&mut self, other: Share) {
        self.hits += other.hits;
        self.folded += other.folded;
    }
}

/// Counters of a process: its fold, and its slot in the array of hot processes if it has one.
struct Fold {
    fold: ProcessFold,
    hot: Option<HotProcess>,
}

impl Fold {
    fn of(kernel: &Kernel, pid: u32, fold: Words<PROCESS_WORDS>) -> Fold {
        let hot = kernel.hot_processes.get(&HotProcess::slot(pid), 0).ok();
        let hot: Option<HotProcess> = hot.map(|words| transmute!(words));
        Fold { fold: transmute!(fold), hot: hot.filter(|hot| hot.is_of(pid)) }
    }

    fn calls(&self, row: u16) -> u64 {
        let calls = [Some(&self.fold.calls), self.hot.as_ref().map(|hot| &hot.calls)];
        calls.into_iter().flatten().map(|calls| calls[usize::from(row)].load(Relaxed)).sum()
    }

    fn total(&self, kernel: &Kernel, process: ProcessId, row: u16, at_ns: u64) -> OperationTotal {
        let calls = self.calls(row);
        let mut total = OperationTotal { at_ns, process, row, calls, ..OperationTotal::default() };
        add_durations(kernel, &mut total);
        total
    }

    fn share(&self) -> Share {
        let hot = self.hot.as_ref().map(|hot| [&hot.folded, &hot.launches]);
        let folded = [&self.fold.folded, &self.fold.launches].into_iter().chain(hot.into_iter().flatten());
        Share {
            hits: PROBES.iter().map(|p| self.calls(p.id)).sum(),
            folded: folded.map(|n| n.load(Relaxed)).sum(),
        }
    }
}

/// Hits of a process by row.
pub type RowCalls = [u64; ROWS];

/// Reads the hits of processes, in any thread.
pub struct CallReader {
    processes: OwnedFd,
    hot_processes: OwnedFd,
}

impl CallReader {
    /// Creates a reader of the maps that `multi` refers to.
    pub fn new(multi: &Multi) -> Option<CallReader> {
        Some(CallReader { processes: multi.map("PROCESSES")?, hot_processes: multi.map("HOT_PROCESSES")? })
    }

    /// Returns the hits of a process; `None` if it has none.
    pub fn calls(&self, pid: u32) -> Option<Box<RowCalls>> {
        let (mut fold, mut hot) = ([0; PROCESS_WORDS], [0; HOT_PROCESS_WORDS]);
        let is_known = sys::lookup(&self.processes, pid.to_ne_bytes(), &mut fold);
        sys::lookup(&self.hot_processes, HotProcess::slot(pid).to_ne_bytes(), &mut hot);
        let fold = Fold {
            fold: transmute!(fold),
            hot: Some(transmute!(hot)).filter(|hot: &HotProcess| hot.is_of(pid)),
        };
        is_known.then(|| Box::new(std::array::from_fn(|row| fold.calls(row as u16))))
    }
}

/// Returns the number of driver calls that runtimes made themselves.
pub fn suppressed(kernel: &Kernel) -> u64 {
    counters(kernel).other[SelfCounter::Suppressed as usize].load(Relaxed)
}

/// Appends the totals of each function that the process called. Returns its share of the account.
pub fn operations(kernel: &Kernel, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) -> Share {
    let Ok(fold) = kernel.processes.get(&process.pid, 0) else { return Share::default() };
    let fold = Fold::of(kernel, process.pid, fold);
    for probe in PROBES.iter().filter(|p| fold.calls(p.id) > 0) {
        into.push(Event::Operation(Box::new(fold.total(kernel, process, probe.id, at_ns))));
    }
    fold.share()
}

/// Returns the rows that a process called.
pub fn rows(kernel: &Kernel, pid: u32) -> Vec<u16> {
    let fold = kernel.processes.get(&pid, 0).map(|fold| Fold::of(kernel, pid, fold));
    let called = |fold: &Fold| PROBES.iter().map(|p| p.id).filter(|row| fold.calls(*row) > 0).collect();
    fold.as_ref().map(called).unwrap_or_default()
}

/// Returns the totals of a function in a process; zeroes if it was not called.
pub fn of_row(kernel: &Kernel, process: ProcessId, row: u16, at_ns: u64) -> OperationTotal {
    match kernel.processes.get(&process.pid, 0) {
        Ok(fold) => Fold::of(kernel, process.pid, fold).total(kernel, process, row, at_ns),
        Err(_) => OperationTotal { at_ns, process, row, ..OperationTotal::default() },
    }
}

/// Returns the share of a process in the account.
pub fn share(kernel: &Kernel, pid: u32) -> Share {
    kernel.processes.get(&pid, 0).map(|fold| Fold::of(kernel, pid, fold).share()).unwrap_or_default()
}

/// Adds the durations in the map and those in the operation's slot.
fn add_durations(kernel: &Kernel, total: &mut OperationTotal) {
    let key = OperationKey { pid: total.process.pid, row: u32::from(total.row) };
    if let Ok(words) = kernel.durations.get(&transmute!(key), 0) {
        let durations: Durations = transmute!(words);
        total.add(&durations);
    }
    if let Some(hot) = hot_durations(kernel, &key) {
        total.add(&hot.durations);
    }
}

fn hot_durations(kernel: &Kernel, key: &OperationKey) -> Option<HotDurations> {
    let hot: HotDurations = transmute!(kernel.hot_durations.get(&HotDurations::slot(key), 0).ok()?);
    hot.is_of(key).then_some(hot)
}

/// Removes the fold of a process that ended, and frees its slot. Returns false if it had no fold.
pub fn remove(kernel: &mut Kernel, pid: u32) -> bool {
    // The fold first: no new fold is made while the slot is taken.
    let had = kernel.processes.remove(&pid).is_ok();
    let slot = HotProcess::slot(pid);
    let hot: Option<HotProcess> = kernel.hot_processes.get(&slot, 0).ok().map(|words| transmute!(words));
    if hot.is_some_and(|hot| hot.is_of(pid)) {
        let _ = kernel.hot_processes.set(slot, [0; HOT_PROCESS_WORDS], 0);
    }
    had
}

/// Removes the durations of a process that ended.
pub fn remove_durations(kernel: &mut Kernel, pid: u32) {
    for probe in PROBES {
        let key = OperationKey { pid, row: u32::from(probe.id) };
        let _ = kernel.durations.remove(&[key.pid, key.row]);
        if hot_durations(kernel, &key).is_some() {
            let _ = kernel.hot_durations.set(HotDurations::slot(&key), [0; HOT_DURATION_WORDS], 0);
        }
    }
}

/// Removes the graphs of a process that ended.
pub fn remove_graphs(kernel: &mut Kernel, pid: u32) {
    let keys: Vec<[u32; 4]> = kernel.graphs.keys().flatten().filter(|key| key[0] == pid).collect();
    keys.iter().for_each(|key| drop(kernel.graphs.remove(key)));
}

/// Returns the programs' counters, summed over CPUs.
pub fn counters(kernel: &Kernel) -> Counters {
    let mut sum = [0u64; COUNTER_WORDS];
    if let Ok(cpus) = kernel.counters.get(&0, 0) {
        for cpu in cpus.iter() {
            sum.iter_mut().zip(cpu).for_each(|(all, one)| *all += one);
        }
    }
    transmute!(sum)
}

/// Returns the values of counters.
pub fn values<const N: usize>(counters: &[AtomicU64; N]) -> [u64; N] {
    counters.each_ref().map(|count| count.load(Relaxed))
}

/// Returns the programs' account; `retired` is the share of processes that ended.
pub fn account(kernel: &Kernel, retired: Share, at_ns: u64) -> Account {
    let mut all = retired;
    for (pid, fold) in kernel.processes.iter().flatten() {
        all.add(Fold::of(kernel, pid, fold).share());
    }
    let c = counters(kernel);
    let hits = all.hits + c.unattributed_hits.load(Relaxed);
    let (args_records, sampled_out) = (c.args_records.load(Relaxed), c.sampled_out.load(Relaxed));
    let account = Account {
        at_ns,
        hits,
        folded: all.folded,
        delivered: c.delivered.load(Relaxed) + args_records,
        sampled_out,
        dropped: values(&c.dropped),
        other: values(&c.other),
        records: c.records.load(Relaxed) + args_records,
        ..Account::default()
    };
    let runs = hits + account.ignored() + args_records + sampled_out + c.returns.load(Relaxed);
    Account { runs, ..account }
}
