//! The expected steps of a script: a reference implementation that shares no code with the agent's.
//!
//! The work of a stream is divided into segments wherever an event is recorded or a `step` begins. A sync call ends the
//! segments up to the one it waits for, and the segments that it ends are one step. The module [`order`] determines which
//! segments of other streams it ends.

pub mod graphs;
pub mod order;

use std::collections::VecDeque;

use crate::oracle::{EnqueuedWork, StepLine};

/// Open segments of a stream; the oldest is dropped when one more begins.
const OPEN_MAX: usize = 4_096;

/// The label of a step.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct StepLabel {
    /// Number of the step in its process, from 0.
    pub step: u64,
    /// Phase, as named in the script.
    pub phase: String,
    /// Injected fault; empty for none.
    pub fault: String,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    label: Option<StepLabel>,
    first: Option<(u64, u32)>,
    work: EnqueuedWork,
    /// Whether an event was recorded after it, so that no more work is added.
    is_complete: bool,
}

/// The open segments of a stream.
#[derive(Debug, Default)]
pub struct StreamTruth {
    open: VecDeque<Segment>,
    /// Number of segments ended, which is the number of the first open one.
    ended: u64,
    dropped: u64,
}

impl StreamTruth {
    /// Adds a fault to the open segments of a step.
    pub fn fault(&mut self, step: u64, fault: &str) {
        for label in self.open.iter_mut().filter_map(|s| s.label.as_mut()).filter(|l| l.step == step) {
            label.fault = fault.to_string();
        }
    }

    /// Drops the open segments of a destroyed stream.
    pub fn destroy(&mut self) {
        self.ended = self.end();
        self.open.clear();
    }

    /// Adds work that a call enqueued at `entry_ns`.
    pub fn enqueue(&mut self, work: &EnqueuedWork, label: Option<&StepLabel>, entry_ns: u64, tid: u32) {
        let step = label.map(|l| l.step);
        let segment = self.current(|s| s.label.as_ref().map(|l| l.step) != step);
        segment.label = label.cloned();
        segment.first.get_or_insert((entry_ns, tid));
        segment.work.add(work);
    }

    /// Returns the last segment; a new one if it is complete or `is_full` returns true.
    fn current(&mut self, is_full: impl Fn(&Segment) -> bool) -> &mut Segment {
        if self.open.back().is_none_or(|s| s.is_complete || is_full(s)) {
            if self.open.len() >= OPEN_MAX {
                self.open.pop_front();
                self.ended += 1;
                self.dropped += 1;
            }
            self.open.push_back(Segment::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// Records an event; returns the position that a wait for it covers.
    pub fn record(&mut self) -> u64 {
        if let Some(segment) = self.open.back_mut() {
            segment.is_complete = true;
        }
        self.end()
    }

    /// Returns the position that a wait for the stream covers.
    pub fn end(&self) -> u64 {
        self.ended + self.open.len() as u64
    }

    /// Ends the segments up to a position and returns their step, without the fields of the sync call; `None` if there
    /// are none.
    pub fn close(&mut self, until: u64) -> Option<StepLine> {
        let count = until.saturating_sub(self.ended).min(self.open.len() as u64) as usize;
        let closed: Vec<Segment> = self.open.drain(..count).collect();
        self.ended += count as u64;
        let first = closed.iter().find_map(|s| s.first)?;
        let labels: Vec<&StepLabel> = closed.iter().filter_map(|s| s.label.as_ref()).collect();
        let mut work = EnqueuedWork::default();
        closed.iter().for_each(|s| work.add(&s.work));
        Some(StepLine {
            step: labels.first().map(|l| l.step),
            phase: joined(labels.iter().map(|l| &l.phase)),
            fault: joined(labels.iter().map(|l| &l.fault)),
            first_ns: first.0,
            first_tid: first.1,
            work,
            ..StepLine::default()
        })
    }

    /// Returns the number of segments dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// Joins the distinct words in order.
fn joined<'w>(words: impl Iterator<Item = &'w String>) -> String {
    let mut different: Vec<&str> = Vec::new();
    for word in words.filter(|w| !w.is_empty()) {
        if !different.contains(&word.as_str()) {
            different.push(word);
        }
    }
    different.join("+")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(step: u64, phase: &str) -> StepLabel {
        StepLabel { step, phase: phase.into(), fault: String::new() }
    }

    fn launches(truth: &mut StreamTruth, label: &StepLabel, count: u64) {
        for _ in 0..count {
            truth.enqueue(
                &EnqueuedWork { enqueues: 1, launches: 1, ..EnqueuedWork::default() },
                Some(label),
                10,
                1,
            );
        }
    }

    fn closed(truth: &mut StreamTruth, until: u64) -> (Option<u64>, String, u64) {
        truth.close(until).map(|s| (s.step, s.phase, s.work.launches)).unwrap_or_default()
    }

    #[test]
    fn event_ends_the_work_enqueued_before_its_record() {
        let mut truth = StreamTruth::default();
        launches(&mut truth, &label(0, "decode"), 3);
        let event = truth.record();
        launches(&mut truth, &label(1, "prefill"), 5);
        assert_eq!(closed(&mut truth, event), (Some(0), "decode".into(), 3));
        assert_eq!(closed(&mut truth, event), Default::default(), "ended already");
        let end = truth.end();
        assert_eq!(closed(&mut truth, end), (Some(1), "prefill".into(), 5));
    }

    #[test]
    fn work_after_a_record_belongs_to_the_next_wait() {
        let mut truth = StreamTruth::default();
        launches(&mut truth, &label(0, "a"), 1);
        let event = truth.record();
        launches(&mut truth, &label(0, "a"), 2);
        assert_eq!(closed(&mut truth, event), (Some(0), "a".into(), 1));
        launches(&mut truth, &label(1, "b"), 4);
        let end = truth.end();
        assert_eq!(closed(&mut truth, end), (Some(0), "a+b".into(), 6));
    }

    #[test]
    fn records_without_a_wait_do_not_split_a_step() {
        let mut truth = StreamTruth::default();
        for _ in 0..3 {
            launches(&mut truth, &label(0, "train"), 2);
            truth.record();
        }
        let end = truth.end();
        assert_eq!(closed(&mut truth, end), (Some(0), "train".into(), 6));
    }

    #[test]
    fn oldest_segments_are_dropped_and_counted() {
        let mut truth = StreamTruth::default();
        for _ in 0..OPEN_MAX + 3 {
            launches(&mut truth, &label(0, "a"), 1);
            truth.record();
        }
        assert_eq!(truth.dropped(), 3);
        let end = truth.end();
        assert_eq!(closed(&mut truth, end).2, OPEN_MAX as u64);
    }
}
