//! Which calls get a record of their own though the folds hold them: none, all, or one of so many and all long ones.
//!
//! The one idea: aggregates are the same whatever the detail, so it can be turned up around trouble and down again. A
//! record says of how many calls it is one ([`Header::weight`]): a call is told with a chance of one in its weight,
//! so that the weights of what is told add up, in expectation, to the calls there were. What was left out is counted
//! as sampled out.
//!
//! Chosen by the instant of its return, not by counting: the calls of a loop come in a fixed order, and every n-th
//! would be the same function for ever. A process's detail is one word in an array that user space writes and the
//! programs only read; that and two multiplications are all it costs a call that is not told.

use crate::record::{Header, flag};

/// BucketCounts for processes; a power of two. Of two that fall on one, the first has it until it is given back.
pub const DETAILS: u32 = 4096;
/// A call that takes so long is always told where any are: a thread makes at most a thousand of them a second, and
/// they are what a slow step is asked about.
pub const LONG_NS: u64 = 1_000_000;

/// Which of the calls that are folded get a record: one of so many, 0 for none.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Detail(u32);

impl Detail {
    /// None.
    pub const NONE: Detail = Detail(0);
    /// Every one.
    pub const ALL: Detail = Detail(1);
    /// What a process without trouble costs no more for: one of a hundred.
    pub const HEALTHY: Detail = Detail(100);
    /// The most calls that one may stand for.
    pub const CALLS_MAX: u32 = (1 << (32 - flag::WEIGHT_AT)) - 1;

    /// One of so many, at most [`Detail::CALLS_MAX`]; 0 means none.
    pub const fn one_of(calls: u64) -> Detail {
        Detail(if calls > Detail::CALLS_MAX as u64 { Detail::CALLS_MAX } else { calls as u32 })
    }

    /// Of so many calls one; 0 where none is.
    pub const fn calls(self) -> u64 {
        self.0 as u64
    }

    /// Where the detail of a process stands.
    #[inline(always)]
    pub const fn slot(pid: u32) -> u32 {
        pid & (DETAILS - 1)
    }

    /// What stands there.
    pub const fn word(self, pid: u32) -> u64 {
        (pid as u64) << 32 | self.0 as u64
    }

    /// What it means to the process `pid`: its detail, or `default` where it has none of its own.
    #[inline(always)]
    pub const fn of_word(word: u64, pid: u32, default: u64) -> Detail {
        Detail(if (word >> 32) as u32 == pid { word } else { default } as u32)
    }

    /// For how many calls the record of one stands that took `duration_ns` and returned at `exit_ns`; 0 where it gets
    /// none.
    #[inline(always)]
    pub const fn weight(self, duration_ns: u64, exit_ns: u64) -> u32 {
        // 32 bits, each value as likely as another; times `n` and shifted, they are a number below `n`.
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

    /// The bits of [`Header::flags`] of a record of this weight.
    #[inline(always)]
    pub const fn flags(weight: u32) -> u32 {
        flag::DETAIL | weight << flag::WEIGHT_AT
    }
}

impl Header {
    /// True for a record of a call that the folds hold, too.
    pub const fn is_detail(&self) -> bool {
        self.flags & flag::DETAIL != 0
    }

    /// Calls that this record stands for, itself among them.
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
    fn a_process_without_a_word_of_its_own_has_the_default() {
        let (word, default) = (Detail::ALL.word(7), Detail::one_of(4).word(0));
        assert_eq!(Detail::of_word(word, 7, default), Detail::ALL);
        assert_eq!(Detail::of_word(word, 7 + DETAILS, default), Detail::one_of(4));
        assert_eq!(Detail::of_word(0, 7, 0), Detail::NONE);
        assert_eq!(Detail::of_word(Detail::NONE.word(7), 7, default), Detail::NONE);
        assert_eq!(Detail::of_word(Detail::one_of(u64::MAX).word(7), 7, 0), Detail(Detail::CALLS_MAX));
    }

    #[test]
    fn a_record_says_for_how_many_calls_it_stands() {
        for weight in [1, 100, Detail::CALLS_MAX] {
            let header = Header { flags: flag::POLLED | Detail::flags(weight), ..Header::default() };
            assert_eq!((header.is_detail(), header.weight()), (true, u64::from(weight)));
        }
        assert_eq!((Header::default().is_detail(), Header::default().weight()), (false, 1));
    }

    #[test]
    fn nothing_is_told_where_nothing_is_to_be_and_everything_where_all_is() {
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
    fn every_call_of_a_loop_is_chosen_alike_whatever_its_period_and_the_clocks_step() {
        let detail = Detail::one_of(100);
        for step_ns in [1, 4, 41, 100] {
            for period_ns in [4_000, 10_000, 1_000_000, 12_345_678] {
                let mut estimated = [0u64; 4];
                for turn in 0..100_000u64 {
                    for (at, sum) in (0..).zip(&mut estimated) {
                        // What a machine does to a period: some ten ns here and there.
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
