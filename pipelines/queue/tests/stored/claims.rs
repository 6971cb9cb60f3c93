//! The guarantees of a persistent queue, one claim per test. Time is tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use component::Refused;
use queue::Sizer;

use crate::harness::{Answer, Backend, Disk, Process, Shape, request};

const SHAPE: Shape = Shape { sizer: Sizer::Requests, queue_size: 1000, num_consumers: 3, batch: None };

fn world() -> (Arc<Disk>, Arc<Backend>) {
    (Arc::default(), Backend::new())
}

async fn secs(secs: u64) {
    tokio::time::sleep(Duration::from_secs(secs)).await;
}

#[tokio::test(start_paused = true)]
async fn an_acknowledged_request_is_stored_until_it_is_delivered() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let process = Process::start(SHAPE, &disk, &backend).await;
    process.input.consume(request(0..5)).await.unwrap();
    assert_eq!(disk.names(), ["0", "qmv0"]);
    backend.answer(Answer::Take);
    secs(60).await;
    assert_eq!(disk.names(), ["qmv0"]);
    assert_eq!((process.counts().sent, process.queue_size()), (5, 0));
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_killed_process_are_sent_by_the_next() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let process = Process::start(SHAPE, &disk, &backend).await;
    for n in 0..10 {
        process.input.consume(request(n..n + 1)).await.unwrap();
    }
    secs(1).await;
    process.kill();
    backend.answer(Answer::Take);
    let process = Process::start(SHAPE, &disk, &backend).await;
    assert_eq!(process.queue_size(), 10, "stored requests hold capacity");
    secs(60).await;
    assert_eq!(backend.delivered(), (0..10).map(|n| (n, 1)).collect());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn stop_leaves_failing_requests_stored() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let process = Process::start(SHAPE, &disk, &backend).await;
    for n in 0..10 {
        process.input.consume(request(n..n + 1)).await.unwrap();
    }
    secs(1).await;
    let (counts, queue_size) = process.stop().await;
    assert_eq!((counts.send_failed, queue_size), (0, 10), "stored requests are not counted as failed");
    backend.answer(Answer::Take);
    let process = Process::start(SHAPE, &disk, &backend).await;
    secs(60).await;
    assert_eq!(process.stop().await.0.sent, 10);
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_refuses_until_it_has_space() {
    let (disk, backend) = world();
    let process = Process::start(SHAPE, &disk, &backend).await;
    disk.set_full(true);
    let refused = process.input.consume(request(0..5)).await.unwrap_err();
    assert_eq!(refused, Refused::retryable("storage is full: no room"));
    assert_eq!((process.counts().enqueue_failed, process.queue_size()), (5, 0));
    disk.set_full(false);
    process.input.consume(request(0..5)).await.unwrap();
    assert_eq!(process.stop().await.0.sent, 5);
}

#[tokio::test(start_paused = true)]
async fn stored_requests_hold_capacity_with_every_sizer() {
    for (sizer, queue_size) in [(Sizer::Requests, 2), (Sizer::Items, 21), (Sizer::Bytes, 1000)] {
        let (disk, backend) = world();
        backend.answer(Answer::Later);
        let shape = Shape { sizer, queue_size, ..SHAPE };
        let process = Process::start(shape, &disk, &backend).await;
        let mut taken = 0;
        while process.input.consume(request(10 * taken..10 * taken + 10)).await.is_ok() {
            taken += 1;
        }
        assert!(taken >= 2, "{sizer}");
        process.kill();
        let process = Process::start(shape, &disk, &backend).await;
        let refused = process.input.consume(request(500..510)).await.unwrap_err();
        assert_eq!(refused, Refused::retryable("sending queue is full"), "{sizer}");
        backend.answer(Answer::Take);
        secs(60).await;
        process.input.consume(request(500..510)).await.unwrap();
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_stored_requests_are_counted_and_others_are_sent() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let process = Process::start(SHAPE, &disk, &backend).await;
    for n in 0..10 {
        process.input.consume(request(n..n + 1)).await.unwrap();
    }
    process.kill();
    disk.edit(|rows| {
        rows.insert("4".to_owned(), b"garbage".to_vec());
        rows.remove("6");
    });
    backend.answer(Answer::Take);
    let process = Process::start(SHAPE, &disk, &backend).await;
    secs(60).await;
    let (counts, queue_size) = process.stop().await;
    assert_eq!((counts.sent, counts.unreadable_requests, queue_size), (8, 2, 0));
    assert_eq!(disk.names(), ["qmv0"]);
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_index_is_counted_and_does_not_prevent_start() {
    let (disk, backend) = world();
    disk.edit(|rows| drop(rows.insert("qmv0".to_owned(), b"\xff\xff\xff".to_vec())));
    let process = Process::start(SHAPE, &disk, &backend).await;
    process.input.consume(request(0..5)).await.unwrap();
    let (counts, _) = process.stop().await;
    assert_eq!((counts.sent, counts.unreadable_requests), (5, 1));
}

/// A long backlog stays on the disk; memory holds the requests in flight and those read ahead.
#[tokio::test(start_paused = true)]
async fn memory_is_bounded_however_many_requests_are_stored() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let shape = Shape { queue_size: 100_000, ..SHAPE };
    let process = Process::start(shape, &disk, &backend).await;
    let data = request(0..1);
    let pdata::Data::Traces(shared) = &data else { unreachable!() };
    for _ in 0..2000 {
        process.input.consume(data.clone()).await.unwrap();
    }
    assert_eq!(process.queue_size(), 2000);
    let held = shared.holders();
    assert!(held < 40, "{held} requests are in memory");
    process.kill();
}

/// While nothing can be removed, the next process would deliver everything a second time.
#[tokio::test(start_paused = true)]
async fn sending_pauses_while_delivered_requests_cannot_be_removed() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let shape = Shape { queue_size: 100_000, ..SHAPE };
    let process = Process::start(shape, &disk, &backend).await;
    for n in 0..3000 {
        process.input.consume(request(n..n + 1)).await.unwrap();
    }
    disk.set_broken(true);
    backend.answer(Answer::Take);
    secs(3600).await;
    let delivered = backend.delivered().len();
    assert!(delivered < 1100, "{delivered} were sent");
    disk.set_broken(false);
    secs(60).await;
    assert_eq!(process.stop().await.0.sent, 3000);
    assert_eq!(disk.names(), ["qmv0"]);
}

#[tokio::test(start_paused = true)]
async fn a_full_storage_is_drained_while_senders_retry() {
    let (disk, backend) = world();
    backend.answer(Answer::Later);
    let process = Process::start(SHAPE, &disk, &backend).await;
    for n in 0..100 {
        process.input.consume(request(n..n + 1)).await.unwrap();
    }
    disk.set_full(true);
    backend.answer(Answer::Take);
    for _ in 0..1000 {
        process.input.consume(request(500..501)).await.unwrap_err();
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(process.counts().sent, 100);
    assert_eq!(disk.names(), ["qmv0"]);
    process.stop().await;
}
