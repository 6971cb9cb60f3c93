//! Retries: one request is sent until it is accepted, refused permanently, or its time is up.

use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::Arc;

use component::{BoxFuture, Consumer, Refused};
use config::{GoDuration, Problems};
use pdata::Data;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Backoff;

config::section! {
    /// The section `retry_on_failure`.
    #[derive(Clone, Debug, PartialEq)]
    pub struct RetryConfig {
        /// Whether a refused request is retried.
        pub enabled: bool = true,
        /// Delay before the first retry.
        pub initial_interval: GoDuration = GoDuration::from_secs(5),
        /// Share of a delay by which it varies at random.
        pub randomization_factor: f64 = 0.5 => in 0.0..=1.0,
        /// Factor by which the delay grows with each retry.
        pub multiplier: f64 = 1.5 => in 0.0..,
        /// Longest delay.
        pub max_interval: GoDuration = GoDuration::from_secs(30),
        /// Longest time a request is retried before it is dropped. 0 is unlimited.
        pub max_elapsed_time: GoDuration = GoDuration::from_secs(300),
    }
}

impl RetryConfig {
    /// Checks the values against each other, also of a section that is switched off, as the Collector does.
    pub fn check(&self, problems: &mut Problems<'_>) {
        let key = |name: &str| format!("retry_on_failure::{name}");
        let longest = self.max_elapsed_time;
        let bounded = !longest.is_zero();
        problems.require(!bounded || longest >= self.initial_interval, &key("max_elapsed_time"), {
            "'max_elapsed_time' must not be less than 'initial_interval'"
        });
        problems.require(!bounded || longest >= self.max_interval, &key("max_elapsed_time"), {
            "'max_elapsed_time' must not be less than 'max_interval'"
        });
    }
}

/// Retries retryable refusals of `next`. `stop` ends a wait and allows one last attempt.
pub(crate) fn stage(
    config: &RetryConfig,
    next: Arc<dyn Consumer>,
    stop: CancellationToken,
) -> Arc<dyn Consumer> {
    Arc::new(Retry { config: config.clone(), next, stop })
}

struct Retry {
    config: RetryConfig,
    next: Arc<dyn Consumer>,
    stop: CancellationToken,
}

impl Consumer for Retry {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(self.attempts(data))
    }
}

impl Retry {
    async fn attempts(&self, data: Data) -> Result<(), Refused> {
        let mut backoff = Backoff::new(&self.config);
        let begin = Instant::now();
        loop {
            let Err(refused) = self.next.consume(data.clone()).await else { return Ok(()) };
            if !refused.is_retryable() || self.stop.is_cancelled() {
                return Err(refused);
            }
            let delay = backoff.next_delay(chance()).max(refused.retry_after.unwrap_or_default());
            let longest = *self.config.max_elapsed_time;
            if !longest.is_zero() && begin.elapsed().saturating_add(delay) > longest {
                let reason = format!("no more retries left: {}", refused.reason);
                return Err(Refused { reason, ..refused });
            }
            tracing::debug!(%refused, ?delay, "exporting failed, will be retried");
            let _ = tokio::time::timeout(delay, self.stop.cancelled()).await;
        }
    }
}

/// Returns a random number in [0, 1) from the seeds of the standard library's hash maps, which is good enough
/// to keep collectors from retrying in step.
fn chance() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    bits as f64 / (1u64 << 53) as f64
}
