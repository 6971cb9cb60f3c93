//! Segments of one process in, whole steps out.
//!
//! The one idea: *serving*, a segment is a step, unless its closer neither waited nor had anything new to wait for;
//! *training*, an iteration is all segments up to the one before which the bulk of the work was enqueued. Which of
//! the two a process does ([`crate::mode`]) is not known at first, so its first segments are held back, and read
//! again once it is. A step itself is held back a moment, since closers may follow that belong to it; and its beginning
//! until the rest comes, where an engine waits for its inputs' copies first.
//!
//! Bounds: [`Joining::undecided_segments`] held back, [`PENDING`] steps. What comes out depends on the process's own
//! segments and on time alone.

use probe_abi::Action;

use crate::mode::{Bursts, Mode};
use crate::segment::{Group, Segment};
use crate::settings::Joining;
use crate::shape::{Form, Shape, Work};

/// Steps held back, on streams of their own. Full: the oldest goes out.
const PENDING: usize = 8;
/// Segments that room is made for at once: doubling would waste what a process may cost.
const HELD_MORE: usize = 8;
/// Segments after which a decided process is looked at again.
const REVIEW: u32 = 16;

/// Takes whole steps, and what the process was doing.
pub(crate) type Take<'a> = &'a mut dyn FnMut(Group, Mode);

/// Puts the segments of one process together.
#[derive(Clone, Debug)]
pub(crate) struct Assembler {
    joining: Joining,
    mode: Mode,
    bursts: Bursts,
    since_review: u32,
    held: Vec<Segment>,
    pending: Vec<Group>,
    iteration: Iteration,
}

/// A training iteration under way, and the end of the one before.
#[derive(Clone, Debug, Default)]
struct Iteration {
    open: Option<Group>,
    last_end_ns: u64,
    last_row: Option<u16>,
}

impl Assembler {
    pub(crate) fn new(joining: Joining) -> Assembler {
        Assembler {
            joining,
            mode: Mode::Undecided,
            bursts: Bursts::default(),
            since_review: 0,
            held: Vec::new(),
            pending: Vec::new(),
            iteration: Iteration::default(),
        }
    }

    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The next segment, in the order of the closers' returns.
    pub(crate) fn push(&mut self, segment: &Segment, take: Take<'_>) {
        self.bursts.push(segment);
        match self.mode {
            Mode::Undecided => self.hold(segment, take),
            Mode::Serving => self.serve(segment, take),
            Mode::Training { .. } => self.train(segment, take),
        }
        self.review(take);
    }

    /// When something held back is due; `None` where nothing is.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        let undecided = self.held.first().map(|s| s.end_ns().saturating_add(self.joining.undecided_ns));
        let pending = self.pending.iter().map(|g| self.due(g)).min();
        [undecided, pending].into_iter().flatten().min()
    }

    /// Time has come to `now_ns`: gives out what was held back for long enough.
    pub(crate) fn advance(&mut self, now_ns: u64, take: Take<'_>) {
        let undecided = self.held.first().map(|s| s.end_ns().saturating_add(self.joining.undecided_ns));
        if undecided.is_some_and(|due| due < now_ns) {
            self.decide(take);
        }
        let joining = self.joining;
        self.release(|g| due_ns(&joining, g) < now_ns, take);
    }

    /// A stream is gone, and its number may name another: gives out what still speaks of it.
    pub(crate) fn forget_stream(&mut self, stream: u32, take: Take<'_>) {
        self.release(|g| g.has_stream(stream), take);
    }

    /// Nothing will follow: gives out all that is held back. Returns the segments of an iteration that was left
    /// before its bulk of work.
    pub(crate) fn finish(&mut self, take: Take<'_>) -> u64 {
        if self.mode == Mode::Undecided {
            self.decide(take);
        }
        self.release(|_| true, take);
        match self.iteration.open.take() {
            // All there ever was: better a step cut short than none.
            Some(open) if self.iteration.last_row.is_none() => {
                take(open, self.mode);
                0
            }
            Some(open) => u64::from(open.segments),
            None => 0,
        }
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.held.capacity() * size_of::<Segment>()
            + self.pending.capacity() * size_of::<Group>()
            + self.bursts.heap_bytes()
    }

    fn due(&self, group: &Group) -> u64 {
        due_ns(&self.joining, group)
    }

    fn hold(&mut self, segment: &Segment, take: Take<'_>) {
        if self.held.len() == self.held.capacity() {
            self.held.reserve_exact(HELD_MORE);
        }
        self.held.push(*segment);
        let is_clear = self.bursts.is_clearly_serving() || self.bursts.is_clearly_training();
        if is_clear || self.held.len() >= self.joining.undecided_segments {
            self.decide(take);
        }
    }

    fn decide(&mut self, take: Take<'_>) {
        self.mode = self.read_mode();
        for segment in std::mem::take(&mut self.held) {
            match self.mode {
                Mode::Training { .. } => self.train(&segment, take),
                _ => self.serve(&segment, take),
            }
        }
    }

    fn read_mode(&self) -> Mode {
        self.bursts.training().map_or(Mode::Serving, |confidence| Mode::Training { confidence })
    }

    /// A process may begin to train, or to serve what it has trained. It takes more to be believed than at first.
    fn review(&mut self, take: Take<'_>) {
        self.since_review += 1;
        if self.mode == Mode::Undecided || self.since_review < REVIEW {
            return;
        }
        self.since_review = 0;
        let fresh = match self.mode {
            Mode::Training { .. } if self.bursts.is_full() && self.bursts.is_clearly_serving() => {
                Mode::Serving
            }
            Mode::Serving => self.read_mode(),
            same => same,
        };
        if fresh != self.mode {
            self.pending.extend(self.iteration.open.take());
            self.release(|_| true, take);
            self.mode = fresh;
        }
    }

    fn serve(&mut self, segment: &Segment, take: Take<'_>) {
        let lead = self.take_lead(segment);
        let at = match self.pending.iter().position(|g| g.closer == segment.closer()) {
            Some(at) => {
                self.pending[at].join_same_closer(segment);
                at
            }
            None => match self.trails(segment).filter(|_| lead.is_none()) {
                Some(at) => return self.pending[at].join_later(segment),
                None => {
                    self.release(|g| g.has_stream(segment.stream), take);
                    self.append(Group::of(segment), take);
                    self.pending.len() - 1
                }
            },
        };
        if let Some(lead) = lead {
            self.pending[at].begin_with(&lead);
        }
    }

    /// The held beginning of the step that this segment goes on with.
    fn take_lead(&mut self, segment: &Segment) -> Option<Group> {
        let is_lead = |g: &Group| g.leads() && g.has_stream(segment.stream) && g.closer != segment.closer();
        self.pending.iter().position(is_lead).map(|at| self.pending.remove(at))
    }

    /// The held step that this segment belongs to: its closer did not wait beyond the end of that step, nothing was
    /// enqueued since, and it has much less work. With as much work it is a step of its own that was over early, as at
    /// the end of asynchronous scheduling.
    fn trails(&self, segment: &Segment) -> Option<usize> {
        let record = &segment.record;
        if segment.is_unfinished() || Group::of(segment).leads() {
            return None;
        }
        let of_stream = || {
            self.pending.iter().position(|g| record.enqueued_since_sync == 0 && g.has_stream(segment.stream))
        };
        let is_last = |g: &Group| is_after(segment, g) || is_copy_beside(segment, g);
        let of_process = || self.pending.len().checked_sub(1).filter(|at| is_last(&self.pending[*at]));
        let at = of_stream().or_else(of_process)?;
        let group = &self.pending[at];
        let waited_ns = segment.end_ns().saturating_sub(segment.entry_ns().max(group.closed_ns));
        let is_near = segment.entry_ns() <= self.due(group);
        let is_small = segment.enqueues() < group.enqueues_beside(segment.stream).div_ceil(2);
        (is_near && is_small && waited_ns < self.joining.unwaited_ns).then_some(at)
    }

    fn train(&mut self, segment: &Segment, take: Take<'_>) {
        if self.extend_last(segment) {
            return;
        }
        self.release(|_| true, take);
        let last_end_ns = self.iteration.last_end_ns;
        let open = match self.iteration.open.take() {
            None => Group::of(segment),
            Some(open) if open.closer == segment.closer() => with(open, |g| g.join_same_closer(segment)),
            Some(open) => with(open, |g| g.join_later(segment)),
        };
        let open = with(open, |g| g.start_no_earlier_than(last_end_ns));
        if segment.record.process_enqueued_since_sync < self.bursts.largest().div_ceil(2) {
            self.iteration.open = Some(open);
            return;
        }
        self.append(self.end_iteration(open, segment), take);
        self.iteration.last_row = Some(segment.record.header.row);
    }

    /// Another stream of the closer that ended the last iteration, or a closer with nothing new before it: both
    /// belong to that iteration.
    fn extend_last(&mut self, segment: &Segment) -> bool {
        let Some(last) = self.pending.last_mut().filter(|_| self.iteration.open.is_none()) else {
            return false;
        };
        if last.closer == segment.closer() {
            last.join_same_closer(segment);
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
        // for many iterations' backlog and no part of the last.
        let is_unusual = self.iteration.last_row.is_some_and(|row| row != last.record.header.row);
        if is_unusual
            && probe_abi::row(last.record.header.row).is_some_and(|r| r.action == Action::DeviceSync)
        {
            group.cut_last_wait(last);
        }
        group
    }

    fn append(&mut self, group: Group, take: Take<'_>) {
        if self.pending.len() >= PENDING {
            take(self.pending.remove(0), self.mode);
        }
        self.iteration.last_end_ns = group.end_ns;
        // One step is held back, rarely two: no room for four.
        self.pending.reserve_exact(1);
        self.pending.push(group);
    }

    fn release(&mut self, is_due: impl Fn(&Group) -> bool, take: Take<'_>) {
        let mode = self.mode;
        self.pending.extract_if(.., |g| is_due(g)).for_each(|group| take(group, mode));
    }
}

/// When it goes out, whether or not anything followed. What a step begins with is held until the rest of it comes.
fn due_ns(joining: &Joining, group: &Group) -> u64 {
    let held_ns = if group.leads() { joining.undecided_ns } else { joining.trailing_ns };
    group.closed_ns.saturating_add(held_ns)
}

/// True where nothing was enqueued since the step, by anybody. Kernels that another thread waits for are a step of its
/// own, which happens to end at the same time.
fn is_after(segment: &Segment, group: &Group) -> bool {
    segment.record.process_enqueued_since_sync == 0
        && (segment.closer().tid == group.closer.tid || is_copies(segment))
}

fn is_copies(segment: &Segment) -> bool {
    Shape::of(&Work(segment.record.work)).form == Form::Copies
}

/// True for a copy that another thread was waiting for when the step ended: of its result, on a stream of its own.
fn is_copy_beside(segment: &Segment, group: &Group) -> bool {
    is_copies(segment) && segment.entry_ns() < group.closed_ns && group.closed_ns <= segment.end_ns()
}

fn with(mut group: Group, change: impl FnOnce(&mut Group)) -> Group {
    change(&mut group);
    group
}

#[cfg(test)]
mod tests;
