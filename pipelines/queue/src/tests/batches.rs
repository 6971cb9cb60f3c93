//! Batches: merging, splitting, and the result that each sender gets for its own items.

use component::context::{self, Context, Metadata};
use component::testing::Delivery;

use super::*;

/// Returns a queue configuration with batches.
fn batching(batch: QueueBatchConfig) -> QueueConfig {
    QueueConfig { batch: ::config::Optional::some(batch), ..QueueConfig::default() }
}

fn sizes(destination: &Sink) -> Vec<usize> {
    attempts(destination).iter().map(|(_, items)| *items).collect()
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn requests_are_merged_until_size_or_timeout() {
    let destination = refusing([]);
    let queue = batching(QueueBatchConfig { min_size: 10, ..QueueBatchConfig::default() });
    let stack = Stack::on(&destination, Some(queue), None).await;
    for items in [4, 5] {
        stack.input.consume(spans(items)).await.unwrap();
    }
    wait(199).await;
    assert_eq!(sizes(&destination), [0; 0]);
    wait(2).await;
    assert_eq!(sizes(&destination), [9], "the default is 200 ms");
    for items in [4, 5, 6, 0] {
        stack.input.consume(spans(items)).await.unwrap();
    }
    wait(1).await;
    assert_eq!(sizes(&destination), [9, 15], "without a maximum nothing is split");
    assert_eq!(stack.queue_size(), 0);
    assert_eq!(stack.end().await, Counts { sent: 24, ..Counts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_never_larger_than_the_maximum() {
    let destination = refusing([]);
    let queue = batching(QueueBatchConfig { min_size: 4, max_size: 5, ..QueueBatchConfig::default() });
    let stack = Stack::on(&destination, Some(queue), None).await;
    for items in [3, 17, 1] {
        stack.input.consume(spans(items)).await.unwrap();
    }
    wait(1000).await;
    assert_eq!(sizes(&destination), [5, 5, 5, 5, 1]);
    assert_eq!(stack.end().await.sent, 21);
}

#[tokio::test(start_paused = true)]
async fn a_batch_by_bytes_is_split_by_bytes() {
    let destination = refusing([]);
    let one = spans(1).encoded_len() as i64;
    let batch = QueueBatchConfig {
        min_size: 0,
        max_size: 3 * one,
        sizer: Some(Sizer::Bytes),
        ..QueueBatchConfig::default()
    };
    let stack = Stack::on(&destination, Some(batching(batch)), None).await;
    stack.input.consume(spans(100)).await.unwrap();
    wait(1).await;
    assert_eq!(sizes(&destination).iter().sum::<usize>(), 100);
    assert!(sizes(&destination).len() > 10, "{:?}", sizes(&destination));
    stack.end().await;
}

#[tokio::test(start_paused = true)]
async fn stop_sends_incomplete_batches() {
    let destination = refusing([]);
    let stack = Stack::on(&destination, Some(batching(QueueBatchConfig::default())), None).await;
    stack.input.consume(spans(3)).await.unwrap();
    assert_eq!(stack.end().await.sent, 3);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_sender_gets_the_result_of_its_items() {
    let destination = refusing([Refused::permanent("no such tenant")]);
    let waiting = QueueConfig { wait_for_result: true, ..QueueConfig::default() };
    let stack = Stack::on(&destination, Some(waiting), None).await;
    assert_eq!(stack.input.consume(spans(1)).await, Err(Refused::permanent("no such tenant")));
    assert_eq!(stack.input.consume(spans(1)).await, Ok(()));
    stack.end().await;

    // Three requests become batches of 5+5, 5+5 and 5 items; the second batch is refused.
    let batch = QueueBatchConfig { min_size: 10, max_size: 10, ..QueueBatchConfig::default() };
    let queue = QueueConfig { wait_for_result: true, num_consumers: 1, ..batching(batch) };
    let (host, stop) = (Host::detached(), CancellationToken::new());
    let (id, stages) = (ComponentId::parse("x").unwrap(), Stages { queue: Some(queue), retry: None });
    let metrics = ExporterMetrics::new(&host, &id);
    let second = Sink::answering([Ok(()), Err(Refused::permanent("the second"))]);
    let (input, work) =
        super::stack(&host, &id, &Signal::ALL, &stages, second, &metrics, &stop).await.unwrap();
    let (a, b, c) = tokio::join!(input.consume(spans(5)), input.consume(spans(10)), input.consume(spans(10)));
    let gone = || Err(Refused::permanent("the second"));
    assert_eq!((a, b, c), (Ok(()), gone(), gone()));
    stop.cancel();
    work.await;
}

#[tokio::test(start_paused = true)]
async fn partitions_are_batched_separately_with_their_shared_metadata() {
    let destination = Sink::new();
    let partition = PartitionConfig { metadata_keys: vec!["Tenant".to_owned()] };
    let queue = batching(QueueBatchConfig { partition, ..QueueBatchConfig::default() });
    let id = ComponentId::parse("x").unwrap();
    let stages = Stages { queue: Some(queue), retry: None };
    let (host, stop) = (Host::detached(), CancellationToken::new());
    let metrics = ExporterMetrics::new(&host, &id);
    let stacked = stack(&host, &id, &Signal::ALL, &stages, destination.clone(), &metrics, &stop);
    let (input, work) = stacked.await.unwrap();
    for (tenant, items) in [(Some("a"), 1), (Some("b"), 10), (Some("a"), 100), (None, 1000), (Some(""), 5)] {
        let mut metadata = Metadata::default();
        metadata.add("other", "x");
        tenant.into_iter().for_each(|tenant| metadata.add("tenant", tenant));
        let context = Context { metadata: Arc::new(metadata), ..Context::default() };
        context::scope(context, input.consume(spans(items))).await.unwrap();
    }
    stop.cancel();
    work.await;
    let received = |delivery: Delivery| {
        let metadata = &delivery.context.metadata;
        (delivery.data.items(), metadata.get("tenant").to_vec(), !metadata.get("other").is_empty())
    };
    let mut got: Vec<_> = destination.deliveries().into_iter().map(received).collect();
    got.sort();
    let of = |items, tenant: &[&str]| (items, tenant.iter().map(|t| (*t).to_owned()).collect(), false);
    assert_eq!(got, [of(5, &[""]), of(10, &["b"]), of(101, &["a"]), of(1000, &[])]);
}
