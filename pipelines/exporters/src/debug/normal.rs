//! Verbosity `normal`: a line for each resource, scope and span, point or record.

use std::fmt::Write as _;

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::{
    ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use pdata::Data;

use pdata::json::plain;

use go_format::general;

use super::go;

/// Formats a batch.
pub(super) fn text(data: &Data) -> String {
    let mut out = String::new();
    match data {
        Data::Logs(d) => {
            for (i, r) in d.resource_logs.iter().enumerate() {
                resource(&mut out, "ResourceLog", i, &r.schema_url, r.resource.as_ref());
                for (j, s) in r.scope_logs.iter().enumerate() {
                    scope(&mut out, "ScopeLog", j, &s.schema_url, s.scope.as_ref());
                    for record in &s.log_records {
                        let body = plain::text(record.body.as_ref());
                        let _ = writeln!(out, "{body} {}", pairs(&record.attributes).join(" "));
                    }
                }
            }
        }
        Data::Metrics(d) => {
            for (i, r) in d.resource_metrics.iter().enumerate() {
                resource(&mut out, "ResourceMetrics", i, &r.schema_url, r.resource.as_ref());
                for (j, s) in r.scope_metrics.iter().enumerate() {
                    scope(&mut out, "ScopeMetrics", j, &s.schema_url, s.scope.as_ref());
                    s.metrics.iter().for_each(|m| metric(&mut out, m));
                }
            }
        }
        Data::Traces(d) => {
            for (i, r) in d.resource_spans.iter().enumerate() {
                resource(&mut out, "ResourceTraces", i, &r.schema_url, r.resource.as_ref());
                for (j, s) in r.scope_spans.iter().enumerate() {
                    scope(&mut out, "ScopeTraces", j, &s.schema_url, s.scope.as_ref());
                    s.spans.iter().for_each(|span| span_line(&mut out, span));
                }
            }
        }
        Data::Profiles(d) => {
            for (i, r) in d.resource_profiles.iter().enumerate() {
                resource(&mut out, "ResourceProfiles", i, &r.schema_url, r.resource.as_ref());
            }
        }
    }
    out
}

fn resource(out: &mut String, title: &str, index: usize, schema_url: &str, resource: Option<&Resource>) {
    let _ = write!(out, "{title} #{index}");
    if !schema_url.is_empty() {
        let _ = write!(out, " [{schema_url}]");
    }
    attributes(out, resource.map_or(&[], |r| &r.attributes));
}

fn scope(
    out: &mut String,
    title: &str,
    index: usize,
    schema_url: &str,
    scope: Option<&InstrumentationScope>,
) {
    let _ = write!(out, "{title} #{index}");
    let (name, version) = scope.map_or(("", ""), |s| (&s.name, &s.version));
    let at = if version.is_empty() { "" } else { "@" };
    let identity = format!("{name}{at}{version}");
    if !identity.is_empty() {
        let _ = write!(out, " {identity}");
    }
    if !schema_url.is_empty() {
        let _ = write!(out, " [{schema_url}]");
    }
    attributes(out, scope.map_or(&[], |s| &s.attributes));
}

/// Appends attributes and ends the line.
fn attributes(out: &mut String, attributes: &[KeyValue]) {
    for pair in pairs(attributes) {
        let _ = write!(out, " {pair}");
    }
    out.push('\n');
}

fn pairs(attributes: &[KeyValue]) -> Vec<String> {
    attributes.iter().map(|a| format!("{}={}", a.key, plain::text(a.value.as_ref()))).collect()
}

fn span_line(out: &mut String, span: &Span) {
    let _ = write!(out, "{} {} {}", span.name, go::hex(&span.trace_id), go::hex(&span.span_id));
    attributes(out, &span.attributes);
}

fn metric(out: &mut String, metric: &Metric) {
    let mut line = |attributes: &[KeyValue], value: String| {
        let _ = writeln!(out, "{}{{{}}} {value}", metric.name, pairs(attributes).join(","));
    };
    match &metric.data {
        None => {}
        Some(MetricData::Gauge(g)) => g.data_points.iter().for_each(|p| line(&p.attributes, number(p))),
        Some(MetricData::Sum(s)) => s.data_points.iter().for_each(|p| line(&p.attributes, number(p))),
        Some(MetricData::Histogram(h)) => {
            h.data_points.iter().for_each(|p| line(&p.attributes, histogram(p)));
        }
        Some(MetricData::ExponentialHistogram(h)) => {
            h.data_points.iter().for_each(|p| line(&p.attributes, exponential(p)));
        }
        Some(MetricData::Summary(s)) => s.data_points.iter().for_each(|p| line(&p.attributes, summary(p))),
    }
}

fn number(point: &NumberDataPoint) -> String {
    match point.value {
        None => String::new(),
        Some(NumberValue::AsInt(n)) => n.to_string(),
        Some(NumberValue::AsDouble(v)) => general(v),
    }
}

/// Formats `count=` and those of sum, min and max that are set.
fn totals(count: u64, sum: Option<f64>, min: Option<f64>, max: Option<f64>) -> String {
    let mut line = format!("count={count}");
    for (name, value) in [("sum", sum), ("min", min), ("max", max)] {
        if let Some(value) = value {
            let _ = write!(line, " {name}={}", general(value));
        }
    }
    line
}

fn histogram(p: &HistogramDataPoint) -> String {
    let mut line = totals(p.count, p.sum, p.min, p.max);
    for (index, count) in p.bucket_counts.iter().enumerate() {
        let bound = p.explicit_bounds.get(index).map(|b| format!("le{}=", general(*b)));
        let _ = write!(line, " {}{count}", bound.unwrap_or_default());
    }
    line
}

fn exponential(p: &ExponentialHistogramDataPoint) -> String {
    let mut line = totals(p.count, p.sum, p.min, p.max);
    let factor = go::bucket_factor(p.scale);
    for (index, count) in p.negative.iter().flat_map(go::buckets).rev() {
        let _ = write!(line, " le{}={count}", general(-(index * factor).exp()));
    }
    if p.zero_count != 0 {
        let _ = write!(line, " zero={}", p.zero_count);
    }
    for (index, count) in p.positive.iter().flat_map(go::buckets) {
        let _ = write!(line, " le{}={count}", general(((index + 1.0) * factor).exp()));
    }
    line
}

fn summary(p: &SummaryDataPoint) -> String {
    let mut line = format!("count={} sum={}", p.count, go_format::fixed(p.sum));
    for q in &p.quantile_values {
        let _ = write!(line, " q{}={}", general(q.quantile), general(q.value));
    }
    line
}
