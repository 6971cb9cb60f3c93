//! `memory_limiter`: refuses data while the process uses too much memory.
//!
//! A task measures the memory in use every `check_interval` and sets a flag. While the flag is set, data is refused
//! with a retryable refusal, so that the sender stores it instead of this process. The soft limit, `limit` minus
//! `spike_limit`, is the threshold. `memory` measures used and available memory.
//!
//! There is no garbage collector. The four `*_gc_interval_*` keys are accepted and checked as in the Collector, and
//! have no effect. Memory that the allocator has not returned to the system counts as used.

mod memory;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use component::status::ComponentStatus;
use component::{
    BoxFuture, BuildContext, ComponentId, Consumer, Host, Processor, ProcessorFactory, Refused, Running,
    Stability,
};
use config::{ConfigError, GoDuration, Problems, Section};
use opentelemetry::KeyValue;
use opentelemetry::metrics::Counter;
use pdata::{Data, Signal};
use semconv::own_metric;
use tokio_util::sync::CancellationToken;

use crate::telemetry;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "memory_limiter",
    aliases: &[],
    signals: &Signal::ALL,
    stability: Stability::Beta,
    about: "Refuses data, which senders keep, before memory runs out. First in a pipeline.",
    example: "\
check_interval: 1s
limit_mib: 400
spike_limit_mib: 100
",
    keys: config::keys::<MemoryLimiterConfig>,
    build,
};

const MIB: u64 = 1024 * 1024;

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MemoryLimiterConfig {
        /// Interval between measurements of the memory in use. Must be set.
        pub check_interval: GoDuration => in config::POSITIVE,
        /// Hard limit of the memory in use in MiB. Takes precedence over `limit_percentage`.
        pub limit_mib: u32,
        /// Distance of the soft limit below the hard limit in MiB. 0 is a fifth of the hard limit.
        pub spike_limit_mib: u32,
        /// Hard limit in percent of the memory of the control group, or of the machine.
        pub limit_percentage: u32 => in 0..=100,
        /// Distance of the soft limit below the hard limit in percent. 0 is a fifth of the hard limit.
        pub spike_limit_percentage: u32 => in 0..=100,
        /// Shortest interval of garbage collections above the soft limit.
        pub min_gc_interval_when_soft_limited: GoDuration = GoDuration::from_secs(10)
            => unused "there is no garbage collector",
        /// Shortest interval of garbage collections above the hard limit.
        pub min_gc_interval_when_hard_limited: GoDuration = GoDuration::from_secs(0)
            => unused "there is no garbage collector",
        /// Longest interval of garbage collections above the soft limit.
        pub max_gc_interval_when_soft_limited: GoDuration = GoDuration::from_secs(30)
            => unused "there is no garbage collector",
        /// Longest interval of garbage collections above the hard limit.
        pub max_gc_interval_when_hard_limited: GoDuration = GoDuration::from_secs(30)
            => unused "there is no garbage collector",
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<MemoryLimiterConfig>();
    config.check(&mut problems);
    problems.finish()?;
    Ok(Box::new(MemoryLimiter { id: context.id.clone(), config }))
}

impl MemoryLimiterConfig {
    fn check(&self, problems: &mut Problems<'_>) {
        self.check_gc_intervals(problems);
        let some = self.limit_mib > 0 || self.limit_percentage > 0;
        problems.require(some, "", "'limit_mib' or 'limit_percentage' must be greater than zero");
        let smaller = |limit: u32, spike: u32| limit == 0 || spike < limit;
        problems.require(smaller(self.limit_mib, self.spike_limit_mib), "spike_limit_mib", {
            "'spike_limit_mib' must be smaller than 'limit_mib'"
        });
        let spike = smaller(self.limit_percentage, self.spike_limit_percentage);
        problems.require(spike, "spike_limit_percentage", {
            "'spike_limit_percentage' must be smaller than 'limit_percentage'"
        });
    }

    fn check_gc_intervals(&self, problems: &mut Problems<'_>) {
        let (soft_min, hard_min) =
            (*self.min_gc_interval_when_soft_limited, *self.min_gc_interval_when_hard_limited);
        let (soft_max, hard_max) =
            (*self.max_gc_interval_when_soft_limited, *self.max_gc_interval_when_hard_limited);
        let at_least = |max: Duration, min: Duration| max.is_zero() || max >= min;
        for (holds, key, expected) in [
            (
                soft_min >= hard_min,
                "min_gc_interval_when_soft_limited",
                "'min_gc_interval_when_soft_limited' should be larger than 'min_gc_interval_when_hard_limited'",
            ),
            (
                at_least(soft_max, soft_min),
                "max_gc_interval_when_soft_limited",
                "'max_gc_interval_when_soft_limited' must be greater than or equal to \
                 'min_gc_interval_when_soft_limited' (or 0 to disable)",
            ),
            (
                at_least(hard_max, hard_min),
                "max_gc_interval_when_hard_limited",
                "'max_gc_interval_when_hard_limited' must be greater than or equal to \
                 'min_gc_interval_when_hard_limited' (or 0 to disable)",
            ),
            (
                hard_max.is_zero() || at_least(soft_max, hard_max),
                "max_gc_interval_when_soft_limited",
                "'max_gc_interval_when_soft_limited' should be larger than or equal to \
                 'max_gc_interval_when_hard_limited' (when both are set)",
            ),
        ] {
            problems.require(holds, key, expected);
        }
    }

    /// Returns the number of bytes in use from which data is refused, on a machine with `total` bytes.
    fn soft_limit_bytes(&self, total: u64) -> u64 {
        let (limit, spike) = match self.limit_mib {
            0 => (
                total.saturating_mul(self.limit_percentage.into()) / 100,
                total.saturating_mul(self.spike_limit_percentage.into()) / 100,
            ),
            limit => (u64::from(limit) * MIB, u64::from(self.spike_limit_mib) * MIB),
        };
        limit - if spike == 0 { limit / 5 } else { spike }
    }
}

/// A `memory_limiter` processor that has not started.
#[derive(Debug)]
struct MemoryLimiter {
    id: ComponentId,
    config: MemoryLimiterConfig,
}

impl Processor for MemoryLimiter {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let total = memory::total_bytes(Path::new("/"));
        let soft_limit_bytes = self.config.soft_limit_bytes(total);
        tracing::info!(
            processor = %self.id, soft_limit_mib = soft_limit_bytes / MIB, total_mib = total / MIB,
            check_interval = ?*self.config.check_interval, "memory limiter configured"
        );
        self.start_measuring(soft_limit_bytes, || memory::used_bytes(Path::new("/")), next, host, stop)
    }
}

impl MemoryLimiter {
    /// Starts the task that measures `used_bytes`.
    fn start_measuring(
        &self,
        soft_limit_bytes: u64,
        used_bytes: impl Fn() -> Option<u64> + Send + 'static,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let counts = Counts::new(&self.id, host);
        let gate = Arc::new(Gate { next, is_shut: AtomicBool::new(false), counts });
        let watch = Monitor { id: self.id.clone(), host: host.clone(), soft_limit_bytes, gate: gate.clone() };
        let interval = *self.config.check_interval;
        let watching = tokio::spawn(async move {
            while tokio::time::timeout(interval, stop.cancelled()).await.is_err() {
                watch.update(used_bytes());
            }
        });
        (gate, Box::pin(async move { drop(watching.await) }))
    }
}

/// A consumer that forwards data or refuses it.
struct Gate {
    next: Arc<dyn Consumer>,
    is_shut: AtomicBool,
    counts: Counts,
}

/// The counters of forwarded and refused items by signal.
struct Counts {
    accepted: [Counter<u64>; 4],
    refused: [Counter<u64>; 4],
    processor: [KeyValue; 1],
}

impl Counts {
    fn new(id: &ComponentId, host: &Host) -> Self {
        let counter = |metric| telemetry::counter(host, metric);
        Counts {
            accepted: own_metric::OTELCOL_PROCESSOR_MEMORY_LIMITER_ACCEPTED.map(counter),
            refused: own_metric::OTELCOL_PROCESSOR_MEMORY_LIMITER_REFUSED.map(counter),
            processor: [telemetry::processor(id)],
        }
    }
}

/// The state of the measuring task.
struct Monitor {
    id: ComponentId,
    host: Host,
    soft_limit_bytes: u64,
    gate: Arc<Gate>,
}

impl Monitor {
    /// Sets or clears the flag. A failed measurement changes nothing.
    fn update(&self, used_bytes: Option<u64>) {
        let Some(used) = used_bytes else { return };
        let is_over = used >= self.soft_limit_bytes;
        if self.gate.is_shut.swap(is_over, Ordering::Relaxed) == is_over {
            return;
        }
        let (processor, used_mib, soft_limit_mib) = (&self.id, used / MIB, self.soft_limit_bytes / MIB);
        if is_over {
            tracing::warn!(%processor, used_mib, soft_limit_mib, "memory usage is above the soft limit, refusing data");
            self.host.report(ComponentStatus::RecoverableError(REFUSED.to_owned()));
        } else {
            tracing::info!(%processor, used_mib, soft_limit_mib, "memory usage is back within limits, taking data again");
            self.host.report(ComponentStatus::Ok);
        }
    }
}

const REFUSED: &str = "data refused due to high memory usage";

impl Consumer for Gate {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let (items, signal) = (data.items() as u64, data.signal() as usize);
        if self.is_shut.load(Ordering::Relaxed) {
            self.counts.refused[signal].add(items, &self.counts.processor);
            return Box::pin(async { Err(Refused::retryable(REFUSED)) });
        }
        self.counts.accepted[signal].add(items, &self.counts.processor);
        self.next.consume(data)
    }
}

#[cfg(test)]
mod tests;
