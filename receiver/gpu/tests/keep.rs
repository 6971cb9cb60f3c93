//! What outlives the receiver: run after run on one directory, with the real storage.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use common::*;
use component::config::{Node, Section};
use component::storage::{Namespace, Operation};
use component::{BoxFuture, BuildContext, ComponentId, Consumer, Data, Host, Refused, Signal};
use event::Event;
use gpu::{Batch, Open, Pace, Settings};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

fn id(text: &str) -> ComponentId {
    ComponentId::parse(text).expect("an id")
}

/// Takes everything.
struct Pipeline(Mutex<mpsc::UnboundedSender<Data>>);

impl Consumer for Pipeline {
    fn consume(&self, data: Data) -> BoxFuture<'_, Result<(), Refused>> {
        self.0.lock().expect("no test panicked with it").send(data).expect("the test listens");
        Box::pin(async { Ok(()) })
    }
}

/// The storage extension on a directory, with a host that offers it, until the token is cancelled.
async fn host(directory: &Path, stop: &CancellationToken) -> (Host, tokio::task::JoinHandle<()>) {
    let node: Node = serde_json::from_str(&format!(r#"{{"directory": {directory:?}}}"#)).expect("JSON");
    let context = BuildContext { id: id("file_storage"), version: "0" };
    let extension =
        (storage::FACTORY.build)(&context, Section::new("extensions", &node)).expect("it is built");
    let (offer, running) = extension.start(&Host::detached(), stop.clone()).await.expect("it starts");
    (Host::detached().with_extension(id("file_storage"), offer), tokio::spawn(running))
}

/// One run of the receiver: what came of the events.
async fn one_run(directory: &Path, events: Vec<Event>) -> Output {
    let (stop, stop_storage) = (CancellationToken::new(), CancellationToken::new());
    let (host, storing) = host(directory, &stop_storage).await;
    let (sender, mut taken) = mpsc::unbounded_channel();
    let pipeline = Arc::new(Pipeline(Mutex::new(sender))) as Arc<dyn Consumer>;
    let next = Signal::STABLE.map(|signal| (signal, Arc::clone(&pipeline))).to_vec();
    let source: Open = Box::new(move || Ok(Box::new(Given { events, at: 0, batch: 100 })));
    let never = Settings { collection_interval_ns: u64::MAX, ..Settings::default() };
    let of = (Pace::Recorded, source);
    let receiver = gpu::receiver_with_storage(never, of, id("gpu"), id("file_storage"));
    let running = tokio::spawn(receiver.start(next, &host, stop.clone()).await.expect("it starts"));
    let mut batches = Vec::new();
    // The last collection is the only one.
    while !batches.iter().any(|batch: &Batch| matches!(batch.data, Data::Metrics(_))) {
        let data = taken.recv().await.expect("the receiver goes on");
        batches.push(Batch { data, is_repeated: false });
    }
    stop.cancel();
    running.await.expect("it ends");
    stop_storage.cancel();
    storing.await.expect("it ends");
    Output { batches }
}

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(test)
}

/// A server that has just started, and one of whose first steps is slow.
fn fresh(pid: u32) -> Vec<Event> {
    let mut server = Program::new(pid);
    server.serve(12, 5 * MS);
    server.decode(40 * MS);
    server.serve(5, 5 * MS);
    events(&[server], false)
}

fn served(pid: u32) -> Vec<Event> {
    let mut server = Program::new(pid);
    server.serve(300, 5 * MS);
    events(&[server], false)
}

fn outliers(output: &Output) -> usize {
    output.logs("gpu.step.outlier").len()
}

fn damaged(output: &Output) -> f64 {
    values(output.account(), "warptap.keep.lost")["warptap.keep.loss=damaged"]
}

#[test]
fn what_steps_take_is_known_after_a_restart() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        let first = one_run(directory.path(), fresh(100)).await;
        assert_eq!(outliers(&first), 0, "nobody knows yet what is usual");
        let directory = tempfile::tempdir().expect("a directory");
        one_run(directory.path(), served(100)).await;
        let second = one_run(directory.path(), fresh(200)).await;
        assert_eq!((outliers(&second), damaged(&second)), (1, 0.0));
    });
}

#[test]
fn a_record_that_is_damaged_is_told_and_begun_anew() {
    run(async {
        let directory = tempfile::tempdir().expect("a directory");
        one_run(directory.path(), served(100)).await;
        spoil(directory.path()).await;
        let second = one_run(directory.path(), fresh(200)).await;
        assert_eq!((outliers(&second), damaged(&second)), (0, 1.0));
        assert_eq!(second.logs("warptap.keep.damaged").len(), 1);
        let third = one_run(directory.path(), fresh(300)).await;
        assert_eq!(damaged(&third), 0.0, "it is told once");
    });
}

/// A bit of the stored record is turned over.
async fn spoil(directory: &Path) {
    let stop = CancellationToken::new();
    let (host, storing) = host(directory, &stop).await;
    let namespace = Namespace { kind: "receiver", id: id("gpu"), name: "records".to_owned() };
    let client = host.storage(&id("file_storage")).expect("it runs").open(namespace).await.expect("it opens");
    let slot = || "record-0000".to_owned();
    let found = client.batch(vec![Operation::Get(slot())]).await.expect("it reads");
    let mut bytes = found.into_iter().next().flatten().expect("a record");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    client.batch(vec![Operation::Set(slot(), bytes)]).await.expect("it writes");
    drop(client);
    stop.cancel();
    storing.await.expect("it ends");
}

#[test]
fn a_storage_that_does_not_run_stops_the_start_with_its_sentence() {
    run(async {
        let source: Open = Box::new(|| Ok(Box::new(Given { events: Vec::new(), at: 0, batch: 1 })));
        let receiver = gpu::receiver_with_storage(
            Settings::default(),
            (Pace::Live, source),
            id("gpu"),
            id("file_storage"),
        );
        let error = receiver.start(Vec::new(), &Host::detached(), CancellationToken::new()).await.err();
        let told = error.expect("it does not start").to_string();
        assert!(told.starts_with("extension \"file_storage\" does not run"), "{told}");
    });
}
