//! The section `service::telemetry`: telemetry of the collector about itself.
//!
//! The section is validated here and converted to [`TelemetryConfig`]; supported keys without effect cause
//! warnings. [`crate::telemetry`] and [`crate::logging`] implement it.

mod keys;
mod logs;
mod metrics;
mod push;
mod resource;

use config::{Node, Problem, Section};

pub use logs::{LogEncoding, Logs, Sampling};
pub use metrics::{
    Aggregation, Metrics, MetricsLevel, Prometheus, ReaderConfig, Selector, StreamConfig, View,
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

/// Decodes a section; collects problems and warnings.
pub(super) struct Reading<'a> {
    section: Section<'a>,
    problems: &'a mut Vec<Problem>,
    warnings: &'a mut Vec<Problem>,
}

impl Reading<'_> {
    fn wrong(&mut self, key_path: &str, message: impl Into<String>) {
        self.problems.push(self.section.problem(key_path, message));
    }

    fn odd(&mut self, key_path: &str, message: impl Into<String>) {
        self.warnings.push(self.section.problem(key_path, message));
    }

    fn no_effect(&mut self, key_path: &str) {
        self.odd(key_path, "is accepted, but has no effect here");
    }

    /// Decodes the section; on errors, adds problems and returns the defaults.
    fn decode<T: Default + serde::de::DeserializeOwned>(&mut self) -> T {
        self.section.decode().unwrap_or_else(|error| {
            self.problems.extend(error.into_problems());
            T::default()
        })
    }
}

impl TelemetryConfig {
    /// Reads the section; adds problems and warnings.
    pub(crate) fn read(node: &Node, problems: &mut Vec<Problem>, warnings: &mut Vec<Problem>) -> Self {
        let section = Section::new("service::telemetry", node);
        Reading { section, problems, warnings }.decode::<keys::TelemetryKeys>();
        let mut telemetry = TelemetryConfig::default();
        for entry in node.entries() {
            let path = format!("service::telemetry::{}", entry.key);
            let section = Section::new(&path, &entry.value);
            let mut reading = Reading { section, problems: &mut *problems, warnings: &mut *warnings };
            match entry.key.as_str() {
                "logs" => telemetry.logs = Logs::read(&mut reading),
                "metrics" => telemetry.metrics = Metrics::read(&mut reading),
                "resource" => telemetry.resource = Resource::read(&mut reading),
                "traces" => telemetry.traces = read_traces(&mut reading),
                // Reported before.
                _ => {}
            }
        }
        telemetry
    }
}

fn read_traces(reading: &mut Reading<'_>) -> Vec<ProcessorConfig> {
    let keys: keys::TracesKeys = reading.decode();
    let is_off = keys.level.is_some_and(|level| level == MetricsLevel::None);
    for (index, name) in keys.propagators.iter().enumerate() {
        let path = format!("propagators[{index}]");
        match name.as_str() {
            "tracecontext" | "b3" => reading.no_effect(&path),
            other => reading.wrong(
                &path,
                format!("unsupported trace propagator {other:?}: expected \"tracecontext\" or \"b3\""),
            ),
        }
    }
    for (key, is_set) in [("limits", keys.limits.is_some()), ("sampler", keys.sampler.is_some())] {
        if is_set {
            reading.no_effect(key);
        }
    }
    let processors = push::processors(&keys.processors, &push::SPANS, reading);
    if is_off { Vec::new() } else { processors }
}

#[cfg(test)]
#[path = "telemetry_tests.rs"]
mod tests;
