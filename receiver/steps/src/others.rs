//! When a process waited for others: ranks of its job that had not come to a collective yet.
//!
//! The one idea: whoever sees all ranks tells the stretches of time, and a step takes those that lie within it. They
//! are told before the record of the wait that they are a part of.

use std::collections::VecDeque;

/// Stretches remembered of a process: more than an iteration has waits. Full: the oldest is forgotten, and its step
/// blames them less.
const STRETCHES_MAX: usize = 256;

/// The stretches of one process, as they were told: from and to, ns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Others {
    stretches: VecDeque<(u64, u64)>,
}

impl Others {
    /// It waited for others in this stretch. One that goes on where the last one was makes it longer.
    pub(crate) fn wait(&mut self, from_ns: u64, to_ns: u64) {
        if let Some(last) = self.stretches.back_mut().filter(|last| from_ns <= last.1 && to_ns >= last.0) {
            *last = (last.0.min(from_ns), last.1.max(to_ns));
            return;
        }
        if self.stretches.len() >= STRETCHES_MAX {
            self.stretches.pop_front();
        }
        self.stretches.push_back((from_ns, to_ns));
    }

    /// How much of this stretch it waited for others, ns; `None` where it never did.
    pub(crate) fn within(&self, from_ns: u64, to_ns: u64) -> Option<u64> {
        let overlap = |(from, to): &(u64, u64)| (*to).min(to_ns).saturating_sub((*from).max(from_ns));
        let near = self.stretches.iter().rev().take_while(|(_, to)| *to >= from_ns);
        (!self.stretches.is_empty()).then(|| near.map(overlap).sum())
    }

    /// Bytes held beside the struct itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.stretches.capacity() * size_of::<(u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_takes_what_lies_within_it() {
        let mut others = Others::default();
        assert_eq!(others.within(0, 100), None);
        [(10, 20), (30, 50), (90, 95)].into_iter().for_each(|(from, to)| others.wait(from, to));
        assert_eq!(others.within(0, 100), Some(35));
        assert_eq!(others.within(15, 40), Some(15));
        assert_eq!(others.within(51, 89), Some(0));
    }

    #[test]
    fn collectives_that_one_wait_covers_count_once() {
        let mut others = Others::default();
        [(10, 20), (10, 30), (10, 25)].into_iter().for_each(|(from, to)| others.wait(from, to));
        assert_eq!(others.within(0, 100), Some(20));
    }

    #[test]
    fn no_more_than_the_bound_is_remembered() {
        let mut others = Others::default();
        (0..10_000).for_each(|n| others.wait(n * 10, n * 10 + 5));
        assert_eq!(others.within(0, u64::MAX), Some(5 * STRETCHES_MAX as u64));
    }
}
