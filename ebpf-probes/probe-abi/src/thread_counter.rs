//! Counters that the kernel maintains of each thread, such as its time without a CPU.
//!
//! The programs read them at the first enqueue of a step and at the entry and return of its sync call, and record the
//! increase in each part of the step. A new counter is a row here, and a cause that uses it.

use crate::record::NOT_SEEN;

/// A counter of a thread. The order is that of recordings: append only.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(usize)]
pub enum ThreadCounter {
    /// Time ready to run without a CPU, ns.
    RunQueue,
}

impl ThreadCounter {
    /// Every counter, in the order of the numbers.
    pub const ALL: [ThreadCounter; 1] = [ThreadCounter::RunQueue];

    /// Returns where the counter, 64 bits, is in `task_struct`: structs and their members, outermost first.
    pub const fn path(self) -> &'static [(&'static str, &'static str)] {
        match self {
            ThreadCounter::RunQueue => &[("task_struct", "sched_info"), ("sched_info", "run_delay")],
        }
    }
}

/// Number of counters.
pub const THREAD_COUNTERS: usize = ThreadCounter::ALL.len();

/// Values of the counters since the thread began, by [`ThreadCounter`]; [`NOT_SEEN`] if not known.
pub type ThreadCounts = [u64; THREAD_COUNTERS];

/// Counts of which none is known.
pub const UNKNOWN_COUNTS: ThreadCounts = [NOT_SEEN; THREAD_COUNTERS];
