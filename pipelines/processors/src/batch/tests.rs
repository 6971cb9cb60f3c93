//! When what is held is handed on, and in what pieces. Time is tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use component::context::{self, Context, Metadata};
use component::{Processor, Refused};
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use pdata::{Data, Signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Batch, BatchConfig, FACTORY};
use crate::testing::{Sink, Started, problems};

/// A batch of spans of these names.
fn spans(names: std::ops::Range<usize>) -> Data {
    let spans: Vec<String> = names.map(|n| format!(r#"{{"name":"{n}"}}"#)).collect();
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#, spans.join(","));
    pdata::json::decode(Signal::Traces, json.as_bytes()).unwrap()
}

fn sizes(got: &[Data]) -> Vec<usize> {
    got.iter().map(Data::items).collect()
}

/// Adds up the points of a counter of the processor.
fn counter(collected: &[ResourceMetrics], name: &str) -> u64 {
    let name = format!("otelcol_processor_batch_{name}");
    let scopes = collected.iter().flat_map(ResourceMetrics::scope_metrics);
    let metrics = scopes.flat_map(|scope| scope.metrics()).filter(|metric| metric.name() == name);
    let points = |data: &AggregatedMetrics| -> u64 {
        match data {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => sum.data_points().map(|p| p.value()).sum(),
            other => panic!("{name}: {other:?}"),
        }
    };
    metrics.map(|metric| points(metric.data())).sum::<u64>()
}

/// The names of all spans, in order.
fn names(got: &[Data]) -> Vec<usize> {
    let traces = got.iter().map(|d| match d {
        Data::Traces(d) => d,
        other => panic!("{other:?}"),
    });
    let resources = traces.flat_map(|d| &d.resource_spans);
    let spans = resources.flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans);
    spans.map(|s| s.name.parse().unwrap()).collect()
}

/// Lets the batch task do what it can do now.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
    settle().await;
}

const NONE: [usize; 0] = [];
const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn items_are_held_until_the_size_is_reached() {
    let batch = Started::by(&FACTORY, r#"{"send_batch_size": 10, "timeout": "1h"}"#);
    for start in [0, 4] {
        batch.front.consume(spans(start..start + 4)).await.unwrap();
        settle().await;
        assert_eq!(sizes(&batch.sink.take()), NONE);
    }
    batch.front.consume(spans(8..12)).await.unwrap();
    settle().await;
    let got = batch.sink.take();
    assert_eq!((sizes(&got), names(&got)), (vec![12], (0..12).collect()), "without a maximum nothing is cut");
}

#[tokio::test(start_paused = true)]
async fn items_are_held_until_time_is_up() {
    let batch = Started::by(&FACTORY, "{}");
    batch.front.consume(spans(0..3)).await.unwrap();
    wait(199 * MS).await;
    assert_eq!(sizes(&batch.sink.take()), NONE);
    wait(MS).await;
    assert_eq!(sizes(&batch.sink.take()), [3], "the default is 200 ms");
    wait(Duration::from_secs(3600)).await;
    assert_eq!(sizes(&batch.sink.take()), NONE, "nothing held, nothing sent");
}

#[tokio::test(start_paused = true)]
async fn the_time_begins_again_with_every_batch() {
    let batch = Started::by(&FACTORY, r#"{"send_batch_size": 2}"#);
    wait(150 * MS).await;
    batch.front.consume(spans(0..2)).await.unwrap();
    settle().await;
    assert_eq!(sizes(&batch.sink.take()), [2]);
    batch.front.consume(spans(0..1)).await.unwrap();
    wait(199 * MS).await;
    assert_eq!(sizes(&batch.sink.take()), NONE);
    wait(MS).await;
    assert_eq!(sizes(&batch.sink.take()), [1]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_has_at_most_the_maximum() {
    let settings = r#"{"send_batch_size": 4, "send_batch_max_size": 5}"#;
    let batch = Started::by(&FACTORY, settings);
    batch.front.consume(spans(0..17)).await.unwrap();
    settle().await;
    let mut got = batch.sink.take();
    assert_eq!(sizes(&got), [5, 5, 5], "what is left is less than a batch");
    wait(200 * MS).await;
    got.extend(batch.sink.take());
    assert_eq!((sizes(&got), names(&got)), (vec![5, 5, 5, 2], (0..17).collect()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_without_a_timeout_or_without_a_size() {
    for settings in [r#"{"timeout": 0}"#, r#"{"send_batch_size": 0}"#] {
        let batch = Started::by(&FACTORY, settings);
        batch.front.consume(spans(0..1)).await.unwrap();
        settle().await;
        assert_eq!(sizes(&batch.sink.take()), [1], "{settings}");
    }
    let batch = Started::by(&FACTORY, r#"{"timeout": "0s", "send_batch_size": 0, "send_batch_max_size": 3}"#);
    batch.front.consume(spans(0..7)).await.unwrap();
    settle().await;
    assert_eq!(sizes(&batch.sink.take()), [3, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn stopping_hands_on_all_that_is_held_and_takes_no_more() {
    let batch =
        Started::by(&FACTORY, r#"{"send_batch_size": 100, "send_batch_max_size": 100, "timeout": "1h"}"#);
    for start in 0..10 {
        batch.front.consume(spans(9 * start..9 * (start + 1))).await.unwrap();
    }
    batch.stop.cancel();
    batch.running.await;
    assert_eq!(names(&batch.sink.take()), (0..90).collect::<Vec<_>>());
    assert!(batch.front.consume(spans(0..1)).await.unwrap_err().is_retryable());
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_is_dropped_and_counted() {
    let config = BatchConfig { send_batch_size: 2, ..BatchConfig::default() };
    let processor = Batch::new(component::ComponentId::parse("batch").unwrap(), config);
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let host = component::Host::new(provider.meter("test"), Arc::default());
    let sink = Sink::new();
    *sink.answer.lock().unwrap() = Err(Refused::retryable("sending queue is full"));
    let (front, _running) = Box::new(processor).start(sink.clone(), &host, Default::default());
    front.consume(spans(0..3)).await.unwrap();
    settle().await;
    *sink.answer.lock().unwrap() = Ok(());
    front.consume(spans(3..5)).await.unwrap();
    front.consume(spans(5..6)).await.unwrap();
    wait(200 * MS).await;
    assert_eq!(names(&sink.take()), [3, 4, 5]);
    provider.force_flush().unwrap();
    let collected = exporter.get_finished_metrics().unwrap();
    let counters = ["batch_size_trigger_send", "timeout_trigger_send", "dropped_items"];
    assert_eq!(counters.map(|name| counter(&collected, name)), [1, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn what_is_empty_is_not_handed_on() {
    let batch = Started::by(&FACTORY, r#"{"timeout": 0}"#);
    batch.front.consume(spans(0..0)).await.unwrap();
    settle().await;
    assert_eq!(sizes(&batch.sink.take()), NONE);
}

/// A consumer that never returns fills the pending batches; further senders wait.
#[tokio::test(start_paused = true)]
async fn a_slow_exporter_is_felt_upstream() {
    struct Stuck;
    impl component::Consumer for Stuck {
        fn consume(&self, _: Data) -> component::BoxFuture<'_, Result<(), Refused>> {
            Box::pin(std::future::pending())
        }
    }
    let config = BatchConfig { send_batch_size: 1, ..BatchConfig::default() };
    let processor = Batch::new(component::ComponentId::parse("batch").unwrap(), config);
    let (front, _running) =
        Box::new(processor).start(Arc::new(Stuck), &component::Host::detached(), Default::default());
    let begin = Instant::now();
    let mut taken = 0;
    while tokio::time::timeout(60 * MS, front.consume(spans(0..1))).await.is_ok() {
        taken += 1;
    }
    assert_eq!((taken, begin.elapsed()), (super::WAITING_MAX + 1, 60 * MS));
}

/// Keeps of every batch its size and the values under `tenant` that it came with.
#[derive(Default)]
struct Tenants(std::sync::Mutex<Vec<(usize, Vec<String>)>>);

impl component::Consumer for Tenants {
    fn consume(&self, data: Data) -> component::BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            let context = context::current();
            assert!(context.metadata.get("other").is_empty(), "only what was asked for goes on");
            self.0.lock().unwrap().push((data.items(), context.metadata.get("tenant").to_vec()));
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_with_other_metadata_is_held_apart_and_handed_on_with_it() {
    let settings = r#"{"metadata_keys": ["Tenant"], "metadata_cardinality_limit": 3}"#;
    let (sink, stop) = (Arc::new(Tenants::default()), CancellationToken::new());
    let processor = crate::testing::build(&FACTORY, settings).unwrap();
    let (front, running) = processor.start(sink.clone(), &component::Host::detached(), stop.clone());
    let send = async |tenants: &[&str], count: usize| {
        let mut metadata = Metadata::default();
        tenants.iter().for_each(|tenant| metadata.add("tenant", *tenant));
        metadata.add("other", "x");
        let context = Context { metadata: metadata.into(), ..Context::default() };
        context::scope(context, front.consume(spans(0..count))).await
    };
    for (tenants, count) in [(&["a"][..], 1), (&["b"], 2), (&["a"], 4), (&[], 8)] {
        send(tenants, count).await.unwrap();
    }
    let refused = send(&["a", "b"], 1).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("too many batcher metadata-value combinations"));
    stop.cancel();
    running.await;
    assert!(send(&["a"], 1).await.unwrap_err().is_retryable());
    let mut got = std::mem::take(&mut *sink.0.lock().unwrap());
    got.sort();
    let of = |tenant: &str| vec![tenant.to_owned()];
    assert_eq!(got, [(2, of("b")), (5, of("a")), (8, vec![])]);
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    for (json, want) in [
        ("{}", ""),
        ("null", ""),
        (r#"{"send_batch_max_size": 8192}"#, ""),
        (
            r#"{"send_batch_max_size": 8191}"#,
            "send_batch_max_size must be greater or equal to send_batch_size",
        ),
        (r#"{"timeout": "-1s"}"#, "negative"),
        (r#"{"send_batch_size": -1}"#, "x::send_batch_size: "),
        (r#"{"metadata_keys": ["a", "b"], "metadata_cardinality_limit": 0}"#, ""),
        (
            r#"{"metadata_keys": ["Tenant", "b", "tenant"]}"#,
            "x::metadata_keys[2]: duplicate entry in metadata_keys: \"tenant\" (case-insensitive)",
        ),
        (r#"{"metadata": ["a"]}"#, "invalid keys: metadata"),
    ] {
        let found = problems(&FACTORY, json);
        assert_eq!(found.len(), usize::from(!want.is_empty()), "{json}: {found:?}");
        assert!(found.iter().all(|p| p.contains(want)), "{json}: {found:?}");
    }
}
