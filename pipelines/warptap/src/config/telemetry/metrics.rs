//! The section `service::telemetry::metrics`.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::Reading;
use super::keys::{
    AggregationKeys, ListsKeys, MetricsKeys, PeriodicKeys, PrometheusKeys, ReaderKeys, SelectorKeys,
    StreamKeys, ViewKeys,
};
use super::push::{self, ExporterConfig, millis};

/// Settings of the collector's metrics.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// The amount of metrics.
    pub level: MetricsLevel,
    /// Readers of the metrics. Empty if the level is none.
    pub readers: Vec<ReaderConfig>,
    /// Configured views of instruments; `None` uses those of the level.
    pub views: Option<Vec<View>>,
}

/// The amount of metrics.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum MetricsLevel {
    /// No metrics.
    None,
    /// Metrics that are required for operation.
    Basic,
    /// Additional useful metrics.
    #[default]
    Normal,
    /// All metrics.
    Detailed,
}

const LEVELS: [(&str, MetricsLevel); 4] = [
    ("none", MetricsLevel::None),
    ("basic", MetricsLevel::Basic),
    ("normal", MetricsLevel::Normal),
    ("detailed", MetricsLevel::Detailed),
];

impl<'de> Deserialize<'de> for MetricsLevel {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let row = LEVELS.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        row.map(|(_, level)| *level)
            .ok_or_else(|| D::Error::unknown_variant(&text, &["none", "basic", "normal", "detailed"]))
    }
}

/// A reader of the metrics.
#[derive(Clone, Debug, PartialEq)]
pub enum ReaderConfig {
    /// An endpoint for scrapes in the Prometheus format.
    Pull(Prometheus),
    /// A periodic export.
    Periodic {
        /// Interval of exports.
        interval: Duration,
        /// Time limit of an export.
        timeout: Duration,
        /// The exporter.
        exporter: ExporterConfig,
    },
}

/// Settings of an endpoint in the Prometheus format.
#[derive(Clone, Debug, PartialEq)]
pub struct Prometheus {
    /// Address on which it listens.
    pub host: String,
    /// Port on which it listens; 0 is any free port.
    pub port: u16,
    /// Whether names of counters end in `_total`, and all names in their unit.
    pub has_suffixes: bool,
    /// Whether metrics have labels of the instrumentation scope.
    pub has_scope_labels: bool,
    /// The resource attributes that become labels of every metric; `None` adds none.
    pub resource_labels: Option<Lists>,
}

/// Lists of included and excluded names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lists {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Lists {
    /// Returns whether a name is included: all are if no included names are listed.
    pub fn takes(&self, name: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|n| n == name);
        !is_in(&self.excluded) && (self.included.is_empty() || is_in(&self.included))
    }
}

/// A view: changes the streams of the instruments that a selector selects.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Selects instruments.
    pub selector: Selector,
    /// The changes.
    pub stream: StreamConfig,
}

/// Selects instruments; an empty field matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// Name, in which `*` matches any text and `?` one character.
    pub instrument_name: String,
    /// Type, such as `counter`.
    pub instrument_type: String,
    /// Name of the scope.
    pub meter_name: String,
    /// Version of the scope.
    pub meter_version: String,
    /// Unit of the instrument.
    pub unit: String,
}

/// Changes of the stream of an instrument.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamConfig {
    /// Replaces the name.
    pub name: Option<String>,
    /// Replaces the description.
    pub description: Option<String>,
    /// Replaces the aggregation.
    pub aggregation: Option<Aggregation>,
    /// Retains these attributes only.
    pub attribute_keys: Option<Vec<String>>,
}

/// Aggregation of measurements.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregation {
    /// Drops them.
    Drop,
    /// Exports the last one.
    LastValue,
    /// Exports the sum.
    Sum,
    /// Exports a histogram with these bounds.
    Buckets(Vec<f64>),
    /// Exports an exponential histogram, whose bounds adapt.
    Exponential {
        /// The maximum number of buckets.
        size_max: u32,
        /// The maximum scale.
        scale_max: i8,
    },
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { level: MetricsLevel::default(), readers: default_readers(), views: None }
    }
}

fn default_readers() -> Vec<ReaderConfig> {
    vec![ReaderConfig::Pull(Prometheus {
        host: "localhost".to_owned(),
        port: 8888,
        has_suffixes: false,
        has_scope_labels: false,
        resource_labels: None,
    })]
}

impl Metrics {
    pub(super) fn read(reading: &mut Reading<'_>) -> Self {
        let keys: MetricsKeys = reading.decode();
        if keys.address.is_some() {
            reading.odd("address", "is ignored, as it is by the Collector since v0.123: use readers instead");
        }
        if keys.views.is_some() && keys.level != MetricsLevel::Detailed {
            let message = "service::telemetry::metrics::views can only be set when \
                service::telemetry::metrics::level is detailed";
            reading.wrong("views", message);
        }
        let is_on = keys.level != MetricsLevel::None;
        if is_on && keys.readers.as_ref().is_some_and(Vec::is_empty) {
            let message = "collector telemetry metrics reader should exist when metric level is not none";
            reading.wrong("readers", message);
        }
        let readers = match &keys.readers {
            None => default_readers(),
            Some(written) => {
                written.iter().enumerate().filter_map(|(i, keys)| reader(i, keys, reading)).collect()
            }
        };
        let readers = if is_on { readers } else { Vec::new() };
        let views = keys.views.map(|views| {
            views.iter().enumerate().filter_map(|(index, keys)| view(index, keys, reading)).collect()
        });
        Metrics { level: keys.level, readers, views }
    }
}

fn reader(index: usize, keys: &ReaderKeys, reading: &mut Reading<'_>) -> Option<ReaderConfig> {
    let path = format!("readers[{index}]");
    if keys.producers.is_some() {
        reading.no_effect(&format!("{path}::producers"));
    }
    match (&keys.pull, &keys.periodic) {
        (Some(_), Some(_)) => reading.wrong(&path, "must not specify multiple metric reader type"),
        (None, None) => {
            reading.wrong(&path, "no valid metric reader: expected one of pull, periodic");
        }
        (Some(pull), None) => match &pull.exporter.prometheus {
            Some(keys) => {
                return prometheus(keys, &format!("{path}::pull::exporter::prometheus"), reading)
                    .map(ReaderConfig::Pull);
            }
            None => {
                reading.wrong(&format!("{path}::pull::exporter"), {
                    "no valid metric exporter: expected prometheus"
                });
            }
        },
        (None, Some(keys)) => return periodic(keys, &format!("{path}::periodic"), reading),
    }
    None
}

fn prometheus(keys: &PrometheusKeys, path: &str, reading: &mut Reading<'_>) -> Option<Prometheus> {
    if keys.host.is_none() {
        reading.wrong(path, "host must be specified");
    }
    if keys.port.is_none() {
        reading.wrong(path, "port must be specified");
    }
    let (host, port) = (keys.host.clone()?, keys.port?);
    let lists_path = format!("{path}::with_resource_constant_labels");
    Some(Prometheus {
        host,
        port,
        // As in the Collector, either key alone enables both kinds of suffixes.
        has_suffixes: !(keys.without_units.unwrap_or(true) && keys.without_type_suffix.unwrap_or(true)),
        has_scope_labels: !keys.without_scope_info.unwrap_or(true),
        resource_labels: keys
            .with_resource_constant_labels
            .as_ref()
            .map(|keys| lists(keys, &lists_path, reading)),
    })
}

fn lists(keys: &ListsKeys, path: &str, reading: &mut Reading<'_>) -> Lists {
    for name in keys.included.iter().filter(|name| keys.excluded.contains(name)) {
        reading.wrong(path, format!("attribute cannot be in both include and exclude list: {name}"));
    }
    Lists { included: keys.included.clone(), excluded: keys.excluded.clone() }
}

fn periodic(keys: &PeriodicKeys, path: &str, reading: &mut Reading<'_>) -> Option<ReaderConfig> {
    let exporter = push::exporter(&keys.exporter, &format!("{path}::exporter"), "metric", reading)?;
    Some(ReaderConfig::Periodic {
        interval: millis(keys.interval.filter(|n| *n > 0), Duration::from_secs(60)),
        timeout: millis(keys.timeout.filter(|n| *n > 0), Duration::from_secs(30)),
        exporter,
    })
}

const INSTRUMENT_TYPES: [&str; 6] = [
    "counter",
    "histogram",
    "observable_counter",
    "observable_gauge",
    "observable_up_down_counter",
    "up_down_counter",
];

fn view(index: usize, keys: &ViewKeys, reading: &mut Reading<'_>) -> Option<View> {
    let path = format!("views[{index}]");
    let Some(written) = &keys.selector else {
        reading.wrong(&path, "view: no selector provided");
        return None;
    };
    let selector = selector(written);
    if selector == Selector::default() {
        reading.wrong(&format!("{path}::selector"), "empty selector: expected something to select by");
    }
    if !selector.instrument_type.is_empty() && !INSTRUMENT_TYPES.contains(&&*selector.instrument_type) {
        let message = format!(
            "invalid value {:?}: expected one of {}",
            selector.instrument_type,
            INSTRUMENT_TYPES.join(", ")
        );
        reading.wrong(&format!("{path}::selector::instrument_type"), message);
    }
    if written.meter_schema_url.is_some() {
        reading.no_effect(&format!("{path}::selector::meter_schema_url"));
    }
    let stream = keys
        .stream
        .as_ref()
        .map(|keys| stream(keys, &format!("{path}::stream"), reading))
        .unwrap_or_default();
    Some(View { selector, stream })
}

fn selector(keys: &SelectorKeys) -> Selector {
    let text = |written: &Option<String>| written.clone().unwrap_or_default();
    Selector {
        instrument_name: text(&keys.instrument_name),
        instrument_type: text(&keys.instrument_type),
        meter_name: text(&keys.meter_name),
        meter_version: text(&keys.meter_version),
        unit: text(&keys.unit),
    }
}

fn stream(keys: &StreamKeys, path: &str, reading: &mut Reading<'_>) -> StreamConfig {
    let lists = keys.attribute_keys.as_ref();
    if lists.is_some_and(|lists| !lists.excluded.is_empty()) {
        reading.no_effect(&format!("{path}::attribute_keys::excluded"));
    }
    StreamConfig {
        name: keys.name.clone(),
        description: keys.description.clone(),
        aggregation: keys.aggregation.as_ref().and_then(aggregation),
        attribute_keys: lists.map(|lists| lists.included.clone()).filter(|included| !included.is_empty()),
    }
}

fn aggregation(keys: &AggregationKeys) -> Option<Aggregation> {
    if let Some(keys) = &keys.base2_exponential_bucket_histogram {
        let (size_max, scale_max) = (keys.max_size.unwrap_or(160), keys.max_scale.unwrap_or(20));
        return Some(Aggregation::Exponential { size_max, scale_max });
    }
    if let Some(keys) = &keys.explicit_bucket_histogram {
        return keys.boundaries.clone().map(Aggregation::Buckets);
    }
    let rows = [
        (&keys.drop, Aggregation::Drop),
        (&keys.last_value, Aggregation::LastValue),
        (&keys.sum, Aggregation::Sum),
    ];
    rows.into_iter().find(|(marker, _)| marker.is_some()).map(|(_, aggregation)| aggregation)
}
