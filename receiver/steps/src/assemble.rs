//! The assembly of a process's segments into steps.
//!
//! When *serving*, a segment is a step, unless its sync call neither waited nor had new work to wait for. When *training*,
//! an iteration is all segments up to the one that closes the bulk of the work. Which of the two a process does
//! ([`crate::mode`]) is not known at first, so its first segments are deferred until it is. A step is pending for a moment,
//! since later sync calls may belong to it; and the beginning of a step until the rest arrives, where an engine first
//! waits for the copies of its inputs.
//!
//! Bounded: [`Joining::undecided_segments`] deferred segments, [`PENDING`] pending steps. The result depends only on the
//! process's own segments and on time.

use probe_abi::Action;
use probe_abi::fold::Counter;

use crate::mode::{Bursts, Mode};
use crate::phase::Hint;
use crate::segment::{Group, Segment};
use crate::settings::Joining;
use crate::shape::StepWork;

/// Pending steps, each on its own streams. When full, the oldest is completed.
const PENDING: usize = 8;
/// Deferred segments by which the list grows: doubling would waste memory.
const DEFERRED_MORE: usize = 8;
/// The most calls that read a loss.
const LOSS_MAX: u64 = 16;
/// The size of an iteration in those of the last one from which its end was missed.
const ITERATION_FACTOR: u64 = 3;
/// Segments between reviews of the mode.
const REVIEW: u32 = 16;

/// A complete step and the mode of its process at the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assembled {
    pub(crate) group: Group,
    pub(crate) mode: Mode,
}

/// Assembles the segments of one process.
#[derive(Clone, Debug)]
pub(crate) struct Assembler {
    joining: Joining,
    mode: Mode,
    bursts: Bursts,
    since_review: u32,
    deferred: Vec<Segment>,
    pending: Vec<Group>,
    iteration: Iteration,
    /// Segments that no sync call ended, of a process that serves: the beginning of the next one of their stream.
    marks: Vec<Segment>,
    hint: Option<Hint>,
    /// False if the process is known to generate no tokens.
    generates: bool,
}

/// The open training iteration, and the end of the one before.
#[derive(Clone, Debug, Default)]
struct Iteration {
    open: Option<Group>,
    last_end_ns: u64,
    last_row: Option<u16>,
    /// Calls of the last iteration that enqueued.
    last_enqueues: u64,
}

impl Assembler {
    pub(crate) fn new(joining: Joining) -> Assembler {
        Assembler {
            joining,
            mode: Mode::Undecided,
            bursts: Bursts::default(),
            since_review: 0,
            deferred: Vec::new(),
            pending: Vec::new(),
            iteration: Iteration::default(),
            marks: Vec::new(),
            hint: None,
            generates: true,
        }
    }

    /// Sets whether the process may generate tokens. A pass of one that does not returns more than a few bytes.
    pub(crate) fn set_generates(&mut self, generates: bool) {
        self.generates = generates;
    }

    /// Sets what the user says of the process.
    pub(crate) fn set_hint(&mut self, hint: Option<Hint>) {
        self.hint = hint;
    }

    /// Adds the next segment, in the order in which sync calls return.
    pub(crate) fn push(&mut self, segment: &Segment, out: &mut Vec<Assembled>) {
        self.bursts.push(segment);
        match self.mode {
            Mode::Undecided => self.defer(segment, out),
            Mode::Serving => self.serve(segment, out),
            Mode::Training { .. } => self.train(segment, out),
        }
        self.review(out);
    }

    /// Returns the earliest deadline of a deferred segment or pending step.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let undecided = self.deferred.first().map(|s| s.end_ns().saturating_add(self.joining.undecided_ns));
        let pending = self.pending.iter().map(|g| self.due(g)).min();
        [undecided, pending].into_iter().flatten().min()
    }

    /// Completes the steps whose deadline is before `now_ns`.
    pub(crate) fn advance(&mut self, now_ns: u64, out: &mut Vec<Assembled>) {
        let undecided = self.deferred.first().map(|s| s.end_ns().saturating_add(self.joining.undecided_ns));
        if undecided.is_some_and(|due| due < now_ns) {
            self.decide(out);
        }
        let joining = self.joining;
        self.release(|g| due_ns(&joining, g) < now_ns, out);
    }

    /// Completes the pending steps of a stream whose number may be reused.
    pub(crate) fn end_stream(&mut self, stream: u32, out: &mut Vec<Assembled>) {
        self.release(|g| g.has_stream(stream), out);
    }

    /// Completes all steps, at the end of the process. Returns the number of segments of an iteration that was left before
    /// its bulk of work.
    pub(crate) fn finish(&mut self, out: &mut Vec<Assembled>) -> u64 {
        if self.mode == Mode::Undecided {
            self.decide(out);
        }
        self.flush_marks(out);
        self.join_look_ups();
        self.release(|_| true, out);
        let is_whole =
            |open: &Group| open.work.of(Counter::Enqueues) >= self.iteration.last_enqueues.div_ceil(2);
        let is_only = self.iteration.last_row.is_none();
        match self.iteration.open.take() {
            // The only iteration, or one whose end is not marked: an incomplete step is better than none.
            Some(open) if is_only || self.bursts.is_marked() && is_whole(&open) => {
                out.push(Assembled { group: open, mode: self.mode });
                0
            }
            Some(open) => u64::from(open.segments),
            None => 0,
        }
    }

    /// Makes steps of segments that no sync call followed.
    fn flush_marks(&mut self, out: &mut Vec<Assembled>) {
        for mark in std::mem::take(&mut self.marks) {
            self.serve_whole(&mark, out);
        }
    }

    fn due(&self, group: &Group) -> u64 {
        due_ns(&self.joining, group)
    }

    fn defer(&mut self, segment: &Segment, out: &mut Vec<Assembled>) {
        if self.deferred.len() == self.deferred.capacity() {
            self.deferred.reserve_exact(DEFERRED_MORE);
        }
        self.deferred.push(*segment);
        let is_clear = self.bursts.is_clearly_serving() || self.bursts.is_clearly_training();
        if is_clear || self.deferred.len() >= self.joining.undecided_segments {
            self.decide(out);
        }
    }

    fn decide(&mut self, out: &mut Vec<Assembled>) {
        self.mode = self.read_mode();
        for segment in std::mem::take(&mut self.deferred) {
            match self.mode {
                Mode::Training { .. } => self.train(&segment, out),
                _ => self.serve(&segment, out),
            }
        }
    }

    fn read_mode(&self) -> Mode {
        match self.hint {
            Some(Hint::Training) => return Mode::Training { confidence: 1.0 },
            Some(Hint::Inference | Hint::Forward) => return Mode::Serving,
            None => {}
        }
        self.bursts.training().map_or(Mode::Serving, |confidence| Mode::Training { confidence })
    }

    /// Changes the mode of a process that begins to train, or to serve. That needs more evidence than the first decision.
    fn review(&mut self, out: &mut Vec<Assembled>) {
        self.since_review += 1;
        if self.mode == Mode::Undecided || self.since_review < REVIEW {
            return;
        }
        self.since_review = 0;
        let next = match self.mode {
            Mode::Training { .. } if self.bursts.is_full() && self.bursts.is_clearly_serving() => {
                Mode::Serving
            }
            Mode::Serving => self.read_mode(),
            same => same,
        };
        if next != self.mode {
            self.flush_marks(out);
            self.pending.extend(self.iteration.open.take());
            self.release(|_| true, out);
            self.mode = next;
        }
    }

    fn serve(&mut self, segment: &Segment, out: &mut Vec<Assembled>) {
        if segment.is_mark() && self.marks.len() < PENDING {
            return self.marks.push(*segment);
        }
        let mut whole = *segment;
        while let Some(at) = self.marks.iter().rposition(|mark| mark.stream == segment.stream) {
            whole.begin_with(&self.marks.remove(at));
        }
        self.serve_whole(&whole, out);
    }

    fn serve_whole(&mut self, segment: &Segment, out: &mut Vec<Assembled>) {
        let leads = self.take_leads(segment);
        let at = match self.pending.iter().position(|g| g.sync_call == segment.sync_call()) {
            Some(at) => {
                self.pending[at].join_same_call(segment);
                at
            }
            None => match self.trails(segment).filter(|_| leads.is_empty()) {
                Some(at) => return self.pending[at].join_later(segment),
                None => {
                    self.begin_step(segment, out);
                    self.pending.len() - 1
                }
            },
        };
        leads.iter().for_each(|lead| self.pending[at].begin_with(lead));
    }

    /// Adds a step. The earlier ones of its stream are complete, unless it looks a value up: then it is known with the next
    /// segment which of its neighbours it belongs to.
    fn begin_step(&mut self, segment: &Segment, out: &mut Vec<Assembled>) {
        let group = Group::of(segment);
        if !group.is_look_up() {
            self.join_look_ups();
            self.release(|g| g.has_stream(segment.stream), out);
        }
        self.append(group, out);
    }

    /// Removes the pending beginnings of the step that this segment continues, the last first.
    fn take_leads(&mut self, segment: &Segment) -> Vec<Group> {
        let (mut leads, mut start_ns, generates) = (Vec::new(), segment.start_ns(), self.generates);
        let mut at = self.pending.len();
        while at > 0 {
            at -= 1;
            let group = &self.pending[at];
            if !group.has_stream(segment.stream) || group.sync_call == segment.sync_call() {
                continue;
            }
            if !group.leads_to(segment, start_ns, generates) {
                break;
            }
            start_ns = group.start_ns;
            leads.push(self.pending.remove(at));
        }
        leads
    }

    /// Joins values that were looked up, and that no larger work followed, to the step before them.
    fn join_look_ups(&mut self) {
        let mut at = self.pending.len();
        while at > 1 {
            at -= 1;
            if self.pending[at].ends(&self.pending[at - 1]) {
                let tail = self.pending.remove(at);
                self.pending[at - 1].join_later(&tail.main);
            }
        }
    }

    /// Returns the pending step that this segment belongs to: its sync call did not wait after the end of that step, nothing
    /// was enqueued since, and it has much less work. With as much work it is a separate step that ended early, as at the
    /// end of asynchronous scheduling.
    fn trails(&self, segment: &Segment) -> Option<usize> {
        let record = &segment.record;
        if segment.is_unfinished() || Group::of(segment).leads_ahead() {
            return None;
        }
        let of_stream = || {
            self.pending.iter().position(|g| record.enqueued_since_sync == 0 && g.has_stream(segment.stream))
        };
        let is_last = |g: &Group| is_after(segment, g) || is_concurrent_copy(segment, g);
        let of_process = || self.pending.len().checked_sub(1).filter(|at| is_last(&self.pending[*at]));
        let at = of_stream().or_else(of_process)?;
        let group = &self.pending[at];
        let waited_ns = segment.end_ns().saturating_sub(segment.entry_ns().max(group.closed_ns));
        let is_near = segment.entry_ns() <= self.due(group);
        let is_small = segment.enqueues() < group.comparable_enqueues(segment.stream).div_ceil(2);
        (is_near && is_small && waited_ns < self.joining.unwaited_ns).then_some(at)
    }

    fn train(&mut self, segment: &Segment, out: &mut Vec<Assembled>) {
        if self.extend_last(segment) || self.read_loss(segment) {
            return;
        }
        self.release(|_| true, out);
        let last_end_ns = self.iteration.last_end_ns;
        let open = match self.iteration.open.take() {
            None => Group::of(segment),
            Some(open) if open.sync_call == segment.sync_call() => with(open, |g| g.join_same_call(segment)),
            Some(open) => with(open, |g| g.join_later(segment)),
        };
        let open = with(open, |g| g.start_no_earlier_than(last_end_ns));
        if !self.ends_iteration(&open, segment) {
            self.iteration.open = Some(open);
            return;
        }
        self.iteration.last_enqueues = open.work.of(Counter::Enqueues);
        self.append(self.end_iteration(open, segment), out);
        self.iteration.last_row = Some(segment.record.header.row);
    }

    /// Returns true if the segment ends the open iteration: with a wait for most of the work where each iteration has one,
    /// otherwise where its end is inferred, or where the iteration grows beyond all measure.
    fn ends_iteration(&self, open: &Group, segment: &Segment) -> bool {
        let is_bulk = segment.record.process_enqueued_since_sync >= self.bursts.largest().div_ceil(2);
        if self.bursts.is_synced() {
            return is_bulk && !segment.is_mark();
        }
        if !self.bursts.is_marked() {
            return segment.is_mark() || is_bulk;
        }
        let most = self.iteration.last_enqueues.saturating_mul(ITERATION_FACTOR);
        segment.is_mark() || most > 0 && open.work.of(Counter::Enqueues) > most
    }

    /// Extends an iteration whose end was inferred by the sync call in which its loss is read.
    fn read_loss(&mut self, segment: &Segment) -> bool {
        let work = StepWork(segment.record.work);
        let is_read = work.of(Counter::BytesFromDevice) > 0
            && work.of(Counter::BytesToDevice) == 0
            && segment.enqueues() <= LOSS_MAX;
        let is_closed = self.iteration.open.is_none();
        match self.pending.last_mut().filter(|last| last.is_end_inferred && is_read && is_closed) {
            Some(last) => {
                last.join_later(segment);
                self.iteration.last_end_ns = last.end_ns;
                true
            }
            None => false,
        }
    }

    /// Extends the last iteration by another stream of its sync call, or by a sync call without new work.
    fn extend_last(&mut self, segment: &Segment) -> bool {
        let Some(last) = self.pending.last_mut().filter(|_| self.iteration.open.is_none()) else {
            return false;
        };
        if last.sync_call == segment.sync_call() {
            last.join_same_call(segment);
            last.start_no_earlier_than(last.previous_end_ns);
        } else if segment.record.process_enqueued_since_sync == 0 && !segment.is_unfinished() {
            last.join_later(segment);
        } else {
            return false;
        }
        self.iteration.last_end_ns = last.end_ns;
        true
    }

    fn end_iteration(&self, mut group: Group, last: &Segment) -> Group {
        if self.iteration.last_end_ns > 0 {
            group.previous_end_ns = self.iteration.last_end_ns;
        }
        // Profilers, checkpoints and evaluations wait for the device where the loop itself does not. That wait is
        // for the backlog of many iterations and not part of the last.
        let is_unusual = self.iteration.last_row.is_some_and(|row| row != last.record.header.row);
        if is_unusual
            && probe_abi::row(last.record.header.row).is_some_and(|r| r.action == Action::DeviceSync)
        {
            group.cut_last_wait(last);
        }
        group
    }

    fn append(&mut self, group: Group, out: &mut Vec<Assembled>) {
        if self.pending.len() >= PENDING {
            out.push(Assembled { group: self.pending.remove(0), mode: self.mode });
        }
        self.iteration.last_end_ns = group.end_ns;
        // One step is pending, rarely two: a capacity of four would be wasted.
        self.pending.reserve_exact(1);
        self.pending.push(group);
    }

    fn release(&mut self, is_due: impl Fn(&Group) -> bool, out: &mut Vec<Assembled>) {
        let mode = self.mode;
        out.extend(self.pending.extract_if(.., |g| is_due(g)).map(|group| Assembled { group, mode }));
    }
}

/// Returns the deadline of a pending step. The beginning of a step waits longer, for the rest of it.
fn due_ns(joining: &Joining, group: &Group) -> u64 {
    let wait_ns = if group.leads() { joining.undecided_ns } else { joining.trailing_ns };
    group.closed_ns.saturating_add(wait_ns)
}

/// Returns true if no thread enqueued work since the step. Kernels that another thread waits for are a separate step, which
/// happens to end at the same time.
fn is_after(segment: &Segment, group: &Group) -> bool {
    segment.record.process_enqueued_since_sync == 0
        && (segment.sync_call().tid == group.sync_call.tid || segment.is_copies())
}

/// Returns true for a copy of the result on its own stream that another thread waited for when the step ended.
fn is_concurrent_copy(segment: &Segment, group: &Group) -> bool {
    segment.is_copies() && segment.entry_ns() < group.closed_ns && group.closed_ns <= segment.end_ns()
}

fn with(mut group: Group, change: impl FnOnce(&mut Group)) -> Group {
    change(&mut group);
    group
}

#[cfg(test)]
mod tests;
