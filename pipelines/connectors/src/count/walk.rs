//! Through a batch, resource by resource, item by item.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Event;

use pdata::Data;

use super::Definitions;
use super::tally::Tally;

/// What can be counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Span,
    SpanEvent,
    Metric,
    Point,
    LogRecord,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::Span, Kind::SpanEvent, Kind::Metric, Kind::Point, Kind::LogRecord];

    /// The section that its counts stand in, and the name and description of the count that there is by default.
    pub(super) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Kind::Span => ("spans", "trace.span.count", "The number of spans observed."),
            Kind::SpanEvent => {
                ("spanevents", "trace.span.event.count", "The number of span events observed.")
            }
            Kind::Metric => ("metrics", "metric.count", "The number of metrics observed."),
            Kind::Point => ("datapoints", "metric.datapoint.count", "The number of data points observed."),
            Kind::LogRecord => ("logs", "log.record.count", "The number of log records observed."),
        }
    }
}

/// An item, and all that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a> {
    pub(super) resource: &'a [KeyValue],
    pub(super) scope: Option<&'a InstrumentationScope>,
    pub(super) item: Item<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Item<'a> {
    Span(&'a Span),
    SpanEvent(&'a Span, &'a Event),
    Metric(&'a Metric),
    /// A point of a metric, by its attributes.
    Point(&'a Metric, &'a [KeyValue]),
    LogRecord(&'a LogRecord),
}

impl<'a> View<'a> {
    /// The attributes of the item itself; a metric has none.
    pub(super) fn attributes(&self) -> &'a [KeyValue] {
        match self.item {
            Item::Span(span) => &span.attributes,
            Item::SpanEvent(_, event) => &event.attributes,
            Item::Metric(_) => &[],
            Item::Point(_, attributes) => attributes,
            Item::LogRecord(record) => &record.attributes,
        }
    }
}

/// The scope of what is counted, as the Collector names it: series go on where it was there before.
const SCOPE: &str = "github.com/open-telemetry/opentelemetry-collector-contrib/connector/countconnector";

/// All counts of a batch, by resource; a resource of which nothing was counted is left out.
pub(super) fn count(data: &Data, definitions: &Definitions) -> MetricsData {
    let of = |kind: Kind| Tally::new(&definitions[kind as usize]);
    let mut out = MetricsData::default();
    match data {
        Data::Traces(d) => {
            for r in &d.resource_spans {
                let (mut spans, mut events) = (of(Kind::Span), of(Kind::SpanEvent));
                let resource = attributes(r.resource.as_ref());
                for s in &r.scope_spans {
                    let view = |item| View { resource, scope: s.scope.as_ref(), item };
                    for span in &s.spans {
                        let times = [span.start_time_unix_nano, span.end_time_unix_nano];
                        spans.add(&view(Item::Span(span)), &times);
                        for event in &span.events {
                            events.add(&view(Item::SpanEvent(span, event)), &[event.time_unix_nano]);
                        }
                    }
                }
                push(&mut out, r.resource.as_ref(), &r.schema_url, [spans, events]);
            }
        }
        Data::Metrics(d) => {
            for r in &d.resource_metrics {
                let (mut metrics, mut points) = (of(Kind::Metric), of(Kind::Point));
                let resource = attributes(r.resource.as_ref());
                for s in &r.scope_metrics {
                    let view = |item| View { resource, scope: s.scope.as_ref(), item };
                    for metric in &s.metrics {
                        metrics.add(&view(Item::Metric(metric)), &[]);
                        each_point(metric, |attributes, time| {
                            points.add(&view(Item::Point(metric, attributes)), &[time]);
                        });
                    }
                }
                push(&mut out, r.resource.as_ref(), &r.schema_url, [metrics, points]);
            }
        }
        Data::Logs(d) => {
            for r in &d.resource_logs {
                let mut records = of(Kind::LogRecord);
                let resource = attributes(r.resource.as_ref());
                for s in &r.scope_logs {
                    for record in &s.log_records {
                        let view = View { resource, scope: s.scope.as_ref(), item: Item::LogRecord(record) };
                        records.add(&view, &[record.time_unix_nano]);
                    }
                }
                push(&mut out, r.resource.as_ref(), &r.schema_url, [records]);
            }
        }
        // No pipeline of profiles ends in this connector.
        Data::Profiles(_) => {}
    }
    out
}

fn attributes(resource: Option<&Resource>) -> &[KeyValue] {
    resource.map_or(&[][..], |resource| &resource.attributes)
}

fn push<const N: usize>(
    out: &mut MetricsData,
    resource: Option<&Resource>,
    schema_url: &str,
    tallies: [Tally<'_>; N],
) {
    let metrics: Vec<Metric> = tallies.into_iter().flat_map(Tally::into_metrics).collect();
    if metrics.is_empty() {
        return;
    }
    let scope = InstrumentationScope { name: SCOPE.to_owned(), ..InstrumentationScope::default() };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }];
    let (resource, schema_url) = (resource.cloned(), schema_url.to_owned());
    out.resource_metrics.push(ResourceMetrics { resource, scope_metrics, schema_url });
}

/// Hands out the attributes and the time of every point.
fn each_point<'a>(metric: &'a Metric, mut then: impl FnMut(&'a [KeyValue], u64)) {
    match &metric.data {
        None => {}
        Some(MetricData::Gauge(m)) => {
            m.data_points.iter().for_each(|p| then(&p.attributes, p.time_unix_nano))
        }
        Some(MetricData::Sum(m)) => m.data_points.iter().for_each(|p| then(&p.attributes, p.time_unix_nano)),
        Some(MetricData::Histogram(m)) => {
            m.data_points.iter().for_each(|p| then(&p.attributes, p.time_unix_nano));
        }
        Some(MetricData::ExponentialHistogram(m)) => {
            m.data_points.iter().for_each(|p| then(&p.attributes, p.time_unix_nano));
        }
        Some(MetricData::Summary(m)) => {
            m.data_points.iter().for_each(|p| then(&p.attributes, p.time_unix_nano));
        }
    }
}
