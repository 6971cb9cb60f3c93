//! Sampling of repeated lines, as in zap: of the lines with the same level and message in a tick, the first N are
//! logged, then one in M.
//!
//! Counters are in a table of fixed size, indexed by a hash of level and message. Two messages with the same hash share
//! a counter, so that some lines may be dropped, but memory is bounded.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Instant;

use crate::config::LogLevel;
use crate::config::telemetry::Sampling;

/// Number of counters, as many as zap has per level.
const COUNTERS: usize = 4096;

/// A sampler of repeated lines.
pub(super) struct Sampler {
    sampling: Sampling,
    counters: Box<[Counter]>,
}

#[derive(Clone, Copy)]
struct Counter {
    begin: Instant,
    lines: u64,
}

impl Sampler {
    pub(super) fn new(sampling: Sampling, now: Instant) -> Self {
        let counter = Counter { begin: now, lines: 0 };
        Sampler { sampling, counters: vec![counter; COUNTERS].into_boxed_slice() }
    }

    /// Returns whether a line is logged.
    pub(super) fn takes(&mut self, level: LogLevel, text: &str, now: Instant) -> bool {
        let mut hasher = DefaultHasher::new();
        (level as u8, text).hash(&mut hasher);
        let counter = &mut self.counters[hasher.finish() as usize % COUNTERS];
        if now.saturating_duration_since(counter.begin) >= *self.sampling.tick {
            *counter = Counter { begin: now, lines: 0 };
        }
        counter.lines += 1;
        match counter.lines.checked_sub(self.sampling.initial) {
            None | Some(0) => true,
            Some(excess) => self.sampling.thereafter > 0 && excess % self.sampling.thereafter == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_first_lines_of_a_tick_are_logged_then_samples() {
        let tick = Duration::from_secs(10);
        for (initial, thereafter, want) in [(2, 3, "yynnynny"), (3, 0, "yyynnnnn"), (10, 100, "yyyyyyyy")] {
            let begin = Instant::now();
            let mut sampler = Sampler::new(
                Sampling { tick: tick.into(), initial, thereafter, ..Sampling::default() },
                begin,
            );
            let mut takes =
                |text: &str, now| if sampler.takes(LogLevel::Info, text, now) { 'y' } else { 'n' };
            let first: String = (0..8).map(|_| takes("a", begin)).collect();
            assert_eq!(first, want);
            assert_eq!(takes("b", begin), 'y', "another message");
            assert_eq!(takes("a", begin + tick), 'y', "another tick");
        }
    }
}
