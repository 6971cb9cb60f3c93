//! A token bucket that is filled by event time. It limits the spans of a workload.

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    per_minute: u64,
    /// Capacity, in units of 1 / [`MINUTE_NS`] token.
    full: u64,
    filled: u64,
    at_ns: u64,
}

const MINUTE_NS: u64 = 60_000_000_000;

impl Limit {
    /// Returns a full bucket of `burst` tokens that gains `per_minute` tokens per minute.
    pub fn new(per_minute: u32, burst: u32) -> Limit {
        let full = u64::from(burst).saturating_mul(MINUTE_NS);
        Limit { per_minute: u64::from(per_minute), full, filled: full, at_ns: 0 }
    }

    /// Takes a token; returns false if the bucket has none at `now_ns`.
    pub fn take(&mut self, now_ns: u64) -> bool {
        let passed = now_ns.saturating_sub(self.at_ns);
        let gained = passed.saturating_mul(self.per_minute);
        self.filled = self.filled.saturating_add(gained).min(self.full);
        self.at_ns = self.at_ns.max(now_ns);
        let has_token = self.filled >= MINUTE_NS;
        if has_token {
            self.filled -= MINUTE_NS;
        }
        has_token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn burst_passes_and_then_the_rate() {
        let mut limit = Limit::new(6, 3);
        let taken = |limit: &mut Limit, at: u64| (0..10).filter(|_| limit.take(at)).count();
        assert_eq!(taken(&mut limit, SECOND), 3);
        assert_eq!(taken(&mut limit, SECOND + 9 * SECOND), 0);
        assert_eq!(taken(&mut limit, SECOND + 10 * SECOND), 1);
        assert_eq!(taken(&mut limit, SECOND + 3600 * SECOND), 3);
    }

    #[test]
    fn time_that_goes_backwards_adds_no_tokens() {
        let mut limit = Limit::new(60, 1);
        assert!(limit.take(100 * SECOND));
        assert!(!limit.take(1));
        assert!(!limit.take(100 * SECOND));
    }

    #[test]
    fn empty_bucket_passes_nothing() {
        assert!(!Limit::new(60, 0).take(u64::MAX));
        assert!(Limit::new(u32::MAX, u32::MAX).take(u64::MAX));
    }
}
