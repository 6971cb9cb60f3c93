//! Access to the output of a receiver, for tests.

#![allow(missing_docs, reason = "tests read the names")]

pub mod registry;

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics, metric,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use pdata::Data;

use crate::Batch;

/// Output of a receiver.
#[derive(Debug, Default)]
pub struct Output {
    pub batches: Vec<Batch>,
}

impl Output {
    /// Returns every batch as OTLP bytes.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        let encode = |batch: &Batch| {
            let mut bytes = Vec::new();
            batch.data.encode(&mut bytes);
            bytes
        };
        self.batches.iter().map(encode).collect()
    }

    /// Returns every collection of every resource, in order.
    pub fn collections(&self) -> Vec<&ResourceMetrics> {
        let metrics = self.batches.iter().filter_map(|b| match &b.data {
            Data::Metrics(d) => Some(&d.resource_metrics),
            _ => None,
        });
        metrics.flatten().collect()
    }

    /// Returns the last collection of a process.
    pub fn last_of(&self, pid: u32) -> &ResourceMetrics {
        let of = self.collections().into_iter().rfind(|r| pid_of(r.resource.as_ref()) == Some(pid));
        of.expect("the process was collected")
    }

    /// Returns the last collection of the receiver's own metrics.
    pub fn account(&self) -> &ResourceMetrics {
        let own = |r: &&ResourceMetrics| pid_of(r.resource.as_ref()).is_none();
        self.collections().into_iter().rfind(own).expect("the receiver was collected")
    }

    pub fn spans(&self) -> Vec<(&Resource, &Span)> {
        let traces = self.batches.iter().filter_map(|b| match &b.data {
            Data::Traces(d) => Some(&d.resource_spans),
            _ => None,
        });
        let spans = traces.flatten().flat_map(|r| {
            let resource = r.resource.as_ref().expect("a resource");
            r.scope_spans.iter().flat_map(|s| &s.spans).map(move |span| (resource, span))
        });
        spans.collect()
    }

    /// Returns the spans of outliers.
    pub fn outliers(&self) -> Vec<&Span> {
        let all = self.spans().into_iter().map(|(_, span)| span);
        all.filter(|s| s.name.starts_with("infer.outlier.")).collect()
    }

    pub fn logs(&self, name: &str) -> Vec<(&Resource, &LogRecord)> {
        let logs = self.batches.iter().filter_map(|b| match &b.data {
            Data::Logs(d) => Some(&d.resource_logs),
            _ => None,
        });
        let records = logs.flatten().flat_map(|r| {
            let resource = r.resource.as_ref().expect("a resource");
            r.scope_logs.iter().flat_map(|s| &s.log_records).map(move |log| (resource, log))
        });
        records.filter(|(_, log)| log.event_name == name).collect()
    }
}

pub fn pid_of(resource: Option<&Resource>) -> Option<u32> {
    match resource?.attributes.iter().find(|a| a.key == "process.pid")?.value.as_ref()?.value.as_ref()? {
        any_value::Value::IntValue(pid) => u32::try_from(*pid).ok(),
        _ => None,
    }
}

pub fn metrics(resource: &ResourceMetrics) -> &[Metric] {
    &resource.scope_metrics[0].metrics
}

pub fn find<'a>(resource: &'a ResourceMetrics, name: &str) -> Option<&'a Metric> {
    metrics(resource).iter().find(|m| m.name == name)
}

/// Returns the number points of a metric.
pub fn numbers<'a>(resource: &'a ResourceMetrics, name: &str) -> &'a [NumberDataPoint] {
    match find(resource, name).and_then(|m| m.data.as_ref()) {
        Some(metric::Data::Sum(sum)) => &sum.data_points,
        Some(metric::Data::Gauge(gauge)) => &gauge.data_points,
        None => &[],
        other => panic!("{name} has no number points: {other:?}"),
    }
}

/// Returns the exponential histogram points of a metric.
pub fn distributions<'a>(resource: &'a ResourceMetrics, name: &str) -> &'a [ExponentialHistogramDataPoint] {
    match find(resource, name).and_then(|m| m.data.as_ref()) {
        Some(metric::Data::ExponentialHistogram(h)) => &h.data_points,
        None => &[],
        other => panic!("{name} has no distributions: {other:?}"),
    }
}

/// Returns the values of a metric by its attributes, formatted as `key=value,key=value`.
pub fn values(resource: &ResourceMetrics, name: &str) -> BTreeMap<String, f64> {
    let value = |p: &NumberDataPoint| match p.value {
        Some(Value::AsInt(n)) => n as f64,
        Some(Value::AsDouble(x)) => x,
        None => f64::NAN,
    };
    numbers(resource, name).iter().map(|p| (written(&p.attributes), value(p))).collect()
}

pub fn written(attributes: &[KeyValue]) -> String {
    let pairs: Vec<String> =
        attributes.iter().map(|a| format!("{}={}", a.key, show(a.value.as_ref()))).collect();
    pairs.join(",")
}

pub fn show(value: Option<&AnyValue>) -> String {
    match value.and_then(|v| v.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text.clone(),
        Some(any_value::Value::IntValue(number)) => number.to_string(),
        Some(any_value::Value::DoubleValue(number)) => number.to_string(),
        Some(any_value::Value::BoolValue(truth)) => truth.to_string(),
        Some(any_value::Value::ArrayValue(array)) => {
            let items: Vec<String> = array.values.iter().map(|v| show(Some(v))).collect();
            items.join(";")
        }
        other => format!("{other:?}"),
    }
}

pub fn attribute<'a>(attributes: &'a [KeyValue], key: &str) -> Option<&'a KeyValue> {
    attributes.iter().find(|a| a.key == key)
}

/// Returns an attribute as text.
pub fn text(attributes: &[KeyValue], key: &str) -> String {
    show(attribute(attributes, key).unwrap_or_else(|| panic!("{key} in {attributes:?}")).value.as_ref())
}

/// Returns an attribute as a number.
pub fn number(attributes: &[KeyValue], key: &str) -> f64 {
    text(attributes, key).parse().expect("a number")
}
