//! The user-space twin of the kernel programs: [`Call`]s in, the events that the kernel would have sent out.
//!
//! The one idea: calls come in the order of their entries; the [`Folder`] lets each return happen at its time, in
//! between, and keeps the maps that the kernel keeps ([`probe_abi::fold::StreamFold`], [`probe_abi::histogram`]). So a
//! trace replayed here and the same calls made under live probes give the same steps.
//!
//! Beyond the kernel it has one rule, for sources that do not tell which event a call means: a wait for an untold
//! event ends, on every stream of the process, what was enqueued before that stream's latest record; on a stream
//! that records no event, all of it. Reading traces is left to [`crate::Trace`].

mod enter;
mod frontier;
mod graphs;
mod leave;
mod process;
mod state;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use probe_abi::counters::DropReason;
use probe_abi::record::{FRAMES, StreamKey};

use self::graphs::Graphs;
use self::leave::Frame;
use self::process::Process;
use self::state::{Recorded, Stream, Thread};
use crate::call::Call;
use event::{Account, Event, ExitStatus, ProcessId};

/// How much is remembered. The kernel's maps have the same bounds; beyond them calls are dropped and counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Processes. Full: [`DropReason::ProcessesFull`].
    pub processes: usize,
    /// Streams. Full: [`DropReason::StreamsFull`].
    pub streams: usize,
    /// Recorded events. Full: the one recorded longest ago is forgotten; a wait for it counts as unknown.
    pub events: usize,
    /// Threads, each with [`FRAMES`] calls under way. Full: [`DropReason::ThreadsFull`], [`DropReason::TooDeep`].
    pub threads: usize,
    /// Graphs and executable graphs. Full: [`Account::untracked_graphs`].
    pub graphs: usize,
    /// Durations by process and row. Full: [`Account::untimed`].
    pub durations: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        let graphs = probe_abi::graph::GRAPHS as usize;
        Bounds { processes: 1024, streams: 16384, events: 8192, threads: 32768, graphs, durations: 8192 }
    }
}

/// Folds calls into events. Deterministic: equal calls give equal events, in equal order.
#[derive(Debug)]
pub struct Folder {
    bounds: Bounds,
    processes: BTreeMap<u32, Process>,
    streams: BTreeMap<StreamKey, Stream>,
    recorded: Recorded,
    graphs: Graphs,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Streams known to record events, sooner or later.
    recording: BTreeSet<StreamKey>,
    /// Calls under way, by the time of their return; of those that return at once, the last entered first.
    frames: BTreeMap<(u64, Reverse<u64>), Frame>,
    entered: u64,
    timed: usize,
    last_exit_ns: u64,
    account: Account,
    told: [u64; DropReason::ALL.len()],
    unknown_rows: u64,
}

impl Folder {
    /// A folder that remembers at most `bounds`.
    pub fn new(bounds: Bounds) -> Folder {
        Folder {
            bounds,
            processes: BTreeMap::new(),
            streams: BTreeMap::new(),
            recorded: Recorded::new(bounds.events),
            graphs: Graphs::new(bounds.graphs),
            threads: BTreeMap::new(),
            recording: BTreeSet::new(),
            frames: BTreeMap::new(),
            entered: 0,
            timed: 0,
            last_exit_ns: 0,
            account: Account::default(),
            told: [0; DropReason::ALL.len()],
            unknown_rows: 0,
        }
    }

    /// Says beforehand that events will be recorded on a stream: a wait for an untold event then ends nothing on
    /// it that was enqueued before the first of them.
    pub fn expect_records(&mut self, stream: StreamKey) {
        if self.recording.len() < self.bounds.streams {
            self.recording.insert(stream);
        }
    }

    /// Takes the next call, in order of entry, and appends what it and the returns before it come to.
    pub fn push(&mut self, call: &Call, out: &mut Vec<Event>) {
        self.advance(call.entry_ns, out);
        let Some(probe) = call.probe() else {
            self.unknown_rows += 1;
            return;
        };
        if self.processes.get(&call.process.pid).is_some_and(|p| p.id != call.process) {
            self.exit(call.process.pid, call.entry_ns, out);
        }
        self.enter(call, probe);
    }

    /// Time passes: calls under way return that end no later than `to_ns`.
    pub fn advance(&mut self, to_ns: u64, out: &mut Vec<Event>) {
        while let Some(next) = self.frames.first_entry().filter(|f| f.key().0 <= to_ns) {
            let frame = next.remove();
            self.leave(frame, out);
        }
    }

    /// A process ended: its open work closes, its totals and its [`Event::Exit`] follow, and it is forgotten.
    /// Calls of it that are under way are abandoned.
    pub fn exit(&mut self, pid: u32, at_ns: u64, out: &mut Vec<Event>) {
        self.abandon(pid);
        self.close_open(pid..=pid, at_ns, out);
        let Some(mut process) = self.processes.remove(&pid) else { return };
        process.totals(at_ns, out);
        self.timed -= process.timed();
        self.streams.retain(|key, _| key.pid != pid);
        self.threads.retain(|key, _| key.0 != pid);
        self.recording.retain(|key| key.pid != pid);
        self.recorded.forget(pid);
        self.graphs.forget_process(pid);
        out.push(Event::Exit { process: process.id, at_ns, status: ExitStatus::Unknown });
    }

    /// Appends the totals that changed since the last time, what was lost since, and the account.
    pub fn totals(&mut self, at_ns: u64, out: &mut Vec<Event>) {
        for process in self.processes.values_mut() {
            process.totals(at_ns, out);
        }
        for (reason, told) in DropReason::ALL.into_iter().zip(&mut self.told) {
            let count = self.account.dropped[reason as usize];
            if count > *told {
                out.push(Event::Lost { at_ns, reason, count: count - *told });
                *told = count;
            }
        }
        self.account.at_ns = at_ns;
        self.account.untracked_graphs = self.graphs.unkept;
        out.push(Event::Account(Box::new(self.account.clone())));
    }

    /// The source has ended: every call returns, open work closes at the last return, totals follow. Returns the
    /// time of that last return.
    pub fn finish(&mut self, out: &mut Vec<Event>) -> u64 {
        self.advance(u64::MAX, out);
        let at_ns = self.last_exit_ns;
        self.close_open(0..=u32::MAX, at_ns, out);
        self.totals(at_ns, out);
        at_ns
    }

    /// What became of every call so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Calls of rows that this build does not know: not hits.
    pub fn unknown_rows(&self) -> u64 {
        self.unknown_rows
    }

    /// Processes seen and not ended, sorted by pid.
    pub fn processes(&self) -> impl Iterator<Item = ProcessId> + '_ {
        self.processes.values().map(|p| p.id)
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.account.dropped[reason as usize] += 1;
    }

    fn abandon(&mut self, pid: u32) {
        let before = self.frames.len();
        self.frames.retain(|_, frame| frame.call.process.pid != pid);
        self.account.dropped[DropReason::Abandoned as usize] += (before - self.frames.len()) as u64;
    }
}

const _: () = assert!(FRAMES > 0);

#[cfg(test)]
mod tests;
