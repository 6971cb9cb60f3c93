//! Segments, and the groups of segments that become steps.
//!
//! The kernel reports a *segment*: the work on one stream up to one sync call. A step of a workload is one segment or
//! several. A [`Group`] adds them up such that enqueueing and waiting remain the whole duration.

use probe_abi::fold::Counter;
use probe_abi::record::{NOT_SEEN, StepRecord, flag};
use probe_abi::thread_counter::{THREAD_COUNTERS, ThreadCounter};

use crate::finding::Increase;
use crate::shape::StepWork;

/// The most calls that prepare a step: copies of inputs, and kernels that distribute them.
const LEAD_MAX: u64 = 64;

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
}

impl Segment {
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

    pub(crate) fn is_unfinished(&self) -> bool {
        self.record.header.flags & flag::UNFINISHED != 0
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
    pub(crate) segments: u32,
    pub(crate) increases: [Increase; THREAD_COUNTERS],
    pub(crate) is_start_known: bool,
    pub(crate) is_unfinished: bool,
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
            segments: 1,
            increases: increases(record),
            is_start_known: record.header.flags & flag::FIRST_UNKNOWN == 0,
            is_unfinished: segment.is_unfinished(),
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

    /// Returns true if it is the beginning of a longer step: inputs that were waited for while the rest of the step was
    /// already enqueued, as before their buffers are written again.
    pub(crate) fn leads(&self) -> bool {
        let returns = [Counter::BytesFromDevice, Counter::BytesElsewhere, Counter::GraphLaunches];
        self.is_ahead
            && !self.is_unfinished
            && returns.into_iter().all(|counter| self.work.of(counter) == 0)
            && self.work.of(Counter::Enqueues) <= LEAD_MAX
    }

    /// Prepends the beginning of this step.
    pub(crate) fn begin_with(&mut self, lead: &Group) {
        self.start_ns = self.start_ns.min(lead.start_ns);
        self.previous_end_ns = lead.previous_end_ns;
        self.first_sequence = lead.first_sequence;
        self.work.add(&lead.work);
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
        self.segments = self.segments.saturating_add(1);
        self.closed_ns = self.closed_ns.max(segment.end_ns());
        if !self.is_cut {
            self.end_ns = self.closed_ns;
        }
        self.is_start_known &= segment.record.header.flags & flag::FIRST_UNKNOWN == 0;
        self.is_unfinished |= segment.is_unfinished();
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
