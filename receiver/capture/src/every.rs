//! Something to do every so often, by whoever is called often enough.

/// Something to do every so often.
pub struct Every {
    interval_ns: u64,
    next_ns: u64,
}

impl Every {
    /// Due at once, then every `interval_ns`.
    pub fn new(interval_ns: u64) -> Every {
        Every { interval_ns, next_ns: 0 }
    }

    /// True where its time has come; the next one is then an interval away.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.next_ns;
        if due {
            self.next_ns = now_ns + self.interval_ns;
        }
        due
    }
}
