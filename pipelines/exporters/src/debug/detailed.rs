//! Verbosity `detailed`: a line for each field that is set.

use std::fmt::{Arguments, Display, Write as _};

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as NumberValue;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint, SummaryDataPoint,
    exemplar,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{Span, Status};
use pdata::Data;

use pdata::json::plain;

use go_format::{fixed, timestamp};

use super::go::{self, hex};

/// Formats a batch.
pub(super) fn text(data: &Data) -> String {
    let mut out = Lines(String::new());
    match data {
        Data::Logs(d) => {
            for (i, r) in d.resource_logs.iter().enumerate() {
                out.resource("ResourceLog", i, &r.schema_url, r.resource.as_ref());
                for (j, s) in r.scope_logs.iter().enumerate() {
                    out.scope("ScopeLogs", j, &s.schema_url, s.scope.as_ref());
                    s.log_records.iter().enumerate().for_each(|(k, r)| out.log_record(k, r));
                }
            }
        }
        Data::Metrics(d) => {
            for (i, r) in d.resource_metrics.iter().enumerate() {
                out.resource("ResourceMetrics", i, &r.schema_url, r.resource.as_ref());
                for (j, s) in r.scope_metrics.iter().enumerate() {
                    out.scope("ScopeMetrics", j, &s.schema_url, s.scope.as_ref());
                    s.metrics.iter().enumerate().for_each(|(k, m)| out.metric(k, m));
                }
            }
        }
        Data::Traces(d) => {
            for (i, r) in d.resource_spans.iter().enumerate() {
                out.resource("ResourceSpans", i, &r.schema_url, r.resource.as_ref());
                for (j, s) in r.scope_spans.iter().enumerate() {
                    out.scope("ScopeSpans", j, &s.schema_url, s.scope.as_ref());
                    s.spans.iter().enumerate().for_each(|(k, span)| out.span(k, span));
                }
            }
        }
        Data::Profiles(d) => {
            for (i, r) in d.resource_profiles.iter().enumerate() {
                out.resource("ResourceProfiles", i, &r.schema_url, r.resource.as_ref());
            }
        }
    }
    out.0
}

/// Names of span kinds, by number.
const SPAN_KINDS: [&str; 6] = ["Unspecified", "Internal", "Server", "Client", "Producer", "Consumer"];
/// Names of status codes, by number.
const STATUS_CODES: [&str; 3] = ["Unset", "Ok", "Error"];
/// Names of aggregation temporalities, by number.
const TEMPORALITIES: [&str; 3] = ["Unspecified", "Delta", "Cumulative"];
/// Names of severities in steps of four numbers, from 1.
const SEVERITIES: [&str; 6] = ["Trace", "Debug", "Info", "Warn", "Error", "Fatal"];

/// Returns the name of a number, or an empty text, as in the Collector.
fn name_of(names: &[&'static str], number: i32) -> &'static str {
    usize::try_from(number).ok().and_then(|n| names.get(n)).copied().unwrap_or("")
}

fn severity(number: i32) -> String {
    let Some(index) = usize::try_from(number).ok().and_then(|n| n.checked_sub(1)) else {
        return if number == 0 { "Unspecified".to_owned() } else { String::new() };
    };
    match (SEVERITIES.get(index / 4), index % 4) {
        (None, _) => String::new(),
        (Some(name), 0) => (*name).to_owned(),
        (Some(name), step) => format!("{name}{}", step + 1),
    }
}

struct Lines(String);

impl Lines {
    fn line(&mut self, text: Arguments<'_>) {
        let _ = writeln!(self.0, "{text}");
    }

    /// Writes a field of a span, with its name padded to align the colons.
    fn field(&mut self, name: &str, value: impl Display) {
        self.line(format_args!("    {name:<15}: {value}"));
    }

    fn attributes(&mut self, indent: &str, header: &str, attributes: &[KeyValue]) {
        if attributes.is_empty() {
            return;
        }
        self.line(format_args!("{indent}{header}:"));
        let indent = indent.strip_suffix("-> ").unwrap_or(indent);
        for a in attributes {
            let (kind, value) = (plain::type_name(a.value.as_ref()), plain::text(a.value.as_ref()));
            self.line(format_args!("{indent}     -> {}: {kind}({value})", a.key));
        }
    }

    fn resource(&mut self, title: &str, index: usize, schema_url: &str, resource: Option<&Resource>) {
        self.line(format_args!("{title} #{index}"));
        self.line(format_args!("Resource SchemaURL: {schema_url}"));
        let Some(resource) = resource else { return };
        self.attributes("", "Resource attributes", &resource.attributes);
        if !resource.entity_refs.is_empty() {
            self.line(format_args!("Resource entity refs:"));
        }
        for (i, entity) in resource.entity_refs.iter().enumerate() {
            self.line(format_args!("     -> Entity ref #{i}:"));
            self.line(format_args!("          -> Type: {}", entity.r#type));
            if !entity.schema_url.is_empty() {
                self.line(format_args!("          -> Schema URL: {}", entity.schema_url));
            }
            self.keys("ID keys", &entity.id_keys);
            self.keys("Description keys", &entity.description_keys);
        }
    }

    fn keys(&mut self, header: &str, keys: &[String]) {
        if !keys.is_empty() {
            self.line(format_args!("          -> {header}:"));
        }
        for key in keys {
            self.line(format_args!("               -> {key}"));
        }
    }

    fn scope(&mut self, title: &str, index: usize, schema_url: &str, scope: Option<&InstrumentationScope>) {
        self.line(format_args!("{title} #{index}"));
        self.line(format_args!("{title} SchemaURL: {schema_url}"));
        let (name, version) = scope.map_or(("", ""), |s| (&s.name, &s.version));
        self.line(format_args!("InstrumentationScope {name} {version}"));
        self.attributes("", "InstrumentationScope attributes", scope.map_or(&[], |s| &s.attributes));
    }

    fn log_record(&mut self, index: usize, r: &LogRecord) {
        self.line(format_args!("LogRecord #{index}"));
        self.line(format_args!("ObservedTimestamp: {}", timestamp(r.observed_time_unix_nano)));
        self.line(format_args!("Timestamp: {}", timestamp(r.time_unix_nano)));
        self.line(format_args!("SeverityText: {}", r.severity_text));
        let number = r.severity_number;
        self.line(format_args!("SeverityNumber: {}({number})", severity(number)));
        if !r.event_name.is_empty() {
            self.line(format_args!("EventName: {}", r.event_name));
        }
        let (kind, body) = (plain::type_name(r.body.as_ref()), plain::text(r.body.as_ref()));
        self.line(format_args!("Body: {kind}({body})"));
        self.attributes("", "Attributes", &r.attributes);
        self.line(format_args!("Trace ID: {}", hex(&r.trace_id)));
        self.line(format_args!("Span ID: {}", hex(&r.span_id)));
        self.line(format_args!("Flags: {}", r.flags));
    }

    fn span(&mut self, index: usize, span: &Span) {
        let unset = Status::default();
        let status = span.status.as_ref().unwrap_or(&unset);
        self.line(format_args!("Span #{index}"));
        self.field("Trace ID", hex(&span.trace_id));
        self.field("Parent ID", hex(&span.parent_span_id));
        self.field("ID", hex(&span.span_id));
        self.field("Name", &span.name);
        self.field("Kind", name_of(&SPAN_KINDS, span.kind));
        if !span.trace_state.is_empty() {
            self.field("TraceState", &span.trace_state);
        }
        self.field("Start time", timestamp(span.start_time_unix_nano));
        self.field("End time", timestamp(span.end_time_unix_nano));
        self.field("Status code", name_of(&STATUS_CODES, status.code));
        self.field("Status message", &status.message);
        self.field("DroppedAttributesCount", span.dropped_attributes_count);
        self.field("DroppedEventsCount", span.dropped_events_count);
        self.field("DroppedLinksCount", span.dropped_links_count);
        self.attributes("", "Attributes", &span.attributes);
        self.events(&span.events);
        self.links(&span.links);
    }

    fn events(&mut self, events: &[Event]) {
        if !events.is_empty() {
            self.line(format_args!("Events:"));
        }
        for (i, event) in events.iter().enumerate() {
            self.line(format_args!("SpanEvent #{i}"));
            self.line(format_args!("     -> Name: {}", event.name));
            self.line(format_args!("     -> Timestamp: {}", timestamp(event.time_unix_nano)));
            self.line(format_args!("     -> DroppedAttributesCount: {}", event.dropped_attributes_count));
            self.attributes("     -> ", "Attributes:", &event.attributes);
        }
    }

    fn links(&mut self, links: &[Link]) {
        if !links.is_empty() {
            self.line(format_args!("Links:"));
        }
        for (i, link) in links.iter().enumerate() {
            self.line(format_args!("SpanLink #{i}"));
            self.line(format_args!("     -> Trace ID: {}", hex(&link.trace_id)));
            self.line(format_args!("     -> ID: {}", hex(&link.span_id)));
            self.line(format_args!("     -> TraceState: {}", link.trace_state));
            self.line(format_args!("     -> DroppedAttributesCount: {}", link.dropped_attributes_count));
            self.attributes("     -> ", "Attributes:", &link.attributes);
        }
    }

    fn metric(&mut self, index: usize, metric: &Metric) {
        let kind = match &metric.data {
            None => "Empty",
            Some(MetricData::Gauge(_)) => "Gauge",
            Some(MetricData::Sum(_)) => "Sum",
            Some(MetricData::Histogram(_)) => "Histogram",
            Some(MetricData::ExponentialHistogram(_)) => "ExponentialHistogram",
            Some(MetricData::Summary(_)) => "Summary",
        };
        self.line(format_args!("Metric #{index}"));
        self.line(format_args!("Descriptor:"));
        self.line(format_args!("     -> Name: {}", metric.name));
        self.line(format_args!("     -> Description: {}", metric.description));
        self.line(format_args!("     -> Unit: {}", metric.unit));
        self.line(format_args!("     -> DataType: {kind}"));
        self.attributes("     -> ", "Metadata", &metric.metadata);
        self.points(metric);
    }

    fn points(&mut self, metric: &Metric) {
        match &metric.data {
            None => {}
            Some(MetricData::Gauge(g)) => self.numbers(&g.data_points),
            Some(MetricData::Sum(s)) => {
                self.line(format_args!("     -> IsMonotonic: {}", s.is_monotonic));
                self.temporality(s.aggregation_temporality);
                self.numbers(&s.data_points);
            }
            Some(MetricData::Histogram(h)) => {
                self.temporality(h.aggregation_temporality);
                h.data_points.iter().enumerate().for_each(|(i, p)| self.histogram(i, p));
            }
            Some(MetricData::ExponentialHistogram(h)) => {
                self.temporality(h.aggregation_temporality);
                h.data_points.iter().enumerate().for_each(|(i, p)| self.exponential(i, p));
            }
            Some(MetricData::Summary(s)) => {
                s.data_points.iter().enumerate().for_each(|(i, p)| self.summary(i, p));
            }
        }
    }

    fn temporality(&mut self, number: i32) {
        self.line(format_args!("     -> AggregationTemporality: {}", name_of(&TEMPORALITIES, number)));
    }

    /// Writes the first lines of every point.
    fn point(&mut self, title: &str, index: usize, attributes: &[KeyValue], start: u64, time: u64) {
        self.line(format_args!("{title} #{index}"));
        self.attributes("", "Data point attributes", attributes);
        self.line(format_args!("StartTimestamp: {}", timestamp(start)));
        self.line(format_args!("Timestamp: {}", timestamp(time)));
    }

    fn numbers(&mut self, points: &[NumberDataPoint]) {
        for (i, p) in points.iter().enumerate() {
            self.point("NumberDataPoints", i, &p.attributes, p.start_time_unix_nano, p.time_unix_nano);
            match p.value {
                None => {}
                Some(NumberValue::AsInt(n)) => self.line(format_args!("Value: {n}")),
                Some(NumberValue::AsDouble(v)) => self.line(format_args!("Value: {}", fixed(v))),
            }
            self.exemplars(&p.exemplars);
        }
    }

    fn totals(&mut self, count: u64, sum: Option<f64>, min: Option<f64>, max: Option<f64>) {
        self.line(format_args!("Count: {count}"));
        for (name, value) in [("Sum", sum), ("Min", min), ("Max", max)] {
            if let Some(value) = value {
                self.line(format_args!("{name}: {}", fixed(value)));
            }
        }
    }

    fn histogram(&mut self, index: usize, p: &HistogramDataPoint) {
        self.point("HistogramDataPoints", index, &p.attributes, p.start_time_unix_nano, p.time_unix_nano);
        self.totals(p.count, p.sum, p.min, p.max);
        for (i, bound) in p.explicit_bounds.iter().enumerate() {
            self.line(format_args!("ExplicitBounds #{i}: {}", fixed(*bound)));
        }
        for (i, count) in p.bucket_counts.iter().enumerate() {
            self.line(format_args!("Buckets #{i}, Count: {count}"));
        }
        self.exemplars(&p.exemplars);
    }

    fn exponential(&mut self, index: usize, p: &ExponentialHistogramDataPoint) {
        let title = "ExponentialHistogramDataPoints";
        self.point(title, index, &p.attributes, p.start_time_unix_nano, p.time_unix_nano);
        self.totals(p.count, p.sum, p.min, p.max);
        let factor = go::bucket_factor(p.scale);
        let bounds = |index: f64| ((index * factor).exp(), ((index + 1.0) * factor).exp());
        for (index, count) in p.negative.iter().flat_map(go::buckets).rev() {
            let (lower, upper) = bounds(index);
            self.line(format_args!("Bucket [{}, {}), Count: {count}", fixed(-upper), fixed(-lower)));
        }
        if p.zero_count != 0 {
            self.line(format_args!("Bucket [0, 0], Count: {}", p.zero_count));
        }
        for (index, count) in p.positive.iter().flat_map(go::buckets) {
            let (lower, upper) = bounds(index);
            self.line(format_args!("Bucket ({}, {}], Count: {count}", fixed(lower), fixed(upper)));
        }
        self.exemplars(&p.exemplars);
    }

    fn summary(&mut self, index: usize, p: &SummaryDataPoint) {
        self.point("SummaryDataPoints", index, &p.attributes, p.start_time_unix_nano, p.time_unix_nano);
        self.line(format_args!("Count: {}", p.count));
        self.line(format_args!("Sum: {}", fixed(p.sum)));
        for (i, q) in p.quantile_values.iter().enumerate() {
            let (quantile, value) = (fixed(q.quantile), fixed(q.value));
            self.line(format_args!("QuantileValue #{i}: Quantile {quantile}, Value {value}"));
        }
    }

    fn exemplars(&mut self, exemplars: &[Exemplar]) {
        if !exemplars.is_empty() {
            self.line(format_args!("Exemplars:"));
        }
        for (i, e) in exemplars.iter().enumerate() {
            self.line(format_args!("Exemplar #{i}"));
            self.line(format_args!("     -> Trace ID: {}", hex(&e.trace_id)));
            self.line(format_args!("     -> Span ID: {}", hex(&e.span_id)));
            self.line(format_args!("     -> Timestamp: {}", timestamp(e.time_unix_nano)));
            match e.value {
                None => {}
                Some(exemplar::Value::AsInt(n)) => self.line(format_args!("     -> Value: {n}")),
                Some(exemplar::Value::AsDouble(v)) => self.line(format_args!("     -> Value: {}", fixed(v))),
            }
            self.attributes("     -> ", "FilteredAttributes", &e.filtered_attributes);
        }
    }
}
