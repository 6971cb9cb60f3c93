//! How requests are put together and cut, and that each sender hears of its own items' end.

use component::context::{self, Context, Metadata};

use super::*;

/// A queue that makes batches.
fn batching(batch: BatchConfig) -> QueueConfig {
    QueueConfig { batch: ::config::Optional::some(batch), ..QueueConfig::default() }
}

fn sizes(peer: &Peer) -> Vec<usize> {
    peer.attempts().iter().map(|(_, items)| *items).collect()
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_put_together_until_the_size_or_the_time_is_reached() {
    let peer = Peer::answering([]);
    let queue = batching(BatchConfig { min_size: 10, ..BatchConfig::default() });
    let stack = Stack::on(&peer, Some(queue), None).await;
    for items in [4, 5] {
        stack.front.consume(spans(items)).await.unwrap();
    }
    wait(199).await;
    assert_eq!(sizes(&peer), [0; 0]);
    wait(2).await;
    assert_eq!(sizes(&peer), [9], "the default is 200 ms");
    for items in [4, 5, 6, 0] {
        stack.front.consume(spans(items)).await.unwrap();
    }
    wait(1).await;
    assert_eq!(sizes(&peer), [9, 15], "without a maximum nothing is cut");
    assert_eq!(stack.counts().queue_size, 0);
    assert_eq!(stack.end().await, TallySnapshot { sent: 24, ..TallySnapshot::default() });
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_never_larger_than_the_maximum() {
    let peer = Peer::answering([]);
    let queue = batching(BatchConfig { min_size: 4, max_size: 5, ..BatchConfig::default() });
    let stack = Stack::on(&peer, Some(queue), None).await;
    for items in [3, 17, 1] {
        stack.front.consume(spans(items)).await.unwrap();
    }
    wait(1000).await;
    assert_eq!(sizes(&peer), [5, 5, 5, 5, 1]);
    assert_eq!(stack.end().await.sent, 21);
}

#[tokio::test(start_paused = true)]
async fn a_batch_by_bytes_is_cut_by_bytes() {
    let peer = Peer::answering([]);
    let one = spans(1).encoded_len() as i64;
    let batch =
        BatchConfig { min_size: 0, max_size: 3 * one, sizer: Some(Sizer::Bytes), ..BatchConfig::default() };
    let stack = Stack::on(&peer, Some(batching(batch)), None).await;
    stack.front.consume(spans(100)).await.unwrap();
    wait(1).await;
    assert_eq!(sizes(&peer).iter().sum::<usize>(), 100);
    assert!(sizes(&peer).len() > 10, "{:?}", sizes(&peer));
    stack.end().await;
}

#[tokio::test(start_paused = true)]
async fn stopping_sends_what_is_being_put_together() {
    let peer = Peer::answering([]);
    let stack = Stack::on(&peer, Some(batching(BatchConfig::default())), None).await;
    stack.front.consume(spans(3)).await.unwrap();
    assert_eq!(stack.end().await.sent, 3);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_the_result_hears_of_its_own_items() {
    let peer = Peer::answering([]);
    let waiting = QueueConfig { wait_for_result: true, ..QueueConfig::default() };
    *peer.answers.lock().unwrap() = [Refused::permanent("no such tenant")].into();
    let stack = Stack::on(&peer, Some(waiting), None).await;
    assert_eq!(stack.front.consume(spans(1)).await, Err(Refused::permanent("no such tenant")));
    assert_eq!(stack.front.consume(spans(1)).await, Ok(()));
    stack.end().await;

    // Three requests become batches of 5+5, 5+5 and 5 items; the second batch is refused.
    let batch = BatchConfig { min_size: 10, max_size: 10, ..BatchConfig::default() };
    let queue = QueueConfig { wait_for_result: true, num_consumers: 1, ..batching(batch) };
    let (host, tallies, stop) = (Host::detached(), Arc::default(), CancellationToken::new());
    let (id, stages) = (ComponentId::parse("x").unwrap(), Stages { queue: Some(queue), retry: None });
    let second: Arc<dyn Consumer> = Arc::new(RefusesTheSecond::default());
    let (front, work) =
        super::stack(&host, &id, &Signal::ALL, &stages, second, &tallies, &stop).await.unwrap();
    let (a, b, c) = tokio::join!(front.consume(spans(5)), front.consume(spans(10)), front.consume(spans(10)));
    let gone = || Err(Refused::permanent("the second"));
    assert_eq!((a, b, c), (Ok(()), gone(), gone()));
    stop.cancel();
    work.await;
}

#[derive(Default)]
struct RefusesTheSecond(std::sync::atomic::AtomicUsize);

impl Consumer for RefusesTheSecond {
    fn consume(&self, _: Data) -> BoxFuture<'_, Result<(), Refused>> {
        let call = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let answer = if call == 1 { Err(Refused::permanent("the second")) } else { Ok(()) };
        Box::pin(std::future::ready(answer))
    }
}

#[tokio::test(start_paused = true)]
async fn requests_of_different_partitions_are_kept_apart_with_what_their_partition_has_in_common() {
    struct Seen(Mutex<Vec<(usize, Vec<String>, bool)>>);
    impl Consumer for Seen {
        fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
            let context = context::current();
            let tenant = context.metadata.get("tenant").to_vec();
            let has_other = !context.metadata.get("other").is_empty();
            self.0.lock().unwrap().push((data.items(), tenant, has_other));
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let seen = Arc::new(Seen(Mutex::default()));
    let partition = PartitionConfig { metadata_keys: vec!["Tenant".to_owned()] };
    let queue = batching(BatchConfig { partition, ..BatchConfig::default() });
    let id = ComponentId::parse("x").unwrap();
    let stages = Stages { queue: Some(queue), retry: None };
    let (host, tallies, stop) = (Host::detached(), Arc::default(), CancellationToken::new());
    let stacked = stack(&host, &id, &Signal::ALL, &stages, seen.clone(), &tallies, &stop);
    let (front, work) = stacked.await.unwrap();
    for (tenant, items) in [(Some("a"), 1), (Some("b"), 10), (Some("a"), 100), (None, 1000), (Some(""), 5)] {
        let mut metadata = Metadata::default();
        metadata.add("other", "x");
        tenant.into_iter().for_each(|tenant| metadata.add("tenant", tenant));
        let context = Context { metadata: Arc::new(metadata), ..Context::default() };
        context::scope(context, front.consume(spans(items))).await.unwrap();
    }
    stop.cancel();
    work.await;
    let mut got = seen.0.lock().unwrap().clone();
    got.sort();
    let of = |items, tenant: &[&str]| (items, tenant.iter().map(|t| (*t).to_owned()).collect(), false);
    assert_eq!(got, [of(5, &[""]), of(10, &["b"]), of(101, &["a"]), of(1000, &[])]);
}
