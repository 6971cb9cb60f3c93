//! Reproducible random numbers.

use std::time::Duration;

use crate::backend::Mood;

/// The generator SplitMix64.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Dice(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number less than `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// Returns a duration of less than `bound` milliseconds.
    pub fn millis(&mut self, bound: u64) -> Duration {
        Duration::from_micros(self.below(1000 * bound))
    }

    /// Returns a mode of the backend.
    pub fn mood(&mut self) -> Mood {
        Mood::ALL[self.below(Mood::ALL.len() as u64) as usize]
    }
}
