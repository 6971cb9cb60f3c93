//! Test support: reproducible random numbers, and an allocator that counts.

#[path = "testing/heap.rs"]
mod heap;

use probe_abi::fold::mix;

pub(crate) use heap::allocated_bytes;

/// A SplitMix64 generator.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Returns a number from `low` to below `high`.
    pub(crate) fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a whole number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns true with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.uniform(0.0, 1.0) < p
    }

    /// Returns `yes` with probability `p`, else `no`.
    pub(crate) fn pick(&mut self, p: f64, yes: f64, no: f64) -> f64 {
        if self.chance(p) { yes } else { no }
    }

    /// Returns a standard normal number (Box and Muller).
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * self.uniform(1e-12, 1.0).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform(0.0, 1.0)).cos()
    }
}

/// Returns the distance of the rank of `value` from `q` among values in order of arrival, whose weight is halved after
/// `half_life` more; 0 if equal values span `q`. Values are equal to one part in a million: a nanosecond of a millisecond.
pub(crate) fn rank_error(values: &[f64], half_life: f64, value: f64, q: f64) -> f64 {
    let weight = |at: usize| (-((values.len() - at) as f64) / half_life).exp2();
    let below = |limit: f64, or_equal: bool| -> f64 {
        let is_below = |v: f64| v < limit || (or_equal && v == limit);
        values.iter().enumerate().filter(|(_, v)| is_below(**v)).map(|(at, _)| weight(at)).sum()
    };
    let (near, total) = (value.abs() * 1e-6, below(f64::INFINITY, true));
    (below(value - near, false) / total - q).max(q - below(value + near, true) / total).max(0.0)
}
