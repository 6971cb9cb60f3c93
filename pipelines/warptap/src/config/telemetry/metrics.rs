//! The section `service::telemetry::metrics`.

use std::time::Duration;

use config::Problems;

use super::keys::{
    AggregationKeys, MetricsKeys, PeriodicKeys, PrometheusKeys, ReaderKeys, StreamKeys, ViewKeys,
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

config::choice! {
    /// Amount of detail that is measured.
    #[derive(Default, Ord, PartialOrd)]
    pub enum MetricsLevel ignoring case {
        /// No metrics.
        None = "none",
        /// Metrics that are required for operation.
        Basic = "basic",
        /// Additional useful metrics.
        #[default]
        Normal = "normal",
        /// All metrics.
        Detailed = "detailed",
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
        /// Settings of the exporter.
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

config::section! {
    /// Names that are selected.
    #[derive(Clone, Debug, Eq, PartialEq)]
    pub struct Lists {
        /// Names that are selected. Empty selects all.
        included: Vec<String>,
        /// Names that are not selected.
        excluded: Vec<String>,
    }
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
    /// Changes of their streams.
    pub stream: StreamConfig,
}

config::section! {
    /// Which instruments. An empty text matches all.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Selector {
        /// Name of the instrument; `*` matches any text and `?` one character.
        pub instrument_name: String,
        /// Type of the instrument.
        pub instrument_type: Option<InstrumentType>,
        /// Name of its scope.
        pub meter_name: String,
        /// Version of its scope.
        pub meter_version: String,
        /// URL of the schema of its scope.
        pub meter_schema_url: Option<String> => unused "scopes have no schemas",
        /// Unit of the instrument.
        pub unit: String,
    }
}

config::choice! {
    /// A type of instruments.
    pub enum InstrumentType {
        /// A sum that only grows.
        Counter = "counter",
        /// A distribution.
        Histogram = "histogram",
        /// A sum that only grows, read by a callback.
        ObservableCounter = "observable_counter",
        /// A value, read by a callback.
        ObservableGauge = "observable_gauge",
        /// A sum, read by a callback.
        ObservableUpDownCounter = "observable_up_down_counter",
        /// A sum.
        UpDownCounter = "up_down_counter",
    }
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
    /// Drops measurements.
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
    pub(super) fn new(keys: &MetricsKeys, problems: &mut Problems<'_>) -> Self {
        problems.require(keys.views.is_none() || keys.level == MetricsLevel::Detailed, "metrics::views", {
            "service::telemetry::metrics::views can only be set when service::telemetry::metrics::level is detailed"
        });
        let is_on = keys.level != MetricsLevel::None;
        problems.require(
            !is_on || keys.readers.as_ref().is_none_or(|r| !r.is_empty()),
            "metrics::readers",
            "collector telemetry metrics reader should exist when metric level is not none",
        );
        let readers = keys.readers.as_ref().map_or_else(default_readers, |readers| {
            readers.iter().enumerate().filter_map(|(index, keys)| reader(index, keys, problems)).collect()
        });
        let views = keys.views.as_ref().map(|views| {
            views.iter().enumerate().filter_map(|(index, keys)| view(index, keys, problems)).collect()
        });
        Metrics { level: keys.level, readers: if is_on { readers } else { Vec::new() }, views }
    }
}

fn reader(index: usize, keys: &ReaderKeys, problems: &mut Problems<'_>) -> Option<ReaderConfig> {
    let path = format!("metrics::readers[{index}]");
    match (&keys.pull, &keys.periodic) {
        (Some(_), Some(_)) => problems.add(&path, "must not specify multiple metric reader type"),
        (None, None) => problems.add(&path, "no valid metric reader: expected one of pull, periodic"),
        (Some(pull), None) => match &pull.exporter.prometheus {
            Some(keys) => {
                return prometheus(keys, &format!("{path}::pull::exporter::prometheus"), problems);
            }
            None => problems
                .add(&format!("{path}::pull::exporter"), "no valid metric exporter: expected prometheus"),
        },
        (None, Some(keys)) => return periodic(keys, &format!("{path}::periodic"), problems),
    }
    None
}

fn prometheus(keys: &PrometheusKeys, path: &str, problems: &mut Problems<'_>) -> Option<ReaderConfig> {
    for (key, is_given) in [("host", keys.host.is_some()), ("port", keys.port.is_some())] {
        problems.require(is_given, path, format!("{key} must be specified"));
    }
    if let Some(Lists { included, excluded }) = &keys.with_resource_constant_labels {
        for name in included.iter().filter(|name| excluded.contains(name)) {
            problems.add(&format!("{path}::with_resource_constant_labels"), {
                format!("attribute cannot be in both include and exclude list: {name}")
            });
        }
    }
    Some(ReaderConfig::Pull(Prometheus {
        host: keys.host.clone()?,
        port: keys.port?,
        // As in the Collector, one key alone brings both kinds of suffixes.
        has_suffixes: !(keys.without_units.unwrap_or(true) && keys.without_type_suffix.unwrap_or(true)),
        has_scope_labels: !keys.without_scope_info.unwrap_or(true),
        resource_labels: keys.with_resource_constant_labels.clone(),
    }))
}

fn periodic(keys: &PeriodicKeys, path: &str, problems: &mut Problems<'_>) -> Option<ReaderConfig> {
    let exporter = push::exporter(&keys.exporter, &format!("{path}::exporter"), "metric", problems)?;
    Some(ReaderConfig::Periodic {
        interval: millis(keys.interval, 60_000),
        timeout: millis(keys.timeout, 30_000),
        exporter,
    })
}

fn view(index: usize, keys: &ViewKeys, problems: &mut Problems<'_>) -> Option<View> {
    let path = format!("metrics::views[{index}]");
    let Some(selector) = keys.selector.clone() else {
        problems.add(&path, "view: no selector provided");
        return None;
    };
    let is_empty = Selector { meter_schema_url: None, ..selector.clone() } == Selector::default();
    problems.require(!is_empty, &format!("{path}::selector"), {
        "empty selector: expected something to select by"
    });
    Some(View { selector, stream: stream(&keys.stream) })
}

fn stream(keys: &StreamKeys) -> StreamConfig {
    StreamConfig {
        name: keys.name.clone(),
        description: keys.description.clone(),
        aggregation: aggregation(&keys.aggregation),
        attribute_keys: Some(keys.attribute_keys.included.clone()).filter(|included| !included.is_empty()),
    }
}

fn aggregation(keys: &AggregationKeys) -> Option<Aggregation> {
    if let Some(keys) = &keys.base2_exponential_bucket_histogram {
        return Some(Aggregation::Exponential { size_max: keys.max_size, scale_max: keys.max_scale });
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
