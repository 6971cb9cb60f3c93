//! Periodic work without a timer.

/// A period, checked by a caller that runs often enough.
pub struct Interval {
    interval_ns: u64,
    next_ns: u64,
}

impl Interval {
    /// Returns an interval that is due at once and then every `interval_ns`.
    pub fn new(interval_ns: u64) -> Interval {
        Interval { interval_ns, next_ns: 0 }
    }

    /// Returns true when the interval has passed, and starts the next one.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.next_ns;
        if due {
            self.next_ns = now_ns + self.interval_ns;
        }
        due
    }

    /// Returns the length of the interval, ns.
    pub fn length_ns(&self) -> u64 {
        self.interval_ns
    }

    /// Makes the interval pass at `at_ns` if it would pass later.
    pub fn hasten(&mut self, at_ns: u64) {
        self.next_ns = self.next_ns.min(at_ns);
    }
}
