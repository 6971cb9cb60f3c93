//! Training iterations that no sync call ends: the rule by which an enqueue begins the next one.
//!
//! In a training loop one thread runs the forward pass and the optimizer, and another one the backward pass. An
//! iteration is over when the first thread goes on after the second one's work. The rule compares counters of the stream's
//! open work, so a launch need not do anything for it. It is applied where the stream's fold is at hand anyway: a copy, a
//! fill, a graph launch, the record of an event or a stream's wait for one, before the call is folded. If it holds, the caller takes a
//! [`Snapshot`](crate::fold::Snapshot) and closes the step at the time of the call, with
//! [`flag::ITERATION`](crate::record::flag::ITERATION) and without a wait.
//!
//! A record needs [`PART_MIN`] calls of each thread, so there is less than one in 64 enqueues. User space decides whether
//! the record ends an iteration; if not, its work belongs to the step of the next sync call.

use crate::atomic::Relaxed;
use crate::fold::{Counter, StreamFold};
use crate::graph::Contents;

/// The fewest calls of each of the two threads in an iteration.
pub const PART_MIN: u64 = 32;

impl StreamFold {
    /// Returns the count since the end of the last closed step.
    #[inline(always)]
    fn open(&self, counter: Counter) -> u64 {
        let at = counter as usize;
        self.count(at).wrapping_sub(self.closed[at].load(Relaxed))
    }

    /// Returns true if a call by the thread, which is not a launch and not captured, begins the next training iteration
    /// of the stream. Launches in the stream's slot must have been absorbed.
    #[inline(always)]
    pub fn begins_iteration(&self, tid: u32) -> bool {
        let foreign = self.open(Counter::Foreign);
        foreign >= PART_MIN
            && self.own_thread() == u64::from(tid)
            && self.open(Counter::Enqueues).wrapping_sub(foreign) >= PART_MIN
    }

    /// Returns true if the launch of a graph with these contents begins the next iteration: each of two graphs has a
    /// backward pass, of another thread than the one that captured it.
    #[inline(always)]
    pub fn begins_captured_iteration<'a>(&self, graph: impl FnOnce() -> Option<&'a Contents>) -> bool {
        self.open(Counter::GraphForeign) >= PART_MIN
            && graph().is_some_and(|graph| graph.foreign.load(Relaxed) >= PART_MIN)
    }

    /// Returns false if [`StreamFold::begins_iteration`] does, too, without the launches in the stream's slot, which has
    /// `foreign` of them, being absorbed.
    #[inline(always)]
    pub fn may_begin_iteration(&self, foreign: u64) -> bool {
        self.open(Counter::Foreign).wrapping_add(foreign) >= PART_MIN
    }
}
