//! Converts metrics of the SDK to Prometheus families, with the names and labels of OpenTelemetry's Prometheus
//! exporter.

use std::collections::BTreeMap;

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData, ResourceMetrics};

use super::text::{Family, Kind, Measured, Sample};
use crate::config::telemetry::Prometheus;

/// Units and the words for them in metric names, sorted by unit.
const UNITS: [(&str, &str); 22] = [
    ("%", "percent"),
    ("1", "ratio"),
    ("A", "amperes"),
    ("By", "bytes"),
    ("C", "coulombs"),
    ("Cel", "celsius"),
    ("GBy", "gigabytes"),
    ("GiBy", "gibibytes"),
    ("Hz", "hertz"),
    ("J", "joules"),
    ("KBy", "kilobytes"),
    ("KiBy", "kibibytes"),
    ("MBy", "megabytes"),
    ("MiBy", "mebibytes"),
    ("V", "volts"),
    ("W", "watts"),
    ("d", "days"),
    ("h", "hours"),
    ("min", "minutes"),
    ("ms", "milliseconds"),
    ("s", "seconds"),
    ("us", "microseconds"),
];

/// Converts collected metrics to families with unique names.
pub(super) fn families(collected: &ResourceMetrics, settings: &Prometheus) -> Vec<Family> {
    let constant = constant_labels(collected.resource(), settings);
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    for scope in collected.scope_metrics() {
        let mut labels = constant.clone();
        if settings.has_scope_labels {
            labels.extend(scope_labels(scope.scope()));
        }
        for metric in scope.metrics() {
            add(&mut families, metric, &labels, settings.has_suffixes);
        }
    }
    families.into_values().chain([target_info(collected.resource())]).collect()
}

fn add(
    families: &mut BTreeMap<String, Family>,
    metric: &Metric,
    labels: &[(String, String)],
    has_suffixes: bool,
) {
    let (kind, samples) = match metric.data() {
        AggregatedMetrics::F64(data) => samples(data, |value| value),
        AggregatedMetrics::U64(data) => samples(data, |value| value as f64),
        AggregatedMetrics::I64(data) => samples(data, |value| value as f64),
    };
    let name = match has_suffixes {
        true => with_suffixes(metric.name(), metric.unit(), kind),
        false => metric.name().to_owned(),
    };
    let new = Family { name: name.clone(), help: metric.description().to_owned(), kind, samples: Vec::new() };
    let family = families.entry(name).or_insert(new);
    // A name has one type: of two instruments of different types the first wins.
    if family.kind == kind {
        let with_labels = |mut sample: Sample| {
            sample.labels.extend_from_slice(labels);
            sample
        };
        family.samples.extend(samples.into_iter().map(with_labels));
    }
}

fn samples<T: Copy>(data: &MetricData<T>, number: impl Fn(T) -> f64) -> (Kind, Vec<Sample>) {
    match data {
        MetricData::Gauge(gauge) => {
            let points =
                gauge.data_points().map(|p| sample(p.attributes(), Measured::Number(number(p.value()))));
            (Kind::Gauge, points.collect())
        }
        MetricData::Sum(sum) => {
            let points =
                sum.data_points().map(|p| sample(p.attributes(), Measured::Number(number(p.value()))));
            (if sum.is_monotonic() { Kind::Counter } else { Kind::Gauge }, points.collect())
        }
        MetricData::Histogram(histogram) => {
            let points = histogram.data_points().map(|p| {
                let (bounds, counts) = (p.bounds().collect(), p.bucket_counts().collect());
                sample(p.attributes(), Measured::Counts { bounds, counts, sum: number(p.sum()) })
            });
            (Kind::Histogram, points.collect())
        }
        // The text formats cannot represent its buckets.
        MetricData::ExponentialHistogram(histogram) => {
            let points = histogram.data_points().map(|p| {
                let (counts, sum) = (vec![p.count() as u64], number(p.sum()));
                sample(p.attributes(), Measured::Counts { bounds: Vec::new(), counts, sum })
            });
            (Kind::Histogram, points.collect())
        }
    }
}

fn sample<'a>(attributes: impl Iterator<Item = &'a KeyValue>, value: Measured) -> Sample {
    let label = |kv: &KeyValue| (kv.key.to_string(), kv.value.as_str().into_owned());
    Sample { labels: attributes.map(label).collect(), value }
}

fn resource_labels(resource: &Resource) -> Vec<(String, String)> {
    resource.iter().map(|(key, value)| (key.to_string(), value.as_str().into_owned())).collect()
}

fn constant_labels(resource: &Resource, settings: &Prometheus) -> Vec<(String, String)> {
    let Some(lists) = &settings.resource_labels else { return Vec::new() };
    resource_labels(resource).into_iter().filter(|(name, _)| lists.takes(name)).collect()
}

fn scope_labels(scope: &InstrumentationScope) -> [(String, String); 3] {
    let label = |name: &str, value: Option<&str>| {
        (format!("otel_scope_{name}"), value.unwrap_or_default().to_owned())
    };
    [
        label("name", Some(scope.name())),
        label("schema_url", scope.schema_url()),
        label("version", scope.version()),
    ]
}

fn target_info(resource: &Resource) -> Family {
    let sample = Sample { labels: resource_labels(resource), value: Measured::Number(1.0) };
    Family {
        name: "target_info".to_owned(),
        help: "Target metadata".to_owned(),
        kind: Kind::Info,
        samples: vec![sample],
    }
}

/// Appends the unit to a name, and `total` for a counter, unless the name contains them.
fn with_suffixes(name: &str, unit: &str, kind: Kind) -> String {
    let has = |name: &str, word: &str| name.split(['_', '.']).any(|token| token == word);
    let mut name = name.to_owned();
    let (main, per) = unit.split_once('/').unwrap_or((unit, ""));
    let word = match word(main) {
        // Unit 1 is a ratio only for a gauge; a counter counts items.
        "ratio" if kind != Kind::Gauge => "",
        word => word,
    };
    if !word.is_empty() && !has(&name, word) {
        name = format!("{name}_{word}");
    }
    let per = word_of_one(per);
    if !per.is_empty() && !has(&name, per) {
        name = format!("{name}_per_{per}");
    }
    if kind == Kind::Counter {
        let bare = name.strip_suffix("_total").unwrap_or(&name);
        name = format!("{bare}_total");
    }
    name
}

/// Returns the word for a unit; empty for an annotation in braces. A unit without a word is used unchanged.
fn word(unit: &str) -> &str {
    if unit.contains('{') {
        return "";
    }
    UNITS.iter().find(|(short, _)| *short == unit).map_or(unit, |(_, word)| word)
}

/// Returns the singular word for a unit, for use after `per`.
fn word_of_one(unit: &str) -> &str {
    match word(unit) {
        "1" | "ratio" => "",
        "hertz" => "hertz",
        word => word.trim_end_matches('s'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_end_in_their_unit_and_counters_in_total() {
        for (name, unit, kind, want) in [
            ("otelcol_process_cpu_seconds", "s", Kind::Counter, "otelcol_process_cpu_seconds_total"),
            ("otelcol_process_memory_rss", "By", Kind::Gauge, "otelcol_process_memory_rss_bytes"),
            ("otelcol_process_uptime", "s", Kind::Counter, "otelcol_process_uptime_seconds_total"),
            (
                "otelcol_receiver_accepted_spans",
                "{spans}",
                Kind::Counter,
                "otelcol_receiver_accepted_spans_total",
            ),
            ("already_total", "1", Kind::Counter, "already_total"),
            ("used", "1", Kind::Gauge, "used_ratio"),
            ("speed", "By/s", Kind::Gauge, "speed_bytes_per_second"),
            ("odd", "furlong", Kind::Gauge, "odd_furlong"),
            ("http.server.request.duration", "s", Kind::Histogram, "http.server.request.duration_seconds"),
        ] {
            assert_eq!(with_suffixes(name, unit, kind), want);
        }
    }

    #[test]
    fn units_are_sorted() {
        assert!(UNITS.is_sorted_by(|a, b| a.0 < b.0));
    }
}
