//! Counts the items of a batch, resource by resource.

use opentelemetry_proto::tonic::common::v1::InstrumentationScope;
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData, ResourceMetrics, ScopeMetrics};
use pdata::shape::{Group, ResourceGroup};
use pdata::{Data, ItemKind, ItemRef, Origin, for_each_item, with_payload};

use super::Definitions;
use super::tally::Tally;

/// A kind of item that can be counted: its section of the configuration, and the metric that is the default.
pub(super) struct Kind {
    pub(super) item: ItemKind,
    pub(super) section: &'static str,
    pub(super) metric: &'static str,
    pub(super) description: &'static str,
}

/// The kinds, in the order of their metrics.
pub(super) const KINDS: [Kind; 5] = [
    row(ItemKind::Span, "spans", "trace.span.count", "The number of spans observed."),
    row(ItemKind::SpanEvent, "spanevents", "trace.span.event.count", "The number of span events observed."),
    row(ItemKind::Metric, "metrics", "metric.count", "The number of metrics observed."),
    row(ItemKind::Point, "datapoints", "metric.datapoint.count", "The number of data points observed."),
    row(ItemKind::LogRecord, "logs", "log.record.count", "The number of log records observed."),
];

const fn row(item: ItemKind, section: &'static str, metric: &'static str, description: &'static str) -> Kind {
    Kind { item, section, metric, description }
}

/// The scope of the counts. It is the Collector's, so that its series continue.
const SCOPE: &str = "github.com/open-telemetry/opentelemetry-collector-contrib/connector/countconnector";

/// Counts the items of a batch for each resource. Resources for which nothing was counted are omitted.
pub(super) fn count(data: &Data, definitions: &Definitions) -> MetricsData {
    let resource_metrics = with_payload!(data, payload => {
        payload.parts().iter().filter_map(|resource| count_resource(resource, definitions)).collect()
    });
    MetricsData { resource_metrics }
}

fn count_resource<R: ResourceGroup>(group: &R, definitions: &Definitions) -> Option<ResourceMetrics> {
    let mut tallies = definitions.each_ref().map(|definitions| Tally::new(definitions));
    let mut add = |origin: Origin<'_>, item: ItemRef<'_>| {
        let index = KINDS.iter().position(|kind| kind.item == item.kind());
        if let Some(tally) = index.and_then(|index| tallies.get_mut(index)) {
            tally.add(origin, item);
        }
    };
    for_each_item(group, |origin, item| {
        add(origin, item);
        item.for_each_inner(|inner| add(origin, inner));
    });
    let metrics: Vec<Metric> = tallies.into_iter().flat_map(Tally::into_metrics).collect();
    (!metrics.is_empty()).then(|| metrics_of(group, metrics))
}

fn metrics_of<R: ResourceGroup>(group: &R, metrics: Vec<Metric>) -> ResourceMetrics {
    let scope = InstrumentationScope { name: SCOPE.to_owned(), ..InstrumentationScope::default() };
    ResourceMetrics {
        resource: group.resource().cloned(),
        scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics, schema_url: String::new() }],
        // The counts are not attributes of that schema. The Collector leaves it empty, too.
        schema_url: String::new(),
    }
}
