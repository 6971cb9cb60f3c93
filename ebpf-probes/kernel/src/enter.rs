//! Entry of a timed call: filters it, counts the hit, folds the work it enqueues and pushes a frame for its return.
//! Launches without a return probe are handled in [`crate::launch`].

use core::mem::MaybeUninit;

use probe_abi::atomic::{AtomicU64, Relaxed};

use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::pt_regs;
use aya_ebpf::helpers::bpf_get_attach_cookie;
use aya_ebpf::programs::ProbeContext;
use probe_abi::counters::{DropReason, SelfCounter};
use probe_abi::fold::{Enqueue, Snapshot, StreamFold};
use probe_abi::frontier::Frontier;
use probe_abi::record::{ActiveStream, FRAMES, Frame, ProcessFold, StreamKey, ThreadFold};
use probe_abi::{Action, ArgPos, Cookie, Enter, cookie};

use crate::frames;
use crate::frontier;
use crate::graph;
use crate::iteration;
use crate::launch::{self, begin_step};
use crate::maps;
use crate::process;
use crate::regs::{Args, Regs, read_user};
use crate::stream::{found, is_capturing};
use crate::task::{Task, now_ns};

/// Runs at the entry of a function.
#[inline(always)]
pub fn run(ctx: &ProbeContext) -> Option<()> {
    // SAFETY: the context is the one the kernel called us with.
    let cookie = Cookie(unsafe { bpf_get_attach_cookie(ctx.as_ptr()) });
    let task = Task::current();
    if !process::is_traced(&task) {
        return None;
    }
    let regs = Regs::new(ctx.regs);
    if cookie.is_driver() && process::is_made_by_runtime(task.pid, task.tid, ctx.regs) {
        return maps::count_suppressed();
    }
    process::count_hit(&task, cookie.id());
    let mut args = MaybeUninit::uninit();
    let args = Args::read(&mut args, &regs, needs_stack(cookie));
    let call = Call { cookie, task, args, raw: ctx.regs };
    call.push(regs.entry_sp())
}

/// Returns true if the row names an argument on the stack.
#[inline(always)]
fn needs_stack(cookie: Cookie) -> bool {
    Args::is_on_stack(cookie.stream())
        || (!cookie.is_direction_fixed() && Args::is_on_stack(ArgPos(cookie.direction_arg() as u8)))
}

struct Call<'a> {
    cookie: Cookie,
    task: Task,
    args: &'a Args,
    /// Registers, for launches.
    raw: *mut pt_regs,
}

impl Call<'_> {
    #[inline(always)]
    fn stream(&self) -> u64 {
        match self.cookie.stream() {
            ArgPos::IN_CONFIG => read_user(self.args.at(ArgPos(1)).wrapping_add(32)).unwrap_or(0),
            position => self.args.at(position),
        }
    }

    #[inline(always)]
    fn key(&self, stream: u64) -> StreamKey {
        process::stream_key(&self.task, stream, self.cookie.is_twin())
    }

    /// Folds work into its stream. Returns `None` if the map of streams is full.
    #[inline(always)]
    fn enqueue(&self, stream: u64) -> Option<()> {
        let key = self.key(stream);
        let fold = maps::stream(&key)?;
        if is_capturing(&key, fold) {
            fold.capture();
            if let Some(capturing) = graph::capturing(&key, fold) {
                self.capture(capturing);
            }
            return Some(());
        }
        if !self.cookie.is(Action::Launch) {
            iteration::mark(self.cookie, &self.task, &key, fold, self.args.at(ArgPos(1)));
        }
        if fold.is_segment_empty() {
            begin_step(self.task.tid, fold, &key);
        }
        self.fold(fold);
        process::count_enqueue(&self.task);
        Some(())
    }

    /// Adds the call to the captured contents.
    #[inline(always)]
    fn capture(&self, capturing: &StreamFold) {
        if self.cookie.is(Action::Launch) {
            capturing
                .capture_launch(self.task.tid, &launch::enqueue_numbered(self.cookie, self.raw, &self.task));
        } else if self.cookie.is(Action::GraphLaunch) {
            graph::capture_launch(self.task.pid, self.args.at(ArgPos(1)), capturing);
        } else {
            capturing.capture_bytes(self.bytes());
        }
    }

    #[inline(always)]
    fn fold(&self, fold: &StreamFold) {
        let tid = self.task.tid;
        if self.cookie.is(Action::Launch) {
            fold.launch(tid, &launch::enqueue_numbered(self.cookie, self.raw, &self.task));
        } else if self.cookie.is(Action::GraphLaunch) {
            graph::launch_graph(self.task.pid, tid, self.args.at(ArgPos(1)), fold);
        } else {
            let call = Enqueue { bytes: self.bytes(), ..Enqueue::default() };
            match self.cookie.is(Action::Copy) {
                true => fold.copy(tid, self.direction(), &call),
                false => fold.fill(tid, &call),
            }
        }
    }

    #[inline(always)]
    fn direction(&self) -> probe_abi::Direction {
        self.cookie.direction(self.args.at(ArgPos(self.cookie.direction_arg() as u8)))
    }

    #[inline(always)]
    fn bytes(&self) -> u64 {
        let size = self.cookie.size();
        let elements = match self.cookie.size_kind() {
            cookie::bytes::ARG => self.args.at(ArgPos(size as u8)),
            cookie::bytes::PRODUCT => {
                self.args.at(ArgPos(size as u8)).wrapping_mul(self.args.at(ArgPos(size as u8 + 1)))
            }
            cookie::bytes::VOLUME => self.volume(size),
            _ => 0,
        };
        elements << self.cookie.element_shift()
    }

    /// Returns the product of the words in the struct that the first argument points to, 0 if they cannot be read.
    #[inline(always)]
    fn volume(&self, size: u64) -> u64 {
        let at = self.args.at(ArgPos(1)).wrapping_add(size & !cookie::bytes::IS_AREA);
        let Ok([width, height]) = read_user::<[u64; 2]>(at) else { return 0 };
        let depth = match size & cookie::bytes::IS_AREA {
            0 => read_user::<u64>(at.wrapping_add(16)).unwrap_or(0),
            _ => 1,
        };
        width.wrapping_mul(height).wrapping_mul(depth)
    }

    /// Folds a timed call and pushes its frame.
    #[inline(always)]
    fn push(&self, sp: u64) -> Option<()> {
        let stream = self.stream();
        if self.cookie.enqueues() && self.enqueue(stream).is_none() {
            return maps::count_drop(DropReason::StreamsFull);
        }
        let Some(thread) = maps::thread(self.task.pid, self.task.tid) else {
            return maps::count_drop(DropReason::ThreadsFull);
        };
        frames::unwind(&mut thread.depth, &thread.frames, sp);
        let depth = thread.depth as usize;
        if depth >= FRAMES {
            return maps::count_drop(DropReason::TooDeep);
        }
        let ThreadFold { frames, frontier, frontier_sp, scratch, .. } = thread;
        let frame = &mut frames[depth & (FRAMES - 1)];
        self.fill(frame, sp, stream);
        self.prepare(frame, frontier, scratch);
        if frame.closing == Frame::CLOSES_FRONTIER {
            *frontier_sp = sp;
        }
        frame.entry_ns = now_ns();
        thread.depth += 1;
        Some(())
    }

    #[inline(always)]
    fn fill(&self, frame: &mut Frame, sp: u64, stream: u64) {
        frame.cookie = self.cookie.0;
        frame.sp = sp;
        frame.handle = self.args.at(self.cookie.handle());
        frame.graph = self.args.at(self.cookie.graph());
        frame.bytes = self.bytes();
        frame.stream = stream;
        frame.closing = 0;
        frame.lost.store(0, Relaxed);
    }

    /// Applies the state change of the entry. The frontier of a wait is taken before the call: it excludes what other
    /// threads enqueue meanwhile.
    #[inline(always)]
    fn prepare(&self, frame: &mut Frame, frontier: &Frontier, scratch: &Snapshot) {
        let pid = self.task.pid;
        match self.cookie.on_enter(|| self.direction()) {
            Enter::Nothing => {}
            Enter::EndStream => {
                frame.closing = u64::from(frontier::take_last(&self.key(frame.stream), frontier, scratch));
            }
            Enter::AwaitStream => {
                frontier::take(&self.key(frame.stream), 0, frontier, scratch);
                frame.closing = u64::from(frontier::enter(pid, frontier));
            }
            Enter::AwaitEvent => self.prepare_event_wait(frame, frontier),
            Enter::AwaitDevice => self.prepare_device_sync(frame),
            Enter::RecordEvent => {
                iteration::mark_order(self.cookie, &self.task, &self.key(frame.stream));
                frontier::record(&self.key(frame.stream), frame.handle, frontier, scratch);
            }
            Enter::JoinEvent => {
                iteration::mark_order(self.cookie, &self.task, &self.key(frame.stream));
                if let Some(event) = frontier::event(pid, frame.handle) {
                    frontier::wait(&self.key(frame.stream), event);
                }
            }
            Enter::RemoveEvent => frontier::remove_event(pid, frame.handle),
            Enter::RemoveGraph => graph::destroy(pid, frame.handle, frame.graph),
            Enter::ChangeGraph => graph::change_graph(pid, frame.graph),
        }
        if frame.closing != 0 {
            self.snapshot_process(frame);
        }
    }

    #[inline(always)]
    fn snapshot_process(&self, frame: &mut Frame) {
        frame.counts = crate::task::counts();
        let process = process::find(&self.task);
        let fresh = |p: &ProcessFold| process::enqueued(p, self.task.pid).wrapping_sub(p.seen.load(Relaxed));
        frame.process_enqueued_since_sync = process.map_or(0, fresh);
    }

    #[inline(always)]
    fn prepare_event_wait(&self, frame: &mut Frame, frontier: &Frontier) {
        match frontier::event(self.task.pid, frame.handle) {
            Some(event) => frame.closing = u64::from(frontier::enter_event(self.task.pid, event, frontier)),
            None if self.cookie.is(Action::Query) => {}
            None => maps::count(SelfCounter::UnknownEvent),
        }
    }

    #[inline(always)]
    fn prepare_device_sync(&self, frame: &mut Frame) {
        let Some(process) = process::find(&self.task) else { return };
        let device = process::device(&self.task);
        frame.slots.store(0, Relaxed);
        for (at, slot) in process.active.iter().enumerate() {
            if slot.taken.load(Relaxed) != 0 {
                enter_active(self.task.pid, device, slot, &frame.slots, at as u64);
            }
        }
        frame.closing = if frame.slots.load(Relaxed) == 0 { 0 } else { Frame::CLOSES_SLOTS };
    }
}

/// Takes a snapshot of the stream in slot `at` for a device synchronization, and sets its bit if the return ends its
/// step. A stream without open work leaves its slot. Out of line, so that the verifier forgets its state at the
/// return.
#[unsafe(no_mangle)]
#[inline(never)]
fn enter_active(pid: u32, device: u64, slot: &ActiveStream, slots: &AtomicU64, at: u64) {
    let key = active_key(pid, slot);
    match found(&key) {
        Some(stream) if !stream.is_on(device) => {}
        Some(stream) if stream.begin_close() => slots.store(slots.load(Relaxed) | 1 << (at & 15), Relaxed),
        _ => slot.taken.store(0, Relaxed),
    }
}

/// Returns the key of an active stream.
#[inline(always)]
pub fn active_key(pid: u32, slot: &ActiveStream) -> StreamKey {
    StreamKey { pid, tid: slot.tid.load(Relaxed) as u32, stream: slot.stream.load(Relaxed) }
}
