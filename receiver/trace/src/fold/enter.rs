//! Entry of a call: counts the hit, folds the work it enqueues, and adds a frame if the return is awaited.

use std::cmp::Reverse;

use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::fold::{Enqueue, Snapshot, Stamp, StreamFold};
use probe_abi::graph::GraphKey;
use probe_abi::record::{FRAMES, StreamKey};
use probe_abi::{Action, Api, Enter, Probe};

use super::Folder;
use super::graphs::exec_key;
use super::leave::Frame;
use super::process::Process;
use super::state::Stream;
use crate::call::Call;
use event::Event;

impl Folder {
    pub(super) fn enter(&mut self, call: &Call, probe: &'static Probe, out: &mut Vec<Event>) {
        if !self.adopt(call) {
            self.account.hits += 1;
            return self.count_drop(DropReason::ProcessesFull);
        }
        self.account.runs += 1;
        if probe.api == Api::Driver && self.is_within_runtime(call) {
            self.account[SelfCounter::Suppressed] += 1;
            return;
        }
        self.account.hits += 1;
        if let Some(process) = self.processes.get_mut(&call.process.pid) {
            process.hit(call.row);
        }
        self.mark_iteration(call, probe, out);
        if probe.cookie().enqueues() && !self.enqueue(call, probe) {
            return self.count_drop(DropReason::StreamsFull);
        }
        let has_thread = self.note_runtime(call, probe);
        match probe.is_timed() {
            false => self.account.folded += 1,
            true if !has_thread => self.count_drop(DropReason::ThreadsFull),
            true => self.await_return(call, probe),
        }
        // The return of a launch is not awaited, but its time is known.
        self.last_exit_ns = self.last_exit_ns.max(call.exit_ns());
    }

    /// Ends the step of a stream where a call begins the next training iteration.
    fn mark_iteration(&mut self, call: &Call, probe: &Probe, out: &mut Vec<Event>) {
        let key = self.stream_key(call);
        let Some(fold) = self.streams.get(&key).map(|stream| &stream.fold) else { return };
        let begins = match probe.action {
            Action::Copy | Action::Fill | Action::EventRecord | Action::StreamWait => {
                fold.begins_iteration(call.tid)
            }
            Action::GraphLaunch => {
                fold.begins_iteration(call.tid)
                    || fold.begins_captured_iteration(|| self.graphs.get(&exec(call)))
            }
            _ => false,
        };
        if begins && !self.is_capturing(&key, fold) {
            self.close_iteration(&key, call, out);
        }
    }

    pub(super) fn adopt(&mut self, call: &Call) -> bool {
        let has_room = self.processes.len() < self.bounds.processes;
        if has_room || self.processes.contains_key(&call.process.pid) {
            self.processes.entry(call.process.pid).or_insert_with(|| Process::new(call.process));
            return true;
        }
        false
    }

    /// Returns true if a runtime call of the same thread is under way, so that the runtime made this driver call.
    fn is_within_runtime(&self, call: &Call) -> bool {
        self.threads.get(&(call.process.pid, call.tid)).is_some_and(|thread| {
            call.entry_ns < thread.runtime_until_ns && call.exit_ns() <= thread.runtime_until_ns
        })
    }

    /// Stores until when the thread is in the runtime. Returns false if the map of threads is full.
    fn note_runtime(&mut self, call: &Call, probe: &Probe) -> bool {
        let key = (call.process.pid, call.tid);
        if self.threads.len() >= self.bounds.threads && !self.threads.contains_key(&key) {
            return false;
        }
        let thread = self.threads.entry(key).or_default();
        if probe.api == Api::Runtime {
            thread.runtime_until_ns = thread.runtime_until_ns.max(call.exit_ns());
        }
        true
    }

    /// Folds work into its stream. Returns false if the map of streams is full.
    fn enqueue(&mut self, call: &Call, probe: &Probe) -> bool {
        let key = self.stream_key(call);
        if self.streams.len() >= self.bounds.streams && !self.streams.contains_key(&key) {
            return false;
        }
        let device = self.device(call);
        let work = self.work(call, probe);
        self.streams.entry(key).or_default();
        let fold = &self.streams[&key].fold;
        if self.is_capturing(&key, fold) {
            fold.capture();
            if let Some(capturing) = self.capturing(&key, fold) {
                self.capture(call, probe, &work, capturing);
            }
            return true;
        }
        let Some(process) = self.processes.get_mut(&call.process.pid) else { return false };
        if fold.is_segment_empty() {
            fold.begin(&entry_stamp(call));
            fold.set_device(device);
            process.has_blocking |= key.is_own_default();
            let is_idle = |key: &StreamKey| !self.streams.get(key).is_some_and(|s| s.fold.has_open_work());
            if !process.add_active(key, is_idle) {
                self.account[SelfCounter::UnclosedStream] += 1;
            }
        }
        match probe.action {
            Action::Launch => fold.launch(call.tid, &work),
            Action::GraphLaunch => fold.launch_graph(call.tid, &work, self.graphs.get(&exec(call))),
            Action::Copy => fold.copy(call.tid, call.direction, &work),
            _ => fold.fill(call.tid, &work),
        }
        process.enqueues += 1;
        true
    }

    fn work(&mut self, call: &Call, probe: &Probe) -> Enqueue {
        let lane = if probe.action == Action::Launch { self.lane(call, call.identity) } else { 0 };
        Enqueue { threads: call.threads, identity: call.identity, bytes: call.bytes, lane }
    }

    /// Adds the call to the captured contents.
    fn capture(&self, call: &Call, probe: &Probe, work: &Enqueue, capturing: &StreamFold) {
        match probe.action {
            Action::Launch => capturing.capture_launch(call.tid, work),
            Action::GraphLaunch => capturing.capture_graph(self.graphs.get(&exec(call))),
            _ => capturing.capture_bytes(call.bytes),
        }
    }

    fn await_return(&mut self, call: &Call, probe: &'static Probe) {
        let thread = self.threads.entry((call.process.pid, call.tid)).or_default();
        if thread.depth >= FRAMES {
            return self.count_drop(DropReason::TooDeep);
        }
        thread.depth += 1;
        let closes = self.prepare(call, probe);
        let process_enqueued_since_sync =
            self.processes.get(&call.process.pid).map_or(0, |p| p.enqueues - p.seen);
        self.entered += 1;
        self.frames.insert(
            (call.exit_ns(), Reverse(self.entered)),
            Frame { call: *call, probe, closes, process_enqueued_since_sync, began_ns: call.entry_ns },
        );
    }

    /// Applies the state change of the entry. The frontier of a wait is taken before the call: it excludes what other
    /// threads enqueue meanwhile. Returns what the return closes.
    fn prepare(&mut self, call: &Call, probe: &Probe) -> Vec<Snapshot> {
        let key = self.stream_key(call);
        let change: fn(&mut Folder, &Call) = match probe.cookie().on_enter(|| call.direction) {
            Enter::Nothing => |_, _| {},
            Enter::AwaitStream => return self.enter_stream(&key),
            Enter::EndStream => {
                return self.enter_snapshot(key.pid, &self.take_frontier(&key, 0).own).into_iter().collect();
            }
            Enter::AwaitEvent => return self.enter_event(call, probe),
            Enter::AwaitDevice => return self.enter_device(call),
            Enter::RecordEvent => Folder::record_event,
            Enter::JoinEvent => Folder::wait_for_event,
            Enter::RemoveEvent => Folder::remove_event,
            Enter::RemoveGraph => Folder::remove_graph,
            Enter::ChangeGraph => Folder::change_graph,
        };
        change(self, call);
        Vec::new()
    }

    fn enter_device(&self, call: &Call) -> Vec<Snapshot> {
        let (pid, device) = (call.process.pid, self.device(call));
        let is_on = |key: &&StreamKey| self.streams.get(key).is_some_and(|s| s.fold.is_on(device));
        let active = self.processes.get(&pid).map_or(&[][..], Process::active);
        let covered = active.iter().filter(is_on);
        covered.filter_map(|key| self.enter_snapshot(pid, &self.take_frontier(key, 0).own)).collect()
    }

    /// Returns the stream that the call refers to.
    pub(super) fn stream_key(&self, call: &Call) -> StreamKey {
        let key = call.stream_key();
        let thread = self.threads.get(&(call.process.pid, call.tid));
        match thread.filter(|_| key.stream == 0) {
            Some(thread) => StreamKey { stream: thread.default_stream, ..key },
            None => key,
        }
    }

    /// Returns the thread's device, plus one; 0 if not known.
    fn device(&self, call: &Call) -> u64 {
        let thread = self.threads.get(&(call.process.pid, call.tid));
        thread.map_or(0, |thread| (i64::from(thread.device) + 1) as u64)
    }

    fn enter_event(&mut self, call: &Call, probe: &Probe) -> Vec<Snapshot> {
        let pid = call.process.pid;
        let is_query = probe.action == Action::Query;
        let Some(event) = call.handle else {
            return if is_query { Vec::new() } else { self.enter_unnamed_event(pid) };
        };
        match self.recorded.get(pid, event) {
            Some(frontier) => self.enter_frontier(pid, frontier),
            None => {
                self.account[SelfCounter::UnknownEvent] += u64::from(!is_query);
                Vec::new()
            }
        }
    }

    fn enter_unnamed_event(&self, pid: u32) -> Vec<Snapshot> {
        let reaches = |(key, stream): (&StreamKey, &Stream)| match &stream.latest {
            Some(latest) => self.enter_snapshot(pid, latest),
            None if self.recording.contains(key) => None,
            None => self.enter_snapshot(pid, &self.take_frontier(key, 0).own),
        };
        self.streams.range(of_process(pid)).filter_map(reaches).collect()
    }
}

/// Returns the executable graph of a launch; its handle is 0, which is not valid, if the source does not name it.
fn exec(call: &Call) -> GraphKey {
    exec_key(call.process.pid, call.handle.unwrap_or(0))
}

/// Returns the range of the keys of a process's streams.
pub(super) fn of_process(pid: u32) -> std::ops::RangeInclusive<StreamKey> {
    StreamKey { pid, tid: 0, stream: 0 }..=StreamKey { pid, tid: u32::MAX, stream: u64::MAX }
}

/// Returns the call's entry, without run-queue wait.
pub(super) fn entry_stamp(call: &Call) -> Stamp {
    Stamp::uncounted(call.entry_ns, call.tid)
}
