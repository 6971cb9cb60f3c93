//! The fold in user space: turns [`Call`]s into the events that the kernel programs would have sent.
//!
//! Calls are taken in order of entry; the [`Folder`] handles each return at its time, in between, and has the maps of
//! the kernel. State changes and counters are those of [`probe_abi`] ([`probe_abi::Enter`], [`probe_abi::Leave`],
//! [`probe_abi::fold::StreamFold`]), so a replayed trace and the same calls under live probes give the same steps.
//!
//! There is one additional rule, for sources that do not name the event of a call: a wait for an unnamed event ends,
//! on every stream of the process, the work enqueued before the stream's latest record, or all work of a stream that
//! records no event. [`crate::Trace`] reads traces.

mod enter;
mod frontier;
mod functions;
mod graphs;
mod leave;
mod process;
mod state;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::record::{FRAMES, StreamKey};

use self::functions::Names;
use self::graphs::Graphs;
use self::leave::Frame;
use self::process::Process;
use self::state::{Recorded, Stream, Thread};
use crate::call::Call;
use event::{Account, Event, ExitStatus, ProcessId};

/// Bounds of the folder's maps, by default those of the kernel's. Calls beyond them are dropped and counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Processes. Full: [`DropReason::ProcessesFull`].
    pub processes: usize,
    /// Streams. Full: [`DropReason::StreamsFull`].
    pub streams: usize,
    /// Recorded events. Full: the one recorded first is evicted; a wait for it counts as unknown.
    pub events: usize,
    /// Threads, each with [`FRAMES`] calls under way. Full: [`DropReason::ThreadsFull`], [`DropReason::TooDeep`].
    pub threads: usize,
    /// Graphs and executable graphs. Full: [`SelfCounter::GraphMapFull`].
    pub graphs: usize,
    /// Durations by process and row. Full: [`SelfCounter::Untimed`].
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
    names: Names,
    threads: BTreeMap<(u32, u32), Thread>,
    /// Streams that record events, now or later.
    recording: BTreeSet<StreamKey>,
    /// Calls under way, by time of return; of equal ones, the last entered first.
    frames: BTreeMap<(u64, Reverse<u64>), Frame>,
    entered: u64,
    timed: usize,
    last_exit_ns: u64,
    account: Account,
    reported: [u64; DropReason::ALL.len()],
    unknown_rows: u64,
}

impl Folder {
    /// Creates a folder with these bounds.
    pub fn new(bounds: Bounds) -> Folder {
        Folder {
            bounds,
            processes: BTreeMap::new(),
            streams: BTreeMap::new(),
            recorded: Recorded::new(bounds.events),
            graphs: Graphs::new(bounds.graphs),
            names: Names::default(),
            threads: BTreeMap::new(),
            recording: BTreeSet::new(),
            frames: BTreeMap::new(),
            entered: 0,
            timed: 0,
            last_exit_ns: 0,
            account: Account::default(),
            reported: [0; DropReason::ALL.len()],
            unknown_rows: 0,
        }
    }

    /// Announces that events will be recorded on a stream: a wait for an unnamed event then ends no step of it before
    /// the first record.
    pub fn expect_records(&mut self, stream: StreamKey) {
        if self.recording.len() < self.bounds.streams {
            self.recording.insert(stream);
        }
    }

    /// Takes the next call, in order of entry. Appends the events of the call and of earlier returns.
    pub fn push(&mut self, call: &Call, out: &mut Vec<Event>) {
        self.advance(call.entry_ns, out);
        let Some(probe) = call.probe() else {
            self.unknown_rows += 1;
            return;
        };
        if self.processes.get(&call.process.pid).is_some_and(|p| p.id != call.process) {
            self.exit(call.process.pid, call.entry_ns, out);
        }
        self.enter(call, probe, out);
        self.names.report(out);
    }

    /// Advances time: handles the return of calls that end no later than `to_ns`.
    pub fn advance(&mut self, to_ns: u64, out: &mut Vec<Event>) {
        while let Some(next) = self.frames.first_entry().filter(|f| f.key().0 <= to_ns) {
            let frame = next.remove();
            self.leave(frame, out);
        }
    }

    /// Ends a process: its open work becomes unfinished steps, its totals and [`Event::Exit`] follow, and its state is
    /// removed. Its calls under way are abandoned.
    pub fn exit(&mut self, pid: u32, at_ns: u64, out: &mut Vec<Event>) {
        self.abandon(pid);
        self.close_open(pid..=pid, at_ns, out);
        let Some(mut process) = self.processes.remove(&pid) else { return };
        process.totals(at_ns, out);
        self.timed -= process.timed();
        self.streams.retain(|key, _| key.pid != pid);
        self.threads.retain(|key, _| key.0 != pid);
        self.recording.retain(|key| key.pid != pid);
        self.recorded.remove_process(pid);
        self.graphs.remove_process(pid);
        out.push(Event::Exit { process: process.id, at_ns, status: ExitStatus::Unknown });
    }

    /// Appends the totals that changed since the last time, the losses since then, and the account.
    pub fn totals(&mut self, at_ns: u64, out: &mut Vec<Event>) {
        for process in self.processes.values_mut() {
            process.totals(at_ns, out);
        }
        for (reason, reported) in DropReason::ALL.into_iter().zip(&mut self.reported) {
            let count = self.account.dropped[reason as usize];
            if count > *reported {
                out.push(Event::Lost { at_ns, reason, count: count - *reported });
                *reported = count;
            }
        }
        self.account.at_ns = at_ns;
        self.account[SelfCounter::GraphMapFull] = self.graphs.unkept;
        out.push(Event::Account(Box::new(self.account.clone())));
    }

    /// Ends the source: handles all returns, ends open work at the last one, and appends totals. Returns the time of
    /// that return.
    pub fn finish(&mut self, out: &mut Vec<Event>) -> u64 {
        self.advance(u64::MAX, out);
        let at_ns = self.last_exit_ns;
        self.close_open(0..=u32::MAX, at_ns, out);
        self.totals(at_ns, out);
        at_ns
    }

    /// Returns the account of all calls so far.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Returns the number of calls of rows unknown to this build, which are not hits.
    pub fn unknown_rows(&self) -> u64 {
        self.unknown_rows
    }

    /// Returns the processes that have not ended, sorted by pid.
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
