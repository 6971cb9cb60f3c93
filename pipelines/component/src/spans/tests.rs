//! Recording, storing and publishing of spans.

use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtlpSpan, TracesData};
use pdata::Payload;

use super::*;
use crate::testing::Sink;
use crate::{ComponentId, Refused};
use pdata::{Data, Signal};

fn two_spans() -> Data {
    let scope = ScopeSpans { spans: vec![OtlpSpan::default(), OtlpSpan::default()], ..Default::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..Default::default() };
    Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }))
}

/// Sends one batch from a receiver to an exporter that answers so.
fn send(spans: &Arc<Spans>, answer: Result<(), Refused>) {
    let id = |text| ComponentId::parse(text).unwrap();
    let exporter = exporting(&id("otlp_grpc/x"), Sink::always(answer), spans);
    let receiver = receiving(&id("otlp"), Signal::Traces, exporter, spans);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _ = runtime.block_on(receiver.consume(two_spans()));
}

fn attributes(span: &Span) -> Vec<String> {
    span.attributes.iter().map(|a| format!("{}={}", a.key, a.value)).collect()
}

#[test]
fn nothing_is_recorded_until_requested() {
    let spans = Arc::new(Spans::default());
    send(&spans, Ok(()));
    assert!(spans.begin(&Arc::from("x")).is_none());
    let watch = spans.watch();
    assert_eq!(spans.summaries(), []);
    send(&spans, Ok(()));
    assert_eq!(spans.summaries().len(), 2);
    drop(watch);
    assert_eq!(spans.summaries(), [], "removed with the last watcher");
    assert!(!spans.is_on());
}

#[test]
fn an_exporters_span_is_a_child_of_the_receivers() {
    let spans = Arc::new(Spans::default());
    let mut taken = spans.subscribe(10);
    send(&spans, Err(Refused::retryable("full")));
    let (exporter, receiver) = (taken.try_recv().unwrap(), taken.try_recv().unwrap());
    assert_eq!(&*exporter.name, "exporter/otlp_grpc/x/traces");
    assert_eq!(&*receiver.name, "receiver/otlp/TraceDataReceived");
    assert_eq!((exporter.trace_id, exporter.parent), (receiver.trace_id, Some(receiver.span_id)));
    assert_eq!(receiver.parent, None);
    assert_eq!(receiver.error.as_deref(), Some("full"));
    assert_eq!(attributes(&receiver), ["accepted_spans=0", "refused_spans=2"]);
    let want = ["exporter=otlp_grpc/x", "data_type=traces", "items.sent=0", "items.failed=2"];
    assert_eq!(attributes(&exporter), want);
}

#[test]
fn a_subscriber_without_room_loses_spans_and_that_is_counted() {
    let spans = Arc::new(Spans::default());
    let taken = spans.subscribe(3);
    send(&spans, Ok(()));
    send(&spans, Ok(()));
    assert_eq!((taken.len(), spans.dropped()), (3, 1));
    drop(taken);
    send(&spans, Ok(()));
    assert!(!spans.is_on(), "a subscriber that went is noticed");
}

#[test]
fn the_latest_spans_are_kept_by_latency_and_by_error() {
    let spans = Arc::new(Spans::default());
    let _watch = spans.watch();
    let name: Arc<str> = Arc::from("exporter/x/logs");
    for i in 0..25 {
        let open = spans.begin(&name).unwrap();
        open.end(vec![KeyValue::new("i", i)], (i % 2 == 1).then(|| "no".to_owned()));
    }
    let open = spans.begin(&name).unwrap();
    let summary = &spans.summaries()[0];
    assert_eq!((summary.running, summary.failed, summary.latencies.iter().sum::<u64>()), (1, 12, 13));
    let failed: Vec<_> = spans.latest(&name, Which::Failed).iter().flat_map(|s| attributes(s)).collect();
    assert_eq!(failed, [23, 21, 19, 17, 15, 13, 11, 9, 7, 5].map(|i| format!("i={i}")));
    assert_eq!(spans.latest(&name, Which::Running).len(), 1);
    drop(open);
    let latest = &spans.latest(&name, Which::Failed)[0];
    assert_eq!(latest.error.as_deref(), Some("cancelled"));
    assert_eq!(spans.latest(&name, Which::Running).len(), 0);
}

#[test]
fn names_and_running_spans_are_bounded() {
    let spans = Arc::new(Spans::default());
    let _watch = spans.watch();
    let open: Vec<Open> =
        (0..RUNNING_MAX + 5).filter_map(|i| spans.begin(&Arc::from(format!("{}", i % 200)))).collect();
    assert_eq!(spans.summaries().len(), NAMES_MAX);
    assert!(spans.with(|inner| inner.running.len()) <= RUNNING_MAX);
    drop(open);
    assert_eq!(spans.with(|inner| inner.running.len()), 0);
    assert!(spans.left_out() > 0);
}

#[test]
fn buckets_begin_at_their_lower_bound() {
    for (micros, want) in [(0, 0), (9, 0), (10, 1), (999, 2), (1_000, 3), (99_999_999, 7), (u64::MAX, 8)] {
        assert_eq!(bucket(Duration::from_micros(micros)), want, "{micros} us");
    }
}
