//! Taking a batch apart, item by item, and putting it together by what is the same.

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::{LogsData, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, TracesData};

use super::Keys;
use crate::identity::Identity;

/// Where each thing was put: its number among its like.
type Places = HashMap<u128, usize>;

/// The place of a thing in `list`, to which it is added where it is new.
fn place<T>(places: &mut Places, number: u128, list: &mut Vec<T>, new: impl FnOnce() -> T) -> usize {
    *places.entry(number).or_insert_with(|| {
        list.push(new());
        list.len() - 1
    })
}

/// The resource that an item belongs under: its number, and, where attributes moved to it, what it became.
struct Home {
    number: u128,
    changed: Option<Resource>,
}

impl Home {
    /// The home of an item of `resource`, whose own number is `number`, once attributes have moved to it.
    fn new(resource: Option<&Resource>, schema_url: &str, number: u128, moved: Vec<KeyValue>) -> Self {
        if moved.is_empty() {
            return Home { number, changed: None };
        }
        let mut changed = resource.cloned().unwrap_or_default();
        for attribute in moved {
            match changed.attributes.iter_mut().find(|a| a.key == attribute.key) {
                Some(before) => *before = attribute,
                None => changed.attributes.push(attribute),
            }
        }
        Home { number: resource_number(Some(&changed), schema_url), changed: Some(changed) }
    }

    /// The resource itself.
    fn resource(self, before: Option<&Resource>) -> Option<Resource> {
        self.changed.or_else(|| before.cloned())
    }
}

fn resource_number(resource: Option<&Resource>, schema_url: &str) -> u128 {
    Identity::default().with_resource(resource).with(schema_url).number()
}

/// The grouping of a signal whose scopes hold items: logs and traces differ by nothing but their names.
macro_rules! grouping {
    ($name:ident, $data:ident . $resources:ident, $resource:ident . $scopes:ident, $scope:ident . $items:ident) => {
        pub(super) fn $name(data: &mut $data, keys: &Keys) {
            let mut out: Vec<$resource> = Vec::new();
            let (mut resources, mut scopes) = (Places::new(), Places::new());
            for mut r in std::mem::take(&mut data.$resources) {
                let own = resource_number(r.resource.as_ref(), &r.schema_url);
                for mut s in std::mem::take(&mut r.$scopes) {
                    let scope_id = Identity::default().with_scope(s.scope.as_ref()).with(&s.schema_url);
                    for mut item in std::mem::take(&mut s.$items) {
                        let moved = keys.take(&mut item.attributes);
                        let home = Home::new(r.resource.as_ref(), &r.schema_url, own, moved);
                        let at = place(&mut resources, home.number, &mut out, || $resource {
                            resource: home.resource(r.resource.as_ref()),
                            schema_url: r.schema_url.clone(),
                            $scopes: Vec::new(),
                        });
                        let scope_id = scope_id.clone().with(at).number();
                        let list = &mut out[at].$scopes;
                        let within = place(&mut scopes, scope_id, list, || $scope {
                            scope: s.scope.clone(),
                            schema_url: s.schema_url.clone(),
                            $items: Vec::new(),
                        });
                        list[within].$items.push(item);
                    }
                }
            }
            data.$resources = out;
        }
    };
}

grouping!(logs, LogsData.resource_logs, ResourceLogs.scope_logs, ScopeLogs.log_records);
grouping!(traces, TracesData.resource_spans, ResourceSpans.scope_spans, ScopeSpans.spans);

/// The grouping of metrics, one level deeper: the items are points.
pub(super) fn metrics(data: &mut MetricsData, keys: &Keys) {
    let mut groups = Metrics::default();
    for mut r in std::mem::take(&mut data.resource_metrics) {
        let own = resource_number(r.resource.as_ref(), &r.schema_url);
        for mut s in std::mem::take(&mut r.scope_metrics) {
            for metric in std::mem::take(&mut s.metrics) {
                groups.add((&r, own), &s, metric, keys);
            }
        }
    }
    data.resource_metrics = groups.out;
}

#[derive(Default)]
struct Metrics {
    out: Vec<ResourceMetrics>,
    resources: Places,
    scopes: Places,
    metrics: Places,
}

/// Adds the points of one metric, each to the metric where it belongs.
macro_rules! points {
    ($groups:ident, $list:ident, $around:ident, $keys:ident, $kind:ident) => {
        for mut point in std::mem::take(&mut $list.data_points) {
            let moved = $keys.take(&mut point.attributes);
            let metric = $groups.metric(&$around, moved, || MetricData::$kind($list.clone()));
            let Some(MetricData::$kind(target)) = &mut metric.data else {
                unreachable!("the kind of a metric is part of its identity")
            };
            target.data_points.push(point);
        }
    };
}

/// What a point belongs to.
struct Around<'a> {
    resource: &'a ResourceMetrics,
    resource_number: u128,
    scope: &'a ScopeMetrics,
    scope_id: Identity,
    /// Without its points.
    metric: Metric,
    metric_id: Identity,
}

impl Metrics {
    /// The points of a metric by where they belong; a metric that has none is left out.
    fn add(
        &mut self,
        (resource, resource_number): (&ResourceMetrics, u128),
        scope: &ScopeMetrics,
        mut metric: Metric,
        keys: &Keys,
    ) {
        let Some(mut data) = metric.data.take() else { return };
        let metric_id = metric_id(&metric, &data);
        let scope_id = Identity::default().with_scope(scope.scope.as_ref()).with(&scope.schema_url);
        let around = Around { resource, resource_number, scope, scope_id, metric, metric_id };
        match &mut data {
            MetricData::Gauge(m) => points!(self, m, around, keys, Gauge),
            MetricData::Sum(m) => points!(self, m, around, keys, Sum),
            MetricData::Histogram(m) => points!(self, m, around, keys, Histogram),
            MetricData::ExponentialHistogram(m) => points!(self, m, around, keys, ExponentialHistogram),
            MetricData::Summary(m) => points!(self, m, around, keys, Summary),
        }
    }

    /// The metric that a point belongs to, once these attributes have moved to its resource.
    fn metric(
        &mut self,
        around: &Around<'_>,
        moved: Vec<KeyValue>,
        empty: impl FnOnce() -> MetricData,
    ) -> &mut Metric {
        let Around { resource: r, resource_number, scope: s, scope_id, metric, metric_id } = around;
        let home = Home::new(r.resource.as_ref(), &r.schema_url, *resource_number, moved);
        let at = place(&mut self.resources, home.number, &mut self.out, || ResourceMetrics {
            resource: home.resource(r.resource.as_ref()),
            schema_url: r.schema_url.clone(),
            scope_metrics: Vec::new(),
        });
        let scopes = &mut self.out[at].scope_metrics;
        let scope_number = scope_id.clone().with(at).number();
        let within = place(&mut self.scopes, scope_number, scopes, || {
            let (scope, schema_url) = (s.scope.clone(), s.schema_url.clone());
            ScopeMetrics { scope, schema_url, metrics: Vec::new() }
        });
        let metrics = &mut scopes[within].metrics;
        let number = metric_id.clone().with((at, within)).number();
        let last =
            place(&mut self.metrics, number, metrics, || Metric { data: Some(empty()), ..metric.clone() });
        &mut metrics[last]
    }
}

/// What keeps metrics apart: everything but their points.
fn metric_id(metric: &Metric, data: &MetricData) -> Identity {
    let Metric { name, description, unit, metadata, data: _ } = metric;
    let kind = match data {
        MetricData::Gauge(_) => (0, 0, false),
        MetricData::Sum(sum) => (1, sum.aggregation_temporality, sum.is_monotonic),
        MetricData::Histogram(h) => (2, h.aggregation_temporality, false),
        MetricData::ExponentialHistogram(h) => (3, h.aggregation_temporality, false),
        MetricData::Summary(_) => (4, 0, false),
    };
    Identity::default().with((name, description, unit)).with_attributes(metadata).with(kind)
}
