//! Delays between attempts: exponential, with jitter, capped.

use std::time::Duration;

use super::RetryConfig;

/// The successive delays of one request's retries.
#[derive(Clone, Debug)]
pub struct Backoff {
    interval: Duration,
    interval_max: Duration,
    multiplier: f64,
    randomization_factor: f64,
}

impl Backoff {
    /// Returns delays that start at the configured initial interval.
    pub fn new(config: &RetryConfig) -> Self {
        Backoff {
            interval: *config.initial_interval,
            interval_max: *config.max_interval,
            multiplier: config.multiplier,
            randomization_factor: config.randomization_factor,
        }
    }

    /// Returns the next delay: the interval plus or minus at most the randomization factor times the interval.
    /// `chance` is a random number in [0, 1).
    pub fn next_delay(&mut self, chance: f64) -> Duration {
        let spread = 1.0 + self.randomization_factor * (2.0 * chance - 1.0);
        let delay = scaled(self.interval, spread);
        self.interval = scaled(self.interval, self.multiplier).min(self.interval_max);
        delay
    }
}

/// Multiplies a duration, saturating at `Duration::MAX`.
fn scaled(duration: Duration, factor: f64) -> Duration {
    Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays(config: &RetryConfig, chance: f64) -> Vec<u128> {
        let mut backoff = Backoff::new(config);
        (0..7).map(|_| backoff.next_delay(chance).as_millis()).collect()
    }

    #[test]
    fn delays_grow_by_the_multiplier_up_to_the_cap() {
        let config = RetryConfig::default();
        assert_eq!(delays(&config, 0.5), [5000, 7500, 11250, 16875, 25312, 30000, 30000]);
    }

    #[test]
    fn jitter_moves_a_delay_by_half_of_itself_at_most() {
        let config = RetryConfig::default();
        assert_eq!(delays(&config, 0.0)[..2], [2500, 3750]);
        assert_eq!(delays(&config, 1.0)[..2], [7500, 11250]);
    }

    #[test]
    fn no_configuration_overflows() {
        let config = RetryConfig { multiplier: 1e300, randomization_factor: 1.0, ..RetryConfig::default() };
        assert_eq!(delays(&config, 0.5)[1..3], [30000, 30000]);
        let config = RetryConfig { max_interval: Duration::MAX.into(), ..config };
        assert_eq!(delays(&config, 1.0)[1], Duration::MAX.as_millis());
    }
}
