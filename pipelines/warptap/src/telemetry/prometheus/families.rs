//! Converts metrics of the SDK to Prometheus families, with the labels of OpenTelemetry's Prometheus exporter.

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData, ResourceMetrics};
use prometheus_text::{Families, Family, Kind, Labels, Measured, Sample, scope_labels};

use crate::config::telemetry::Prometheus;

/// Converts collected metrics to families.
pub(super) fn families(collected: &ResourceMetrics, settings: &Prometheus) -> Families {
    let mut families = Families::new(settings.has_suffixes);
    let constant = constant_labels(collected.resource(), settings);
    for scope in collected.scope_metrics() {
        let mut labels = constant.clone();
        if settings.has_scope_labels {
            let scope = scope.scope();
            let [version, schema_url] = [scope.version(), scope.schema_url()].map(Option::unwrap_or_default);
            labels.extend(scope_labels(scope.name(), version, schema_url));
        }
        for metric in scope.metrics() {
            families.add(family(metric, &labels), metric.unit());
        }
    }
    families.add_target_info(resource_labels(collected.resource()));
    families
}

fn family(metric: &Metric, labels: &[(String, String)]) -> Family {
    let (kind, mut samples) = match metric.data() {
        AggregatedMetrics::F64(data) => samples(data, |value| value),
        AggregatedMetrics::U64(data) => samples(data, |value| value as f64),
        AggregatedMetrics::I64(data) => samples(data, |value| value as f64),
    };
    samples.iter_mut().for_each(|sample| sample.labels.extend_from_slice(labels));
    Family { name: metric.name().to_owned(), help: metric.description().to_owned(), kind, samples }
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

fn resource_labels(resource: &Resource) -> Labels {
    resource.iter().map(|(key, value)| (key.to_string(), value.as_str().into_owned())).collect()
}

fn constant_labels(resource: &Resource, settings: &Prometheus) -> Labels {
    let Some(lists) = &settings.resource_labels else { return Labels::new() };
    resource_labels(resource).into_iter().filter(|(name, _)| lists.takes(name)).collect()
}
