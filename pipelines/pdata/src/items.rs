//! Iteration over the items of data, with the resource and scope that they belong to.

use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::profiles::v1development::Profile;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::Event;

use crate::shape::{Attributes, Group, Point, Record, ResourceGroup, ScopeGroup};
use crate::{Data, with_payload, with_points};

/// The resource and the scope that an item belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The resource, if the data names one.
    pub resource: Option<&'a Resource>,
    /// The instrumentation scope, if the data names one.
    pub scope: Option<&'a InstrumentationScope>,
}

impl<'a> Origin<'a> {
    /// Returns the attributes of the resource.
    pub fn resource_attributes(&self) -> &'a [KeyValue] {
        self.resource.map_or(&[], |resource| &resource.attributes)
    }

    /// Returns the attributes of the scope.
    pub fn scope_attributes(&self) -> &'a [KeyValue] {
        self.scope.map_or(&[], |scope| &scope.attributes)
    }
}

/// A kind of item.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ItemKind {
    /// A span.
    Span,
    /// An event of a span.
    SpanEvent,
    /// A metric with its points.
    Metric,
    /// A data point of a metric.
    Point,
    /// A log record.
    LogRecord,
    /// A profile.
    Profile,
}

/// A reference to an item.
#[derive(Clone, Copy, Debug)]
pub enum ItemRef<'a> {
    /// A log record.
    LogRecord(&'a LogRecord),
    /// A metric with its points.
    Metric(&'a Metric),
    /// A data point, and the metric that contains it.
    Point(&'a Metric, &'a dyn Point),
    /// A profile.
    Profile(&'a Profile),
    /// A span.
    Span(&'a Span),
    /// An event, and the span that contains it.
    SpanEvent(&'a Span, &'a Event),
}

impl<'a> ItemRef<'a> {
    /// Returns the kind of this item.
    pub fn kind(self) -> ItemKind {
        match self {
            ItemRef::LogRecord(_) => ItemKind::LogRecord,
            ItemRef::Metric(_) => ItemKind::Metric,
            ItemRef::Point(..) => ItemKind::Point,
            ItemRef::Profile(_) => ItemKind::Profile,
            ItemRef::Span(_) => ItemKind::Span,
            ItemRef::SpanEvent(..) => ItemKind::SpanEvent,
        }
    }

    /// Returns the item's own attributes; metrics and profiles have none.
    pub fn attributes(self) -> &'a [KeyValue] {
        match self {
            ItemRef::LogRecord(record) => &record.attributes,
            ItemRef::Metric(_) | ItemRef::Profile(_) => &[],
            ItemRef::Point(_, point) => point.attributes(),
            ItemRef::Span(span) => &span.attributes,
            ItemRef::SpanEvent(_, event) => &event.attributes,
        }
    }

    /// Visits the items inside this one: the points of a metric, the events of a span.
    pub fn for_each_inner(self, mut visit: impl FnMut(ItemRef<'a>)) {
        match self {
            ItemRef::Metric(metric) => {
                let Some(data) = &metric.data else { return };
                with_points!(data, points => {
                    points.data_points.iter().for_each(|point| visit(ItemRef::Point(metric, point)));
                });
            }
            ItemRef::Span(span) => {
                span.events.iter().for_each(|event| visit(ItemRef::SpanEvent(span, event)));
            }
            _ => {}
        }
    }
}

/// A reference to an item for changes.
#[derive(Debug)]
pub enum ItemMut<'a> {
    /// A log record.
    LogRecord(&'a mut LogRecord),
    /// A metric with its points.
    Metric(&'a mut Metric),
    /// A profile.
    Profile(&'a mut Profile),
    /// A span.
    Span(&'a mut Span),
}

impl ItemMut<'_> {
    /// Returns a shared reference to this item.
    pub fn as_ref(&self) -> ItemRef<'_> {
        match self {
            ItemMut::LogRecord(record) => ItemRef::LogRecord(record),
            ItemMut::Metric(metric) => ItemRef::Metric(metric),
            ItemMut::Profile(profile) => ItemRef::Profile(profile),
            ItemMut::Span(span) => ItemRef::Span(span),
        }
    }

    /// Visits the attributes of this item: those of every point for a metric, none for a profile.
    pub fn for_each_attributes(&mut self, mut visit: impl FnMut(&mut Vec<KeyValue>)) {
        match self {
            ItemMut::LogRecord(record) => visit(&mut record.attributes),
            ItemMut::Metric(metric) => {
                let Some(data) = &mut metric.data else { return };
                with_points!(data, points => {
                    points.data_points.iter_mut().for_each(|point| visit(point.attributes_mut()));
                });
            }
            ItemMut::Profile(_) => {}
            ItemMut::Span(span) => visit(&mut span.attributes),
        }
    }
}

impl Data {
    /// Visits every resource, and the URL of the schema that it follows, for changes.
    pub fn for_each_resource_mut(&mut self, mut visit: impl FnMut(&mut Option<Resource>, &mut String)) {
        with_payload!(self, payload => {
            for group in payload.make_mut().parts_mut() {
                let (resource, schema_url) = group.resource_mut();
                visit(resource, schema_url);
            }
        });
    }

    /// Visits every log record, metric, span and profile for changes.
    pub fn for_each_item_mut(&mut self, mut visit: impl FnMut(Origin<'_>, ItemMut<'_>)) {
        with_payload!(self, payload => {
            for group in payload.make_mut().parts_mut() {
                visit_items(group, &mut visit);
            }
        });
    }

    /// Retains the log records, metrics, spans and profiles that `is_retained` returns true for. Scopes and resources
    /// without items are removed.
    pub fn retain_items(&mut self, mut is_retained: impl FnMut(Origin<'_>, ItemMut<'_>) -> bool) {
        with_payload!(self, payload => {
            payload.make_mut().parts_mut().retain_mut(|group| retain(group, &mut is_retained));
        });
    }
}

/// Visits every item of a resource, but not the items inside it: see [`ItemRef::for_each_inner`].
pub fn for_each_item<'a, R: ResourceGroup>(group: &'a R, mut visit: impl FnMut(Origin<'a>, ItemRef<'a>)) {
    for scope in group.parts() {
        let origin = Origin { resource: group.resource(), scope: scope.scope() };
        scope.parts().iter().for_each(|item| visit(origin, item.as_item()));
    }
}

fn visit_items<R: ResourceGroup>(group: &mut R, visit: &mut impl FnMut(Origin<'_>, ItemMut<'_>)) {
    let (resource, scopes) = group.scopes_mut();
    for scope in scopes {
        let (scope, items) = scope.items_mut();
        items.iter_mut().for_each(|item| visit(Origin { resource, scope }, item.as_item_mut()));
    }
}

fn retain<R: ResourceGroup>(
    group: &mut R,
    is_retained: &mut impl FnMut(Origin<'_>, ItemMut<'_>) -> bool,
) -> bool {
    let (resource, scopes) = group.scopes_mut();
    scopes.retain_mut(|scope| {
        let (scope, items) = scope.items_mut();
        items.retain_mut(|item| is_retained(Origin { resource, scope }, item.as_item_mut()));
        !items.is_empty()
    });
    !scopes.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, json};

    const DATA: [(Signal, &str); 4] = [
        (Signal::Logs, r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{},{}]}]},{}]}"#),
        (Signal::Metrics, r#"{"resourceMetrics":[{"scopeMetrics":[{},{"metrics":[{},{}]}]}]}"#),
        (Signal::Traces, r#"{"resourceSpans":[{},{"scopeSpans":[{"spans":[{},{}]}]}]}"#),
        (Signal::Profiles, r#"{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{},{}]}]}]}"#),
    ];

    #[test]
    fn every_item_of_every_signal_is_visited_once() {
        for (signal, text) in DATA {
            let mut data = json::decode(signal, text.as_bytes()).unwrap();
            let (mut changed, mut seen) = (0, 0);
            data.for_each_item_mut(|_, _| changed += 1);
            with_payload!(&data, d => d.parts().iter().for_each(|r| for_each_item(r, |_, _| seen += 1)));
            assert_eq!((changed, seen), (2, 2), "{signal:?}");
        }
    }

    #[test]
    fn scopes_and_resources_without_items_are_removed() {
        for (signal, text) in DATA {
            let mut data = json::decode(signal, text.as_bytes()).unwrap();
            let mut is_first = true;
            data.retain_items(|_, _| std::mem::take(&mut is_first));
            let left =
                with_payload!(&data, d => d.parts().iter().map(|r| r.parts().len()).collect::<Vec<_>>());
            assert_eq!(left, [1], "{signal:?}");
            data.retain_items(|_, _| false);
            assert!(with_payload!(&data, d => d.parts().is_empty()));
        }
    }
}
