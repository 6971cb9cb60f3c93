//! A call returns: time it, close what it waited for, report what is worth a record, and settle its account.

use std::ops::RangeInclusive;

use table::fold::{Counter, Stamp};
use table::record::{CallRecord, Header, Kind, NOT_SEEN, StepRecord, StreamKey, flag};
use table::{Action, Probe};

use super::Folder;
use super::enter::entry_stamp;
use super::process::Timed;
use crate::Event;
use crate::call::Call;

/// A call under way.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) call: Call,
    pub(super) probe: &'static Probe,
    /// The streams whose step its return ends.
    pub(super) closes: Vec<StreamKey>,
    /// What the process enqueued between its previous closer's return and this call's entry.
    pub(super) process_fresh: u64,
}

/// What the steps of one closer have in common.
struct Closer {
    header: Header,
    device: i32,
    process_fresh: u64,
    enter: Stamp,
    exit: Stamp,
}

impl Folder {
    pub(super) fn leave(&mut self, frame: Frame, out: &mut Vec<Event>) {
        let before = out.len();
        self.account.runs += 1;
        self.last_exit_ns = self.last_exit_ns.max(frame.call.exit_ns());
        let failed = frame.call.has_failed(frame.probe.action);
        self.time(&frame, failed);
        let device = self.leave_thread(&frame);
        self.close(&frame, device, failed, out);
        if !failed {
            self.apply(&frame);
        }
        if failed || frame.probe.action.is_reported() {
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
            Timed::NoRoom => self.account.untimed += 1,
        }
    }

    /// The thread's call is over. Returns the device it was made for.
    fn leave_thread(&mut self, frame: &Frame) -> i32 {
        let Some(thread) = self.threads.get_mut(&(frame.call.process.pid, frame.call.tid)) else { return -1 };
        thread.depth = thread.depth.saturating_sub(1);
        thread.device
    }

    fn close(&mut self, frame: &Frame, device: i32, failed: bool, out: &mut Vec<Event>) {
        let destroys = frame.probe.action == Action::StreamDestroy;
        if frame.closes.is_empty() || (destroys && failed) {
            return;
        }
        let mut header = header(Kind::Step, &frame.call);
        header.flags = if destroys { flag::UNFINISHED } else { 0 };
        let enter = entry_stamp(&frame.call);
        let exit = Stamp { ns: frame.call.exit_ns(), ..enter };
        let closer = Closer { header, device, process_fresh: frame.process_fresh, enter, exit };
        for key in &frame.closes {
            self.close_stream(key, &closer, out);
        }
        if let Some(process) = self.processes.get_mut(&frame.call.process.pid) {
            process.seen = process.enqueues;
        }
    }

    fn close_stream(&self, key: &StreamKey, closer: &Closer, out: &mut Vec<Event>) {
        let Some(stream) = self.streams.get(key) else { return };
        let mut step = StepRecord {
            header: closer.header,
            stream: key.stream | if key.stream == 0 { u64::from(key.tid) << 32 } else { 0 },
            device: closer.device,
            process_fresh: closer.process_fresh,
            ..StepRecord::default()
        };
        stream.fold.close(&closer.enter, &closer.exit, &mut step);
        // Two threads that waited for the same work: the first to return made its step.
        if step.work[Counter::Enqueues as usize] > 0 {
            out.push(Event::Step(step));
        }
    }

    /// What a successful call changes for the calls after it.
    fn apply(&mut self, frame: &Frame) {
        let call = &frame.call;
        let key = call.stream_key();
        match (frame.probe.action, call.handle) {
            (Action::SetDevice, Some(device)) => self.set_device(call, device),
            (Action::CaptureBegin, _) => self.begin_capture(key),
            (Action::CaptureEnd, _) => {
                if let Some(stream) = self.streams.get(&key) {
                    stream.fold.set_capturing(false);
                }
            }
            (Action::EventDestroy, Some(event)) => self.snapshots.remove(key.pid, event),
            (Action::StreamDestroy, _) => self.forget_stream(&key),
            _ => {}
        }
    }

    fn set_device(&mut self, call: &Call, device: u64) {
        if let Some(thread) = self.threads.get_mut(&(call.process.pid, call.tid)) {
            thread.device = (device & 0x7fff_ffff) as i32;
        }
    }

    fn begin_capture(&mut self, key: StreamKey) {
        if self.streams.len() < self.bounds.streams || self.streams.contains_key(&key) {
            self.streams.entry(key).or_default().fold.set_capturing(true);
        }
    }

    /// Default streams cannot be destroyed.
    fn forget_stream(&mut self, key: &StreamKey) {
        if key.stream == 0 {
            return;
        }
        self.streams.remove(key);
        self.recording.remove(key);
        if let Some(process) = self.processes.get_mut(&key.pid) {
            process.forget_stream(key);
        }
    }

    /// Nothing will close the open work of these processes any more: it ends here, and says so.
    pub(super) fn close_open(&mut self, pids: RangeInclusive<u32>, at_ns: u64, out: &mut Vec<Event>) {
        let first = StreamKey { pid: *pids.start(), tid: 0, stream: 0 };
        let last = StreamKey { pid: *pids.end(), tid: u32::MAX, stream: u64::MAX };
        let open = |(key, stream): (&StreamKey, &super::Stream)| stream.fold.begin_close().then_some(*key);
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
        let at = Stamp { ns: at_ns, runq_ns: NOT_SEEN, tid: key.tid };
        let header = Header {
            kind: Kind::Step as u16,
            flags: flag::UNFINISHED,
            pid: key.pid,
            process_start_ns: process.id.start_ns,
            entry_ns: at_ns,
            ..Header::default()
        };
        let process_fresh = process.enqueues - process.seen;
        let before = out.len();
        self.close_stream(key, &Closer { header, device: -1, process_fresh, enter: at, exit: at }, out);
        if let Some(Event::Step(step)) = out.get_mut(before) {
            // Nobody waited: the thread that began it stands for it.
            step.header.tid = step.first_tid;
        }
    }
}

fn header(kind: Kind, call: &Call) -> Header {
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
        header: header(Kind::Call, call),
        result: call.result,
        device,
        handle: call.handle.unwrap_or(0),
        bytes: call.bytes,
        stream: call.stream,
    }
}
