//! The guarantees of the stages to the sender and in the metrics: every item ends in exactly one counter,
//! regardless of the destination. Time is tokio's paused clock.

use pdata::Payload;
use std::sync::Arc;
use std::time::Duration;

use ::config::GoDuration;
use component::testing::{Metrics, Sink};
use component::{ComponentId, Consumer, Refused, Running};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use pdata::{Data, Signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use observed::Counts;

#[path = "../tests/stored/observed.rs"]
mod observed;

/// Returns a request with `count` spans.
fn spans(count: usize) -> Data {
    let scope = ScopeSpans { spans: vec![Span::default(); count], ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }))
}

/// Returns a destination that refuses so in turn, then accepts.
fn refusing(answers: impl IntoIterator<Item = Refused>) -> Arc<Sink> {
    Sink::answering(answers.into_iter().map(Err))
}

/// Returns the times and sizes of the attempts at a destination.
fn attempts(destination: &Sink) -> Vec<(Duration, usize)> {
    destination.deliveries().iter().map(|delivery| (delivery.at, delivery.data.items())).collect()
}

/// Returns delays without jitter, for exact assertions.
fn retry() -> RetryConfig {
    RetryConfig { randomization_factor: 0.0, ..RetryConfig::default() }
}

struct Stack {
    input: Arc<dyn Consumer>,
    metrics: Arc<ExporterMetrics>,
    own: Metrics,
    stop: CancellationToken,
    work: Running,
}

impl Stack {
    async fn on(destination: &Arc<Sink>, queue: Option<QueueConfig>, retry: Option<RetryConfig>) -> Self {
        let own = Metrics::default();
        let host = own.host();
        let server = Signal::ALL.map(|signal| {
            let path = Some(format!("/v1/{}", signal.name()));
            Some(Server { address: "h".to_owned(), port: Some(4317), path })
        });
        let id = ComponentId::parse("otlp_grpc/x").unwrap();
        let metrics = ExporterMetrics::with_servers(&host, &id, server);
        let stop = CancellationToken::new();
        let stages = Stages { queue, retry };
        let stacked = stack(&host, &id, &Signal::ALL, &stages, destination.clone(), &metrics, &stop);
        let (input, work) = stacked.await.unwrap();
        Stack { input, metrics, own, stop, work }
    }

    fn queue_size(&self) -> u64 {
        self.metrics.of(Signal::Traces).queue_size()
    }

    /// Stops, waits for the end, and returns the counters.
    async fn end(self) -> Counts {
        self.stop.cancel();
        self.work.await;
        assert_eq!(self.metrics.of(Signal::Traces).queue_size(), 0);
        observed::counts(&self.own)
    }
}

#[tokio::test(start_paused = true)]
async fn retryable_refusals_are_retried_after_growing_delays() {
    let busy = || Refused::retryable("busy");
    let destination = refusing([busy(), busy(), busy()]);
    let stack = Stack::on(&destination, None, Some(retry())).await;
    stack.input.consume(spans(3)).await.unwrap();
    let at: Vec<u128> = attempts(&destination).iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(at, [0, 5000, 12500, 23750]);
    assert_eq!(stack.end().await, Counts { sent: 3, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_requested_delay_is_the_shortest_wait() {
    let after = |secs| Refused::retryable("busy").with_retry_after(Duration::from_secs(secs));
    let destination = refusing([after(60), after(1)]);
    let stack = Stack::on(&destination, None, Some(retry())).await;
    stack.input.consume(spans(1)).await.unwrap();
    let at: Vec<u64> = attempts(&destination).iter().map(|(at, _)| at.as_millis() as u64).collect();
    assert_eq!(at, [0, 60_000, 67_500], "the second delay is the back-off's own, which is longer");
}

#[tokio::test(start_paused = true)]
async fn permanent_refusals_are_not_retried() {
    let destination = refusing([Refused::permanent("no such tenant")]);
    let stack = Stack::on(&destination, None, Some(retry())).await;
    let refused = stack.input.consume(spans(2)).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("no such tenant"));
    assert_eq!(attempts(&destination).len(), 1);
    assert_eq!(stack.end().await, Counts { send_failed: 2, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn retries_end_after_the_maximum_elapsed_time() {
    let destination = refusing(std::iter::repeat_n(Refused::retryable("down"), 100));
    let stack = Stack::on(&destination, None, Some(retry())).await;
    let refused = stack.input.consume(spans(2)).await.unwrap_err();
    assert_eq!(refused, Refused::retryable("no more retries left: down"));
    let (last, _) = *attempts(&destination).last().unwrap();
    assert!(last > Duration::from_secs(270) && last <= Duration::from_secs(300), "{last:?}");

    let destination = refusing(std::iter::repeat_n(Refused::retryable("down"), 100));
    let unlimited = RetryConfig { max_elapsed_time: GoDuration::default(), ..retry() };
    Stack::on(&destination, None, Some(unlimited)).await.input.consume(spans(2)).await.unwrap();
    assert_eq!(attempts(&destination).len(), 101);
}

#[tokio::test(start_paused = true)]
async fn without_retries_the_first_refusal_is_returned() {
    let destination = refusing([Refused::retryable("busy")]);
    let stack = Stack::on(&destination, None, None).await;
    assert_eq!(stack.input.consume(spans(1)).await, Err(Refused::retryable("busy")));
}

#[tokio::test(start_paused = true)]
async fn a_queue_accepts_at_once_and_sends_with_its_consumers() {
    let destination = Sink::with_closed_gate();
    let queue = QueueConfig { num_consumers: 2, ..QueueConfig::default() };
    let stack = Stack::on(&destination, Some(queue), Some(retry())).await;
    for _ in 0..5 {
        stack.input.consume(spans(1)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(attempts(&destination).len(), 2, "two consumers, two attempts at once");
    assert_eq!(stack.queue_size(), 5, "requests in flight hold capacity");
    destination.open_gate();
    assert_eq!(stack.end().await, Counts { sent: 5, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_until_a_request_was_sent() {
    for (sizer, queue_size) in [(Sizer::Requests, 2), (Sizer::Items, 21), (Sizer::Bytes, 60)] {
        let destination = Sink::with_closed_gate();
        let queue = QueueConfig { queue_size, sizer: Some(sizer), ..QueueConfig::default() };
        let stack = Stack::on(&destination, Some(queue), None).await;
        stack.input.consume(spans(10)).await.unwrap();
        stack.input.consume(spans(10)).await.unwrap();
        let refused = stack.input.consume(spans(10)).await.unwrap_err();
        assert_eq!(refused, Refused::retryable("sending queue is full"), "{sizer:?}");
        assert_eq!(observed::counts(&stack.own).enqueue_failed, 10);
        destination.open_gate();
        tokio::time::sleep(Duration::from_secs(1)).await;
        stack.input.consume(spans(10)).await.unwrap();
        let counts = Counts { sent: 30, enqueue_failed: 10, ..Counts::default() };
        assert_eq!(stack.end().await, counts, "{sizer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_blocking_full_queue_waits_for_capacity() {
    let destination = Sink::with_closed_gate();
    let queue = QueueConfig { queue_size: 1, block_on_overflow: true, ..QueueConfig::default() };
    let stack = Stack::on(&destination, Some(queue), None).await;
    stack.input.consume(spans(1)).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(60), stack.input.consume(spans(1))).await;
    assert!(waiting.is_err(), "there is no capacity");
    destination.open_gate();
    stack.input.consume(spans(1)).await.unwrap();
    assert_eq!(stack.end().await.sent, 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_above_the_capacity_is_refused_permanently() {
    let queue = QueueConfig { queue_size: 5, sizer: Some(Sizer::Items), ..QueueConfig::default() };
    let stack = Stack::on(&refusing([]), Some(queue), None).await;
    let refused = stack.input.consume(spans(6)).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("request of 6 items is larger than the sending queue of 5"));
}

#[tokio::test(start_paused = true)]
async fn each_signal_has_its_own_queue() {
    let destination = Sink::with_closed_gate();
    let queue = QueueConfig { queue_size: 1, ..QueueConfig::default() };
    let stack = Stack::on(&destination, Some(queue), None).await;
    stack.input.consume(spans(1)).await.unwrap();
    stack.input.consume(Data::Logs(Payload::default())).await.unwrap();
    stack.input.consume(Data::Metrics(Payload::default())).await.unwrap();
    assert!(stack.input.consume(Data::Logs(Payload::default())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn stop_gives_each_queued_request_one_last_attempt() {
    let down = std::iter::repeat_n(Refused::retryable("down"), 3);
    let destination = refusing(down);
    let queue = QueueConfig { num_consumers: 1, ..QueueConfig::default() };
    let stack = Stack::on(&destination, Some(queue), Some(retry())).await;
    for items in [1, 10, 100, 1000] {
        stack.input.consume(spans(items)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    let counts = stack.end().await;
    assert_eq!(begin.elapsed(), Duration::ZERO, "nothing is waited for");
    let items: Vec<usize> = attempts(&destination).iter().map(|(_, items)| *items).collect();
    assert_eq!(items, [1, 1, 10, 100, 1000]);
    assert_eq!(counts, Counts { sent: 1100, send_failed: 11, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_hanging_destination_does_not_prevent_the_stop() {
    let destination = Sink::with_closed_gate();
    let queue = QueueConfig { num_consumers: 2, ..QueueConfig::default() };
    let stack = Stack::on(&destination, Some(queue), Some(retry())).await;
    for _ in 0..5 {
        stack.input.consume(spans(10)).await.unwrap();
    }
    let (input, begin) = (stack.input.clone(), Instant::now());
    let counts = stack.end().await;
    assert_eq!(begin.elapsed(), DRAIN_MAX);
    assert_eq!(counts, Counts { send_failed: 50, ..Counts::default() });
    assert!(input.consume(spans(1)).await.unwrap_err().is_retryable(), "a closed queue refuses");
}

mod batches;
mod config;
mod metrics;
