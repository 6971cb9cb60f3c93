//! The section `service::telemetry`: telemetry of the collector about itself.
//!
//! The section is validated here and converted to [`TelemetryConfig`]; supported keys without effect cause
//! warnings. [`crate::telemetry`] and [`crate::logging`] implement it.

mod keys;
mod logs;
mod metrics;
mod push;
mod resource;

use config::{ConfigError, Problems, Section};

pub(crate) use keys::TelemetryKeys;
pub use logs::{LogEncoding, Logs, Sampling};
pub use metrics::{
    Aggregation, InstrumentType, Metrics, MetricsLevel, Prometheus, ReaderConfig, Selector, StreamConfig,
    View,
};
pub use push::{ExporterConfig, Otlp, ProcessorConfig, Protocol, Temporality};
pub use resource::Resource;

/// Internal telemetry of the collector. By default it logs to standard error, and serves metrics at
/// `http://localhost:8888/metrics`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TelemetryConfig {
    /// Settings of its log.
    pub logs: Logs,
    /// Settings of its metrics.
    pub metrics: Metrics,
    /// Processors of its spans. Empty disables spans.
    pub traces: Vec<ProcessorConfig>,
    /// The resource of all its telemetry.
    pub resource: Resource,
}

impl TelemetryConfig {
    /// Reads the section, and returns its problems. Warns of what is odd.
    pub(crate) fn read(section: Section<'_>) -> (Self, ConfigError) {
        let (keys, mut problems) = section.read::<TelemetryKeys>();
        let telemetry = TelemetryConfig {
            resource: section
                .node()
                .get("resource")
                .map(|node| Resource::new(node, &mut problems))
                .unwrap_or_default(),
            metrics: Metrics::new(&keys.metrics, &mut problems),
            traces: traces(&keys.traces, &mut problems),
            logs: Logs::new(keys.logs, &mut problems),
        };
        (telemetry, problems.into())
    }
}

fn traces(keys: &keys::TracesKeys, problems: &mut Problems<'_>) -> Vec<ProcessorConfig> {
    let processors = push::processors(&keys.processors, "traces", &push::SPANS, problems);
    if keys.level == MetricsLevel::None { Vec::new() } else { processors }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
