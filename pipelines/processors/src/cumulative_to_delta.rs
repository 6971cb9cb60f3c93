//! `cumulative_to_delta`: converts cumulative values to the differences between successive points.
//!
//! Monotonic sums, histograms and exponential histograms are converted; other metrics are unchanged. `series`
//! stores the last point of every series, and `difference` subtracts points. A point that is less than the previous
//! one is dropped as a reset, and the next difference is taken from it. `initial_value` determines the treatment of
//! the first point of a series. Minimum and maximum are removed, because they are of the whole time.

mod difference;
mod series;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use component::{BuildContext, ComponentId, Consumer, Host, Processor, ProcessorFactory, Running, Stability};
use config::{ConfigError, GoDuration, Problems, Section};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{AggregationTemporality, Metric, MetricsData};
use pdata::{Data, Signal};
use tokio_util::sync::CancellationToken;

use crate::change;
use crate::identity::Identity;
use crate::matching::{MatchType, RegexpConfig, Texts};
use series::{Counts, Series};

/// The row of this processor.
pub const FACTORY: ProcessorFactory = ProcessorFactory {
    kind: "cumulative_to_delta",
    aliases: &["cumulativetodelta"],
    signals: &[Signal::Metrics],
    stability: Stability::Beta,
    about: "Makes deltas of sums and histograms that count from the start of a process.",
    example: "\
max_staleness: 1h
",
    keys: config::keys::<CumulativeToDeltaConfig>,
    build,
};

config::section! {
    /// The section of the processor.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CumulativeToDeltaConfig {
        /// Time after which a series without points is evicted. 0 never evicts.
        pub max_staleness: GoDuration = GoDuration::from_secs(3600),
        /// Treatment of the first point of a series.
        pub initial_value: InitialValue = InitialValue::Auto,
        /// Metrics to convert. Empty converts all.
        pub include: MetricsMatchConfig,
        /// Metrics to leave unchanged.
        pub exclude: MetricsMatchConfig,
    }

    /// A selection of metrics by name and type.
    #[derive(Clone, Debug, PartialEq)]
    pub struct MetricsMatchConfig {
        /// `strict` or `regexp`; required with `metrics`.
        pub match_type: String,
        /// Cache of patterns.
        pub regexp: Option<RegexpConfig> => unused "patterns need no cache",
        /// Names, or patterns of names.
        pub metrics: Vec<String>,
        /// `sum`, `histogram` or `exponentialhistogram`; case does not matter.
        pub metric_types: Vec<String>,
    }
}

config::choice! {
    /// The key `initial_value`.
    #[derive(Default)]
    pub enum InitialValue {
        /// Sent if its series started after this processor did.
        #[default]
        Auto = "auto",
        /// Sent.
        Keep = "keep",
        /// Dropped.
        Drop = "drop",
    }
}

fn build(context: &BuildContext, section: Section<'_>) -> Result<Box<dyn Processor>, ConfigError> {
    let (config, mut problems) = section.read::<CumulativeToDeltaConfig>();
    let include = Matcher::compile("include", &config.include, &mut problems);
    let exclude = Matcher::compile("exclude", &config.exclude, &mut problems);
    problems.finish()?;
    Ok(Box::new(CumulativeToDelta { id: context.id.clone(), config, include, exclude }))
}

/// A selection of metrics by name and type; empty selects all.
#[derive(Clone, Debug, Default)]
struct Matcher {
    names: Option<Texts>,
    kinds: Option<Vec<Kind>>,
}

/// The metric types that are converted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    ExponentialHistogram,
    Histogram,
    Sum,
}

impl Kind {
    const ALL: [(&'static str, Kind); 3] = [
        ("exponentialhistogram", Kind::ExponentialHistogram),
        ("histogram", Kind::Histogram),
        ("sum", Kind::Sum),
    ];

    /// Returns the type of a metric if it can be converted.
    fn of(metric: &Metric) -> Option<Self> {
        let cumulative = AggregationTemporality::Cumulative as i32;
        match metric.data.as_ref()? {
            MetricData::Sum(s) if s.is_monotonic && s.aggregation_temporality == cumulative => {
                Some(Kind::Sum)
            }
            MetricData::Histogram(h) if h.aggregation_temporality == cumulative => Some(Kind::Histogram),
            MetricData::ExponentialHistogram(h) if h.aggregation_temporality == cumulative => {
                Some(Kind::ExponentialHistogram)
            }
            _ => None,
        }
    }
}

impl Matcher {
    fn compile(key: &str, config: &MetricsMatchConfig, problems: &mut Problems<'_>) -> Self {
        let names = compile_names(config).unwrap_or_else(|(field, why)| {
            problems.add(&format!("{key}::{field}"), why);
            None
        });
        let mut kinds = Vec::new();
        for (index, name) in config.metric_types.iter().enumerate() {
            match Kind::ALL.iter().find(|(known, _)| *known == name.to_lowercase()) {
                Some((_, kind)) => kinds.push(*kind),
                None => problems.add(&format!("{key}::metric_types[{index}]"), {
                    format!(
                        "found invalid metric type in {key}.metric_types: {name}. Valid values are \
                         [exponentialhistogram histogram sum]"
                    )
                }),
            }
        }
        Matcher { names, kinds: Some(kinds).filter(|kinds| !kinds.is_empty()) }
    }

    /// Returns the results for the name and the type, each if it is configured.
    fn verdicts(&self, name: &str, kind: Kind) -> [Option<bool>; 2] {
        [self.names.as_ref().map(|n| n.match_text(name)), self.kinds.as_ref().map(|k| k.contains(&kind))]
    }
}

fn compile_names(config: &MetricsMatchConfig) -> Result<Option<Texts>, (&'static str, String)> {
    match (config.match_type.as_str(), config.metrics.as_slice()) {
        ("", []) => Ok(None),
        ("", _) => Err(("match_type", "match_type must be set if metrics are supplied".to_owned())),
        (_, []) => Err(("metrics", "metrics must be supplied if match_type is set".to_owned())),
        (name, metrics) => {
            let kind = MatchType::parse(name).map_err(|e| ("match_type", e))?;
            Texts::compile(kind, metrics).map(Some).map_err(|e| ("metrics", e))
        }
    }
}

struct CumulativeToDelta {
    id: ComponentId,
    config: CumulativeToDeltaConfig,
    include: Matcher,
    exclude: Matcher,
}

impl Processor for CumulativeToDelta {
    fn start(
        self: Box<Self>,
        next: Arc<dyn Consumer>,
        host: &Host,
        stop: CancellationToken,
    ) -> (Arc<dyn Consumer>, Running) {
        let counts = Counts::new(&self.id, host);
        let series = Series::new(self.config.initial_value, now_unix_nanos(), counts);
        let series = Arc::new(Mutex::new(series));
        let max_staleness = *self.config.max_staleness;
        let swept = series.clone();
        let sweeping = tokio::spawn(async move {
            if max_staleness.is_zero() {
                return;
            }
            while tokio::time::timeout(max_staleness, stop.cancelled()).await.is_err() {
                swept.lock().unwrap_or_else(PoisonError::into_inner).evict_older_than(max_staleness);
            }
        });
        let change = move |data: &mut Data| {
            if let Data::Metrics(d) = data {
                let mut series = series.lock().unwrap_or_else(PoisonError::into_inner);
                self.convert(d.make_mut(), &mut series);
            }
        };
        let (front, _) = change::filter(change, next);
        (front, Box::pin(async move { drop(sweeping.await) }))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "until the year 2554")]
fn now_unix_nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

impl CumulativeToDelta {
    fn convert(&self, data: &mut MetricsData, series: &mut Series) {
        data.resource_metrics.retain_mut(|r| {
            let resource = Identity::default().with_resource(r.resource.as_ref());
            r.scope_metrics.retain_mut(|s| {
                let scope = resource.clone().with_scope(s.scope.as_ref());
                s.metrics.retain_mut(|metric| {
                    match Kind::of(metric).filter(|k| self.takes(&metric.name, *k)) {
                        None => true,
                        Some(kind) => convert_metric(metric, kind, &scope, series),
                    }
                });
                !s.metrics.is_empty()
            });
            !r.scope_metrics.is_empty()
        });
    }

    fn takes(&self, name: &str, kind: Kind) -> bool {
        self.include.verdicts(name, kind).into_iter().flatten().all(|is_in| is_in)
            && !self.exclude.verdicts(name, kind).into_iter().flatten().any(|is_out| is_out)
    }
}

/// Converts the points of a metric; returns false if none is left.
fn convert_metric(metric: &mut Metric, kind: Kind, scope: &Identity, series: &mut Series) -> bool {
    let id = scope.clone().with((&metric.name, &metric.unit, kind as u8));
    let delta = AggregationTemporality::Delta as i32;
    match &mut metric.data {
        Some(MetricData::Sum(m)) => {
            m.aggregation_temporality = delta;
            m.data_points.retain_mut(|point| series.convert(&id, point));
            !m.data_points.is_empty()
        }
        Some(MetricData::Histogram(m)) => {
            m.aggregation_temporality = delta;
            m.data_points.retain_mut(|point| series.convert(&id, point));
            !m.data_points.is_empty()
        }
        Some(MetricData::ExponentialHistogram(m)) => {
            m.aggregation_temporality = delta;
            m.data_points.retain_mut(|point| series.convert(&id, point));
            !m.data_points.is_empty()
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests;
