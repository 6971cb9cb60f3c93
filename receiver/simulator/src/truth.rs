//! Which step a call belongs to, told from the script's side: labels set where work is enqueued.
//!
//! The one idea: a stream's work is cut into segments wherever an event is recorded on it or a `step` begins. A
//! wait closes the segments up to the one it waits for, and what it closes at once is one step. That is the
//! definition of a step; this is its plainest implementation, sharing no code with the one under test. Which
//! segments of other streams a wait closes besides is told by [`order`].

pub mod graphs;
pub mod order;

use std::collections::VecDeque;

use crate::oracle::{StepLine, Work};

/// Segments that may be open on a stream: a program that never waits loses the oldest of them.
const OPEN_MAX: usize = 4_096;

/// A step's name.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Label {
    /// Counted in each process, from 0.
    pub step: u64,
    /// The script's word for it.
    pub phase: String,
    /// The fault injected; empty for none.
    pub fault: String,
}

#[derive(Clone, Debug, Default)]
struct Segment {
    label: Option<Label>,
    first: Option<(u64, u32)>,
    work: Work,
    /// An event was recorded behind it: nothing more is added.
    is_cut: bool,
}

/// One stream's open segments.
#[derive(Debug, Default)]
pub struct StreamTruth {
    open: VecDeque<Segment>,
    /// Segments closed so far: the number of the first open one.
    closed: u64,
    lost: u64,
}

impl StreamTruth {
    /// What is enqueued and not closed gets a fault, where it is of this step.
    pub fn fault(&mut self, step: u64, fault: &str) {
        for label in self.open.iter_mut().filter_map(|s| s.label.as_mut()).filter(|l| l.step == step) {
            label.fault = fault.to_string();
        }
    }

    /// The stream ended: nobody can wait for what is open.
    pub fn forget(&mut self) {
        self.closed = self.end();
        self.open.clear();
    }

    /// Work of a step, or of none, was enqueued by a call that began at `entry_ns`.
    pub fn enqueue(&mut self, work: &Work, label: Option<&Label>, entry_ns: u64, tid: u32) {
        let step = label.map(|l| l.step);
        let segment = self.current(|s| s.label.as_ref().map(|l| l.step) != step);
        segment.label = label.cloned();
        segment.first.get_or_insert((entry_ns, tid));
        segment.work.add(work);
    }

    /// The open segment; a new one where there is none, it is cut, or `is_full` says so.
    fn current(&mut self, is_full: impl Fn(&Segment) -> bool) -> &mut Segment {
        if self.open.back().is_none_or(|s| s.is_cut || is_full(s)) {
            if self.open.len() >= OPEN_MAX {
                self.open.pop_front();
                self.closed += 1;
                self.lost += 1;
            }
            self.open.push_back(Segment::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    /// An event is recorded: gives how far a wait for it closes.
    pub fn record(&mut self) -> u64 {
        if let Some(segment) = self.open.back_mut() {
            segment.is_cut = true;
        }
        self.end()
    }

    /// How far a wait for the whole stream closes.
    pub fn end(&self) -> u64 {
        self.closed + self.open.len() as u64
    }

    /// A wait returned that closes up to `until`. `None` where there was nothing to close. The caller fills in
    /// what it knows of the wait.
    pub fn close(&mut self, until: u64) -> Option<StepLine> {
        let count = until.saturating_sub(self.closed).min(self.open.len() as u64) as usize;
        let closed: Vec<Segment> = self.open.drain(..count).collect();
        self.closed += count as u64;
        let first = closed.iter().find_map(|s| s.first)?;
        let labels: Vec<&Label> = closed.iter().filter_map(|s| s.label.as_ref()).collect();
        let mut work = Work::default();
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

    /// Segments lost because nobody waited for them.
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// The different words, in order.
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

    fn label(step: u64, phase: &str) -> Label {
        Label { step, phase: phase.into(), fault: String::new() }
    }

    fn launches(truth: &mut StreamTruth, label: &Label, count: u64) {
        for _ in 0..count {
            truth.enqueue(&Work { enqueues: 1, launches: 1, ..Work::default() }, Some(label), 10, 1);
        }
    }

    fn closed(truth: &mut StreamTruth, until: u64) -> (Option<u64>, String, u64) {
        truth.close(until).map(|s| (s.step, s.phase, s.work.launches)).unwrap_or_default()
    }

    #[test]
    fn an_event_closes_what_was_enqueued_before_it_was_recorded() {
        let mut truth = StreamTruth::default();
        launches(&mut truth, &label(0, "decode"), 3);
        let event = truth.record();
        launches(&mut truth, &label(1, "prefill"), 5);
        assert_eq!(closed(&mut truth, event), (Some(0), "decode".into(), 3));
        assert_eq!(closed(&mut truth, event), Default::default(), "closed already");
        let end = truth.end();
        assert_eq!(closed(&mut truth, end), (Some(1), "prefill".into(), 5));
    }

    #[test]
    fn work_behind_a_record_belongs_to_the_next_wait() {
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
    fn records_that_nobody_waits_for_cut_no_step() {
        let mut truth = StreamTruth::default();
        for _ in 0..3 {
            launches(&mut truth, &label(0, "train"), 2);
            truth.record();
        }
        let end = truth.end();
        assert_eq!(closed(&mut truth, end), (Some(0), "train".into(), 6));
    }

    #[test]
    fn a_program_that_never_waits_loses_the_oldest_and_says_so() {
        let mut truth = StreamTruth::default();
        for _ in 0..OPEN_MAX + 3 {
            launches(&mut truth, &label(0, "a"), 1);
            truth.record();
        }
        assert_eq!(truth.lost(), 3);
        let end = truth.end();
        assert_eq!(closed(&mut truth, end).2, OPEN_MAX as u64);
    }
}
