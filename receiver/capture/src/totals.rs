//! Totals from the kernel's folds: durations by process and function, and the account of every call.
//!
//! Totals of ended processes are retained as sums, so that the account stays exact.

use std::mem::offset_of;

use event::{Account, Event, OperationTotal, ProcessId};
use probe_abi::counters::{Counters, DropReason};
use probe_abi::histogram::{BUCKETS, Durations, OFFSET};
use probe_abi::hot::{HotDurations, HotProcess};
use probe_abi::record::{OperationKey, ProcessFold};
use probe_abi::{PROBES, Probe};

use crate::kernel::{
    COUNTER_WORDS, HOT_DURATION_WORDS, HOT_PROCESS_WORDS, Kernel, OPERATION_WORDS, PROCESS_WORDS, Words,
};

/// The share of a process in the account.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Share {
    /// Calls seen to begin.
    pub hits: u64,
    /// Calls that are folded.
    pub folded: u64,
}

impl Share {
    /// Adds another share.
    pub fn add(&mut self, other: Share) {
        self.hits += other.hits;
        self.folded += other.folded;
    }
}

/// The fold of a process and its counts in the hot array.
struct Fold {
    fold: Words<PROCESS_WORDS>,
    hot: Words<HOT_PROCESS_WORDS>,
}

impl Fold {
    fn of(kernel: &Kernel, pid: u32, fold: Words<PROCESS_WORDS>) -> Fold {
        let hot = kernel.hot_processes.get(&HotProcess::slot(pid), 0).ok();
        // The slot may belong to another process.
        let own = hot.filter(|words| words[0] == u64::from(pid));
        Fold { fold, hot: own.unwrap_or([0; HOT_PROCESS_WORDS]) }
    }

    fn calls(&self, probe: &Probe) -> u64 {
        let row = usize::from(probe.id);
        self.fold[offset_of!(ProcessFold, calls) / 8 + row]
            + self.hot[offset_of!(HotProcess, calls) / 8 + row]
    }

    fn share(&self) -> Share {
        let folded = self.fold[offset_of!(ProcessFold, folded) / 8]
            + self.fold[offset_of!(ProcessFold, launches) / 8]
            + self.hot[offset_of!(HotProcess, folded) / 8]
            + self.hot[offset_of!(HotProcess, launches) / 8];
        Share { hits: PROBES.iter().map(|p| self.calls(p)).sum(), folded }
    }
}

/// Appends the totals of a process, one event for each function it called, and returns its share of the account.
pub fn operations(kernel: &Kernel, process: ProcessId, at_ns: u64, into: &mut Vec<Event>) -> Share {
    let Ok(fold) = kernel.processes.get(&process.pid, 0) else { return Share::default() };
    let fold = Fold::of(kernel, process.pid, fold);
    for probe in PROBES.iter().filter(|p| fold.calls(p) > 0) {
        let words = durations(kernel, process.pid, probe.id);
        let total =
            OperationTotal { at_ns, process, row: probe.id, calls: fold.calls(probe), ..Default::default() };
        into.push(Event::Operation(Box::new(words.map_or_else(|| total.clone(), |w| timed(&total, &w)))));
    }
    fold.share()
}

/// Removes the fold of an ended process; false if it had none.
pub fn remove(kernel: &mut Kernel, pid: u32) -> bool {
    // The fold first: while the slot is occupied, no new fold is created.
    let had = kernel.processes.remove(&pid).is_ok();
    let place = HotProcess::slot(pid);
    if kernel.hot_processes.get(&place, 0).is_ok_and(|words| words[0] == u64::from(pid)) {
        let _ = kernel.hot_processes.set(place, [0; HOT_PROCESS_WORDS], 0);
    }
    had
}

fn hot_durations(kernel: &Kernel, key: &OperationKey) -> Option<Words<HOT_DURATION_WORDS>> {
    let place = kernel.hot_durations.get(&HotDurations::slot(key), 0).ok()?;
    (place[0] == HotDurations::owner(key)).then_some(place)
}

/// Returns the durations of an operation from the map and from the hot array.
fn durations(kernel: &Kernel, pid: u32, row: u16) -> Option<Words<OPERATION_WORDS>> {
    let key = OperationKey { pid, row: u32::from(row) };
    let mut words = kernel.durations.get(&[key.pid, key.row], 0).ok();
    if let Some(hot) = hot_durations(kernel, &key) {
        let sum = words.get_or_insert([0; OPERATION_WORDS]);
        let max_at = offset_of!(Durations, max_ns) / 8;
        let max = sum[max_at].max(hot[offset_of!(HotDurations, durations) / 8 + max_at]);
        let hot_words = &hot[offset_of!(HotDurations, durations) / 8..];
        sum.iter_mut().zip(hot_words).for_each(|(all, one)| *all += one);
        sum[max_at] = max;
    }
    words
}

/// Removes the durations of an ended process.
pub fn remove_durations(kernel: &mut Kernel, pid: u32) {
    for probe in PROBES {
        let key = OperationKey { pid, row: u32::from(probe.id) };
        let _ = kernel.durations.remove(&[key.pid, key.row]);
        if hot_durations(kernel, &key).is_some() {
            let _ = kernel.hot_durations.set(HotDurations::slot(&key), [0; HOT_DURATION_WORDS], 0);
        }
    }
}

/// Removes the graphs of an ended process.
pub fn remove_graphs(kernel: &mut Kernel, pid: u32) {
    let keys: Vec<[u32; 4]> = kernel.graphs.keys().flatten().filter(|key| key[0] == pid).collect();
    keys.iter().for_each(|key| drop(kernel.graphs.remove(key)));
}

fn timed(total: &OperationTotal, words: &Words<OPERATION_WORDS>) -> OperationTotal {
    let places = &words[offset_of!(Durations, buckets) / 8..][..=BUCKETS];
    let buckets = places[1..].iter().enumerate().filter(|(_, count)| **count > 0);
    OperationTotal {
        returned: words[offset_of!(Durations, count) / 8],
        errors: words[offset_of!(Durations, errors) / 8],
        sum_ns: words[offset_of!(Durations, sum_ns) / 8],
        max_ns: words[offset_of!(Durations, max_ns) / 8],
        zero_count: places[0],
        buckets: buckets.map(|(at, count)| (OFFSET + at as i32, *count)).collect(),
        ..total.clone()
    }
}

/// Returns the counters of the kernel programs, summed over CPUs.
pub fn counters(kernel: &Kernel) -> Words<COUNTER_WORDS> {
    let mut sum = [0u64; COUNTER_WORDS];
    if let Ok(cpus) = kernel.counters.get(&0, 0) {
        for cpu in cpus.iter() {
            sum.iter_mut().zip(cpu).for_each(|(all, one)| *all += one);
        }
    }
    sum
}

/// Returns the dropped calls by reason.
pub fn dropped(counters: &Words<COUNTER_WORDS>) -> [u64; DropReason::ALL.len()] {
    let at = offset_of!(Counters, dropped) / 8;
    std::array::from_fn(|reason| counters[at + reason])
}

/// Returns the account of the kernel programs; `retired` is the share of ended processes.
pub fn account(kernel: &Kernel, retired: Share, at_ns: u64) -> Account {
    let mut all = retired;
    for (pid, fold) in kernel.processes.iter().flatten() {
        all.add(Fold::of(kernel, pid, fold).share());
    }
    let c = counters(kernel);
    let unattributed_hits = c[offset_of!(Counters, unattributed_hits) / 8];
    let (suppressed, filtered) =
        (c[offset_of!(Counters, suppressed) / 8], c[offset_of!(Counters, filtered) / 8]);
    let hits = all.hits + unattributed_hits;
    let args_records = c[offset_of!(Counters, args_records) / 8];
    Account {
        at_ns,
        hits,
        folded: all.folded,
        delivered: c[offset_of!(Counters, delivered) / 8] + args_records,
        sampled_out: c[offset_of!(Counters, sampled_out) / 8],
        dropped: dropped(&c),
        suppressed,
        filtered,
        unmatched: c[offset_of!(Counters, unmatched) / 8],
        unknown_events: c[offset_of!(Counters, unknown_events) / 8],
        unclosed_streams: c[offset_of!(Counters, unclosed_streams) / 8],
        untimed: c[offset_of!(Counters, untimed) / 8],
        untracked_graphs: c[offset_of!(Counters, untracked_graphs) / 8],
        dropped_contexts: c[offset_of!(Counters, dropped_contexts) / 8],
        records: c[offset_of!(Counters, records) / 8] + args_records,
        runs: hits + suppressed + filtered + args_records + c[offset_of!(Counters, returns) / 8],
        ..Account::default()
    }
}
