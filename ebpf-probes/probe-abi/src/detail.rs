//! Sampling of folded calls: none, all, or one in N calls and all long ones get a record of their own.
//!
//! The folds are the same with any sampling, so it can be raised around trouble and lowered again. A record has a
//! weight ([`Header::weight`]): a call is recorded with a probability of one in its weight, so that the sum of the
//! weights estimates the number of calls. Calls left out are counted as sampled out.
//!
//! The choice depends on the time of the return, not on a count: calls of a loop have a fixed order, and every n-th
//! would always be the same function. The sampling of a process is one word in an array that user space writes and the
//! programs read. A call that is left out costs that read and two multiplications.

use crate::record::{Header, flag};

/// Slots for processes; a power of two. Of two processes with one slot, the first has it until it ends.
pub const DETAILS: u32 = 4096;
/// Duration in nanoseconds from which a call is always recorded if any are. A thread makes at most a thousand such
/// calls a second, and they explain slow steps.
pub const LONG_NS: u64 = 1_000_000;

/// Sampling rate of folded calls: one in N gets a record, 0 disables.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Detail(u32);

impl Detail {
    /// No call gets a record.
    pub const NONE: Detail = Detail(0);
    /// Every call gets a record.
    pub const ALL: Detail = Detail(1);
    /// One in a hundred: the rate for processes without trouble.
    pub const HEALTHY: Detail = Detail(100);
    /// Largest N of one call in N.
    pub const CALLS_MAX: u32 = (1 << (32 - flag::WEIGHT_AT)) - 1;

    /// Returns the rate of one in `calls`, at most [`Detail::CALLS_MAX`]; 0 disables.
    pub const fn one_of(calls: u64) -> Detail {
        Detail(if calls > Detail::CALLS_MAX as u64 { Detail::CALLS_MAX } else { calls as u32 })
    }

    /// Returns N of one in N; 0 if disabled.
    pub const fn calls(self) -> u64 {
        self.0 as u64
    }

    /// Returns the slot of a process.
    #[inline(always)]
    pub const fn slot(pid: u32) -> u32 {
        pid & (DETAILS - 1)
    }

    /// Returns the word to store in the slot of process `pid`.
    pub const fn word(self, pid: u32) -> u64 {
        (pid as u64) << 32 | self.0 as u64
    }

    /// Returns the rate of process `pid` from the word in its slot; `default` applies if the word is another
    /// process's.
    #[inline(always)]
    pub const fn of_word(word: u64, pid: u32, default: u64) -> Detail {
        Detail(if (word >> 32) as u32 == pid { word } else { default } as u32)
    }

    /// Returns the weight of the record of a call that took `duration_ns` and returned at `exit_ns`; 0 if it gets
    /// none.
    #[inline(always)]
    pub const fn weight(self, duration_ns: u64, exit_ns: u64) -> u32 {
        // Uniformly distributed 32 bits; multiplied by `n` and shifted, they are a number below `n`.
        let dice = exit_ns.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let is_chosen = (dice * self.0 as u64) >> 32 == 0;
        let is_long = duration_ns >= LONG_NS && self.0 != 0;
        if is_long {
            1
        } else if is_chosen {
            self.0
        } else {
            0
        }
    }

    /// Returns the bits of [`Header::flags`] of a record with this weight.
    #[inline(always)]
    pub const fn flags(weight: u32) -> u32 {
        flag::DETAIL | weight << flag::WEIGHT_AT
    }
}

impl Header {
    /// Returns true for the record of a sampled call, which the folds contain, too.
    pub const fn is_detail(&self) -> bool {
        self.flags & flag::DETAIL != 0
    }

    /// Returns the number of calls that this record represents, including its own.
    pub const fn weight(&self) -> u64 {
        let weight = self.flags >> flag::WEIGHT_AT;
        if weight == 0 { 1 } else { weight as u64 }
    }
}

const _: () = assert!(DETAILS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_without_a_word_have_the_default_rate() {
        let (word, default) = (Detail::ALL.word(7), Detail::one_of(4).word(0));
        assert_eq!(Detail::of_word(word, 7, default), Detail::ALL);
        assert_eq!(Detail::of_word(word, 7 + DETAILS, default), Detail::one_of(4));
        assert_eq!(Detail::of_word(0, 7, 0), Detail::NONE);
        assert_eq!(Detail::of_word(Detail::NONE.word(7), 7, default), Detail::NONE);
        assert_eq!(Detail::of_word(Detail::one_of(u64::MAX).word(7), 7, 0), Detail(Detail::CALLS_MAX));
    }

    #[test]
    fn records_have_the_weight_of_the_calls_they_represent() {
        for weight in [1, 100, Detail::CALLS_MAX] {
            let header = Header { flags: flag::POLLED | Detail::flags(weight), ..Header::default() };
            assert_eq!((header.is_detail(), header.weight()), (true, u64::from(weight)));
        }
        assert_eq!((Header::default().is_detail(), Header::default().weight()), (false, 1));
    }

    #[test]
    fn rates_none_and_all_are_exact_and_long_calls_certain() {
        for exit_ns in 0..10_000 {
            for duration_ns in [0, LONG_NS - 1, LONG_NS, u64::MAX] {
                assert_eq!(Detail::NONE.weight(duration_ns, exit_ns), 0);
                assert_eq!(Detail::ALL.weight(duration_ns, exit_ns), 1);
            }
            assert_eq!(Detail::one_of(100).weight(LONG_NS, exit_ns), 1, "a long one stands for itself");
        }
    }

    /// A loop of four calls was sampled by every 128th: all of one function.
    #[test]
    fn calls_of_a_loop_are_sampled_evenly_with_any_period() {
        let detail = Detail::one_of(100);
        for step_ns in [1, 4, 41, 100] {
            for period_ns in [4_000, 10_000, 1_000_000, 12_345_678] {
                let mut estimated = [0u64; 4];
                for turn in 0..100_000u64 {
                    for (at, sum) in (0..).zip(&mut estimated) {
                        // Jitter of a real machine: some ten nanoseconds.
                        let jitter_ns = turn.wrapping_mul(turn) % 37;
                        let exit_ns = turn * period_ns + at * 700 + jitter_ns;
                        *sum += u64::from(detail.weight(500, exit_ns / step_ns * step_ns));
                    }
                }
                let is_near = |sum: &u64| (85_000..115_000).contains(sum);
                assert!(estimated.iter().all(is_near), "{estimated:?}: every {period_ns} ns by {step_ns} ns");
            }
        }
    }
}
