//! When batches are sent, and their sizes. Time is tokio's paused clock.

use std::time::Duration;

use component::context::{self, Context, Metadata};
use component::testing::{Metrics, Started, check_problem};
use component::{Host, Processor, Refused};
use pdata::{Data, Signal};
use tokio::time::Instant;

use super::{Batch, BatchConfig, FACTORY};

/// Returns a batch of spans with these names.
fn spans(names: std::ops::Range<usize>) -> Data {
    let spans: Vec<String> = names.map(|n| format!(r#"{{"name":"{n}"}}"#)).collect();
    let json = format!(r#"{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{}]}}]}}]}}"#, spans.join(","));
    pdata::json::decode(Signal::Traces, json.as_bytes()).unwrap()
}

fn sizes(got: &[Data]) -> Vec<usize> {
    got.iter().map(Data::items).collect()
}

/// Returns the names of all spans in order.
fn names(got: &[Data]) -> Vec<usize> {
    let traces = got.iter().map(|d| match d {
        Data::Traces(d) => d,
        other => panic!("{other:?}"),
    });
    let resources = traces.flat_map(|d| &d.resource_spans);
    let spans = resources.flat_map(|r| &r.scope_spans).flat_map(|s| &s.spans);
    spans.map(|s| s.name.parse().unwrap()).collect()
}

/// Runs the batching task until it is idle.
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
async fn items_are_pending_until_the_batch_size() {
    let batch = Started::processor(&FACTORY, r#"{"send_batch_size": 10, "timeout": "1h"}"#);
    for start in [0, 4] {
        batch.send(spans(start..start + 4)).await.unwrap();
        settle().await;
        assert_eq!(sizes(&batch.sink.take()), NONE);
    }
    batch.send(spans(8..12)).await.unwrap();
    settle().await;
    let got = batch.sink.take();
    assert_eq!((sizes(&got), names(&got)), (vec![12], (0..12).collect()), "without a maximum nothing is cut");
}

#[tokio::test(start_paused = true)]
async fn items_are_pending_until_the_timeout() {
    let batch = Started::processor(&FACTORY, "{}");
    batch.send(spans(0..3)).await.unwrap();
    wait(199 * MS).await;
    assert_eq!(sizes(&batch.sink.take()), NONE);
    wait(MS).await;
    assert_eq!(sizes(&batch.sink.take()), [3], "the default is 200 ms");
    wait(Duration::from_secs(3600)).await;
    assert_eq!(sizes(&batch.sink.take()), NONE, "nothing held, nothing sent");
}

#[tokio::test(start_paused = true)]
async fn the_timeout_restarts_with_every_batch() {
    let batch = Started::processor(&FACTORY, r#"{"send_batch_size": 2}"#);
    wait(150 * MS).await;
    batch.send(spans(0..2)).await.unwrap();
    settle().await;
    assert_eq!(sizes(&batch.sink.take()), [2]);
    batch.send(spans(0..1)).await.unwrap();
    wait(199 * MS).await;
    assert_eq!(sizes(&batch.sink.take()), NONE);
    wait(MS).await;
    assert_eq!(sizes(&batch.sink.take()), [1]);
}

#[tokio::test(start_paused = true)]
async fn batches_are_split_at_the_maximum_size() {
    let settings = r#"{"send_batch_size": 4, "send_batch_max_size": 5}"#;
    let batch = Started::processor(&FACTORY, settings);
    batch.send(spans(0..17)).await.unwrap();
    settle().await;
    let mut got = batch.sink.take();
    assert_eq!(sizes(&got), [5, 5, 5], "what is left is less than a batch");
    wait(200 * MS).await;
    got.extend(batch.sink.take());
    assert_eq!((sizes(&got), names(&got)), (vec![5, 5, 5, 2], (0..17).collect()));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_pending_without_timeout_or_size() {
    for settings in [r#"{"timeout": 0}"#, r#"{"send_batch_size": 0}"#] {
        let batch = Started::processor(&FACTORY, settings);
        batch.send(spans(0..1)).await.unwrap();
        settle().await;
        assert_eq!(sizes(&batch.sink.take()), [1], "{settings}");
    }
    let batch =
        Started::processor(&FACTORY, r#"{"timeout": "0s", "send_batch_size": 0, "send_batch_max_size": 3}"#);
    batch.send(spans(0..7)).await.unwrap();
    settle().await;
    assert_eq!(sizes(&batch.sink.take()), [3, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn stop_sends_pending_items_and_refuses_new_ones() {
    let batch = Started::processor(
        &FACTORY,
        r#"{"send_batch_size": 100, "send_batch_max_size": 100, "timeout": "1h"}"#,
    );
    for start in 0..10 {
        batch.send(spans(9 * start..9 * (start + 1))).await.unwrap();
    }
    batch.stop.cancel();
    batch.running.await;
    assert_eq!(names(&batch.sink.take()), (0..90).collect::<Vec<_>>());
    assert!(batch.input.consume(spans(0..1)).await.unwrap_err().is_retryable());
}

#[tokio::test(start_paused = true)]
async fn refused_batches_are_dropped_and_counted() {
    let config = BatchConfig { send_batch_size: 2, ..BatchConfig::default() };
    let processor = Batch::new(component::ComponentId::parse("batch").unwrap(), config);
    let metrics = Metrics::default();
    let batch = Started::before_sink(|sink, stop| Box::new(processor).start(sink, &metrics.host(), stop));
    batch.sink.set_answer(Err(Refused::retryable("sending queue is full")));
    batch.send(spans(0..3)).await.unwrap();
    settle().await;
    batch.sink.set_answer(Ok(()));
    batch.send(spans(3..5)).await.unwrap();
    batch.send(spans(5..6)).await.unwrap();
    wait(200 * MS).await;
    assert_eq!(names(&batch.sink.take()), [3, 4, 5]);
    let counters = ["batch_size_trigger_send", "timeout_trigger_send", "dropped_items"];
    let counted = counters.map(|name| metrics.sum(&format!("otelcol_processor_batch_{name}")));
    assert_eq!(counted, [1, 1, 3]);
}

#[tokio::test(start_paused = true)]
async fn empty_batches_are_not_sent() {
    let batch = Started::processor(&FACTORY, r#"{"timeout": 0}"#);
    batch.send(spans(0..0)).await.unwrap();
    settle().await;
    assert_eq!(sizes(&batch.sink.take()), NONE);
}

/// Pending batches of a blocked consumer fill the channel, so that further senders wait.
#[tokio::test(start_paused = true)]
async fn a_slow_exporter_slows_its_senders() {
    let config = BatchConfig { send_batch_size: 1, ..BatchConfig::default() };
    let processor = Batch::new(component::ComponentId::parse("batch").unwrap(), config);
    let batch = Started::before_sink(|sink, stop| Box::new(processor).start(sink, &Host::detached(), stop));
    batch.sink.close_gate();
    let begin = Instant::now();
    let mut taken = 0;
    while tokio::time::timeout(60 * MS, batch.send(spans(0..1))).await.is_ok() {
        taken += 1;
    }
    assert_eq!((taken, begin.elapsed()), (super::WAITING_MAX + 1, 60 * MS));
}

#[tokio::test(start_paused = true)]
async fn batches_are_separated_by_metadata() {
    let settings = r#"{"metadata_keys": ["Tenant"], "metadata_cardinality_limit": 3}"#;
    let Started { input, sink, running, stop } = Started::processor(&FACTORY, settings);
    let send = async |tenants: &[&str], count: usize| {
        let mut metadata = Metadata::default();
        tenants.iter().for_each(|tenant| metadata.add("tenant", *tenant));
        metadata.add("other", "x");
        let context = Context { metadata: metadata.into(), ..Context::default() };
        context::scope(context, input.consume(spans(0..count))).await
    };
    for (tenants, count) in [(&["a"][..], 1), (&["b"], 2), (&["a"], 4), (&[], 8)] {
        send(tenants, count).await.unwrap();
    }
    let refused = send(&["a", "b"], 1).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("too many batcher metadata-value combinations"));
    stop.cancel();
    running.await;
    assert!(send(&["a"], 1).await.unwrap_err().is_retryable());
    let received = sink.deliveries();
    let metadata = received.iter().map(|delivery| &delivery.context.metadata);
    assert!(metadata.clone().all(|m| m.get("other").is_empty()), "only configured metadata is preserved");
    let tenants = metadata.map(|metadata| metadata.get("tenant").to_vec());
    let mut got: Vec<_> = received.iter().map(|delivery| delivery.data.items()).zip(tenants).collect();
    got.sort();
    let of = |tenant: &str| vec![tenant.to_owned()];
    assert_eq!(got, [(2, of("b")), (5, of("a")), (8, vec![])]);
}

#[test]
fn wrong_settings_are_refused() {
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
        check_problem(&FACTORY, json, want);
    }
}
