//! Normalization of batches whose content is equal although their fields differ.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{Exemplar, Metric, metric};
use opentelemetry_proto::tonic::resource::v1::Resource;
use pdata::Data;

/// Returns the data with the messages that the Collector always sets: it treats an unset message and an empty one
/// as equal.
pub fn normalised(data: &Data) -> Data {
    edit(data.clone(), &mut |part| match part {
        Part::Resource(resource) => drop(resource.get_or_insert_default()),
        Part::Scope(scope) => drop(scope.get_or_insert_default()),
        Part::Value(value) => drop(value.get_or_insert_default()),
        Part::Attributes(_) => {}
        Part::Metric(metric) => {
            if let Some(metric::Data::ExponentialHistogram(h)) = &mut metric.data {
                for point in &mut h.data_points {
                    point.positive.get_or_insert_default();
                    point.negative.get_or_insert_default();
                }
            }
        }
        Part::Status(status) => drop(status.get_or_insert_default()),
    })
}

/// Returns the data without fields that only profiles use, which some peers do not know yet.
pub fn without_indexes(data: &Data) -> Data {
    edit(data.clone(), &mut |part| match part {
        Part::Attributes(attributes) => attributes.iter_mut().for_each(|a| a.key_strindex = 0),
        Part::Value(Some(AnyValue { value })) => {
            if matches!(value, Some(Value::StringValueStrindex(_))) {
                *value = None;
            }
        }
        _ => {}
    })
}

/// A part of a message that an edit may change.
enum Part<'a> {
    Attributes(&'a mut Vec<KeyValue>),
    Metric(&'a mut Metric),
    Resource(&'a mut Option<Resource>),
    Scope(&'a mut Option<InstrumentationScope>),
    Status(&'a mut Option<opentelemetry_proto::tonic::trace::v1::Status>),
    Value(&'a mut Option<AnyValue>),
}

type Edit<'e> = &'e mut dyn FnMut(Part<'_>);

fn edit(mut data: Data, edit: Edit<'_>) -> Data {
    match &mut data {
        Data::Logs(d) => {
            for r in &mut d.make_mut().resource_logs {
                resource(&mut r.resource, edit);
                for s in &mut r.scope_logs {
                    scope(&mut s.scope, edit);
                    for record in &mut s.log_records {
                        attributes(&mut record.attributes, edit);
                        value(&mut record.body, edit);
                    }
                }
            }
        }
        Data::Metrics(d) => {
            for r in &mut d.make_mut().resource_metrics {
                resource(&mut r.resource, edit);
                for s in &mut r.scope_metrics {
                    scope(&mut s.scope, edit);
                    s.metrics.iter_mut().for_each(|m| metric(m, edit));
                }
            }
        }
        Data::Traces(d) => {
            for r in &mut d.make_mut().resource_spans {
                resource(&mut r.resource, edit);
                for s in &mut r.scope_spans {
                    scope(&mut s.scope, edit);
                    for span in &mut s.spans {
                        attributes(&mut span.attributes, edit);
                        span.events.iter_mut().for_each(|e| attributes(&mut e.attributes, edit));
                        span.links.iter_mut().for_each(|l| attributes(&mut l.attributes, edit));
                        edit(Part::Status(&mut span.status));
                    }
                }
            }
        }
        Data::Profiles(d) => {
            for r in &mut d.make_mut().resource_profiles {
                resource(&mut r.resource, edit);
            }
        }
    }
    data
}

fn resource(resource: &mut Option<Resource>, edit: Edit<'_>) {
    edit(Part::Resource(resource));
    if let Some(resource) = resource {
        attributes(&mut resource.attributes, edit);
    }
}

fn scope(scope: &mut Option<InstrumentationScope>, edit: Edit<'_>) {
    edit(Part::Scope(scope));
    if let Some(scope) = scope {
        attributes(&mut scope.attributes, edit);
    }
}

fn attributes(list: &mut Vec<KeyValue>, edit: Edit<'_>) {
    edit(Part::Attributes(list));
    list.iter_mut().for_each(|a| value(&mut a.value, edit));
}

fn value(any: &mut Option<AnyValue>, edit: Edit<'_>) {
    edit(Part::Value(any));
    match any.as_mut().and_then(|v| v.value.as_mut()) {
        Some(Value::KvlistValue(map)) => attributes(&mut map.values, edit),
        Some(Value::ArrayValue(list)) => {
            for item in &mut list.values {
                let mut held = Some(std::mem::take(item));
                value(&mut held, edit);
                *item = held.unwrap_or_default();
            }
        }
        _ => {}
    }
}

fn metric(metric: &mut Metric, edit: Edit<'_>) {
    edit(Part::Metric(metric));
    attributes(&mut metric.metadata, edit);
    let mut point = |list: &mut Vec<KeyValue>, exemplars: &mut [Exemplar]| {
        attributes(list, edit);
        exemplars.iter_mut().for_each(|e| attributes(&mut e.filtered_attributes, edit));
    };
    match &mut metric.data {
        None => {}
        Some(metric::Data::Gauge(g)) => {
            g.data_points.iter_mut().for_each(|p| point(&mut p.attributes, &mut p.exemplars));
        }
        Some(metric::Data::Sum(s)) => {
            s.data_points.iter_mut().for_each(|p| point(&mut p.attributes, &mut p.exemplars));
        }
        Some(metric::Data::Histogram(h)) => {
            h.data_points.iter_mut().for_each(|p| point(&mut p.attributes, &mut p.exemplars));
        }
        Some(metric::Data::ExponentialHistogram(h)) => {
            h.data_points.iter_mut().for_each(|p| point(&mut p.attributes, &mut p.exemplars));
        }
        Some(metric::Data::Summary(s)) => {
            s.data_points.iter_mut().for_each(|p| point(&mut p.attributes, &mut []));
        }
    }
}
