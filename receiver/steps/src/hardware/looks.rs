//! The looks at one GPU: for how long of a time which reason held its clocks down.
//!
//! The one idea: what is told is true of the time between two looks.
//!
//! ```text
//!  looks      |-----------|-----------|-----------|          held: 80 of 100 ms
//!  step                 |=======================|  known at ^ : 0.2 x 0 + 80 + 0.7 x 0 ms, between 80 and 80
//! ```
//! Within one interval nobody knows when the clocks were low: a step that covers a part of it was slow for that part of
//! the time, give or take, and the bounds are told.
//!
//! Bounded by [`SPANS_MAX`]: the oldest goes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use event::{Clocks, ThrottleReason, ThrottleTime};

use crate::finding::Throttled;
use crate::throttling::Shares;

/// Intervals between looks that are remembered: over a minute and a half of ten a second.
const SPANS_MAX: usize = 1024;
/// For how long after it a look says what is so, ns.
const TRUE_NS: u64 = 1_000_000_000;

/// Time between looks, in order; without overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Looks {
    spans: VecDeque<Span>,
}

#[derive(Clone, Debug, Default)]
struct Span {
    from_ns: u64,
    to_ns: u64,
    held: Vec<ThrottleTime>,
}

impl Looks {
    /// The next look. One that does not come after the last is left out.
    pub(super) fn push(&mut self, clocks: &Clocks) {
        let last = self.spans.back_mut();
        if clocks.to_ns <= clocks.from_ns || last.as_ref().is_some_and(|last| clocks.from_ns < last.to_ns) {
            return;
        }
        match last {
            Some(last)
                if last.held.is_empty() && clocks.throttled.is_empty() && last.to_ns == clocks.from_ns =>
            {
                last.to_ns = clocks.to_ns;
            }
            _ => {
                let Clocks { from_ns, to_ns, throttled: held, .. } = clocks.clone();
                self.spans.push_back(Span { from_ns, to_ns, held });
            }
        }
        if self.spans.len() > SPANS_MAX {
            self.spans.pop_front();
        }
    }

    /// True where it was looked at behind this instant.
    pub(super) fn reach(&self, at_ns: u64) -> bool {
        self.spans.back().is_some_and(|last| last.to_ns >= at_ns)
    }

    /// What held the clocks down between two instants, longest first.
    pub(super) fn held(&self, from_ns: u64, to_ns: u64) -> Vec<Throttled> {
        let mut all: BTreeMap<ThrottleReason, Throttled> = BTreeMap::new();
        for (span, part_ns) in self.spans_in(from_ns, to_ns) {
            let length_ns = span.to_ns - span.from_ns;
            for held in &span.held {
                let ns = held.ns.min(length_ns);
                let one = all.entry(held.reason).or_insert(Throttled::none(held.reason));
                one.ns += scaled(ns, part_ns, length_ns);
                one.at_least_ns += ns.saturating_sub(length_ns - part_ns);
                one.at_most_ns += ns.min(part_ns);
                one.is_counted &= held.is_counted;
            }
        }
        let mut all: Vec<Throttled> = all.into_values().filter(|one| one.at_most_ns > 0).collect();
        all.sort_by_key(|one| Reverse(one.ns));
        all
    }

    /// For which share of the time between two instants each reason held the clocks down, where what the last look found
    /// is still so. None where nobody has looked for a while.
    pub(super) fn shares(&self, from_ns: u64, to_ns: u64) -> Option<Shares> {
        let last = self.spans.back().filter(|last| from_ns <= last.to_ns.saturating_add(TRUE_NS))?;
        let mut shares = Shares::default();
        let unseen_ns = to_ns.saturating_sub(last.to_ns.max(from_ns));
        let whole_ns = to_ns.saturating_sub(from_ns).max(1) as f64;
        for (span, part_ns) in self.spans_in(from_ns, to_ns).chain([(last, unseen_ns)]) {
            let length_ns = span.to_ns - span.from_ns;
            let share = |held: &ThrottleTime| held.ns.min(length_ns) as f64 / length_ns as f64;
            let part = part_ns as f64 / whole_ns;
            span.held.iter().for_each(|held| shares.add(held.reason, part * share(held)));
        }
        Some(shares)
    }

    /// Intervals with how much of each lies between two instants, the latest first.
    fn spans_in(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (&Span, u64)> {
        let near = self.spans.iter().rev().take_while(move |span| span.to_ns > from_ns);
        near.filter_map(move |span| {
            let part_ns = span.to_ns.min(to_ns).saturating_sub(span.from_ns.max(from_ns));
            (part_ns > 0).then_some((span, part_ns))
        })
    }
}

/// `ns * part / whole`, without overflow.
fn scaled(ns: u64, part: u64, whole: u64) -> u64 {
    (u128::from(ns) * u128::from(part) / u128::from(whole.max(1))) as u64
}
