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
    keys: config::keys::<ProbabilisticSamplerConfig>,
    build,
};

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct ProbabilisticSamplerConfig {
        /// Share of items that are kept, in percent; 100 and more keeps all.
        pub sampling_percentage: f32 = 0.0,
        /// Seed of the hash of trace ids in the mode `hash_seed`. Samplers in sequence need different seeds.
        pub hash_seed: u32,
        /// Method of the decision. Empty is `hash_seed`.
        pub mode: SamplerMode = SamplerMode::Unset,
        /// Whether an item that cannot be sampled is dropped.
        pub fail_closed: bool = true,
        /// Number of hexadecimal digits of a threshold.
        pub sampling_precision: u32 = 4 => in 1..=threshold::DIGITS,
        /// Source of the randomness for log records.
        pub attribute_source: AttributeSource = AttributeSource::TraceId,
        /// Attribute of log records that is hashed if there is no trace id or `attribute_source` is `record`.
        pub from_attribute: String,
        /// Attribute of log records that contains a percentage for the record.
        pub sampling_priority: String,
    }
}

config::choice! {
    /// The key `mode`.
    #[derive(Default)]
    pub enum SamplerMode {
        /// Uses the mode `hash_seed`.
        #[default]
        Unset = "",
        /// Samples by a hash of the trace id.
        HashSeed = "hash_seed",
        /// Samples all items with the same probability, including earlier samplers.
        Equalizing = "equalizing",
        /// Samples the same share of the arriving items, whatever was sampled before.
        Proportional = "proportional",
    }
}

config::choice! {
    /// The key `attribute_source`.
    #[derive(Default)]
    pub enum AttributeSource {
        /// The trace id.
        #[default]
        TraceId = "traceID",
        /// The attribute `from_attribute`.
        Record = "record" | "",
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<ProbabilisticSamplerConfig>();
    if let Err(why) = check_percentage(config.sampling_percentage) {
        problems.add("sampling_percentage", why);
    }
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
