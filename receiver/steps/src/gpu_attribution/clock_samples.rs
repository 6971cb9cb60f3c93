//! The clock samples of one GPU, and how long each reason throttled its clocks in a given time.
//!
//! A sample covers the interval since the one before:
//!
//! ```text
//!  samples    |-----------|-----------|-----------|          throttled for 80 of 100 ms
//!  step                 |=======================|  at ^ : 0.2 x 0 + 80 + 0.7 x 0 ms, between 80 and 80
//! ```
//! When within an interval the clocks were low is not known. A step that covers part of it gets its part of the
//! throttled time, with bounds.
//!
//! Bounded by [`SPANS_MAX`]: the oldest interval is dropped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use event::{Clocks, ThrottleReason, ThrottleTime};

use crate::finding::Throttled;
use crate::throttling::ThrottleShares;

/// Intervals remembered: over a minute and a half at ten samples a second.
const SPANS_MAX: usize = 1024;
/// The time after the latest sample for which its state is taken to last, ns.
const VALID_NS: u64 = 1_000_000_000;

/// Sampled intervals in order, without overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockSamples {
    spans: VecDeque<Span>,
}

#[derive(Clone, Debug, Default)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    throttled: Vec<ThrottleTime>,
}

impl ClockSamples {
    /// Appends a sample. One that overlaps the latest is ignored; adjacent ones without throttling are merged.
    pub(super) fn push(&mut self, clocks: &Clocks) {
        let last = self.spans.back_mut();
        if clocks.to_ns <= clocks.from_ns || last.as_ref().is_some_and(|last| clocks.from_ns < last.to_ns) {
            return;
        }
        let is_unthrottled = |last: &Span| last.throttled.is_empty() && clocks.throttled.is_empty();
        match last {
            Some(last) if is_unthrottled(last) && last.to_ns == clocks.from_ns => last.to_ns = clocks.to_ns,
            _ => {
                let Clocks { from_ns, to_ns, throttled, .. } = clocks.clone();
                self.spans.push_back(Span { from_ns, to_ns, throttled });
            }
        }
        if self.spans.len() > SPANS_MAX {
            self.spans.pop_front();
        }
    }

    /// Returns true if the latest sample is at or after this instant.
    pub(super) fn reach(&self, at_ns: u64) -> bool {
        self.spans.back().is_some_and(|last| last.to_ns >= at_ns)
    }

    /// Returns how long each reason throttled the clocks between two instants, longest first.
    pub(super) fn throttled(&self, from_ns: u64, to_ns: u64) -> Vec<Throttled> {
        let mut all: BTreeMap<ThrottleReason, Throttled> = BTreeMap::new();
        for (span, part_ns) in self.spans_in(from_ns, to_ns) {
            let length_ns = span.to_ns - span.from_ns;
            for time in &span.throttled {
                let ns = time.ns.min(length_ns);
                let sum = all.entry(time.reason).or_insert(Throttled::none(time.reason));
                sum.ns += scaled(ns, part_ns, length_ns);
                sum.at_least_ns += ns.saturating_sub(length_ns - part_ns);
                sum.at_most_ns += ns.min(part_ns);
                sum.is_counted &= time.is_counted;
            }
        }
        let mut all: Vec<Throttled> = all.into_values().filter(|sum| sum.at_most_ns > 0).collect();
        all.sort_by_key(|sum| Reverse(sum.ns));
        all
    }

    /// Returns the share of the time between two instants in which each reason throttled the clocks, taking the latest
    /// sample's state to last. `None` if that sample is too old.
    pub(super) fn shares(&self, from_ns: u64, to_ns: u64) -> Option<ThrottleShares> {
        let last = self.spans.back().filter(|last| from_ns <= last.to_ns.saturating_add(VALID_NS))?;
        let mut shares = ThrottleShares::default();
        let unseen_ns = to_ns.saturating_sub(last.to_ns.max(from_ns));
        let whole_ns = to_ns.saturating_sub(from_ns).max(1) as f64;
        for (span, part_ns) in self.spans_in(from_ns, to_ns).chain([(last, unseen_ns)]) {
            let length_ns = span.to_ns - span.from_ns;
            let share = |time: &ThrottleTime| time.ns.min(length_ns) as f64 / length_ns as f64;
            let part = part_ns as f64 / whole_ns;
            span.throttled.iter().for_each(|time| shares.add(time.reason, part * share(time)));
        }
        Some(shares)
    }

    /// Returns the intervals between two instants and the part of each within them in ns, latest first.
    fn spans_in(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (&Span, u64)> {
        let near = self.spans.iter().rev().take_while(move |span| span.to_ns > from_ns);
        near.filter_map(move |span| {
            let part_ns = span.to_ns.min(to_ns).saturating_sub(span.from_ns.max(from_ns));
            (part_ns > 0).then_some((span, part_ns))
        })
    }
}

/// Returns `ns * part / whole`, without overflow.
fn scaled(ns: u64, part: u64, whole: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64
}
