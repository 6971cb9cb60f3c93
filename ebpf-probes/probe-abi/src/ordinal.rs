//! Ordinals: each recorded call of a counted row has the number of earlier calls with the same handle, so that a lost
//! record leaves a gap.
//!
//! A count is one word with the handle's mark above the number. When another handle takes the word over, the number
//! begins at 0 again, whatever other threads count at that moment. A count that begins again can hide a loss; it never
//! reports a false one.

use crate::atomic::{AtomicU64, Relaxed, SeqCst};
use crate::record::NOT_SEEN;

/// Slots; a power of two. A third handle with the same slot evicts another.
pub const ORDINALS: u32 = 4096;

const COUNT_BITS: u32 = 40;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// Set in every mark, so that a word of 0 is free.
const USED: u64 = 1 << 63;

/// A handle of one process, distinct from those of an earlier process with its pid.
#[derive(Clone, Copy)]
pub struct Counted(u64);

impl Counted {
    /// Returns the handle of the process that began at `start_ns`.
    #[inline(always)]
    pub fn new(pid: u32, start_ns: u64, handle: u64) -> Counted {
        let owner = (start_ns ^ u64::from(pid)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let mixed = (handle ^ owner).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Counted(mixed ^ (mixed >> 32))
    }

    /// Returns the slot of the handle.
    #[inline(always)]
    pub fn slot(self) -> u32 {
        self.0 as u32 & (ORDINALS - 1)
    }

    #[inline(always)]
    fn mark(self) -> u64 {
        (self.0 & !COUNT) | USED
    }
}

/// A slot for two handles.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Ordinals([AtomicU64; 2]);

impl Ordinals {
    /// Counts a call and returns how many preceded it. Returns [`NOT_SEEN`] without counting if two threads count at
    /// once.
    #[inline(always)]
    pub fn take(&self, of: Counted) -> u64 {
        let [first, second] = &self.0;
        let is_second = !is_of(first, of) && (is_of(second, of) || is_free(second) && !is_free(first));
        if is_second { take(second, of) } else { take(first, of) }
    }

    /// Ends the handle: a later object at the same address is counted from 0.
    #[inline(always)]
    pub fn end(&self, of: Counted) {
        for word in &self.0 {
            let now = word.load(Relaxed);
            if now & !COUNT == of.mark() {
                let _ = word.compare_exchange(now, 0, SeqCst, SeqCst);
            }
        }
    }
}

#[inline(always)]
fn is_of(word: &AtomicU64, of: Counted) -> bool {
    word.load(Relaxed) & !COUNT == of.mark()
}

#[inline(always)]
fn is_free(word: &AtomicU64) -> bool {
    word.load(Relaxed) == 0
}

#[inline(always)]
fn take(word: &AtomicU64, of: Counted) -> u64 {
    let now = word.load(Relaxed);
    let before = if now & !COUNT == of.mark() { now & COUNT } else { 0 };
    let next = of.mark() | ((before + 1) & COUNT);
    match word.compare_exchange(now, next, SeqCst, SeqCst) {
        Ok(_) => before,
        Err(_) => NOT_SEEN,
    }
}

const _: () = assert!(ORDINALS.is_power_of_two() && size_of::<Ordinals>() == 16);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    const HANDLE: Counted = Counted(0x1234_5678_9abc_def0);
    /// A handle with the same slot.
    const OTHER: Counted = Counted(0x7654_3210_9abc_def0);
    const THIRD: Counted = Counted(0x6543_2100_9abc_def0);

    #[test]
    fn calls_are_numbered_from_zero() {
        let slot = Ordinals::default();
        assert_eq!([HANDLE; 3].map(|h| slot.take(h)), [0, 1, 2]);
    }

    #[test]
    fn ended_handles_begin_at_zero() {
        let slot = Ordinals::default();
        slot.take(HANDLE);
        slot.end(OTHER);
        assert_eq!(slot.take(HANDLE), 1, "another's end is not its own");
        slot.end(HANDLE);
        assert_eq!(slot.take(HANDLE), 0);
    }

    #[test]
    fn a_third_handle_of_a_slot_shows_no_loss() {
        assert_eq!((HANDLE.slot(), HANDLE.slot()), (OTHER.slot(), THIRD.slot()));
        let slot = Ordinals::default();
        let seen = [HANDLE, OTHER, HANDLE, OTHER, THIRD, THIRD, OTHER, HANDLE].map(|h| slot.take(h));
        assert_eq!(seen, [0, 0, 1, 1, 0, 1, 2, 0]);
    }

    #[test]
    fn handles_of_neighbouring_processes_have_own_slots_and_marks() {
        let handles = (0..8).flat_map(|pid| {
            (0..16).map(move |at| {
                Counted::new(
                    1000 + pid,
                    77_000_000 + u64::from(pid) * 1_000_003,
                    0x5555_0000_0000 + at * 0x8e0,
                )
            })
        });
        let slots: std::collections::BTreeSet<_> = handles.clone().map(Counted::slot).collect();
        let marks: std::collections::BTreeSet<_> = handles.map(Counted::mark).collect();
        assert!(slots.len() >= 124 && marks.len() == 128, "{} {}", slots.len(), marks.len());
    }
}
