//! Segments, and the groups of segments that become steps.
//!
//! The kernel reports a *segment*: the work on one stream up to one sync call. A step of a workload is one segment or
//! several. A [`Group`] adds them up such that enqueueing and waiting remain the whole duration.

use probe_abi::fold::Counter;
use probe_abi::function::{LANES, Signature};
use probe_abi::record::{NOT_SEEN, StepRecord, flag};
use probe_abi::thread_counter::{THREAD_COUNTERS, ThreadCounter};

use crate::finding::Increase;
use crate::shape::{Form, Shape, StepWork};

/// The most calls that prepare a step: copies of inputs, and kernels that distribute them.
const LEAD_MAX: u64 = 64;
/// The most bytes of the inputs of a step: a batch of images, not the weights of a model.
const INPUT_BYTES: u64 = 64 << 20;
/// The most bytes copied by calls that look a value up.
const LOOK_UP_BYTES: u64 = 4_096;
/// The size of the rest of a step in calls that look a value up for it.
const LOOK_UP_FACTOR: u64 = 4;
/// The most bytes of a flag or a number that the host waits for in a pass.
const INTERIM_BYTES: u64 = 64;
/// The longest time between two parts of a pass that such a wait separates.
const INTERIM_GAP_NS: u64 = 1_000_000;
/// The cosine of two signatures from which they are alike.
const ALIKE: f64 = 0.9;
/// The longest time between the beginning of a step and the rest of it.
const LEAD_GAP_NS: u64 = 10_000_000;

/// The call that ended a segment. A device synchronisation ends several, one for each stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct SyncCall {
    /// The thread; 0 if the end of a stream, process or source ended the segment.
    pub(crate) tid: u32,
    row: u16,
    entry_ns: u64,
}

/// The work on one stream up to a sync call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment {
    /// The number of the stream.
    pub(crate) stream: u32,
    pub(crate) record: StepRecord,
    /// Records that it is made of: one, and those without a sync call before it.
    pub(crate) records: u32,
}

impl Segment {
    /// Prepends a segment of the same stream that no sync call ended.
    pub(crate) fn begin_with(&mut self, mark: &Segment) {
        let (own, before) = (&mut self.record, &mark.record);
        for (sum, more) in own.work.iter_mut().zip(before.work) {
            *sum = sum.wrapping_add(more);
        }
        own.signature.add(&before.signature);
        own.enqueued_since_sync = own.enqueued_since_sync.saturating_add(before.enqueued_since_sync);
        (own.sequence, own.first_ns, own.first_tid) = (before.sequence, before.first_ns, before.first_tid);
        own.previous_exit_ns = before.previous_exit_ns;
        self.records += mark.records;
    }

    pub(crate) fn entry_ns(&self) -> u64 {
        self.record.header.entry_ns
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.record.header.entry_ns.saturating_add(self.record.header.duration_ns)
    }

    /// Returns when its first work was enqueued: not after the sync call, whatever the record says.
    pub(crate) fn start_ns(&self) -> u64 {
        self.record.first_ns.min(self.entry_ns())
    }

    /// Returns true if it has no kernels.
    pub(crate) fn is_copies(&self) -> bool {
        Shape::of(&StepWork(self.record.work)).form == Form::Copies
    }

    pub(crate) fn is_unfinished(&self) -> bool {
        self.record.header.flags & flag::UNFINISHED != 0
    }

    /// Returns true if no sync call ended it, but an enqueue that began the next training iteration.
    pub(crate) fn is_mark(&self) -> bool {
        self.record.header.flags & flag::ITERATION != 0
    }

    pub(crate) fn sync_call(&self) -> SyncCall {
        let header = &self.record.header;
        // An end of a process or source ends the work of all threads.
        let tid = if self.is_unfinished() { 0 } else { header.tid };
        SyncCall { tid, row: header.row, entry_ns: header.entry_ns }
    }

    pub(crate) fn enqueues(&self) -> u64 {
        self.record.work[Counter::Enqueues as usize]
    }
}

/// The segments of one step, summed up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The segment with most work, which determines stream, thread and device.
    pub(crate) main: Segment,
    pub(crate) first_sequence: u64,
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) previous_end_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) work: StepWork,
    pub(crate) signature: Signature,
    pub(crate) segments: u32,
    pub(crate) increases: [Increase; THREAD_COUNTERS],
    pub(crate) is_start_known: bool,
    pub(crate) is_unfinished: bool,
    /// True if the last segment ended where the next iteration began.
    pub(crate) is_end_inferred: bool,
    pub(crate) sync_call: SyncCall,
    /// When the last sync call returned, even if the step ends before it.
    pub(crate) closed_ns: u64,
    /// Calls that enqueued work on the main segment's stream.
    on_main: u64,
    /// Streams of its segments, one bit each by number modulo 64.
    streams: u64,
    /// True if more work was enqueued on the first segment's stream after the work that was waited for.
    is_ahead: bool,
    /// True if the wait of the last sync call was removed.
    is_cut: bool,
}

impl Group {
    pub(crate) fn of(segment: &Segment) -> Group {
        let record = &segment.record;
        Group {
            main: *segment,
            first_sequence: record.sequence,
            start_ns: segment.start_ns(),
            end_ns: segment.end_ns(),
            previous_end_ns: record.previous_exit_ns,
            wait_ns: record.header.duration_ns,
            work: StepWork(record.work),
            signature: record.signature,
            segments: segment.records,
            increases: increases(record),
            is_start_known: record.header.flags & flag::FIRST_UNKNOWN == 0,
            is_unfinished: segment.is_unfinished(),
            is_end_inferred: segment.is_mark(),
            sync_call: segment.sync_call(),
            closed_ns: segment.end_ns(),
            on_main: segment.enqueues(),
            streams: bit(segment.stream),
            is_ahead: record.header.flags & flag::AHEAD != 0,
            is_cut: false,
        }
    }

    /// Returns true if it has a segment of this stream.
    pub(crate) fn has_stream(&self, stream: u32) -> bool {
        self.streams & bit(stream) != 0
    }

    /// Returns the number of calls to compare with those of a later segment on this stream: those on the main stream, or,
    /// for another stream with a part in each step, those off the main stream.
    pub(crate) fn comparable_enqueues(&self, stream: u32) -> u64 {
        match stream != self.main.stream && self.has_stream(stream) {
            true => self.work.of(Counter::Enqueues).saturating_sub(self.on_main),
            false => self.main.enqueues(),
        }
    }

    pub(crate) fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// Returns the time from the return of the previous sync call to the first work; 0 without one.
    pub(crate) fn gap_ns(&self) -> u64 {
        if self.previous_end_ns == 0 { 0 } else { self.start_ns.saturating_sub(self.previous_end_ns) }
    }

    /// Adds the work of another stream that the same sync call ended: the wait is the same.
    pub(crate) fn join_same_call(&mut self, segment: &Segment) {
        let (before, began_ns) = (self.add(segment), self.start_ns);
        // The larger segment says when the step began. The other one may have begun earlier, unless it was left open by
        // an earlier step.
        let is_main = segment.enqueues() > before.enqueues();
        let (main, other) = if is_main { (segment, &before) } else { (&before, segment) };
        let [main_ns, other_ns] = match is_main {
            true => [segment.start_ns(), began_ns],
            false => [began_ns, segment.start_ns()],
        };
        let previous_ns = main.record.previous_exit_ns;
        let is_recent = other_ns >= previous_ns || other.record.previous_exit_ns == previous_ns;
        self.start_ns = if is_recent { main_ns.min(other_ns) } else { main_ns };
        for (own, other) in self.increases.iter_mut().zip(increases(&segment.record)) {
            own.enqueue = own.enqueue.max(other.enqueue);
        }
    }

    /// Returns true if it can be the beginning of a longer step: inputs, and what is read back to prepare the rest.
    pub(crate) fn leads(&self) -> bool {
        self.leads_ahead() || self.is_input() || self.is_look_up() || self.is_interim()
    }

    /// Returns true if it is the beginning of the step that this segment ends, of which the rest began at `start_ns`.
    pub(crate) fn leads_to(&self, segment: &Segment, start_ns: u64, generates: bool) -> bool {
        let gap_ns = start_ns.saturating_sub(self.closed_ns);
        let is_larger = segment.enqueues() >= LOOK_UP_FACTOR.saturating_mul(self.work.of(Counter::Enqueues));
        let begins = self.is_input() || self.is_look_up() && is_larger;
        let goes_on = || !is_alike(&self.signature, &segment.record.signature);
        self.leads_ahead()
            || gap_ns <= LEAD_GAP_NS && !segment.is_copies() && begins
            || gap_ns <= INTERIM_GAP_NS && !generates && self.is_interim() && goes_on()
    }

    /// Returns true if the host waited for a few bytes, a flag or a number, after any amount of work.
    fn is_interim(&self) -> bool {
        let is_flag = (1..=INTERIM_BYTES).contains(&self.returned());
        !self.is_unfinished && is_flag && self.work.of(Counter::Launches) > 0
    }

    /// Returns the bytes copied from the device, or in an unknown direction.
    fn returned(&self) -> u64 {
        self.work.of(Counter::BytesFromDevice).saturating_add(self.work.of(Counter::BytesElsewhere))
    }

    /// Returns true for inputs that were waited for while the rest of the step was already enqueued, as before their
    /// buffers are written again.
    pub(crate) fn leads_ahead(&self) -> bool {
        let returns = [Counter::BytesFromDevice, Counter::BytesElsewhere, Counter::GraphLaunches];
        self.is_ahead
            && !self.is_unfinished
            && returns.into_iter().all(|counter| self.work.of(counter) == 0)
            && self.work.of(Counter::Enqueues) <= LEAD_MAX
    }

    /// Returns true for copies to the device alone.
    fn is_input(&self) -> bool {
        let others =
            [Counter::BytesFromDevice, Counter::BytesElsewhere, Counter::Launches, Counter::GraphLaunches];
        !self.is_unfinished
            && (1..=INPUT_BYTES).contains(&self.work.of(Counter::BytesToDevice))
            && others.into_iter().all(|counter| self.work.of(counter) == 0)
    }

    /// Returns true if it looks up a value at the end of this step.
    pub(crate) fn ends(&self, step: &Group) -> bool {
        let gap_ns = self.start_ns.saturating_sub(step.closed_ns);
        let own = self.work.of(Counter::Enqueues);
        self.is_look_up()
            && self.segments == 1
            && self.streams & step.streams != 0
            && gap_ns <= LEAD_GAP_NS
            && step.work.of(Counter::Enqueues) >= LOOK_UP_FACTOR.saturating_mul(own)
    }

    /// Returns true for a few kernels whose result, of a few bytes, the host waits for: a length, a flag.
    pub(crate) fn is_look_up(&self) -> bool {
        !self.is_unfinished
            && !self.is_ahead
            && self.work.of(Counter::GraphLaunches) == 0
            && self.work.of(Counter::Enqueues) <= LEAD_MAX
            && self.returned() > 0
            && self.work.copied_bytes() <= LOOK_UP_BYTES
    }

    /// Prepends the beginning of this step.
    pub(crate) fn begin_with(&mut self, lead: &Group) {
        self.start_ns = self.start_ns.min(lead.start_ns);
        self.previous_end_ns = lead.previous_end_ns;
        self.first_sequence = lead.first_sequence;
        self.work.add(&lead.work);
        self.signature.add(&lead.signature);
        if lead.main.stream == self.main.stream {
            self.on_main = self.on_main.saturating_add(lead.on_main);
        }
        self.segments = self.segments.saturating_add(lead.segments);
        self.is_start_known = lead.is_start_known;
        self.streams |= lead.streams;
        for (own, lead) in self.increases.iter_mut().zip(lead.increases) {
            own.gap = lead.gap;
            own.enqueue = plus(own.enqueue, plus(lead.enqueue, lead.wait));
        }
    }

    /// Adds the segment of a later sync call, whose wait is added to the step's.
    pub(crate) fn join_later(&mut self, segment: &Segment) {
        self.is_cut = false;
        self.add(segment);
        let record = &segment.record;
        self.wait_ns = self.wait_ns.saturating_add(record.header.duration_ns);
        self.sync_call = segment.sync_call();
        // Between two sync calls of one step the host is enqueueing or busy with the step.
        for (own, later) in self.increases.iter_mut().zip(increases(record)) {
            own.enqueue = plus(own.enqueue, plus(later.gap, later.enqueue));
            own.wait = plus(own.wait, later.wait);
        }
    }

    /// Moves the start to `ns`, the end of the previous step, if it is earlier.
    pub(crate) fn start_no_earlier_than(&mut self, ns: u64) {
        self.start_ns = self.start_ns.max(ns).min(self.end_ns);
    }

    /// Removes the last wait: the step ended when its sync call was entered.
    pub(crate) fn cut_last_wait(&mut self, last: &Segment) {
        self.is_cut = true;
        self.end_ns = last.entry_ns();
        self.wait_ns = self.wait_ns.saturating_sub(last.record.header.duration_ns);
        self.start_ns = self.start_ns.min(self.end_ns);
    }

    /// Adds the parts common to all ways of joining; returns the previous main segment.
    fn add(&mut self, segment: &Segment) -> Segment {
        let main = self.main;
        self.work.add(&StepWork(segment.record.work));
        self.signature.add(&segment.record.signature);
        self.segments = self.segments.saturating_add(segment.records);
        self.closed_ns = self.closed_ns.max(segment.end_ns());
        if !self.is_cut {
            self.end_ns = self.closed_ns;
        }
        self.is_start_known &= segment.record.header.flags & flag::FIRST_UNKNOWN == 0;
        self.is_unfinished |= segment.is_unfinished();
        self.is_end_inferred = segment.is_mark();
        self.streams |= bit(segment.stream);
        let is_on_main = segment.stream == main.stream;
        if is_on_main {
            self.on_main = self.on_main.saturating_add(segment.enqueues());
        }
        if segment.enqueues() > main.enqueues() {
            self.main = *segment;
            self.on_main = if is_on_main { self.on_main } else { segment.enqueues() };
        }
        main
    }
}

/// Returns true if most launches of both are of the same functions, in the same proportions: both are passes of one model.
fn is_alike(one: &Signature, other: &Signature) -> bool {
    let pairs = || (0..LANES).map(|lane| (one.launches(lane) as f64, other.launches(lane) as f64));
    let dot = |of: fn((f64, f64)) -> f64| pairs().map(of).sum::<f64>();
    let [both, first, second] = [dot(|(a, b)| a * b), dot(|(a, _)| a * a), dot(|(_, b)| b * b)];
    first == 0.0 || second == 0.0 || both >= ALIKE * (first * second).sqrt()
}

fn bit(stream: u32) -> u64 {
    1 << (stream % 64)
}

fn increases(record: &StepRecord) -> [Increase; THREAD_COUNTERS] {
    let measured = |count: u64| (count != NOT_SEEN).then_some(count);
    ThreadCounter::ALL.map(|counter| {
        let parts = record.increase(counter);
        Increase { gap: measured(parts.gap), enqueue: measured(parts.enqueue), wait: measured(parts.wait) }
    })
}

/// Returns the sum of the measured values; `None` without any.
fn plus(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (one, other) => one.or(other),
    }
}
