//! Appends batches to each other, so that the items of one read travel together.
//!
//! A span or log record is created as a batch of its own, since its resource is known there; queues, channels and
//! requests count batches. Buffered batches of one signal are therefore appended, with each resource once, up to
//! [`ITEMS_MAX`] items.

use pdata::Data;
use pdata::shape::{Group, ResourceGroup as _, ScopeGroup as _, Telemetry};

use crate::batch::Batch;

/// Maximum number of items of an appended batch: about 256 KiB of spans, well below the limit of a request.
pub(crate) const ITEMS_MAX: usize = 256;

/// Appends `other` to `batch`.
///
/// # Errors
/// Returns `other` if the two differ in signal, exceed [`ITEMS_MAX`] together, or one of them is repeated.
pub(crate) fn append(batch: &mut Batch, other: Batch) -> Result<(), Batch> {
    if batch.is_repeated || other.is_repeated || batch.data.items() + other.data.items() > ITEMS_MAX {
        return Err(other);
    }
    match (&mut batch.data, other.data) {
        (Data::Logs(all), Data::Logs(more)) => merge(all.make_mut(), more.into_inner()),
        (Data::Metrics(all), Data::Metrics(more)) => {
            all.make_mut().resource_metrics.extend(more.into_inner().resource_metrics);
        }
        (Data::Traces(all), Data::Traces(more)) => merge(all.make_mut(), more.into_inner()),
        (_, data) => return Err(Batch { data, ..other }),
    }
    Ok(())
}

/// Adds data to other data, so that each resource and each of its scopes is there once.
fn merge<T: Telemetry>(all: &mut T, more: T) {
    let add_items = |into: &mut ScopeOf<T>, mut scope: ScopeOf<T>| into.parts_mut().append(scope.parts_mut());
    let add_scopes =
        |into: &mut T::Part, group: T::Part| put(into, group, |a, b| a.scope() == b.scope(), add_items);
    put(all, more, |a, b| a.resource() == b.resource(), add_scopes);
}

type ScopeOf<T> = <<T as Group>::Part as Group>::Part;

/// Adds each part of `more` to the part of `all` that `is_same`, usually the last one, or appends it.
fn put<G: Group>(
    all: &mut G,
    mut more: G,
    is_same: impl Fn(&G::Part, &G::Part) -> bool,
    add: impl Fn(&mut G::Part, G::Part),
) {
    let all = all.parts_mut();
    for part in more.parts_mut().drain(..) {
        match all.iter_mut().rfind(|of| is_same(of, &part)) {
            Some(of) => add(of, part),
            None => all.push(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::metrics::v1::{MetricsData, ResourceMetrics};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
    use pdata::Payload;

    use super::*;

    fn resource_of(pid: usize) -> Option<Resource> {
        let attributes = vec![KeyValue { key: format!("process {pid}"), ..KeyValue::default() }];
        Some(Resource { attributes, ..Resource::default() })
    }

    fn of(pid: usize, names: &[&str]) -> Batch {
        let named = |name: &&str| Span { name: (*name).to_owned(), ..Span::default() };
        let scope = ScopeSpans { spans: names.iter().map(named).collect(), ..ScopeSpans::default() };
        let resource = ResourceSpans {
            resource: resource_of(pid),
            scope_spans: vec![scope],
            ..ResourceSpans::default()
        };
        let data = Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }));
        Batch { data, is_repeated: false }
    }

    fn metrics(is_repeated: bool) -> Batch {
        let data = MetricsData { resource_metrics: vec![ResourceMetrics::default()] };
        Batch { data: Data::Metrics(Payload::new(data)), is_repeated }
    }

    #[test]
    fn appended_batch_has_each_resource_once() {
        let mut batch = of(1, &["a"]);
        for other in [of(2, &["b", "c"]), of(1, &["d"]), of(2, &["e"])] {
            append(&mut batch, other).unwrap();
        }
        let Data::Traces(traces) = &batch.data else { panic!("traces") };
        let found = traces.resource_spans.iter().map(|r| {
            let [scope] = &r.scope_spans[..] else { panic!("one scope") };
            (r.resource.clone(), scope.spans.iter().map(|s| s.name.as_str()).collect::<String>())
        });
        let expected = [(resource_of(1), "ad".to_owned()), (resource_of(2), "bce".to_owned())];
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn other_signals_and_repeated_batches_are_returned() {
        let refused = |mut batch: Batch, other: Batch| {
            let before = (batch.clone(), other.clone());
            assert_eq!((batch.clone(), append(&mut batch, other).unwrap_err()), before);
        };
        refused(of(1, &["a"]), metrics(false));
        refused(metrics(true), metrics(false));
        refused(metrics(false), metrics(true));
        append(&mut metrics(false), metrics(false)).unwrap();
    }

    #[test]
    fn batch_does_not_exceed_its_bound() {
        let mut batch = of(1, &["a"; ITEMS_MAX - 1]);
        append(&mut batch, of(1, &["b"])).unwrap();
        assert_eq!(batch.data.items(), ITEMS_MAX);
        append(&mut batch, of(1, &["c"])).unwrap_err();
    }
}
