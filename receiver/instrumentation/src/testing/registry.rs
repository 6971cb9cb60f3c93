//! The live check: compares emitted telemetry with the registry.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::{Metric, metric};
use semconv::{Instrument, Level, Use};

use super::Output;

/// Attribute that the SDK adds to the overflow series; it is not in the registry.
const OVERFLOW: &str = "otel.metric.overflow";

/// Returns true for the metrics of the receivers that poll drivers; all others are the gpu receiver's.
pub fn is_of_hardware(name: &str) -> bool {
    name.starts_with("hw.") || name.starts_with("gpu.hardware.")
}

/// Names of the registry that were emitted.
#[derive(Debug, Default)]
pub struct Seen {
    pub metrics: BTreeSet<String>,
    pub spans: BTreeSet<String>,
    pub events: BTreeSet<String>,
    pub resource: BTreeSet<String>,
    /// Attributes by signal.
    pub attributes: BTreeSet<(String, String)>,
}

impl Seen {
    /// Checks that every name, unit, kind and key is in the registry, and every value in its set.
    pub fn check(&mut self, output: &Output) {
        for collected in output.collections() {
            let resource = collected.resource.as_ref().expect("a resource");
            resource.attributes.iter().for_each(|a| self.resource(&a.key));
            for metric in super::metrics(collected) {
                self.metric(metric);
            }
        }
        for (_, span) in output.spans() {
            let name = span.name.as_str();
            let row = semconv::SPANS.iter().find(|s| name == s.name || is_one_of(name, s.name));
            let row = row.unwrap_or_else(|| panic!("span {name} is not in the registry"));
            self.spans.insert(row.name.to_owned());
            self.attributes(row.name, row.attributes, &span.attributes);
        }
        for row in semconv::EVENTS {
            for (_, log) in output.logs(row.name) {
                self.events.insert(row.name.to_owned());
                self.attributes(row.name, row.attributes, &log.attributes);
            }
        }
    }

    fn resource(&mut self, key: &str) {
        assert!(semconv::RESOURCE.iter().any(|u| u.key == key), "{key} is not in the registry's resource");
        self.resource.insert(key.to_owned());
    }

    fn metric(&mut self, metric: &Metric) {
        let row = semconv::metric_of(&metric.name);
        let row = row.unwrap_or_else(|| panic!("metric {} is not in the registry", metric.name));
        let (kind, points) = points(metric);
        assert_eq!((row.unit(), row.instrument()), (metric.unit.as_str(), kind), "{}", row.name());
        assert_eq!(row.description(), metric.description, "{}", row.name());
        assert!(!points.is_empty(), "{} has no point", row.name());
        for attributes in points.iter().filter(|a| a.iter().all(|a| a.key != OVERFLOW)) {
            self.attributes(row.name(), row.attributes(), attributes);
        }
        self.metrics.insert(row.name().to_owned());
    }

    fn attributes(&mut self, signal: &str, uses: &[Use], attributes: &[KeyValue]) {
        assert!(
            attributes.windows(2).all(|w| w[0].key < w[1].key),
            "{signal}: attributes are not sorted or not unique: {:?}",
            attributes.iter().map(|a| &a.key).collect::<Vec<_>>()
        );
        for attribute in attributes {
            let key = attribute.key.as_str();
            assert!(uses.iter().any(|u| u.key == key), "{signal}: {key} is not in the registry");
            let values =
                semconv::attribute_of(key).expect("the registry declares the attributes it uses").values;
            let value = super::show(attribute.value.as_ref());
            assert!(values.is_empty() || values.contains(&value.as_str()), "{signal}: {key} = {value}");
            self.attributes.insert((signal.to_owned(), key.to_owned()));
        }
        for required in uses.iter().filter(|u| u.level == Level::Required) {
            assert!(attributes.iter().any(|a| a.key == required.key), "{signal} without {}", required.key);
        }
    }
}

/// Returns true if `name` is the registry's `row` followed by a value, such as `infer.outlier.2x`.
fn is_one_of(name: &str, row: &str) -> bool {
    let values: Vec<&str> = match row {
        "infer.outlier" => semconv::value::GpuStepOutlier::ALL.iter().map(|o| o.as_str()).collect(),
        "nccl.collective" | "nccl.rank" => {
            semconv::value::NcclOperation::ALL.iter().map(|o| o.as_str()).collect()
        }
        _ => Vec::new(),
    };
    let rest = name.strip_prefix(row).and_then(|rest| rest.strip_prefix('.'));
    rest.is_some_and(|rest| values.contains(&rest))
}

fn points(metric: &Metric) -> (Instrument, Vec<&[KeyValue]>) {
    match metric.data.as_ref().expect("data") {
        metric::Data::Gauge(g) => {
            (Instrument::Gauge, g.data_points.iter().map(|p| p.attributes.as_slice()).collect())
        }
        metric::Data::Sum(s) => {
            assert_eq!(s.aggregation_temporality, 2, "{}", metric.name);
            let kind = if s.is_monotonic { Instrument::Counter } else { Instrument::UpDownCounter };
            for p in &s.data_points {
                assert!(p.start_time_unix_nano <= p.time_unix_nano, "{}", metric.name);
            }
            (kind, s.data_points.iter().map(|p| p.attributes.as_slice()).collect())
        }
        metric::Data::ExponentialHistogram(h) => {
            assert_eq!(h.aggregation_temporality, 2, "{}", metric.name);
            for p in &h.data_points {
                let positive: u64 = p.positive.iter().flat_map(|b| &b.bucket_counts).sum();
                assert_eq!(p.count, p.zero_count + positive, "{}", metric.name);
                assert!(p.start_time_unix_nano <= p.time_unix_nano, "{}", metric.name);
            }
            (Instrument::Histogram, h.data_points.iter().map(|p| p.attributes.as_slice()).collect())
        }
        other => panic!("{}: {other:?}", metric.name),
    }
}
