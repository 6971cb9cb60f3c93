//! Which calls get a record of their own though the folds hold them: none, one of so many, or all.
//!
//! The one idea: aggregates are the same whatever the detail, so it can be turned up around trouble and down again. A
//! record says of how many calls it is one ([`Header::weight`]). What was left out is counted as sampled out.
//!
//! A process's detail is one word in an array that user space writes and the programs only read.

use crate::record::{Header, flag};

/// Places for processes; a power of two. Of two that fall on one, the first has it until it is given back.
pub const DETAILS: u32 = 4096;

/// Which of the calls that are folded get a record.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Detail(u32);

impl Detail {
    /// None.
    pub const NONE: Detail = Detail(0);
    /// Every one.
    pub const ALL: Detail = Detail(1);
    const SHIFT_MAX: u32 = 20;

    /// One of at least so many, chosen at random; 0 means none. Rounded up to a power of two, at most 2^20.
    pub const fn one_of(calls: u64) -> Detail {
        let Some(up) = calls.checked_next_power_of_two() else { return Detail(1 + Detail::SHIFT_MAX) };
        let shift = up.trailing_zeros();
        match calls {
            0 => Detail::NONE,
            _ => Detail(1 + if shift > Detail::SHIFT_MAX { Detail::SHIFT_MAX } else { shift }),
        }
    }

    /// One of `2^n`; `None` where none is.
    #[inline(always)]
    pub const fn shift(self) -> Option<u32> {
        self.0.checked_sub(1)
    }

    /// Where the detail of a process stands.
    #[inline(always)]
    pub const fn place(pid: u32) -> u32 {
        pid & (DETAILS - 1)
    }

    /// What stands there.
    pub const fn word(self, pid: u32) -> u64 {
        (pid as u64) << 32 | self.0 as u64
    }

    /// What it means to the process `pid`: its detail, or `default` where it has none of its own.
    #[inline(always)]
    pub const fn of_word(word: u64, pid: u32, default: u64) -> Detail {
        let level = if (word >> 32) as u32 == pid { word } else { default } as u32;
        Detail(if level > 1 + Detail::SHIFT_MAX { 1 + Detail::SHIFT_MAX } else { level })
    }

    /// The bits of [`Header::flags`] of a record of this detail.
    #[inline(always)]
    pub const fn flags(shift: u32) -> u32 {
        flag::DETAIL | shift << flag::WEIGHT_AT
    }
}

impl Header {
    /// True for a record of a call that the folds hold, too.
    pub const fn is_detail(&self) -> bool {
        self.flags & flag::DETAIL != 0
    }

    /// Calls that this record stands for, itself among them.
    pub const fn weight(&self) -> u64 {
        1 << (self.flags >> flag::WEIGHT_AT & 31)
    }
}

const _: () = assert!(DETAILS.is_power_of_two());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_so_many_is_rounded_up_and_bounded() {
        let shifts = [0, 1, 2, 3, 100, 1 << 20, 1 << 40, u64::MAX].map(|n| Detail::one_of(n).shift());
        assert_eq!(shifts, [None, Some(0), Some(1), Some(2), Some(7), Some(20), Some(20), Some(20)]);
        assert_eq!((Detail::one_of(0), Detail::one_of(1)), (Detail::NONE, Detail::ALL));
    }

    /// A gate keyed to process 0.
    #[test]
    fn a_word_means_its_own_process_and_the_default_every_other() {
        let (word, default) = (Detail::ALL.word(7), u64::from(Detail::one_of(4).0));
        assert_eq!(Detail::of_word(word, 7, default), Detail::ALL);
        assert_eq!(Detail::of_word(word, 7 + DETAILS, default), Detail::one_of(4));
        assert_eq!(Detail::of_word(0, 7, 0), Detail::NONE);
        assert_eq!(Detail::of_word(Detail::NONE.word(7), 7, default), Detail::NONE);
        assert_eq!(Detail::of_word(u64::MAX, u32::MAX, 0).shift(), Some(20));
    }

    #[test]
    fn a_record_says_how_many_calls_it_stands_for() {
        let header = Header { flags: flag::POLLED | Detail::flags(7), ..Header::default() };
        assert_eq!((header.is_detail(), header.weight()), (true, 128));
        assert_eq!((Header::default().is_detail(), Header::default().weight()), (false, 1));
    }
}
