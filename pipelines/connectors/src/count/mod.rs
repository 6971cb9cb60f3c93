//! `count`: counts spans, span events, metrics, data points and log records, and sends the counts as metrics.
//!
//! Each batch yields one delta per resource and count, by the configured attributes. `walk` visits the items of a batch,
//! `tally` counts them; conditions ([`ottl`]) select them.

mod tally;
mod walk;

use std::collections::BTreeMap;
use std::sync::Arc;

use component::{
    BoxFuture, BuildContext, Connector, ConnectorFactory, Consumer, Host, Refused, Running, Stability,
};
use config::{ConfigError, Node, Optional, Problems, Section, Value as ConfigValue};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use ottl::Condition;
use pdata::{Data, ItemKind, Payload, Signal};
use tokio_util::sync::CancellationToken;

use walk::{KINDS, Kind};

/// The row of this connector.
pub const FACTORY: ConnectorFactory = ConnectorFactory {
    kind: "count",
    aliases: &[],
    signals: &Signal::STABLE,
    stability: Stability::Alpha,
    about: "Counts items and sends the counts as metrics.",
    example: "\
spans:
  errors:
    description: spans that failed
    conditions: ['status.code == STATUS_CODE_ERROR']
",
    keys: config::keys::<CountConfig>,
    build,
};

config::section! {
    /// The section of the connector: counts by metric name. An empty section counts everything under default names.
    #[derive(Clone, Debug)]
    pub struct CountConfig {
        /// Counts of spans.
        pub spans: CountedMetrics,
        /// Counts of span events.
        pub spanevents: CountedMetrics,
        /// Counts of metrics.
        pub metrics: CountedMetrics,
        /// Counts of metric data points.
        pub datapoints: CountedMetrics,
        /// Counts of log records.
        pub logs: CountedMetrics,
        /// Counts of profiles. None is supported, so any entry is refused.
        pub profiles: CountedMetrics,
    }
}

/// Definitions of counts by the names of their metrics.
pub type CountedMetrics = BTreeMap<String, Optional<CountOf>>;

config::section! {
    /// Definition of one count.
    #[derive(Clone, Debug)]
    pub struct CountOf {
        /// Description of the metric.
        pub description: String,
        /// Conditions of which one must hold for an item to be counted. Empty counts every item.
        pub conditions: Vec<String>,
        /// Attributes that the metric is broken down by.
        pub attributes: Vec<CountAttribute>,
    }

    /// An attribute to break a count down by.
    #[derive(Clone, Debug)]
    pub struct CountAttribute {
        /// Key of the attribute.
        pub key: String,
        /// Value for items without the attribute. Unset, such items are not counted.
        pub default_value: Option<Node>,
    }
}

/// A validated count.
#[derive(Clone, Debug)]
struct Definition {
    name: String,
    description: String,
    conditions: Vec<Condition>,
    attributes: Vec<(String, Option<AnyValue>)>,
}

/// The counts of each row of [`KINDS`].
type Definitions = [Vec<Definition>; KINDS.len()];

fn build(_: &BuildContext, section: Section<'_>) -> Result<Box<dyn Connector>, ConfigError> {
    let (config, mut problems) = section.read::<CountConfig>();
    problems.require(config.profiles.is_empty(), "profiles", {
        "profiles cannot be counted: expected spans, spanevents, metrics, datapoints or logs"
    });
    let definitions = KINDS.map(|kind| kind.definitions(&config, &mut problems));
    problems.finish()?;
    Ok(Box::new(Count(definitions)))
}

impl Kind {
    fn definitions(&self, config: &CountConfig, problems: &mut Problems<'_>) -> Vec<Definition> {
        let counts = match self.item {
            ItemKind::Span => &config.spans,
            ItemKind::SpanEvent => &config.spanevents,
            ItemKind::Metric => &config.metrics,
            ItemKind::Point => &config.datapoints,
            ItemKind::LogRecord => &config.logs,
            ItemKind::Profile => &config.profiles,
        };
        if counts.is_empty() {
            let all = CountOf { description: self.description.to_owned(), ..CountOf::default() };
            return vec![self.definition(self.metric, &all, problems)];
        }
        let counts = counts.iter().map(|(name, of)| (name, of.get().cloned().unwrap_or_default()));
        counts.map(|(name, of)| self.definition(name, &of, problems)).collect()
    }

    fn definition(&self, name: &str, config: &CountOf, problems: &mut Problems<'_>) -> Definition {
        let section = self.section;
        let key = format!("{section}::{name}");
        problems.require(!name.is_empty(), section, format!("{section}: metric name missing"));
        let mut conditions = Vec::new();
        for (index, text) in config.conditions.iter().enumerate() {
            match Condition::parse(self.item, text) {
                Ok(condition) => conditions.push(condition),
                Err(why) => problems.add(&format!("{key}::conditions[{index}]"), why.to_string()),
            }
        }
        let is_supported = self.item != ItemKind::Metric || config.attributes.is_empty();
        problems.require(is_supported, &format!("{key}::attributes"), {
            format!("metrics attributes not supported: metric {name:?}")
        });
        let mut attributes = Vec::new();
        for (index, attribute) in config.attributes.iter().enumerate() {
            let path = format!("{key}::attributes[{index}]");
            problems.require(!attribute.key.is_empty(), &path, "attribute key missing");
            match attribute.default_value.as_ref().map(any_value).transpose() {
                Ok(default) => attributes.push((attribute.key.clone(), default)),
                Err(found) => problems.add(&format!("{path}::default_value"), {
                    let key = &attribute.key;
                    format!("invalid default value specified for attribute {key}: expected a text, a number or a bool, found {found}")
                }),
            }
        }
        let (name, description) = (name.to_owned(), config.description.clone());
        Definition { name, description, conditions, attributes }
    }
}

fn any_value(node: &Node) -> Result<AnyValue, &'static str> {
    let value = match &node.value {
        ConfigValue::Bool(flag) => Value::BoolValue(*flag),
        ConfigValue::Int(n) => Value::IntValue(i64::try_from(*n).map_err(|_| "a number beyond 64 bits")?),
        ConfigValue::Float(v) => Value::DoubleValue(*v),
        ConfigValue::String(text) => Value::StringValue(text.clone()),
        ConfigValue::Null => return Err("null"),
        ConfigValue::Sequence(_) => return Err("a list"),
        ConfigValue::Mapping(_) => return Err("a map"),
    };
    Ok(AnyValue { value: Some(value) })
}

struct Count(Definitions);

impl Connector for Count {
    fn outputs(&self, from: Signal) -> &'static [Signal] {
        if from == Signal::Profiles { &[] } else { &[Signal::Metrics] }
    }

    fn start(
        self: Box<Self>,
        _: (Signal, Signal),
        next: Arc<dyn Consumer>,
        _: &Host,
        _: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        (Arc::new(Counter { definitions: self.0, next }), Box::pin(async {}))
    }
}

struct Counter {
    definitions: Definitions,
    next: Arc<dyn Consumer>,
}

impl Consumer for Counter {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let counts = walk::count(&data, &self.definitions);
            if counts.resource_metrics.is_empty() {
                return Ok(());
            }
            self.next.consume(Data::Metrics(Payload::new(counts))).await
        })
    }
}

#[cfg(test)]
mod tests;
