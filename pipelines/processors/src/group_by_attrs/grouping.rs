//! Regrouping a batch: every item is moved to the resource, scope and metric that equal its own.

use std::collections::HashMap;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data as MetricData;
use opentelemetry_proto::tonic::metrics::v1::{Metric, MetricsData, ResourceMetrics, ScopeMetrics};
use opentelemetry_proto::tonic::resource::v1::Resource;
use pdata::shape::{Attributes, Group, Points, ResourceGroup, ScopeGroup, Telemetry};
use pdata::with_points;

use super::Keys;
use crate::identity::Identity;

/// The index of each message in its list, by its identity.
type Indexes = HashMap<u128, usize>;

/// Returns the index of a message in `list`, to which it is added if it is new.
fn index<T>(indexes: &mut Indexes, identity: u128, list: &mut Vec<T>, new: impl FnOnce() -> T) -> usize {
    *indexes.entry(identity).or_insert_with(|| {
        list.push(new());
        list.len() - 1
    })
}

fn resource_identity(resource: Option<&Resource>, schema_url: &str) -> u128 {
    Identity::default().with_resource(resource).with(schema_url).number()
}

/// Returns a copy of a resource with these attributes added or replaced.
fn with_attributes(resource: Option<&Resource>, attributes: Vec<KeyValue>) -> Resource {
    let mut resource = resource.cloned().unwrap_or_default();
    for attribute in attributes {
        match resource.attributes.iter_mut().find(|a| a.key == attribute.key) {
            Some(before) => *before = attribute,
            None => resource.attributes.push(attribute),
        }
    }
    resource
}

/// A scope of the original batch, and the resource that contains it, both without their items.
struct Source<'a, R: ResourceGroup> {
    resource: &'a R,
    resource_identity: u128,
    scope: &'a R::Part,
    scope_identity: &'a Identity,
}

/// The regrouped resources.
struct Groups<R> {
    list: Vec<R>,
    resources: Indexes,
    scopes: Indexes,
}

impl<R> Default for Groups<R> {
    fn default() -> Self {
        Groups { list: Vec::new(), resources: Indexes::new(), scopes: Indexes::new() }
    }
}

impl<R: ResourceGroup> Groups<R> {
    /// Returns the scope for an item of `source` from which the attributes `moved` have moved to its resource, and the
    /// indexes of its resource and of itself.
    fn scope(&mut self, source: &Source<'_, R>, moved: Vec<KeyValue>) -> (&mut R::Part, (usize, usize)) {
        let resource = source.resource;
        let changed = (!moved.is_empty()).then(|| with_attributes(resource.resource(), moved));
        let identity = match &changed {
            Some(changed) => resource_identity(Some(changed), resource.schema_url()),
            None => source.resource_identity,
        };
        let at = index(&mut self.resources, identity, &mut self.list, || {
            let mut group = resource.clone();
            if let Some(changed) = changed {
                *group.resource_mut().0 = Some(changed);
            }
            group
        });
        let scopes = self.list[at].parts_mut();
        let identity = source.scope_identity.clone().with(at).number();
        let within = index(&mut self.scopes, identity, scopes, || source.scope.clone());
        (&mut scopes[within], (at, within))
    }
}

/// Calls `add` with every item of `data`, which is then replaced by the resources that `add` has put into the groups.
fn regroup<T: Telemetry>(
    data: &mut T,
    mut add: impl FnMut(&mut Groups<T::Part>, &Source<'_, T::Part>, ItemOf<T>),
) {
    let mut groups = Groups::default();
    for mut resource in std::mem::take(data.parts_mut()) {
        let scopes = std::mem::take(resource.parts_mut());
        let resource_identity = resource_identity(resource.resource(), resource.schema_url());
        for mut scope in scopes {
            let items = std::mem::take(scope.parts_mut());
            let scope_identity = Identity::default().with_scope(scope.scope()).with(scope.schema_url());
            let (resource, scope) = (&resource, &scope);
            let source = Source { resource, resource_identity, scope, scope_identity: &scope_identity };
            items.into_iter().for_each(|item| add(&mut groups, &source, item));
        }
    }
    *data.parts_mut() = groups.list;
}

/// The type of the items of a signal.
type ItemOf<T> = <<<T as Group>::Part as Group>::Part as Group>::Part;

/// Regroups log records or spans.
pub(super) fn items<T: Telemetry>(data: &mut T, keys: &Keys)
where
    ItemOf<T>: Attributes,
{
    regroup(data, |groups, source, mut item| {
        let moved = keys.take(item.attributes_mut());
        groups.scope(source, moved).0.parts_mut().push(item);
    });
}

/// Regroups the points of metrics. Metrics without points are removed.
pub(super) fn metrics(data: &mut MetricsData, keys: &Keys) {
    let mut indexes = Indexes::new();
    regroup(data, |groups, source, mut metric| {
        let Some(mut data) = metric.data.take() else { return };
        let identity = metric_identity(&metric, &data);
        let mut add = MetricPoints { groups, indexes: &mut indexes, source, metric: &metric, identity };
        with_points!(&mut data, points => add.points(points, keys));
    });
}

/// The points of one metric while they are regrouped.
struct MetricPoints<'a> {
    groups: &'a mut Groups<ResourceMetrics>,
    indexes: &'a mut Indexes,
    source: &'a Source<'a, ResourceMetrics>,
    /// The metric without its data.
    metric: &'a Metric,
    identity: Identity,
}

impl MetricPoints<'_> {
    fn points<P: Points>(&mut self, points: &mut P, keys: &Keys) {
        for mut point in std::mem::take(points.parts_mut()) {
            let moved = keys.take(point.attributes_mut());
            let metric = self.metric(moved, || points.clone().into_data());
            let target = metric.data.as_mut().and_then(P::of);
            target.expect("the kind of a metric is part of its identity").parts_mut().push(point);
        }
    }

    /// Returns the metric for a point from which the attributes `moved` have moved to its resource.
    fn metric(&mut self, moved: Vec<KeyValue>, empty: impl FnOnce() -> MetricData) -> &mut Metric {
        let (scope, at): (&mut ScopeMetrics, _) = self.groups.scope(self.source, moved);
        let identity = self.identity.clone().with(at).number();
        let metric = self.metric;
        let last = index(self.indexes, identity, &mut scope.metrics, || Metric {
            data: Some(empty()),
            ..metric.clone()
        });
        &mut scope.metrics[last]
    }
}

/// Returns the identity of a metric: everything except its points.
fn metric_identity(metric: &Metric, data: &MetricData) -> Identity {
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
