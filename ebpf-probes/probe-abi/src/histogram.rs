//! Duration histogram of the kernel programs: OTLP's base-2 exponential histogram of seconds at scale 2.
//!
//! Buckets are found in a table of exact bounds instead of by a logarithm, so that a kernel program and a test find
//! the same one. Bucket `i` of OTLP contains `(2^(i/4) s, 2^((i+1)/4) s]` (OpenTelemetry data model, "Exponential
//! scale"); durations are whole nanoseconds.

use crate::atomic::{AtomicU64, Relaxed};

/// OTLP's scale: four buckets for each doubling, 19 % apart.
pub const SCALE: i32 = 2;
/// Number of buckets: forty doublings.
pub const BUCKETS: usize = 160;
/// OTLP's index of the first bucket; durations of at most [`ZERO_NS`] count as zero.
pub const OFFSET: i32 = -96;
/// The zero threshold, 2^-24 s, in whole nanoseconds.
pub const ZERO_NS: u64 = 59;

/// Upper bounds in nanoseconds: entry 0 that of the zero bucket, entry `k` that of bucket `k - 1`, then no bound.
// On the BPF target with a plain name, since a mangled one contains a hash of the source's path.
#[cfg_attr(target_arch = "bpf", unsafe(no_mangle))]
#[cfg_attr(target_arch = "bpf", expect(unsafe_code, reason = "no other symbol of the object has this name"))]
static BOUNDS: [u64; 256] = bounds();

const fn bounds() -> [u64; 256] {
    // 2^(k/4) for k = 0..3.
    const ROOTS: [f64; 4] = [1.0, 1.189_207_115_002_721, core::f64::consts::SQRT_2, 1.681_792_830_507_429];
    let mut bounds = [u64::MAX; 256];
    let mut k = 0;
    while k < BUCKETS {
        let quarter = OFFSET + k as i32;
        let mut seconds = ROOTS[(quarter.rem_euclid(4)) as usize];
        let mut doublings = quarter.div_euclid(4);
        while doublings > 0 {
            seconds *= 2.0;
            doublings -= 1;
        }
        while doublings < 0 {
            seconds /= 2.0;
            doublings += 1;
        }
        bounds[k] = (seconds * 1e9) as u64;
        k += 1;
    }
    bounds
}

/// Returns the index of a duration's count: 0 for the zero bucket, `k` for bucket `k - 1`. At most [`BUCKETS`].
#[inline(always)]
pub fn slot(ns: u64) -> usize {
    let mut at = 0usize;
    let mut step = 128usize;
    while step > 0 {
        if BOUNDS[(at + step - 1) & 255] < ns {
            at += step;
        }
        step /= 2;
    }
    at
}

/// Durations of one operation of one process, updated from many CPUs at once.
#[derive(Debug, Default)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct Durations {
    /// Calls that returned an error.
    pub errors: AtomicU64,
    /// Sum of all durations, ns.
    pub sum_ns: AtomicU64,
    /// Longest duration, ns. Of two CPUs that update it at once, one value may be lost.
    pub max_ns: AtomicU64,
    /// Counts, indexed by [`slot`]. Each call that returned is in one of them.
    pub buckets: BucketCounts,
}

/// Counts of a histogram, indexed by [`slot`].
#[derive(Debug)]
#[cfg_attr(feature = "user", derive(zerocopy::FromBytes, zerocopy::IntoBytes))]
#[repr(C)]
pub struct BucketCounts(pub [AtomicU64; BUCKETS + 1]);

impl Default for BucketCounts {
    fn default() -> Self {
        BucketCounts([const { AtomicU64::new(0) }; BUCKETS + 1])
    }
}

impl Durations {
    /// Counts one call.
    #[inline(always)]
    pub fn add(&self, duration_ns: u64, failed: bool) {
        self.sum_ns.fetch_add(duration_ns, Relaxed);
        if failed {
            self.errors.fetch_add(1, Relaxed);
        }
        if duration_ns > self.max_ns.load(Relaxed) {
            self.max_ns.store(duration_ns, Relaxed);
        }
        if let Some(slot) = self.buckets.0.get(slot(duration_ns)) {
            slot.fetch_add(1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;

    fn upper_s(slot: usize) -> f64 {
        (f64::from(OFFSET + slot as i32) / 4.0).exp2()
    }

    #[test]
    fn durations_are_within_the_bounds_of_their_bucket() {
        for ns in (0..5_000).chain((5_000..5_000_000_000).step_by(7_777_777)).chain([u64::MAX / 4]) {
            let at = slot(ns);
            let s = ns as f64 / 1e9;
            assert!(at == BUCKETS || s <= upper_s(at) * (1.0 + 1e-12), "{ns} ns above bucket {at}");
            assert!(at == 0 || s > upper_s(at - 1) * (1.0 - 1e-12), "{ns} ns below bucket {at}");
        }
    }

    #[test]
    fn bounds_belong_to_the_bucket_below() {
        for (at, bound) in BOUNDS.iter().take(BUCKETS).enumerate() {
            assert_eq!(slot(*bound), at);
            assert_eq!(slot(bound + 1), at + 1);
        }
        assert_eq!(BOUNDS[0], ZERO_NS);
    }

    #[test]
    fn one_second_is_a_bound() {
        assert_eq!(BOUNDS[96], 1_000_000_000);
    }

    #[test]
    fn count_sum_errors_and_maximum_are_added() {
        let d = Durations::default();
        d.add(10, false);
        d.add(1_000, true);
        assert_eq!(d.errors.load(Relaxed), 1);
        assert_eq!(d.sum_ns.load(Relaxed), 1_010);
        assert_eq!(d.max_ns.load(Relaxed), 1_000);
        assert_eq!(d.buckets.0.iter().map(|p| p.load(Relaxed)).sum::<u64>(), 2);
    }
}
