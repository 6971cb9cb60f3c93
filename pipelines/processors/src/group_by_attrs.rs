//! `groupbyattrs`: moves attributes of items to their resource, and merges equal resources, scopes and metrics.
//!
//! Every item is moved to the resource, scope and metric that equal its own after the attributes of `keys` have moved.
//! Without keys a batch of many equal resources becomes a compact one. Resources, scopes and metrics are equal if they
//! differ in nothing but their items; schema URLs, attributes of scopes and units of metrics are compared too.

mod grouping;

use std::sync::Arc;

use component::{BuildContext, ComponentId, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, Section};
use opentelemetry_proto::tonic::common::v1::KeyValue as Attribute;
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use crate::change;

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "groupbyattrs",
    aliases: &["group_by_attrs"],
    signals: &Signal::STABLE,
    stability: Stability::Beta,
    about: "Moves attributes from items to their resource, and joins what has the same one.",
    example: "\
keys: [host.name]
",
    keys: config::keys::<GroupByAttrsConfig>,
    build,
};

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct GroupByAttrsConfig {
        /// Attributes that move from items to resources. Empty only merges equal resources.
        pub keys: Vec<String>,
    }
}

struct GroupByAttrs {
    keys: Keys,
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, problems) = section.read::<GroupByAttrsConfig>();
    problems.finish()?;
    Ok(Box::new(GroupByAttrs { keys: Keys::new(&context.id, config.keys) }))
}

impl Processor for GroupByAttrs {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        _: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        change::stage(move |data| self.keys.group(data), next)
    }
}

/// The keys of the attributes that move.
#[derive(Clone, Debug)]
struct Keys(Vec<String>);

impl Keys {
    /// Removes duplicate and empty keys.
    fn new(id: &ComponentId, keys: Vec<String>) -> Self {
        let mut unique: Vec<String> = Vec::with_capacity(keys.len());
        for key in keys.into_iter().filter(|key| !key.is_empty()) {
            if unique.contains(&key) {
                tracing::warn!(processor = %id, key, "duplicate grouping key, ignoring it");
            } else {
                unique.push(key);
            }
        }
        Keys(unique)
    }

    fn group(&self, data: &mut Data) {
        match data {
            Data::Logs(d) => grouping::items(d.make_mut(), self),
            Data::Metrics(d) => grouping::metrics(d.make_mut(), self),
            Data::Traces(d) => grouping::items(d.make_mut(), self),
            // Not reached: the factory lists the signals.
            Data::Profiles(_) => {}
        }
    }

    /// Removes and returns the attributes that move.
    fn take(&self, attributes: &mut Vec<Attribute>) -> Vec<Attribute> {
        let mut taken = Vec::new();
        for key in &self.0 {
            taken.extend(attributes.iter().position(|a| a.key == *key).map(|at| attributes.remove(at)));
        }
        taken
    }
}

#[cfg(test)]
mod tests;
