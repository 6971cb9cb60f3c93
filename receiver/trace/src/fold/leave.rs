//! Return of a call: counts its duration, ends the steps that it waited for, records it and counts its outcome.

use std::ops::RangeInclusive;

use probe_abi::counters::SelfCounter;
use probe_abi::fold::{Snapshot, Stamp};
use probe_abi::record::{CallRecord, Header, Query, RecordKind, StepRecord, StreamKey, flag};
use probe_abi::{Action, Leave, NON_BLOCKING, Probe};

use super::Folder;
use super::enter::entry_stamp;
use super::process::Timed;
use crate::call::Call;
use event::Event;

/// Frame of a call under way.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) call: Call,
    pub(super) probe: &'static Probe,
    /// Snapshots up to which the return ends steps.
    pub(super) closes: Vec<Snapshot>,
    /// Calls of the process that enqueued work from its previous sync call to the entry.
    pub(super) process_enqueued_since_sync: u64,
    /// Begin of the wait: before this call, if the thread has been polling.
    pub(super) began_ns: u64,
}

/// Common data of the steps that one sync call ends.
struct SyncCall {
    header: Header,
    device: i32,
    process_enqueued_since_sync: u64,
    enter: Stamp,
    exit: Stamp,
}

impl Folder {
    pub(super) fn leave(&mut self, mut frame: Frame, out: &mut Vec<Event>) {
        let before = out.len();
        self.account.runs += 1;
        self.last_exit_ns = self.last_exit_ns.max(frame.call.exit_ns());
        let cookie = frame.probe.cookie();
        let failed = cookie.has_failed(frame.call.result);
        self.time(&frame, failed);
        let device = self.leave_thread(&frame);
        if cookie.is(Action::Query) {
            self.answered(&mut frame);
        }
        if cookie.ends_steps(frame.call.result) {
            self.close(&frame, device, out);
        }
        self.apply(&frame.call, cookie.on_leave(frame.call.result));
        if failed || cookie.is_reported() {
            out.push(Event::Call(report(&frame.call, device)));
        }
        let records = (out.len() - before) as u64;
        self.count_records(records);
        *if records > 0 { &mut self.account.delivered } else { &mut self.account.folded } += 1;
    }

    fn count_records(&mut self, records: u64) {
        self.account.records += records;
        self.account.received += records;
    }

    fn time(&mut self, frame: &Frame, failed: bool) {
        let has_room = self.timed < self.bounds.durations;
        let Some(process) = self.processes.get_mut(&frame.call.process.pid) else { return };
        match process.time(frame.call.row, frame.call.duration_ns, failed, has_room) {
            Timed::First => self.timed += 1,
            Timed::Again => {}
            Timed::NoRoom => self.account[SelfCounter::Untimed] += 1,
        }
    }

    /// Notes the return in the thread's state. Returns the thread's device.
    fn leave_thread(&mut self, frame: &Frame) -> i32 {
        let Some(thread) = self.threads.get_mut(&(frame.call.process.pid, frame.call.tid)) else { return -1 };
        thread.depth = thread.depth.saturating_sub(1);
        thread.device
    }

    /// Follows a wait by polling. Only the query that ends such a wait ends a step, or any query of a stream whose
    /// steps end by polling, since memory pools query events, too.
    fn answered(&mut self, frame: &mut Frame) {
        let call = &frame.call;
        let Some(thread) = self.threads.get_mut(&(call.process.pid, call.tid)) else { return };
        let stream =
            frame.closes.first().and_then(|snapshot| self.streams.get(&snapshot.key(call.process.pid)));
        let Some(stream) = stream else {
            thread.poll.began_ns = 0;
            return;
        };
        let query = Query {
            handle: call.handle.unwrap_or(call.stream),
            entry_ns: call.entry_ns,
            exit_ns: call.exit_ns(),
            enqueued: stream.fold.enqueued_by(call.tid),
        };
        match thread.poll.answer(&query, call.result == 0, stream.fold.is_polled()) {
            Some(began_ns) => frame.began_ns = began_ns,
            None => frame.closes.clear(),
        }
    }

    fn close(&mut self, frame: &Frame, device: i32, out: &mut Vec<Event>) {
        if frame.closes.is_empty() {
            return;
        }
        let before = out.len();
        let sync_call = sync_call(frame, device);
        for snapshot in &frame.closes {
            self.close_stream(&snapshot.key(frame.call.process.pid), snapshot, &sync_call, out);
        }
        if out.len() > before
            && let Some(process) = self.processes.get_mut(&frame.call.process.pid)
        {
            process.seen = process.enqueues;
        }
    }

    /// Ends a stream's step. Of two threads that wait for the same work, the first to return makes the step.
    fn close_stream(&self, key: &StreamKey, snapshot: &Snapshot, sync_call: &SyncCall, out: &mut Vec<Event>) {
        let Some(stream) = self.streams.get(key).filter(|stream| stream.fold.closes(snapshot)) else {
            return;
        };
        let mut step = StepRecord {
            header: sync_call.header,
            stream: key.external_handle(),
            device: sync_call.device,
            process_enqueued_since_sync: sync_call.process_enqueued_since_sync,
            ..StepRecord::default()
        };
        stream.fold.close(snapshot, &sync_call.enter, &sync_call.exit, &mut step);
        if sync_call.header.flags & flag::ITERATION == 0 {
            stream.fold.set_polled(sync_call.header.flags == flag::POLLED);
        }
        out.push(Event::Step(step));
    }

    /// Ends the step of the stream at the entry of a call that begins the next training iteration.
    pub(super) fn close_iteration(&mut self, key: &StreamKey, call: &Call, out: &mut Vec<Event>) {
        let Some(process) = self.processes.get(&key.pid) else { return };
        let (at, snapshot) = (entry_stamp(call), Snapshot::default());
        let mut header = header(RecordKind::Step, call);
        (header.flags, header.duration_ns) = (flag::ITERATION, 0);
        let process_enqueued_since_sync = process.enqueues - process.seen;
        let device = self.threads.get(&(key.pid, call.tid)).map_or(-1, |thread| thread.device);
        let sync_call = SyncCall { header, device, process_enqueued_since_sync, enter: at, exit: at };
        if let Some(stream) = self.streams.get(key) {
            stream.fold.snapshot(key, 0, &snapshot);
        }
        let before = out.len();
        self.close_stream(key, &snapshot, &sync_call, out);
        self.count_records((out.len() - before) as u64);
    }

    /// Applies what the call changes for later calls.
    fn apply(&mut self, call: &Call, change: Leave) {
        let key = self.stream_key(call);
        match (change, call.handle) {
            (Leave::EndCapture, graph) => {
                self.end_capture(&key, graph.unwrap_or(0));
                self.stop_capture(&key);
            }
            (Leave::AbortCapture, _) => self.stop_capture(&key),
            (Leave::SetDevice, Some(device)) => self.set_device(call, device),
            (Leave::AddStream, Some(handle)) => self.add_stream(call, handle),
            (Leave::BeginCapture, _) => self.begin_capture(call),
            (Leave::FollowGraph, Some(exec)) => self.follow_graph(call, exec),
            (Leave::RemoveStream, _) => self.remove_stream(&key),
            (Leave::Nothing | Leave::SetDevice | Leave::AddStream | Leave::FollowGraph, _) => {}
        }
    }

    fn stop_capture(&self, key: &StreamKey) {
        if let Some(stream) = self.streams.get(key) {
            stream.fold.end_capture();
        }
    }

    fn set_device(&mut self, call: &Call, device: u64) {
        let device = device & 0x7fff_ffff;
        let Some(process) = self.processes.get_mut(&call.process.pid) else { return };
        let first = *process.device.get_or_insert(device);
        if let Some(thread) = self.threads.get_mut(&(call.process.pid, call.tid)) {
            thread.device = device as i32;
            thread.default_stream = StreamKey::default_of(device + 1, first + 1);
        }
    }

    /// Adds a stream. An earlier one with its handle, whose end was not seen, is removed.
    fn add_stream(&mut self, call: &Call, handle: u64) {
        let key = StreamKey { pid: call.process.pid, tid: 0, stream: handle };
        self.remove_stream(&key);
        let has_room = self.streams.len() < self.bounds.streams;
        if call.bytes & NON_BLOCKING == 0 && has_room {
            self.streams.entry(key).or_default().fold.set_blocking();
            if let Some(process) = self.processes.get_mut(&key.pid) {
                process.has_blocking = true;
            }
        }
    }

    /// Removes a stream. Default streams cannot be destroyed.
    fn remove_stream(&mut self, key: &StreamKey) {
        if key.is_default() {
            return;
        }
        self.streams.remove(key);
        self.recording.remove(key);
        if let Some(process) = self.processes.get_mut(&key.pid) {
            process.remove_stream(key);
        }
    }

    /// Turns the open work of these processes into unfinished steps.
    pub(super) fn close_open(&mut self, pids: RangeInclusive<u32>, at_ns: u64, out: &mut Vec<Event>) {
        let first = StreamKey { pid: *pids.start(), tid: 0, stream: 0 };
        let last = StreamKey { pid: *pids.end(), tid: u32::MAX, stream: u64::MAX };
        let open = |(key, stream): (&StreamKey, &super::Stream)| stream.fold.has_open_work().then_some(*key);
        let keys: Vec<_> = self.streams.range(first..=last).filter_map(open).collect();
        for key in keys {
            let before = out.len();
            self.close_unfinished(&key, at_ns, out);
            self.count_records((out.len() - before) as u64);
        }
        for (_, process) in self.processes.range_mut(pids) {
            process.seen = process.enqueues;
        }
    }

    fn close_unfinished(&mut self, key: &StreamKey, at_ns: u64, out: &mut Vec<Event>) {
        let Some(process) = self.processes.get(&key.pid) else { return };
        let at = Stamp::uncounted(at_ns, key.tid);
        let header = Header {
            kind: RecordKind::Step as u16,
            flags: flag::UNFINISHED,
            pid: key.pid,
            process_start_ns: process.id.start_ns,
            entry_ns: at_ns,
            ..Header::default()
        };
        let process_enqueued_since_sync = process.enqueues - process.seen;
        let (before, snapshot) = (out.len(), Snapshot::default());
        if let Some(stream) = self.streams.get(key) {
            stream.fold.snapshot(key, 0, &snapshot);
        }
        self.close_stream(
            key,
            &snapshot,
            &SyncCall { header, device: -1, process_enqueued_since_sync, enter: at, exit: at },
            out,
        );
        if let Some(Event::Step(step)) = out.get_mut(before) {
            // No thread waited: the one that began the step is taken.
            step.header.tid = step.first_tid;
        }
    }
}

fn sync_call(frame: &Frame, device: i32) -> SyncCall {
    let mut header = header(RecordKind::Step, &frame.call);
    header.flags = frame.probe.cookie().step_flags();
    header.entry_ns = frame.began_ns;
    header.duration_ns = frame.call.exit_ns().saturating_sub(frame.began_ns);
    let enter = Stamp { ns: frame.began_ns, ..entry_stamp(&frame.call) };
    let exit = Stamp { ns: frame.call.exit_ns(), ..enter };
    SyncCall { header, device, process_enqueued_since_sync: frame.process_enqueued_since_sync, enter, exit }
}

fn header(kind: RecordKind, call: &Call) -> Header {
    Header {
        kind: kind as u16,
        row: call.row,
        flags: 0,
        pid: call.process.pid,
        tid: call.tid,
        process_start_ns: call.process.start_ns,
        entry_ns: call.entry_ns,
        duration_ns: call.duration_ns,
    }
}

fn report(call: &Call, device: i32) -> CallRecord {
    CallRecord {
        header: header(RecordKind::Call, call),
        result: call.result,
        device,
        handle: call.handle.unwrap_or(0),
        bytes: call.bytes,
        stream: call.stream,
    }
}
