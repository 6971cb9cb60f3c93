//! `probabilistic_sampler`: samples a share of spans and log records.
//!
//! `decision` decides, `carrier` reads and writes the sampling state of an item, `threshold` and `tracestate` are its
//! text formats. Resources, scopes and batches without items are removed.

mod carrier;
mod decision;
mod threshold;
mod tracestate;

use std::sync::Arc;

use component::{BuildContext, ComponentId, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, Section};
use opentelemetry::KeyValue;
use pdata::{Data, ItemMut, Signal};
use semconv::own_metric;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::{change, telemetry};
use decision::Sampler;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "probabilistic_sampler",
    aliases: &[],
    signals: &[Signal::Logs, Signal::Traces],
    stability: Stability::Beta,
    about: "Samples a share of traces or log records, the same ones in every collector.",
    example: "\
sampling_percentage: 10
",
    build,
};

/// What the user writes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default)]
pub struct ProbabilisticSamplerConfig {
    /// The share to keep, in percent; 100 and more is all.
    pub sampling_percentage: f32,
    /// What trace ids are hashed with, in the mode `hash_seed`. Samplers behind each other need different ones.
    pub hash_seed: u32,
    /// How to decide.
    pub mode: Mode,
    /// Whether an item that cannot be sampled is dropped.
    pub fail_closed: bool,
    /// The hex digits of a threshold, 1 to 14.
    pub sampling_precision: u32,
    /// What a log record is sampled by.
    pub attribute_source: AttributeSource,
    /// The attribute to sample a log record by, that has no trace id or is not to be sampled by it.
    pub from_attribute: String,
    /// The attribute with the percentage to keep a log record by.
    pub sampling_priority: String,
}

/// The key `mode`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// As `hash_seed`.
    #[default]
    #[serde(rename = "")]
    Unset,
    /// By a hash of the trace id.
    HashSeed,
    /// So that all items are as rare, those that were sampled before included.
    Equalizing,
    /// By the same share of all items, whatever was sampled before.
    Proportional,
}

/// The key `attribute_source`.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
pub enum AttributeSource {
    /// By its trace id.
    #[default]
    #[serde(rename = "traceID")]
    TraceId,
    /// By the attribute `from_attribute`.
    #[serde(rename = "record", alias = "")]
    Record,
}

impl Default for ProbabilisticSamplerConfig {
    fn default() -> Self {
        ProbabilisticSamplerConfig {
            sampling_percentage: 0.0,
            hash_seed: 0,
            mode: Mode::Unset,
            fail_closed: true,
            sampling_precision: 4,
            attribute_source: AttributeSource::TraceId,
            from_attribute: String::new(),
            sampling_priority: String::new(),
        }
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let config: ProbabilisticSamplerConfig = section.decode()?;
    let mut problems = section.problems();
    if let Err(why) = check_percentage(config.sampling_percentage) {
        problems.add("sampling_percentage", why);
    }
    let precision = config.sampling_precision;
    problems.require((1..=threshold::DIGITS).contains(&precision), "sampling_precision", {
        format!("invalid sampling precision: {precision}: expected 1 to 14 hex digits")
    });
    problems.finish()?;
    Ok(Box::new(ProbabilisticSampler { id: context.id.clone(), sampler: Sampler::new(&config) }))
}

fn check_percentage(percentage: f32) -> Result<(), String> {
    let ratio = f64::from(percentage) / 100.0;
    match ratio {
        _ if !ratio.is_finite() => Err(format!("sampling rate is invalid: {percentage}%")),
        _ if ratio < 0.0 => Err(format!("sampling rate is negative: {percentage}%")),
        _ if ratio > 0.0 && ratio < threshold::PROBABILITY_MIN => {
            Err(format!("sampling rate is too small: {percentage}%"))
        }
        _ => Ok(()),
    }
}

struct ProbabilisticSampler {
    id: ComponentId,
    sampler: Sampler,
}

impl Processor for ProbabilisticSampler {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let logs =
            telemetry::counter(host, own_metric::OTELCOL_PROCESSOR_PROBABILISTIC_SAMPLER_COUNT_LOGS_SAMPLED);
        let traces = telemetry::counter(
            host,
            own_metric::OTELCOL_PROCESSOR_PROBABILISTIC_SAMPLER_COUNT_TRACES_SAMPLED,
        );
        let processor = telemetry::processor(&self.id);
        let sample = move |data: &mut Data| {
            data.retain_items(|_, item| {
                let ((is_sampled, policy), counter) = match item {
                    ItemMut::LogRecord(record) => (self.sampler.sample(record), &logs),
                    ItemMut::Span(span) => (self.sampler.sample(span), &traces),
                    // Not reached: the factory lists the signals.
                    ItemMut::Metric(_) | ItemMut::Profile(_) => return true,
                };
                let sampled = if is_sampled { "true" } else { "false" };
                let policy = KeyValue::new("policy", policy.to_owned());
                counter.add(1, &[processor.clone(), policy, KeyValue::new("sampled", sampled)]);
                is_sampled
            })
        };
        change::filter(sample, next)
    }
}

#[cfg(test)]
mod tests;
