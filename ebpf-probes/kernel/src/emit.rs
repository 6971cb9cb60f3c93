//! Puts records into the ring, without waking the reader: user space drains the ring periodically, since a wake-up per
//! record costs four times the probe itself.

use probe_abi::atomic::Relaxed;

use aya_ebpf::bindings::{BPF_RB_AVAIL_DATA, BPF_RB_NO_WAKEUP, BPF_RB_RING_SIZE};
use aya_ebpf::helpers::bpf_get_current_comm;
use aya_ebpf::maps::ring_buf::RingBufEntry;
use probe_abi::context::{ContextRecord, Published};
use probe_abi::fold::{Snapshot, Stamp};
use probe_abi::function::FunctionRecord;
use probe_abi::record::{CallRecord, Frame, Header, ProcessRecord, RecordKind, StepRecord, StreamKey, flag};

use crate::maps::{self, RING};
use crate::process;
use crate::stream::Stream;
use crate::task::{Task, now_ns};

/// Flag that leaves the reader asleep.
pub const QUIET: u64 = BPF_RB_NO_WAKEUP as u64;

#[inline(always)]
fn count_record() {
    if let Some(counters) = maps::counters() {
        counters.records.fetch_add(1, Relaxed);
    }
}

/// Fills the first fields of a record.
#[inline(always)]
pub fn fill_header(
    out: &mut Header,
    kind: RecordKind,
    row: u16,
    task: &Task,
    start_ns: u64,
    entry_ns: u64,
    exit_ns: u64,
) {
    out.kind = kind as u16;
    out.row = row;
    out.flags = 0;
    out.pid = task.pid;
    out.tid = task.tid;
    out.process_start_ns = start_ns;
    out.entry_ns = entry_ns;
    out.duration_ns = exit_ns.wrapping_sub(entry_ns);
}

/// Common data of the records of one returning call.
pub struct Returned<'a> {
    /// Thread that made the call.
    pub task: &'a Task,
    /// Start of its process.
    pub start_ns: u64,
    /// Id of the row.
    pub row: u16,
    /// Current device of the thread; -1 if not known.
    pub device: i32,
    /// Entry of the call.
    pub enter: Stamp,
    /// Return of the call.
    pub exit: Stamp,
    /// Frame of the call.
    pub frame: &'a Frame,
}

/// Records a stream's step. Ends the step in the fold even if the ring is full, which is noted in the call's frame.
#[inline(always)]
pub fn step(returned: &Returned<'_>, key: &StreamKey, stream: &Stream<'_>, snapshot: &Snapshot, flags: u32) {
    let Some(mut entry) = RING.reserve::<StepRecord>(0) else {
        stream.finish(snapshot, &returned.exit);
        returned.frame.lost.store(1, Relaxed);
        return;
    };
    // SAFETY: the ring's memory is ours until submitted, large enough and aligned; every field is written below.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    let r = returned;
    fill_header(&mut out.header, RecordKind::Step, r.row, r.task, r.start_ns, r.enter.ns, r.exit.ns);
    out.stream = key.external_handle();
    out.device = r.device;
    out.first_tid = 0;
    out.process_enqueued_since_sync = r.frame.process_enqueued_since_sync;
    stream.close(snapshot, &r.enter, &r.exit, out);
    out.header.flags |= flags;
    entry.submit(QUIET);
    count_record();
}

/// Records the step of a stream that the entry of a call of the row ends, because it begins the next training iteration.
/// `enqueued` is the number of calls of the process that enqueued work since its last sync call.
#[inline(always)]
pub fn iteration(
    task: &Task,
    row: u16,
    key: &StreamKey,
    stream: &Stream<'_>,
    snapshot: &Snapshot,
    enqueued: u64,
) {
    let now = task.stamp();
    let Some(mut entry) = RING.reserve::<StepRecord>(0) else { return stream.finish(snapshot, &now) };
    // SAFETY: as in `step`.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    let start_ns = process::find(task).map_or(0, |process| process.start_ns.load(Relaxed));
    fill_header(&mut out.header, RecordKind::Step, row, task, start_ns, now.ns, now.ns);
    out.stream = key.external_handle();
    out.device = process::device(task) as i32 - 1;
    out.first_tid = 0;
    out.process_enqueued_since_sync = enqueued;
    stream.close(snapshot, &now, &now, out);
    out.header.flags |= flag::ITERATION;
    submit(entry);
}

/// Records the trace context of the caller. Returns false if the ring is full.
#[inline(always)]
pub fn context(returned: &Returned<'_>, published: &Published) -> bool {
    let Some(mut entry) = RING.reserve::<ContextRecord>(0) else { return false };
    // SAFETY: as in `step`.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    let r = returned;
    fill_header(&mut out.header, RecordKind::Context, r.row, r.task, r.start_ns, r.enter.ns, r.exit.ns);
    (out.trace_id, out.span_id) = (published.trace_id, published.span_id);
    (out.trace_flags, out.pad) = (u32::from(published.flags), 0);
    entry.submit(QUIET);
    count_record();
    true
}

/// Returns true if half of the ring is free. Sampled calls leave the other half to other records.
#[inline(always)]
pub fn has_space_for_samples() -> bool {
    let (unread, size) = (RING.query(BPF_RB_AVAIL_DATA.into()), RING.query(BPF_RB_RING_SIZE.into()));
    unread <= size / 2
}

/// Records a call. Returns false if the ring is full.
#[inline(always)]
pub fn call(returned: &Returned<'_>, handle: u64, result: u32, flags: u32) -> bool {
    let Some(mut entry) = RING.reserve::<CallRecord>(0) else { return false };
    // SAFETY: as in `step`.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    let r = returned;
    fill_header(&mut out.header, RecordKind::Call, r.row, r.task, r.start_ns, r.enter.ns, r.exit.ns);
    out.header.flags = flags;
    out.result = result;
    out.device = r.device;
    out.handle = handle;
    out.bytes = r.frame.bytes;
    out.stream = r.frame.stream;
    entry.submit(QUIET);
    count_record();
    true
}

/// Begins the record of a launch, without the launch. If the ring is full, user space learns of the function from its slot.
#[inline(always)]
pub fn function(task: &Task, row: u16, start_ns: u64) -> Option<RingBufEntry<FunctionRecord>> {
    let mut entry = RING.reserve::<FunctionRecord>(0)?;
    // SAFETY: as in `step`; every field is written.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    *out = FunctionRecord::default();
    let now = now_ns();
    fill_header(&mut out.header, RecordKind::Function, row, task, start_ns, now, now);
    Some(entry)
}

/// Completes a record.
#[inline(always)]
pub fn submit<T>(entry: RingBufEntry<T>) {
    entry.submit(QUIET);
    count_record();
}

/// Records the first hit, exec or end of a process. Dropped if the ring is full: user space also polls for processes.
#[inline(always)]
pub fn process(kind: RecordKind, task: &Task, start_ns: u64, status: u64) {
    let Some(mut entry) = RING.reserve::<ProcessRecord>(0) else { return };
    // SAFETY: as in `step`.
    let out = unsafe { &mut *entry.as_mut_ptr() };
    let now = now_ns();
    fill_header(&mut out.header, kind, 0, task, start_ns, now, now);
    out.comm = bpf_get_current_comm().unwrap_or([0; 16]);
    out.status = status;
    entry.submit(QUIET);
    count_record();
}
