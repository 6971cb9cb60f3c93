//! Converts OTLP metrics to Prometheus families, with the labels of OpenTelemetry's Prometheus exporter.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prometheus_text::{Families, Family, Kind, Labels, Measured, Sample, scope_labels};

use crate::config::telemetry::Prometheus;

/// Adds the metrics of a process, each with these labels.
pub(super) fn add(
    families: &mut Families,
    collected: &[ResourceMetrics],
    settings: &Prometheus,
    more: &[(&str, &str)],
) {
    for of_process in collected {
        let resource = of_process.resource.as_ref().map(labels_of).unwrap_or_default();
        for scope in &of_process.scope_metrics {
            let mut labels = constant_labels(&resource, settings);
            labels.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
            if settings.has_scope_labels {
                let InstrumentationScope { name, version, .. } = scope.scope.clone().unwrap_or_default();
                labels.extend(scope_labels(&name, &version, &scope.schema_url));
            }
            for metric in &scope.metrics {
                families.add(family(metric, &labels), &metric.unit);
            }
        }
        families.add_target_info(resource);
    }
}

fn family(metric: &Metric, labels: &[(String, String)]) -> Family {
    let (kind, mut samples) = samples(metric);
    samples.iter_mut().for_each(|sample| sample.labels.extend_from_slice(labels));
    Family { name: metric.name.clone(), help: metric.description.clone(), kind, samples }
}

fn samples(metric: &Metric) -> (Kind, Vec<Sample>) {
    match &metric.data {
        Some(Data::Gauge(gauge)) => (Kind::Gauge, gauge.data_points.iter().map(number).collect()),
        Some(Data::Sum(sum)) => {
            let kind = if sum.is_monotonic { Kind::Counter } else { Kind::Gauge };
            (kind, sum.data_points.iter().map(number).collect())
        }
        Some(Data::Histogram(histogram)) => {
            (Kind::Histogram, histogram.data_points.iter().map(counts).collect())
        }
        Some(Data::ExponentialHistogram(histogram)) => {
            (Kind::Histogram, histogram.data_points.iter().map(total).collect())
        }
        Some(Data::Summary(_)) | None => (Kind::Gauge, Vec::new()),
    }
}

fn number(point: &NumberDataPoint) -> Sample {
    let value = match point.value {
        Some(number_data_point::Value::AsDouble(value)) => value,
        Some(number_data_point::Value::AsInt(value)) => value as f64,
        None => 0.0,
    };
    Sample { labels: labels(&point.attributes), value: Measured::Number(value) }
}

fn counts(point: &HistogramDataPoint) -> Sample {
    let (bounds, counts) = (point.explicit_bounds.clone(), point.bucket_counts.clone());
    let value = Measured::Counts { bounds, counts, sum: point.sum.unwrap_or_default() };
    Sample { labels: labels(&point.attributes), value }
}

/// Returns a histogram without bounds: the text formats cannot represent the buckets.
fn total(point: &ExponentialHistogramDataPoint) -> Sample {
    let sum = point.sum.unwrap_or_default();
    let value = Measured::Counts { bounds: Vec::new(), counts: vec![point.count], sum };
    Sample { labels: labels(&point.attributes), value }
}

fn labels_of(resource: &Resource) -> Labels {
    labels(&resource.attributes)
}

fn labels(attributes: &[KeyValue]) -> Labels {
    attributes.iter().map(|a| (a.key.clone(), a.value.as_ref().map(text).unwrap_or_default())).collect()
}

fn text(value: &AnyValue) -> String {
    match &value.value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(value)) => value.to_string(),
        Some(Value::IntValue(value)) => value.to_string(),
        Some(Value::DoubleValue(value)) => value.to_string(),
        other => format!("{other:?}"),
    }
}

fn constant_labels(resource: &Labels, settings: &Prometheus) -> Labels {
    let Some(lists) = &settings.resource_labels else { return Labels::new() };
    resource.iter().filter(|(name, _)| lists.takes(name)).cloned().collect()
}
