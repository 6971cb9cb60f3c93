//! How often reports wake a thread: at once while they are few, and after pauses while they are many, so that a process which maps
//! files all the time costs a bounded share of a core.

use std::time::Duration;

/// Reports in a row that wake at once: more than a program maps libraries when it starts.
const BURST: u64 = 100;
/// Time after which one more report wakes at once, ns.
const ALLOWED_EVERY_NS: u64 = 5_000_000;
/// The pause before a report wakes while too many come.
const PAUSE: Duration = Duration::from_millis(2);

/// Counts the reports that may wake at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// Number of reports in the current burst; decreases with time.
    used: u64,
    /// When `used` was last decreased, ns.
    at_ns: u64,
}

impl Pace {
    /// Returns how long to wait before the next report may wake.
    pub fn pause(&mut self, now_ns: u64) -> Duration {
        let allowed = now_ns.saturating_sub(self.at_ns) / ALLOWED_EVERY_NS;
        self.used = self.used.saturating_sub(allowed);
        self.at_ns = if self.used == 0 { now_ns } else { self.at_ns + allowed * ALLOWED_EVERY_NS };
        if self.used < BURST { Duration::ZERO } else { PAUSE }
    }

    /// Notes that a report woke the thread.
    pub fn woken(&mut self) {
        self.used = BURST.min(self.used + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many of the reports at these times wake at once.
    fn at_once(pace: &mut Pace, times_ns: impl Iterator<Item = u64>) -> u64 {
        let mut count = 0;
        for at_ns in times_ns {
            count += u64::from(pace.pause(at_ns).is_zero());
            pace.woken();
        }
        count
    }

    #[test]
    fn many_reports_wake_after_pauses_and_few_at_once() {
        let second = 1_000_000_000;
        let mut pace = Pace::default();
        assert_eq!(at_once(&mut pace, (0..10_000).map(|n| 10 * second + n * 1_000)), BURST + 1);
        assert_eq!(
            pace.pause(10 * second + 11_000_000 - 1_000),
            Duration::ZERO,
            "one more is allowed every 5 ms"
        );
        let rest = (0..1_000).map(|n| 20 * second + n * ALLOWED_EVERY_NS);
        assert_eq!(at_once(&mut pace, rest), 1_000);
    }
}
