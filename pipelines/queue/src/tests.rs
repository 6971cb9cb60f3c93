//! What the stack promises to the sender and to the log: every item ends in exactly one count, whatever the
//! other side does. Time is tokio's paused clock.

use component::Payload;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ::config::GoDuration;
use component::{BoxFuture, ComponentId, Consumer, Data, Host, Refused, Running, Signal};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, TracesData};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;

/// A batch of so many spans.
fn spans(count: usize) -> Data {
    let scope = ScopeSpans { spans: vec![Span::default(); count], ..ScopeSpans::default() };
    let resource = ResourceSpans { scope_spans: vec![scope], ..ResourceSpans::default() };
    Data::Traces(Payload::new(TracesData { resource_spans: vec![resource] }))
}

/// The other side: answers from a script, then takes everything; notes when it was asked. Closed gates make
/// every attempt wait.
struct Peer {
    answers: Mutex<VecDeque<Refused>>,
    attempts: Mutex<Vec<(Duration, usize)>>,
    begin: Instant,
    gate: Semaphore,
}

impl Peer {
    fn answering(answers: impl IntoIterator<Item = Refused>) -> Arc<Self> {
        let answers = Mutex::new(answers.into_iter().collect());
        let gate = Semaphore::new(Semaphore::MAX_PERMITS);
        Arc::new(Peer { answers, attempts: Mutex::default(), begin: Instant::now(), gate })
    }

    fn behind_a_gate() -> Arc<Self> {
        let peer = Peer::answering([]);
        peer.gate.forget_permits(Semaphore::MAX_PERMITS);
        peer
    }

    fn attempts(&self) -> Vec<(Duration, usize)> {
        self.attempts.lock().unwrap().clone()
    }
}

impl Consumer for Peer {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        Box::pin(async move {
            self.attempts.lock().unwrap().push((self.begin.elapsed(), data.items()));
            let _open = self.gate.acquire().await.unwrap();
            self.answers.lock().unwrap().pop_front().map_or(Ok(()), Err)
        })
    }
}

/// Delays without jitter, so that a test can name them.
fn retry() -> RetryConfig {
    RetryConfig { randomization_factor: 0.0, ..RetryConfig::default() }
}

struct Stack {
    front: Arc<dyn Consumer>,
    tallies: Arc<Tallies>,
    stop: CancellationToken,
    work: Running,
}

impl Stack {
    async fn on(peer: &Arc<Peer>, queue: Option<QueueConfig>, retry: Option<RetryConfig>) -> Self {
        Stack::beside(&Host::detached(), peer, queue, retry).await
    }

    async fn beside(
        host: &Host,
        peer: &Arc<Peer>,
        queue: Option<QueueConfig>,
        retry: Option<RetryConfig>,
    ) -> Self {
        let server = Signal::ALL.map(|signal| {
            let path = Some(format!("/v1/{}", signal.name()));
            Some(Server { address: "h".to_owned(), port: Some(4317), path })
        });
        let (tallies, stop) = (Arc::new(Tallies::of_servers(server)), CancellationToken::new());
        let id = ComponentId::parse("otlp_grpc/x").unwrap();
        let stages = Stages { queue, retry };
        let (front, work) =
            stack(host, &id, &Signal::ALL, &stages, peer.clone(), &tallies, &stop).await.unwrap();
        Stack { front, tallies, stop, work }
    }

    fn counts(&self) -> TallySnapshot {
        self.tallies.of(Signal::Traces).snapshot()
    }

    /// Stops, waits for the end, and returns the counts.
    async fn end(self) -> TallySnapshot {
        self.stop.cancel();
        self.work.await;
        self.tallies.of(Signal::Traces).snapshot()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_now_is_tried_again_after_growing_delays() {
    let busy = || Refused::retryable("busy");
    let peer = Peer::answering([busy(), busy(), busy()]);
    let stack = Stack::on(&peer, None, Some(retry())).await;
    stack.front.consume(spans(3)).await.unwrap();
    let at: Vec<u128> = peer.attempts().iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(at, [0, 5000, 12500, 23750]);
    assert_eq!(stack.end().await, TallySnapshot { sent: 3, ..TallySnapshot::default() });
}

#[tokio::test(start_paused = true)]
async fn a_delay_that_the_other_side_asks_for_is_the_least_that_is_waited() {
    let after = |secs| Refused::retryable("busy").with_retry_after(Duration::from_secs(secs));
    let peer = Peer::answering([after(60), after(1)]);
    let stack = Stack::on(&peer, None, Some(retry())).await;
    stack.front.consume(spans(1)).await.unwrap();
    let at: Vec<u64> = peer.attempts().iter().map(|(at, _)| at.as_millis() as u64).collect();
    assert_eq!(at, [0, 60_000, 67_500], "the second delay is the back-off's own, which is longer");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_not_tried_again() {
    let peer = Peer::answering([Refused::permanent("no such tenant")]);
    let stack = Stack::on(&peer, None, Some(retry())).await;
    let refused = stack.front.consume(spans(2)).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("no such tenant"));
    assert_eq!(peer.attempts().len(), 1);
    assert_eq!(stack.end().await, TallySnapshot { send_failed: 2, ..TallySnapshot::default() });
}

#[tokio::test(start_paused = true)]
async fn a_request_is_given_up_when_its_time_is_up() {
    let peer = Peer::answering(std::iter::repeat_n(Refused::retryable("down"), 100));
    let stack = Stack::on(&peer, None, Some(retry())).await;
    let refused = stack.front.consume(spans(2)).await.unwrap_err();
    assert_eq!(refused, Refused::retryable("no more retries left: down"));
    let (last, _) = *peer.attempts().last().unwrap();
    assert!(last > Duration::from_secs(270) && last <= Duration::from_secs(300), "{last:?}");

    let peer = Peer::answering(std::iter::repeat_n(Refused::retryable("down"), 100));
    let for_ever = RetryConfig { max_elapsed_time: GoDuration::default(), ..retry() };
    Stack::on(&peer, None, Some(for_ever)).await.front.consume(spans(2)).await.unwrap();
    assert_eq!(peer.attempts().len(), 101);
}

#[tokio::test(start_paused = true)]
async fn without_retries_the_first_refusal_travels_back() {
    let peer = Peer::answering([Refused::retryable("busy")]);
    let stack = Stack::on(&peer, None, None).await;
    assert_eq!(stack.front.consume(spans(1)).await, Err(Refused::retryable("busy")));
}

#[tokio::test(start_paused = true)]
async fn a_queue_takes_at_once_and_sends_with_so_many_consumers() {
    let peer = Peer::behind_a_gate();
    let queue = QueueConfig { num_consumers: 2, ..QueueConfig::default() };
    let stack = Stack::on(&peer, Some(queue), Some(retry())).await;
    for _ in 0..5 {
        stack.front.consume(spans(1)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(peer.attempts().len(), 2, "two consumers, two attempts at once");
    assert_eq!(stack.counts().queue_size, 5, "what is in flight still takes room");
    peer.gate.add_permits(9);
    assert_eq!(stack.end().await, TallySnapshot { sent: 5, ..TallySnapshot::default() });
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_for_now_and_has_room_again_once_something_was_sent() {
    for (sizer, queue_size) in [(Sizer::Requests, 2), (Sizer::Items, 21), (Sizer::Bytes, 60)] {
        let peer = Peer::behind_a_gate();
        let queue = QueueConfig { queue_size, sizer: Some(sizer), ..QueueConfig::default() };
        let stack = Stack::on(&peer, Some(queue), None).await;
        stack.front.consume(spans(10)).await.unwrap();
        stack.front.consume(spans(10)).await.unwrap();
        let refused = stack.front.consume(spans(10)).await.unwrap_err();
        assert_eq!(refused, Refused::retryable("sending queue is full"), "{sizer:?}");
        assert_eq!(stack.counts().enqueue_failed, 10);
        peer.gate.add_permits(9);
        tokio::time::sleep(Duration::from_secs(1)).await;
        stack.front.consume(spans(10)).await.unwrap();
        let counts = TallySnapshot { sent: 30, enqueue_failed: 10, ..TallySnapshot::default() };
        assert_eq!(stack.end().await, counts, "{sizer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_that_blocks_waits_for_room() {
    let peer = Peer::behind_a_gate();
    let queue = QueueConfig { queue_size: 1, block_on_overflow: true, ..QueueConfig::default() };
    let stack = Stack::on(&peer, Some(queue), None).await;
    stack.front.consume(spans(1)).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_secs(60), stack.front.consume(spans(1))).await;
    assert!(waiting.is_err(), "there is no room");
    peer.gate.add_permits(9);
    stack.front.consume(spans(1)).await.unwrap();
    assert_eq!(stack.end().await.sent, 2);
}

#[tokio::test(start_paused = true)]
async fn what_can_never_fit_a_queue_is_refused_for_good() {
    let queue = QueueConfig { queue_size: 5, sizer: Some(Sizer::Items), ..QueueConfig::default() };
    let stack = Stack::on(&Peer::answering([]), Some(queue), None).await;
    let refused = stack.front.consume(spans(6)).await.unwrap_err();
    assert_eq!(refused, Refused::permanent("request of 6 items is larger than the sending queue of 5"));
}

#[tokio::test(start_paused = true)]
async fn one_signal_does_not_fill_the_queue_of_another() {
    let peer = Peer::behind_a_gate();
    let queue = QueueConfig { queue_size: 1, ..QueueConfig::default() };
    let stack = Stack::on(&peer, Some(queue), None).await;
    stack.front.consume(spans(1)).await.unwrap();
    stack.front.consume(Data::Logs(Payload::default())).await.unwrap();
    stack.front.consume(Data::Metrics(Payload::default())).await.unwrap();
    assert!(stack.front.consume(Data::Logs(Payload::default())).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_back_offs_and_gives_each_queued_request_one_last_attempt() {
    let down = std::iter::repeat_n(Refused::retryable("down"), 3);
    let peer = Peer::answering(down);
    let queue = QueueConfig { num_consumers: 1, ..QueueConfig::default() };
    let stack = Stack::on(&peer, Some(queue), Some(retry())).await;
    for items in [1, 10, 100, 1000] {
        stack.front.consume(spans(items)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begin = Instant::now();
    let counts = stack.end().await;
    assert_eq!(begin.elapsed(), Duration::ZERO, "nothing is waited for");
    let items: Vec<usize> = peer.attempts().iter().map(|(_, items)| *items).collect();
    assert_eq!(items, [1, 1, 10, 100, 1000]);
    assert_eq!(counts, TallySnapshot { sent: 1100, send_failed: 11, ..TallySnapshot::default() });
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_hangs_does_not_keep_the_program_from_ending() {
    let peer = Peer::behind_a_gate();
    let queue = QueueConfig { num_consumers: 2, ..QueueConfig::default() };
    let stack = Stack::on(&peer, Some(queue), Some(retry())).await;
    for _ in 0..5 {
        stack.front.consume(spans(10)).await.unwrap();
    }
    let (front, begin) = (stack.front.clone(), Instant::now());
    let counts = stack.end().await;
    assert_eq!(begin.elapsed(), DRAIN_MAX);
    assert_eq!(counts, TallySnapshot { send_failed: 50, ..TallySnapshot::default() });
    assert!(front.consume(spans(1)).await.unwrap_err().is_retryable(), "a closed queue takes nothing");
}

mod batches;
mod config;
mod metrics;
