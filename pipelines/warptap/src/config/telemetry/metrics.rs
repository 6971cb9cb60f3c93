//! `service::telemetry::metrics`.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::Reading;
use super::keys::{
    AggregationKeys, ListsKeys, MetricsKeys, PeriodicKeys, PrometheusKeys, ReaderKeys, SelectorKeys,
    StreamKeys, ViewKeys,
};
use super::push::{self, ExporterConfig, millis};

/// The metrics of the collector itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics {
    /// How much is measured.
    pub level: MetricsLevel,
    /// Readers of the metrics. Empty if the level is none.
    pub readers: Vec<ReaderConfig>,
    /// What becomes of single instruments; none: what the level says.
    pub views: Option<Vec<View>>,
}

/// How much is measured.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub enum MetricsLevel {
    /// Nothing.
    None,
    /// What the service needs to be looked after.
    Basic,
    /// What is of use besides.
    #[default]
    Normal,
    /// Everything.
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
    /// A scrape endpoint in Prometheus' format.
    Pull(Prometheus),
    /// One and the same, every so often.
    Periodic {
        /// How often.
        interval: Duration,
        /// How long telling may take.
        timeout: Duration,
        /// Who.
        exporter: ExporterConfig,
    },
}

/// A server of Prometheus' format.
#[derive(Clone, Debug, PartialEq)]
pub struct Prometheus {
    /// Where it listens.
    pub host: String,
    /// At which port; 0: any.
    pub port: u16,
    /// True: counters are called `_total`, and names end in their unit.
    pub has_suffixes: bool,
    /// True: labels say which instrumentation scope a metric is of.
    pub has_scope_labels: bool,
    /// Which attributes of the resource become labels of every metric; none of them where this is none.
    pub resource_labels: Option<Lists>,
}

/// Names that are taken, and names that are not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lists {
    included: Vec<String>,
    excluded: Vec<String>,
}

impl Lists {
    /// True for a name that is taken: all are where none is listed as such.
    pub fn takes(&self, name: &str) -> bool {
        let is_in = |list: &[String]| list.iter().any(|n| n == name);
        !is_in(&self.excluded) && (self.included.is_empty() || is_in(&self.included))
    }
}

/// What becomes of the instruments that a selector names.
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    /// Which instruments.
    pub selector: Selector,
    /// What they become.
    pub stream: StreamConfig,
}

/// Which instruments; what is empty holds for all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selector {
    /// Their name, in which `*` stands for any text and `?` for one character.
    pub instrument_name: String,
    /// Their type, such as `counter`.
    pub instrument_type: String,
    /// Their scope's name.
    pub meter_name: String,
    /// Their scope's version.
    pub meter_version: String,
    /// Their unit.
    pub unit: String,
}

/// What instruments become.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StreamConfig {
    /// Another name.
    pub name: Option<String>,
    /// Another description.
    pub description: Option<String>,
    /// Another aggregation.
    pub aggregation: Option<Aggregation>,
    /// The only attributes that are kept.
    pub attribute_keys: Option<Vec<String>>,
}

/// How measurements are put together.
#[derive(Clone, Debug, PartialEq)]
pub enum Aggregation {
    /// Not at all.
    Drop,
    /// The last one counts.
    LastValue,
    /// They are added.
    Sum,
    /// They are counted by these bounds.
    Buckets(Vec<f64>),
    /// They are counted by bounds that adapt: so many at most, at this scale at most.
    Exponential {
        /// So many buckets at most.
        size_max: u32,
        /// The finest scale.
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
        // As in the Collector, one key alone brings both kinds of suffixes.
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
