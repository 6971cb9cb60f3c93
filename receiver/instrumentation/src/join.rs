//! Batches put together: what one read of a source brings of a signal travels as one.
//!
//! The one idea: a span or a log record is a batch of its own where it is made, since whoever makes it knows whose it
//! is, and a batch is what queues, channels and requests count. So what waits to be sent is joined, each resource said
//! once, up to [`ITEMS_MAX`] items.

use component::Data;
use opentelemetry_proto::tonic::logs::v1::ResourceLogs;
use opentelemetry_proto::tonic::trace::v1::ResourceSpans;

use crate::batch::Batch;

/// Items of a joined batch: some 256 KiB of spans, a share of what an exporter's request may have.
pub(crate) const ITEMS_MAX: usize = 256;

/// Puts `other` behind `batch`; it comes back where the two are not of one signal, would be too large together, or may
/// be dropped apart from each other.
pub(crate) fn join(batch: &mut Batch, other: Batch) -> Result<(), Batch> {
    if batch.is_repeated || other.is_repeated || batch.data.items() + other.data.items() > ITEMS_MAX {
        return Err(other);
    }
    match (&mut batch.data, other.data) {
        (Data::Logs(all), Data::Logs(more)) => {
            let all = &mut all.make_mut().resource_logs;
            more.into_inner().resource_logs.into_iter().for_each(|of| logs(all, of));
        }
        (Data::Metrics(all), Data::Metrics(more)) => {
            all.make_mut().resource_metrics.extend(more.into_inner().resource_metrics);
        }
        (Data::Traces(all), Data::Traces(more)) => {
            let all = &mut all.make_mut().resource_spans;
            more.into_inner().resource_spans.into_iter().for_each(|of| spans(all, of));
        }
        (_, data) => return Err(Batch { data, ..other }),
    }
    Ok(())
}

fn logs(all: &mut Vec<ResourceLogs>, more: ResourceLogs) {
    put(
        all,
        more,
        |a, b| a.resource == b.resource,
        |of, more| {
            for scope in more.scope_logs {
                let into = &mut of.scope_logs;
                put(
                    into,
                    scope,
                    |a, b| a.scope == b.scope,
                    |of, more| of.log_records.extend(more.log_records),
                );
            }
        },
    );
}

fn spans(all: &mut Vec<ResourceSpans>, more: ResourceSpans) {
    put(
        all,
        more,
        |a, b| a.resource == b.resource,
        |of, more| {
            for scope in more.scope_spans {
                let into = &mut of.scope_spans;
                put(into, scope, |a, b| a.scope == b.scope, |of, more| of.spans.extend(more.spans));
            }
        },
    );
}

/// Adds `more` to the one of `all` that is the same but for what it holds, mostly the last, or else to the end.
fn put<T>(all: &mut Vec<T>, more: T, is_same: impl Fn(&T, &T) -> bool, add: impl FnOnce(&mut T, T)) {
    match all.iter_mut().rfind(|of| is_same(of, &more)) {
        Some(of) => add(of, more),
        None => all.push(more),
    }
}

#[cfg(test)]
mod tests {
    use component::Payload;
    use opentelemetry_proto::tonic::common::v1::KeyValue;
    use opentelemetry_proto::tonic::metrics::v1::{MetricsData, ResourceMetrics};
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span, TracesData};

    use super::*;

    fn whose(pid: usize) -> Option<Resource> {
        let attributes = vec![KeyValue { key: format!("process {pid}"), ..KeyValue::default() }];
        Some(Resource { attributes, ..Resource::default() })
    }

    fn of(pid: usize, names: &[&str]) -> Batch {
        let named = |name: &&str| Span { name: (*name).to_owned(), ..Span::default() };
        let scope = ScopeSpans { spans: names.iter().map(named).collect(), ..ScopeSpans::default() };
        let resource =
            ResourceSpans { resource: whose(pid), scope_spans: vec![scope], ..ResourceSpans::default() };
        let data = Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }));
        Batch { data, is_repeated: false }
    }

    fn metrics(is_repeated: bool) -> Batch {
        let data = MetricsData { resource_metrics: vec![ResourceMetrics::default()] };
        Batch { data: Data::Metrics(Payload::new(data)), is_repeated }
    }

    #[test]
    fn spans_of_several_processes_are_one_batch_in_which_each_process_is_said_once() {
        let mut batch = of(1, &["a"]);
        for other in [of(2, &["b", "c"]), of(1, &["d"]), of(2, &["e"])] {
            join(&mut batch, other).unwrap();
        }
        let Data::Traces(traces) = &batch.data else { panic!("traces") };
        let said = traces.resource_spans.iter().map(|r| {
            let [scope] = &r.scope_spans[..] else { panic!("one scope") };
            (r.resource.clone(), scope.spans.iter().map(|s| s.name.as_str()).collect::<String>())
        });
        let expected = [(whose(1), "ad".to_owned()), (whose(2), "bce".to_owned())];
        assert_eq!(said.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_is_of_another_kind_or_may_be_dropped_alone_comes_back() {
        let refused = |mut batch: Batch, other: Batch| {
            let before = (batch.clone(), other.clone());
            assert_eq!((batch.clone(), join(&mut batch, other).unwrap_err()), before);
        };
        refused(of(1, &["a"]), metrics(false));
        refused(metrics(true), metrics(false));
        refused(metrics(false), metrics(true));
        join(&mut metrics(false), metrics(false)).unwrap();
    }

    #[test]
    fn a_batch_does_not_grow_beyond_its_bound() {
        let mut batch = of(1, &["a"; ITEMS_MAX - 1]);
        join(&mut batch, of(1, &["b"])).unwrap();
        assert_eq!(batch.data.items(), ITEMS_MAX);
        join(&mut batch, of(1, &["c"])).unwrap_err();
    }
}
